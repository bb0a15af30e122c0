//! The mark of a written checkpoint in a job's Comment: the word `sgpu:ckpt=<seconds since 1970>`.
//! Whatever else stands there stays.

/// What the mark starts with.
const KEY: &str = "sgpu:ckpt=";
/// The longest comment that slurmctld takes (`_test_strlen` in `src/slurmctld/job_mgr.c`).
const LONGEST_BYTES: usize = 1024;

/// The time of the newest mark.
#[must_use]
pub fn marked_at(comment: &str) -> Option<u64> {
    comment.split_whitespace().filter_map(mark).max()
}

/// The comment with a mark of `now`, in the place of the first one that is there, or behind all else.
///
/// # Errors
/// When it would be too long for Slurm.
pub fn edit(comment: &str, now: u64) -> Result<String, String> {
    let new = format!("{KEY}{now}");
    let mut edited = String::new();
    let mut placed = false;
    // Words with the white space behind them.
    for piece in comment.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let space = piece.get(word.len()..).unwrap_or_default();
        if mark(word).is_none() {
            edited.push_str(piece);
        } else if !placed {
            placed = true;
            edited.push_str(&new);
            edited.push_str(space);
        }
    }
    if !placed {
        if !edited.is_empty() && !edited.ends_with(char::is_whitespace) {
            edited.push(' ');
        }
        edited.push_str(&new);
    }
    // slurmctld counts the NUL too.
    if edited.len() >= LONGEST_BYTES {
        return Err(format!(
            "the job's Comment has {} bytes: no room for the mark in Slurm's {LONGEST_BYTES}",
            comment.len()
        ));
    }
    Ok(edited)
}

/// The time that a word marks.
fn mark(word: &str) -> Option<u64> {
    let digits = word.strip_prefix(KEY)?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_rest_stays() {
        for (before, after) in [
            ("", "sgpu:ckpt=77"),
            ("run 5", "run 5 sgpu:ckpt=77"),
            ("run 5 ", "run 5 sgpu:ckpt=77"),
            ("sgpu:ckpt=5", "sgpu:ckpt=77"),
            ("a  sgpu:ckpt=5\tb", "a  sgpu:ckpt=77\tb"),
            ("sgpu:ckpt=5 a sgpu:ckpt=6", "sgpu:ckpt=77 a "),
            // None of these is a mark.
            ("sgpu:ckpt=5x", "sgpu:ckpt=5x sgpu:ckpt=77"),
            ("sgpu:ckpt=", "sgpu:ckpt= sgpu:ckpt=77"),
            ("sgpu:ckpt=-5", "sgpu:ckpt=-5 sgpu:ckpt=77"),
            ("xsgpu:ckpt=5", "xsgpu:ckpt=5 sgpu:ckpt=77"),
            ("a;sgpu:ckpt=5", "a;sgpu:ckpt=5 sgpu:ckpt=77"),
            (
                "sgpu:ckpt=99999999999999999999",
                "sgpu:ckpt=99999999999999999999 sgpu:ckpt=77",
            ),
            ("Grüße 'n\" $(x)", "Grüße 'n\" $(x) sgpu:ckpt=77"),
        ] {
            assert_eq!(edit(before, 77).as_deref(), Ok(after), "{before:?}");
        }
    }

    #[test]
    fn the_newest_mark_counts() {
        assert_eq!(marked_at("a sgpu:ckpt=5 sgpu:ckpt=9 sgpu:ckpt=7"), Some(9));
        assert_eq!(marked_at("sgpu:ckpt=9x"), None);
    }

    #[test]
    fn a_full_comment_is_left_as_it_is() {
        // A space and 12 bytes of mark come to 1011 + 13 = 1024, one too many.
        assert!(edit(&"x".repeat(1010), 77).is_ok());
        let error = edit(&"x".repeat(1011), 77).unwrap_err();
        assert!(error.contains("1011"), "{error}");
    }

    proptest! {
        #[test]
        fn any_comment_keeps_its_other_words(
            comment in "([ \\tab=:;é]|sgpu:ckpt=|sgpu:ckpt=[0-9]{1,4}){0,12}",
            now in 0_u64..u64::MAX,
        ) {
            let edited = edit(&comment, now).unwrap();
            let others = |text: &str| -> Vec<String> {
                text.split_whitespace()
                    .filter(|word| {
                        word.strip_prefix("sgpu:ckpt=").and_then(|d| d.parse::<u64>().ok()).is_none()
                    })
                    .map(str::to_owned)
                    .collect()
            };
            prop_assert_eq!(others(&edited), others(&comment));
            prop_assert_eq!(marked_at(&edited), Some(now));
            prop_assert_eq!(edit(&edited, now).unwrap(), edited);
        }
    }
}
