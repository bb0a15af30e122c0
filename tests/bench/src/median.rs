//! Medians.

/// The median; the mean of the middle two of an even number. 0 of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (
        values.len() % 2,
        values.get(middle),
        values.get(middle.wrapping_sub(1)),
    ) {
        (1, Some(value), _) => *value,
        (0, Some(upper), Some(lower)) => f64::midpoint(*lower, *upper),
        _ => 0.0,
    }
}

/// With 95 % confidence the median is at most this: by the bootstrap, resamples drawn with a fixed seed.
pub(crate) fn upper_bound(values: &[f64]) -> f64 {
    const RESAMPLES: usize = 10_000;
    if values.is_empty() {
        return 0.0;
    }
    // Any generator with a long period will do; this is Knuth's of 64 bits.
    let mut state = 1_u64;
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let place = usize::try_from(state >> 33).unwrap_or(0) % values.len();
        values.get(place).copied().unwrap_or(0.0)
    };
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| median((0..values.len()).map(|_| draw()).collect()))
        .collect();
    medians.sort_by(f64::total_cmp);
    medians
        .get(RESAMPLES * 95 / 100)
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{median, upper_bound};

    #[test]
    fn the_bound_lies_above_the_median_and_within_the_values() {
        let values: Vec<f64> = (0..61).map(|n| 1.0 + f64::from(n) / 100.0).collect();
        let bound = upper_bound(&values);
        // The median of 61 even steps is 1.30; its standard error is about 1.25 * 0.176 / sqrt(61).
        assert!(bound > 1.31 && bound < 1.40, "{bound}");
        assert!((upper_bound(&[2.0; 9]) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn the_middle() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
        assert!(median(Vec::new()).abs() < 1e-12);
    }
}
