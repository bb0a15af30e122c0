//! How many GPUs slurm.conf gives a node: the gpu part of `Gres=`.

/// The number of GPUs in a node's `Gres=`, such as `gpu:h100:8(S:0-1),nic:2` (`man slurm.conf`); 0 when it
/// names none. An item without a number counts one.
#[must_use]
pub fn gpus(gres: &str) -> u64 {
    items(gres)
        .filter_map(|item| {
            let item = item.split('(').next()?.trim();
            let mut words = item.split(':');
            (words.next()? == "gpu").then(|| words.next_back().and_then(count).unwrap_or(1))
        })
        .fold(0, u64::saturating_add)
}

/// Splits at commas outside of parentheses.
fn items(gres: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    gres.split(move |c| {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// A count with Slurm's suffixes.
fn count(word: &str) -> Option<u64> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match word.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::gpus;

    #[test]
    fn the_gpu_part_is_counted() {
        for (gres, count) in [
            ("", 0),
            ("gpu:8", 8),
            ("gpu:h100:8", 8),
            ("gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:3(S:0-1)", 5),
            ("nic:2,gpu:tesla:2(S:0,1),bandwidth:lustre:no_consume:4G", 2),
            ("gpu", 1),
            ("gpu:h100", 1),
            ("gpus:8,mygpu:2", 0),
            ("gpu:1k", 1024),
        ] {
            assert_eq!(gpus(gres), count, "{gres}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(gres in ".{0,80}") {
            let _ = gpus(&gres);
        }
    }
}
