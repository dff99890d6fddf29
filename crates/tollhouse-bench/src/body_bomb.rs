//! Case of a JSON body of 60 MB, which as a parsed tree would need forty times its size. Measures
//! the memory that the gateway uses for it, and the latency of requests to another route on the
//! same core.

use super::budget::{self, Figure};
use super::case::{BODY_BYTES, Case};
use super::client::{Connection, probe};
use super::measure::median;
use super::plan::{Core, Plan};
use super::report::CaseResult;
use super::{gateway, origin, shell};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tollhouse_testbed::{Bootstrap, Program, free_port};

/// Length of the body in bytes, just below the default limit of plugins.
const BOMB_BYTES: usize = 60_000_000;
/// Number of requests before the measurement, so that pools and arenas are warm.
const WARM_UP_REQUESTS: usize = 200;
/// Number of bodies per round, because the maximum of some thousand latencies depends on other
/// activity of the machine.
const BODIES_PER_ROUND: usize = 3;
/// Path of the route whose latency is measured.
const OTHER: &str = "/r/0";
/// Paths of the routes that read the whole body, each with the feature that reads it.
const ROUTES: [(&str, &str); 2] = [("/validated", "request-validation"), ("/chosen", "post_arg")];

/// Quantity measured while a body is processed.
#[derive(Clone, Copy, Debug)]
enum Question {
    /// Peak memory above that of an idle gateway, relative to the length of the body.
    Memory,
    /// Maximum latency of requests to another route, in milliseconds.
    Wait,
    /// Maximum latency of requests to the origin without the gateway, in milliseconds. This shows
    /// how much of the latency is caused by the client and the origin.
    WaitWithout,
}

/// Ports of the two origins: `long` reads the long body completely before it answers, and `other`
/// answers all other requests.
#[derive(Clone, Copy, Debug)]
struct Origins {
    long: u16,
    other: u16,
}

/// Runs the case for Tollhouse only, because the other proxies do not read bodies.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let mut result = CaseResult::new(Case::BodyBomb, Vec::new(), Vec::new());
    let other = origin::start(plan, BODY_BYTES)?;
    let long = origin::start(plan, BODY_BYTES)?;
    // Low priority, because the processes that read or send the long body share a core with the
    // measured requests and must not delay them.
    shell::make_idle(&long.program);
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
    let port = free_port()?;
    let bootstrap = Bootstrap { listen: gateway::listen(port)?, ..Bootstrap::default() };
    let program = plan.gateway(Core::Proxy, &bootstrap, &resources(origins))?;
    program.wait_until_it_answers(port, &probe(OTHER, ""))?;
    let origin_port = match question {
        Question::WaitWithout => origins.other,
        Question::Memory | Question::Wait => port,
    };
    let request = Bomb { port, path };
    measure(&program, request, Connection::open(origin_port)?, question)
}

fn measure(
    program: &Program,
    bomb: Bomb<'_>,
    mut other: Connection,
    question: Question,
) -> Result<f64> {
    let request = bomb.request();
    for _ in 0..WARM_UP_REQUESTS {
        other.get(OTHER)?;
    }
    let before = program.reset_peak_memory()?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let observer = scope.spawn(|| longest_wait(&mut other, &is_over));
        let sender = scope.spawn(|| {
            shell::stand_back();
            Connection::open(bomb.port).and_then(|mut it| it.exchange(&request))
        });
        let status = sender.join().ok().context("the thread that sends ended early")?;
        is_over.store(true, Ordering::Relaxed);
        let longest = observer.join().ok().context("the observing thread ended early")??;
        let taken = program.peak_memory_bytes()?.saturating_sub(before);
        match (status?, question) {
            (200, Question::Memory) => Ok(taken as f64 / BOMB_BYTES as f64),
            (200, Question::Wait | Question::WaitWithout) => Ok(longest.as_secs_f64() * 1e3),
            (status, _) => bail!("the long body was answered {status}"),
        }
    })
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

/// Request with the body `[1,1,…]`, with its port and path.
#[derive(Debug, Clone, Copy)]
struct Bomb<'a> {
    port: u16,
    path: &'a str,
}

impl Bomb<'_> {
    fn request(self) -> Vec<u8> {
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {BOMB_BYTES}\r\n\r\n",
            self.path
        );
        let mut request = head.into_bytes();
        request.push(b'[');
        request.extend(b"1,".iter().cycle().take(BOMB_BYTES - 4));
        request.extend(b"11]");
        request
    }
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
        let request = Bomb { port: 0, path: "/x" }.request();
        let head = request.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let body = &request[head + 4..];
        assert_eq!(body.len(), BOMB_BYTES);
        assert!(body.starts_with(b"[1,1,") && body.ends_with(b",1,11]"));
    }
}
