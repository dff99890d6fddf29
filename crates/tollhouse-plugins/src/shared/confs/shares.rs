//! Turns by weight among the entries of a list.

/// Distribution of a cycle among targets.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Running sums of the weights, with the target of each.
    ends: Box<[(u64, usize)]>,
    /// Sum of all weights, after which the picks repeat.
    total: u64,
    /// Step of a turn within the cycle. Coprime to `total`, so that every position is used once,
    /// and the turns of one target are spread out.
    stride: u64,
}

impl Shares {
    /// Divides a cycle among targets by their weights.
    pub(crate) fn new(weights: &[(u64, usize)]) -> Self {
        let divisor = weights.iter().fold(0, |divisor, (weight, _)| common(divisor, *weight));
        let mut total: u64 = 0;
        let mut ends = Vec::with_capacity(weights.len());
        for (weight, target) in weights.iter().filter(|(weight, _)| *weight > 0) {
            total = total.saturating_add(weight / divisor);
            ends.push((total, *target));
        }
        Self { ends: ends.into(), total, stride: stride(total) }
    }

    /// Returns the target of the next turn; `None` if no weight is positive.
    pub(crate) fn pick(&self, turn: impl FnOnce() -> u64) -> Option<usize> {
        if let [(_, only)] = *self.ends {
            return Some(only);
        }
        if self.total == 0 {
            return None;
        }
        let turn = u128::from(turn() % self.total) * u128::from(self.stride);
        let place = (turn % u128::from(self.total)) as u64;
        let index = self.ends.partition_point(|(end, _)| *end <= place);
        self.ends.get(index).map(|(_, target)| *target)
    }
}

fn common(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns a step near the golden section of a cycle that is coprime to its length.
fn stride(total: u64) -> u64 {
    let golden = (total as f64 * 0.618).round() as u64;
    (golden.max(1)..total.max(2)).find(|step| common(*step, total) == 1).unwrap_or(1)
}
