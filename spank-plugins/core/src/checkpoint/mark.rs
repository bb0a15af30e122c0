//! When `sgpu-ckpt mark` writes, and to which job.

use slurm_text::comment;

/// The job as `scontrol update` takes it, from the variables of its tasks. An array's task goes by array and
/// index: by a job's number alone an update of the last task would go to the whole array.
///
/// # Errors
/// When the variables are not those of a job.
pub fn job(var: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let number = |name: &str| match var(name) {
        None => Ok(None),
        Some(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Some(text))
        }
        Some(text) => Err(format!("{name}={text:?} is no number")),
    };
    match (
        number("SLURM_ARRAY_JOB_ID")?,
        number("SLURM_ARRAY_TASK_ID")?,
        number("SLURM_JOB_ID")?,
    ) {
        (Some(array), Some(task), Some(_)) => Ok(format!("{array}_{task}")),
        (_, _, Some(job)) => Ok(job),
        _ => Err("not in a job: SLURM_JOB_ID is not set".to_owned()),
    }
}

/// The comment to write; `None` when the last mark is less than `every` seconds old. One from the future is
/// no mark of ours.
///
/// # Errors
/// When there is no room for the mark.
pub fn decide(comment: &str, now: u64, every: u64) -> Result<Option<String>, String> {
    let recent = comment::marked_at(comment)
        .and_then(|marked| now.checked_sub(marked))
        .is_some_and(|age| age < every);
    if recent {
        return Ok(None);
    }
    comment::edit(comment, now).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(vars: &[(&str, &str)]) -> Result<String, String> {
        job(|name| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn an_arrays_task_goes_by_array_and_index() {
        assert_eq!(of(&[("SLURM_JOB_ID", "12")]), Ok("12".into()));
        let array = [
            ("SLURM_JOB_ID", "14"),
            ("SLURM_ARRAY_JOB_ID", "12"),
            ("SLURM_ARRAY_TASK_ID", "3"),
        ];
        assert_eq!(of(&array), Ok("12_3".into()));
        assert!(of(&[]).unwrap_err().contains("not in a job"));
        assert!(of(&[("SLURM_JOB_ID", "12 Comment=x")]).is_err());
        assert!(of(&[("SLURM_JOB_ID", "")]).is_err());
    }

    #[test]
    fn marks_come_at_most_so_often() {
        let wrote = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(decide("", 1000, 600), wrote("sgpu:ckpt=1000"));
        assert_eq!(decide("a sgpu:ckpt=401", 1000, 600), Ok(None));
        assert_eq!(
            decide("a sgpu:ckpt=400", 1000, 600),
            wrote("a sgpu:ckpt=1000")
        );
        assert_eq!(decide("sgpu:ckpt=5000", 1000, 600), wrote("sgpu:ckpt=1000"));
        assert!(decide(&"x".repeat(1020), 1000, 600).is_err());
    }
}
