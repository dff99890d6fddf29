//! Memory cost of held connections, at each end and in the kernel: growth from before opening to
//! the last sample. Pure.

use crate::result::{HeldCost, KernelSeries, ProcessSeries};

/// Computes the costs of each end, then of the kernel. `open` is the number of connections held at
/// the last sample.
pub(super) fn costs(
    processes: &[ProcessSeries],
    kernel: &KernelSeries,
    open: u64,
) -> Vec<HeldCost> {
    let seen = processes.iter().filter(|series| !series.pids.is_empty());
    let mut costs: Vec<HeldCost> = seen
        .map(|series| {
            let held = series.samples.last().map_or(0, |sample| sample.rss_bytes);
            cost(&series.role, series.rss_bytes_at_start, held, open)
        })
        .collect();
    let last = |values: &[u64]| values.last().copied().unwrap_or(0);
    if !kernel.at_ns.is_empty() {
        let before = kernel.slab_bytes_at_start + kernel.tcp_memory_bytes_at_start;
        let held = last(&kernel.slab_bytes) + last(&kernel.tcp_memory_bytes);
        costs.push(cost("kernel", before, held, open));
    }
    costs
}

fn cost(role: &str, before_bytes: u64, held_bytes: u64, open: u64) -> HeldCost {
    let grown = held_bytes.saturating_sub(before_bytes) as f64;
    let each_bytes = if open == 0 { 0.0 } else { grown / open as f64 };
    HeldCost { role: role.to_owned(), before_bytes, held_bytes, each_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::ResourceSample;

    #[test]
    fn a_connection_costs_the_growth_by_their_number() {
        let sample = |rss_bytes| ResourceSample { rss_bytes, ..ResourceSample::default() };
        let holder = ProcessSeries {
            role: "holder".into(),
            pids: vec![1],
            rss_bytes_at_start: 1_000,
            samples: vec![sample(5_000), sample(101_000)],
            ..ProcessSeries::default()
        };
        let unseen = ProcessSeries { role: "target".into(), ..ProcessSeries::default() };
        let kernel = KernelSeries {
            at_ns: vec![1, 2],
            slab_bytes_at_start: 50_000,
            slab_bytes: vec![60_000, 450_000],
            tcp_memory_bytes: vec![0, 0],
            ..KernelSeries::default()
        };
        let found = costs(&[holder, unseen], &kernel, 100);
        let each: Vec<(&str, f64)> =
            found.iter().map(|cost| (cost.role.as_str(), cost.each_bytes)).collect();
        assert_eq!(each, [("holder", 1_000.0), ("kernel", 4_000.0)]);
    }

    #[test]
    fn without_connections_nothing_costs_anything() {
        let holder = ProcessSeries { pids: vec![1], ..ProcessSeries::default() };
        assert_eq!(costs(&[holder], &KernelSeries::default(), 0)[0].each_bytes, 0.0);
    }
}
