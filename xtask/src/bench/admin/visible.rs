//! How soon a write serves: one new route after the other is put, and after each answer every one of
//! several connections to the data plane asks for it until it is there.

use super::client::Writer;
use crate::bench::budget::{Budget, Figure};
use crate::bench::client::{Connection, get_request};
use crate::bench::gateway::{route_json, route_path};
use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};

/// Enough that every core has some: the kernel spreads connections over the cores' sockets, and all
/// of them at one of two cores is a chance of one in thirty thousand.
const CONNECTIONS: usize = 16;
/// A write that does not serve by then is lost.
const VISIBLE_MAX: Duration = Duration::from_secs(10);

/// Where to write, and where to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) admin: u16,
    pub(crate) data: u16,
    pub(crate) origin: u16,
}

/// From the Admin API's answer to the last connection's first 200, in milliseconds, for each of
/// `count` new routes numbered from `first` on.
pub(crate) fn delays_ms(ports: Ports, first: usize, count: usize) -> Result<Vec<f64>> {
    let mut writer = Writer::open(ports.admin)?;
    let mut connections = connections(ports.data)?;
    let mut delays = Vec::with_capacity(count);
    for number in first..first + count {
        let route = serde_json::from_str(&route_json(ports.origin, number))?;
        writer.put(&format!("routes/{number}"), &route)?;
        let answered = Instant::now();
        let path = route_path(number);
        wait_for_all(&mut connections, &path, answered).with_context(|| path.clone())?;
        delays.push(answered.elapsed().as_secs_f64() * 1e3);
    }
    Ok(delays)
}

/// Connections to the data plane.
pub(crate) fn connections(port: u16) -> Result<Vec<Connection>> {
    (0..CONNECTIONS).map(|_| Connection::open(port)).collect()
}

/// All connections ask at once, and those that were told that nothing serves them ask again.
pub(crate) fn wait_for_all(
    connections: &mut [Connection],
    path: &str,
    since: Instant,
) -> Result<()> {
    let request = get_request(path, "");
    let mut waiting: Vec<&mut Connection> = connections.iter_mut().collect();
    while since.elapsed() < VISIBLE_MAX {
        for connection in &mut waiting {
            connection.send(request.as_bytes())?;
        }
        let mut still_waiting = Vec::with_capacity(waiting.len());
        for connection in waiting {
            match connection.receive()? {
                200 => {}
                // Not there yet, or only the half of it that has no node.
                404 | 503 => still_waiting.push(connection),
                status => bail!("status {status}"),
            }
        }
        if still_waiting.is_empty() {
            return Ok(());
        }
        waiting = still_waiting;
    }
    bail!("a route does not serve after {VISIBLE_MAX:?}")
}

/// What waits of so many milliseconds come to, with a budget for the longest ones.
pub(crate) fn waits(what: &str, mut waits_ms: Vec<f64>, over: &str, budget: Budget) -> [Figure; 3] {
    waits_ms.sort_by(f64::total_cmp);
    let title = |part: &str| format!("{what}, {part}, ms, {over}");
    let judged = |part, hundredths| {
        Figure::with_budget(title(part), percentile(&waits_ms, hundredths), budget)
    };
    let median = Figure::free(title("median"), percentile(&waits_ms, 50));
    [median, judged("p99", 99), judged("max", 100)]
}

/// The value below which so many hundredths of the values are.
pub(crate) fn percentile(sorted: &[f64], hundredths: usize) -> f64 {
    let index = (sorted.len() * hundredths).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=500).map(f64::from).collect();
        assert_eq!(percentile(&values, 50), 250.0);
        assert_eq!(percentile(&values, 99), 495.0);
        assert_eq!(percentile(&values, 100), 500.0);
        assert!(percentile(&[], 99).is_nan());
    }
}
