//! Distribution of the cores over load and gateway. With two or more cores the sets are disjoint,
//! so that neither slows the other down.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores of a measurement, divided between gateway and load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores {
    /// Cores of the gateway and its peers.
    pub gateway: Vec<usize>,
    /// Cores of the generator and the upstream.
    pub load: Vec<usize>,
}

impl Cores {
    /// Splits the available cores; the gateway gets at most `gateway_max`.
    pub fn split(gateway_max: usize) -> Self {
        Self::from_allowed(&allowed(), gateway_max)
    }

    /// Takes one core for the gateway and one for the load; a machine with a single core shares it.
    pub fn pair() -> Self {
        let mut cores = allowed();
        cores.truncate(2);
        Self::from_allowed(&cores, 1)
    }

    fn from_allowed(all: &[usize], gateway_max: usize) -> Self {
        if all.len() < 2 {
            return Self { gateway: all.to_vec(), load: all.to_vec() };
        }
        // The first core also serves interrupts, which affects the load less than the gateway.
        let gateway = (all.len() / 2).min(gateway_max).max(1);
        let (load, gateway) = all.split_at(all.len() - gateway);
        Self { gateway: gateway.to_vec(), load: load.to_vec() }
    }

    /// Whether load and gateway share one core.
    pub fn are_shared(&self) -> bool {
        self.gateway == self.load
    }

    /// Returns the cores of gateway and load.
    pub fn both(&self) -> Vec<usize> {
        if self.are_shared() { self.load.clone() } else { [&*self.load, &*self.gateway].concat() }
    }

    /// Moves this thread, and the threads and processes that it starts, to the cores of the load.
    pub fn move_to_load(&self) {
        place(&self.load);
    }

    /// Runs a closure on some cores only; threads and processes started in it stay on them.
    pub fn on<T>(cores: &[usize], work: impl FnOnce() -> T) -> T {
        let before = sched_getaffinity(None);
        place(cores);
        let result = work();
        if let Ok(before) = before {
            let _ = sched_setaffinity(None, &before);
        }
        result
    }

    /// Returns a sentence about the cores for the report.
    pub fn sentence(&self) -> String {
        let list =
            |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        if self.are_shared() {
            return "Gateway, load and upstream share one core.".to_owned();
        }
        format!(
            "Gateways run on core {}, the generator and the upstream on core {}.",
            list(&self.gateway),
            list(&self.load)
        )
    }
}

/// Returns the cores available to this thread.
fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).ok();
    set.map_or_else(Vec::new, |set| (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

fn place(cores: &[usize]) {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    // Fails in a container without permission. Then nothing is pinned, and the figures show it.
    let _ = sched_setaffinity(None, &set);
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
            let cores = Cores::from_allowed(&(0..count).collect::<Vec<_>>(), gateway_max);
            assert_eq!((&cores.gateway, &cores.load), (&gateway, &load));
            assert!(!cores.are_shared());
            assert_eq!(cores.both(), (0..count).collect::<Vec<_>>());
        }
        let one = Cores::from_allowed(&[3], 1);
        assert_eq!((&one.gateway, &one.load), (&vec![3], &vec![3]));
        assert!(one.are_shared());
    }

    #[test]
    fn a_thread_returns_to_its_cores() {
        let before = allowed();
        assert_eq!(Cores::on(&before[..1], allowed), before[..1]);
        assert_eq!(allowed(), before);
    }
}
