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

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_middle() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
        assert!(median(Vec::new()).abs() < 1e-12);
    }
}
