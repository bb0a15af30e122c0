//! Holes: free GPUs that the usual jobs cannot use, and who fills them.

/// GPUs on one node, at most.
pub const MOST_PER_NODE: usize = 16;
/// One place for each number of GPUs, 0 among them.
const PLACES: usize = MOST_PER_NODE + 1;

/// How many GPUs per node jobs have asked for lately; each arrival makes the earlier ones count a little
/// less.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mix {
    asked: [f64; PLACES],
}

impl Mix {
    /// What an arrival leaves of those before.
    const KEPT: f64 = 0.999;

    /// A job arrived that wants so many GPUs on each of so many nodes.
    pub fn arrive(&mut self, per_node: u32, nodes: u32) {
        let place = usize::try_from(per_node).unwrap_or(usize::MAX);
        if place == 0 || place >= PLACES {
            return;
        }
        for asked in &mut self.asked {
            *asked *= Self::KEPT;
        }
        if let Some(asked) = self.asked.get_mut(place) {
            *asked += f64::from(nodes.clamp(1, 1024));
        }
    }
}

/// What filling holes is worth right now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Holes {
    /// By GPUs per node, from -1 to 1.
    worth: [f64; PLACES],
}

impl Holes {
    /// From the free GPUs of each node and what jobs usually ask for.
    #[must_use]
    pub fn new(free: impl IntoIterator<Item = u32>, mix: &Mix, most_per_node: u32) -> Self {
        let mut is_there = [false; PLACES];
        for gpus in free {
            if let Some(seen) = is_there.get_mut(usize::try_from(gpus).unwrap_or(usize::MAX)) {
                *seen = true;
            }
        }
        let all: f64 = mix.asked.iter().sum();
        let mut unusable = [0.0; PLACES];
        if all > 0.0 {
            for (free, sum) in (0_u32..).zip(&mut unusable) {
                *sum = (0_u32..)
                    .zip(&mix.asked)
                    .map(|(ask, asked)| {
                        let left = free.checked_rem(ask).unwrap_or(0);
                        asked / all * f64::from(left)
                    })
                    .sum();
            }
        }
        let size = f64::from(most_per_node.max(1));
        let mut worth = [0.0; PLACES];
        for (ask, worth) in worth.iter_mut().enumerate().skip(1) {
            let best = unusable
                .iter()
                .enumerate()
                .skip(ask)
                .filter(|(free, _)| is_there.get(*free) == Some(&true))
                .filter_map(|(free, before)| {
                    let after = unusable.get(free.checked_sub(ask)?)?;
                    Some(before - after)
                })
                .fold(f64::NEG_INFINITY, f64::max);
            if best.is_finite() {
                *worth = (best / size).clamp(-1.0, 1.0);
            }
        }
        Self { worth }
    }

    /// What a job with so many GPUs on a node is worth, from -1 to 1; 0 when it fits nowhere now.
    #[must_use]
    pub fn worth(&self, per_node: u32) -> f64 {
        let place = usize::try_from(per_node).unwrap_or(usize::MAX);
        self.worth.get(place).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mix(asks: &[u32]) -> Mix {
        let mut mix = Mix::default();
        for ask in asks {
            mix.arrive(*ask, 1);
        }
        mix
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-3, "{a} is not {b}");
    }

    #[test]
    fn by_hand() {
        // Half of the jobs want 1 GPU, half 8. Of 1 free GPU a half is unusable, of 2 one, of 7 three and a
        // half, of 8 none.
        let holes = Holes::new([1, 8], &mix(&[1, 8]), 8);
        // Into the hole of one: half a GPU becomes useful, of eight.
        near(holes.worth(1), 0.5 / 8.0);
        // Two fit into the eight alone, and leave six: three unusable.
        near(holes.worth(2), -3.0 / 8.0);
        near(holes.worth(8), 0.0);
        // Only a whole node is free: one GPU of it makes 3.5 unusable.
        let holes = Holes::new([8], &mix(&[1, 8]), 8);
        near(holes.worth(1), -3.5 / 8.0);
        // It fits nowhere, or is no ask.
        near(Holes::new([3], &mix(&[1, 8]), 8).worth(4), 0.0);
        near(holes.worth(0), 0.0);
        near(holes.worth(17), 0.0);
        near(Holes::new([8, 99], &Mix::default(), 8).worth(1), 0.0);
    }

    proptest! {
        #[test]
        fn always_from_minus_1_to_1(
            free in proptest::collection::vec(any::<u32>(), 0..20),
            asks in proptest::collection::vec(0_u32..20, 0..50),
            size in any::<u32>(),
        ) {
            let free = free.into_iter().map(|free| free % 18);
            let holes = Holes::new(free, &mix(&asks), size);
            for ask in 0..20 {
                prop_assert!((-1.0..=1.0).contains(&holes.worth(ask)));
            }
        }
    }
}
