//! Which cores the load has and which the gateway: disjoint where there are two or more, so that neither
//! slows the other down and the report can say so.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cores {
    /// Those that this process was allowed to use.
    all: Vec<usize>,
    /// Those of the gateway and its peers.
    pub(super) gateway: Vec<usize>,
    /// Those of the generator and the mock upstream.
    pub(super) load: Vec<usize>,
}

impl Cores {
    /// Splits the allowed cores; the gateway has `gateway_max` of them at most.
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
        // The first core also serves the machine's interrupts; the load can bear that better.
        let gateway = (all.len() / 2).min(gateway_max).max(1);
        let (load, for_gateway) = all.split_at(all.len() - gateway);
        Self { gateway: for_gateway.to_vec(), load: load.to_vec(), all: all.clone() }
    }

    /// Does something on some cores only; what is started meanwhile stays on them.
    pub(super) fn on<T>(&self, cores: &[usize], work: impl FnOnce() -> T) -> T {
        let place = |cores: &[usize]| {
            let mut set = CpuSet::new();
            cores.iter().for_each(|core| set.set(*core));
            // Refused in a container without the right; then nothing is pinned, and shows in the figures.
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

    /// How the cores are shared, for the report.
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
