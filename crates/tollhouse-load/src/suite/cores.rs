//! Distribution of the cores over load and gateway. With two or more cores the sets are disjoint,
//! so that neither slows the other down, and the report states it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Division of the machine's cores between gateway and generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cores {
    all: Vec<usize>,
    /// Cores of the gateway and its peers.
    pub(super) gateway: Vec<usize>,
    /// Cores of the generator and the mock upstream.
    pub(super) load: Vec<usize>,
}

impl Cores {
    /// Splits the available cores; the gateway gets at most `gateway_max`.
    pub(super) fn split(gateway_max: usize) -> Self {
        let allowed = sched_getaffinity(None).ok();
        let all = allowed.map_or_else(Vec::new, |set| {
            (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
        });
        Self::from_allowed(all, gateway_max)
    }

    fn from_allowed(all: Vec<usize>, gateway_max: usize) -> Self {
        if all.len() < 2 {
            return Self { gateway: all.clone(), load: all.clone(), all };
        }
        // The first core also serves interrupts, which affects the load less than the gateway.
        let gateway = (all.len() / 2).min(gateway_max).max(1);
        let (load, for_gateway) = all.split_at(all.len() - gateway);
        Self { gateway: for_gateway.to_vec(), load: load.to_vec(), all: all.clone() }
    }

    /// Runs a closure on some cores only; threads and processes started in it stay on them.
    pub(super) fn on<T>(&self, cores: &[usize], work: impl FnOnce() -> T) -> T {
        let place = |cores: &[usize]| {
            let mut set = CpuSet::new();
            cores.iter().for_each(|core| set.set(*core));
            // Fails in a container without permission. Then nothing is pinned, and the figures show
            // it.
            let _ = sched_setaffinity(None, &set);
        };
        if self.all.len() < 2 {
            return work();
        }
        place(cores);
        let result = work();
        place(&self.all);
        result
    }

    /// Returns a sentence about the cores for the report.
    pub(super) fn sentence(&self) -> String {
        let list =
            |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        if self.all.len() < 2 {
            return "Gateway, load and upstream share one core.".to_owned();
        }
        format!(
            "Gateways run on core {}, the generator and the upstream on core {}.",
            list(&self.gateway),
            list(&self.load)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_disjoint_where_there_are_two() {
        for (count, gateway_max, gateway, load) in [
            (2, 8, vec![1], vec![0]),
            (8, 8, vec![4, 5, 6, 7], vec![0, 1, 2, 3]),
            (8, 1, vec![7], (0..7).collect()),
        ] {
            let cores = Cores::from_allowed((0..count).collect(), gateway_max);
            assert_eq!((cores.gateway, cores.load), (gateway, load));
        }
        let one = Cores::from_allowed(vec![3], 1);
        assert_eq!((one.gateway, one.load), (vec![3], vec![3]));
    }
}
