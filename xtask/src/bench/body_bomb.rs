//! Case of one 60 MB JSON body whose parsed tree would take forty times its size: memory use, and
//! the latency of requests to another route on the same core.

use super::budget::{self, Figure};
use super::case::{BODY_BYTES, Case};
use super::client::Connection;
use super::gateway::Bootstrap;
use super::measure::median;
use super::plan::Plan;
use super::process::{self, Running, free_port};
use super::report::CaseResult;
use super::{origin, peer::Peer};
use crate::shell;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Length of the body, just below the default limit of plugins.
const BOMB_BYTES: usize = 60_000_000;
/// Number of requests before the measurement, so that pools and arenas are warm.
const WARM_UP_REQUESTS: usize = 200;
/// Number of bodies per round, because the maximum of some thousand latencies depends on other
/// activity of the machine.
const BODIES_PER_ROUND: usize = 3;
/// Interval between two samples of the gateway's memory.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// Path of the route whose latency is measured.
const OTHER: &str = "/r/0";
/// Routes that read the whole body, and the feature that does so.
const ROUTES: [(&str, &str); 2] = [("/validated", "request-validation"), ("/chosen", "post_arg")];

/// Quantity measured during a body. One at a time, because reading the memory of a process holds
/// the lock its threads need for new pages, which would distort the latency.
#[derive(Clone, Copy, Debug)]
enum Question {
    /// Peak memory above that of an idle gateway, relative to the length of the body.
    Memory,
    /// Maximum latency of requests to another route, in milliseconds.
    Wait,
    /// Maximum latency of the other route's origin without the gateway: the share of the measuring
    /// side in the latency.
    WaitWithout,
}

/// Ports of the origins: one for the long body, which it reads completely before anything else, and
/// another for all other requests.
#[derive(Clone, Copy, Debug)]
struct Origins {
    long: u16,
    other: u16,
}

/// Runs the case; only Tollhouse reads bodies.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let mut result = CaseResult::new(Case::BodyBomb.name(), Vec::new(), Vec::new());
    if !plan.peers.contains(&Peer::Tollhouse) {
        println!("nothing to measure without tollhouse");
        return Ok(result);
    }
    let other = origin::start(&plan.cores, BODY_BYTES)?;
    // Low priority, because the threads that read or send the long body share a core with the
    // measured requests and must not delay them.
    let long = std::thread::scope(|scope| {
        let started = scope.spawn(|| {
            shell::stand_back();
            origin::start(&plan.cores, BODY_BYTES)
        });
        started.join().expect("starting an origin does not panic")
    })?;
    let origins = Origins { long: long.port, other: other.port };
    for (path, what) in ROUTES {
        let median_of = |question| -> Result<f64> {
            let bodies = 0..plan.rounds * BODIES_PER_ROUND;
            let rounds = bodies.map(|_| once(plan, origins, path, question));
            Ok(median(rounds.collect::<Result<_>>()?))
        };
        let ratio = median_of(Question::Memory)?;
        let wait_ms = median_of(Question::Wait)?;
        let without_ms = median_of(Question::WaitWithout)?;
        result.figures.extend([
            Figure::with_budget(format!("{what}: memory over length"), ratio, budget::BOMB_MEMORY),
            Figure::with_budget(format!("{what}: longest wait, ms"), wait_ms, budget::BOMB_WAIT_MS),
            Figure::free(format!("{what}: the same without the gateway, ms"), without_ms),
        ]);
    }
    Ok(result)
}

/// Sends one body to a new gateway, so that no state of the previous one remains.
fn once(plan: &Plan, origins: Origins, path: &str, question: Question) -> Result<f64> {
    let folder = process::fresh_folder()?;
    let port = free_port()?;
    let resources = resources(origins);
    Bootstrap::from_resources(port, &resources).write(folder.path())?;
    let mut command = plan.cores.on_proxy_core(&plan.binary.display().to_string());
    command.args(["run", "--config"]).arg(folder.path().join("tollhouse.yaml"));
    let mut running = Running::start(command, folder)?;
    running.wait_until_it_answers(port, OTHER)?;
    let asked = match question {
        Question::WaitWithout => origins.other,
        Question::Memory | Question::Wait => port,
    };
    measure(&running, (port, path), Connection::open(asked)?, question)
}

fn measure(
    running: &Running,
    (port, path): (u16, &str),
    mut other: Connection,
    question: Question,
) -> Result<f64> {
    let request = bomb(path);
    for _ in 0..WARM_UP_REQUESTS {
        other.get(OTHER)?;
    }
    let before = running.memory_bytes()?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let seen = scope.spawn(|| match question {
            Question::Memory => {
                let taken = peak_bytes(running, &is_over).saturating_sub(before);
                Ok(taken as f64 / BOMB_BYTES as f64)
            }
            Question::Wait | Question::WaitWithout => {
                Ok(longest_wait(&mut other, &is_over)?.as_secs_f64() * 1e3)
            }
        });
        let sender = scope.spawn(|| {
            shell::stand_back();
            Connection::open(port).and_then(|mut it| it.exchange(&request))
        });
        let status = sender.join().ok().context("the thread that sends ended early")?;
        is_over.store(true, Ordering::Relaxed);
        let seen = seen.join().ok().context("the thread that looks on ended early")?;
        match status? {
            200 => seen,
            status => bail!("the long body was answered {status}"),
        }
    })
}

fn peak_bytes(running: &Running, is_over: &AtomicBool) -> u64 {
    let mut peak = 0;
    while !is_over.load(Ordering::Relaxed) {
        peak = peak.max(running.memory_bytes().unwrap_or(0));
        shell::pause(LOOK_INTERVAL);
    }
    peak
}

fn longest_wait(other: &mut Connection, is_over: &AtomicBool) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let start = Instant::now();
        other.get(OTHER)?;
        longest = longest.max(start.elapsed());
        shell::pause(Duration::from_micros(200));
    }
    Ok(longest)
}

/// Builds a request with the body `[1,1,…]`.
fn bomb(path: &str) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {BOMB_BYTES}\r\n\r\n"
    );
    let mut request = head.into_bytes();
    request.push(b'[');
    request.extend(b"1,".iter().cycle().take(BOMB_BYTES - 4));
    request.extend(b"11]");
    request
}

fn resources(origins: Origins) -> String {
    let upstream =
        |port| json!({ "type": "roundrobin", "nodes": { format!("127.0.0.1:{port}"): 1 } });
    let long = upstream(origins.long);
    let validation = json!({ "request-validation": { "body_schema": { "type": "array" } } });
    let routes = json!([
        { "id": "other", "uri": OTHER, "upstream": upstream(origins.other) },
        { "id": "validated", "uri": "/validated", "plugins": validation, "upstream": long },
        {
            "id": "chosen", "uri": "/chosen", "upstream": long,
            "vars": [["post_arg.missing", "!", "==", "1"]],
        },
    ]);
    json!({ "routes": routes }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_as_long_as_the_head_says() {
        let request = bomb("/x");
        let head = request.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let body = &request[head + 4..];
        assert_eq!(body.len(), BOMB_BYTES);
        assert!(body.starts_with(b"[1,1,") && body.ends_with(b",1,11]"));
    }
}
