//! What API7 Gateway's makers publish of it, for one worker: from another machine, so that only the
//! ratios within it say something beside ours.

use super::scenario::{HUNDRED, ONE, Plugins, Size};

/// A line of the published table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    plugins: Plugins,
    size: Size,
    pub(crate) requests_per_second: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
}

const fn line(plugins: Plugins, size: Size, numbers: [f64; 3]) -> Published {
    let [requests_per_second, p99_ms, p95_ms] = numbers;
    Published { plugins, size, requests_per_second, p95_ms, p99_ms }
}

/// Scenarios without key-auth were published without consumers; the number of routes is the same.
const PUBLISHED: [Published; 8] = [
    line(Plugins::None, ONE, [24_129.22, 0.093, 0.082]),
    line(Plugins::None, HUNDRED, [23_652.91, 0.096, 0.084]),
    line(Plugins::LimitCount, ONE, [20_495.10, 0.104, 0.092]),
    line(Plugins::LimitCount, HUNDRED, [20_462.31, 0.104, 0.094]),
    line(Plugins::KeyAuth, ONE, [21_019.04, 0.100, 0.089]),
    line(Plugins::KeyAuth, HUNDRED, [20_444.81, 0.109, 0.095]),
    line(Plugins::KeyAuthAndLimitCount, ONE, [18_940.39, 0.110, 0.097]),
    line(Plugins::KeyAuthAndLimitCount, HUNDRED, [18_193.88, 0.110, 0.098]),
];

/// The published line of a scenario, if there is one.
pub(crate) fn find(plugins: Plugins, size: Size) -> Option<Published> {
    PUBLISHED.into_iter().find(|line| (line.plugins, line.size) == (plugins, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_were_published_at_both_sizes() {
        for size in [ONE, HUNDRED] {
            let found = Plugins::ALL.iter().filter(|plugins| find(**plugins, size).is_some());
            assert_eq!(found.count(), 4);
        }
        assert!(find(Plugins::Mocking, ONE).is_none());
    }
}
