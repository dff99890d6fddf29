//! Measures the time until a write takes effect. Writes one new route after the other, and after
//! each response of the Admin API requests the route over several data plane connections until all
//! of them succeed.

use super::client::Writer;
use crate::budget::{Budget, Figure};
use crate::client::{Connection, get_request};
use crate::gateway::{route_json, route_path};
use crate::measure::percentile;
use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};

/// Number of data plane connections, so high that every core has some. The kernel distributes
/// connections over the cores' sockets at random; the probability that all 16 reach the same of two
/// cores is 1 in 30,000.
const CONNECTIONS: usize = 16;
/// Maximum time to wait until a write takes effect.
const VISIBLE_MAX: Duration = Duration::from_secs(10);

/// Ports of the Admin API, of the data plane and of the origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) admin: u16,
    pub(crate) data: u16,
    pub(crate) origin: u16,
}

/// Returns the milliseconds from the Admin API's response to the last connection's first 200, for
/// each of `count` new routes numbered from `first`.
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

/// Opens connections to the data plane.
pub(crate) fn connections(port: u16) -> Result<Vec<Connection>> {
    (0..CONNECTIONS).map(|_| Connection::open(port)).collect()
}

/// Sends a request on all connections, and repeats it on each one that has not succeeded yet.
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
                // This core does not serve the route yet, or serves it without its node.
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

/// Returns median, p99 and maximum of the times, with the budget for p99 and maximum.
pub(crate) fn waits(what: &str, mut waits_ms: Vec<f64>, over: &str, budget: Budget) -> [Figure; 3] {
    waits_ms.sort_by(f64::total_cmp);
    let title = |part: &str| format!("{what}, {part}, ms, {over}");
    let judged = |part, hundredths| {
        Figure::with_budget(title(part), percentile(&waits_ms, hundredths), budget)
    };
    let median = Figure::free(title("median"), percentile(&waits_ms, 50));
    [median, judged("p99", 99), judged("max", 100)]
}
