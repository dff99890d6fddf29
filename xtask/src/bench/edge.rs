//! CPU time of a request over HTTP/2, TLS and gRPC at Tollhouse, nginx and HAProxy, all under load
//! at the same time, and CPU time of a handshake. h2load sends the requests, and OpenSSL opens the
//! connections.
//!
//! The case also measures the CPU time of a TCP relay, the memory of connections at rest, and the
//! CPU time of a request in our own generator.
//!
//! The configuration of each proxy is in `edge/proxy.rs`.

pub(super) mod proxy;
mod relay;
mod rest;

use super::budget::{self, Budget, Figure};
use super::case::{BODY_BYTES, Case};
use super::generator;
use super::measure::median;
use super::origin;
use super::peer::Peer;
use super::plan::Plan;
use super::process::{self, Running, free_port};
use super::report::{CaseResult, Table};
use crate::shell;
use anyhow::{Context, Result, bail};
use proxy::{Certificate, EdgeProxy, Nodes};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Path of the requests over HTTP.
const PATH: &str = "/r/0";
/// Method of the gRPC calls; the node returns the message that it gets.
const CALL_PATH: &str = "/bench.Echo/Unary";
/// Length of the gRPC message in bytes.
const MESSAGE_BYTES: usize = 100;

/// Kind of requests, and the connections they use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scenario {
    Http2,
    Http2Tls,
    Https,
    Grpc,
}

/// Kind of TLS handshake that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handshake {
    Full,
    Resumed,
}

const SCENARIOS: [Scenario; 4] =
    [Scenario::Http2, Scenario::Http2Tls, Scenario::Https, Scenario::Grpc];

impl Scenario {
    fn label(self) -> &'static str {
        match self {
            Self::Http2 => "HTTP/2, 10 × 10 streams",
            Self::Http2Tls => "HTTP/2 over TLS 1.3, 10 × 10 streams",
            Self::Https => "HTTPS/1.1, 32 kept connections",
            Self::Grpc => "gRPC, unary, 10 × 10 streams",
        }
    }

    /// Returns the budget, and `true` if only nginx sets it, `false` if the cheaper of both peers
    /// does.
    fn budget(self) -> (Budget, bool) {
        match self {
            Self::Http2 => (budget::HTTP2_CPU, false),
            Self::Http2Tls => (budget::HTTP2_TLS_CPU, false),
            Self::Https => (budget::HTTPS_CPU, true),
            Self::Grpc => (budget::GRPC_CPU, false),
        }
    }

    fn arguments(self, proxy: &EdgeProxy, message: &Path) -> Vec<String> {
        let streams = ["-c10", "-m10"].map(str::to_owned);
        let plain = format!("http://127.0.0.1:{}", proxy.plain_port);
        let encrypted = format!("https://127.0.0.1:{}", proxy.tls_port);
        let mut arguments = match self {
            Self::Https => vec!["--h1".to_owned(), "-c32".to_owned(), "-m1".to_owned()],
            _ => streams.to_vec(),
        };
        match self {
            Self::Http2 => arguments.push(format!("{plain}{PATH}")),
            Self::Http2Tls | Self::Https => arguments.push(format!("{encrypted}{PATH}")),
            Self::Grpc => {
                let headers = ["-Hcontent-type: application/grpc", "-Hte: trailers"];
                arguments.extend(headers.map(str::to_owned));
                arguments.push(format!("-d{}", message.display()));
                arguments.push(format!("{plain}{CALL_PATH}"));
            }
        }
        arguments
    }
}

/// Runs the case.
///
/// # Errors
/// If h2load or OpenSSL is not installed, or a measurement fails.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    for program in ["h2load", "openssl"] {
        if shell::find_program(program).is_none() {
            bail!("{program} is not installed; `cargo x install` brings it");
        }
    }
    let folder = tempfile::tempdir()?;
    let certificate = Certificate::make(folder.path())?;
    let message = folder.path().join("message");
    let length = u32::try_from(MESSAGE_BYTES)?.to_be_bytes();
    std::fs::write(&message, [&[0][..], &length, &[b'x'; MESSAGE_BYTES]].concat())?;
    let origin = origin::start(&plan.cores, BODY_BYTES)?;
    let (grpc_port, _node) = start_node(plan)?;
    let nodes = Nodes { http_port: origin.port, grpc_port };
    let peers = plan.peers.iter().copied().filter(|peer| *peer != Peer::HaproxyTcp);
    let proxies: Result<Vec<EdgeProxy>> =
        peers.map(|peer| EdgeProxy::start(plan, peer, &nodes, &certificate)).collect();
    let proxies = proxies?;
    let (mut cells, mut figures) = (Vec::new(), Vec::new());
    for scenario in SCENARIOS {
        let costs = requests(plan, scenario, &proxies, &message)?;
        cells.extend(costs.iter().map(|cost| cost.to_cells(scenario.label())));
        let (limit, is_of_nginx) = scenario.budget();
        figures.extend(compare(scenario.label(), &costs, limit, is_of_nginx));
    }
    for (kind, label) in
        [(Handshake::Full, "full handshake, P-256"), (Handshake::Resumed, "resumed handshake")]
    {
        let costs = handshakes(plan, kind, &proxies)?;
        cells.extend(costs.iter().map(|cost| cost.to_cells(label)));
        figures.extend(compare(label, &costs, budget::HANDSHAKE_CPU, true));
    }
    drop(proxies);
    for measure in relay::Measure::ALL {
        let costs = relay::run(plan, measure)?;
        cells.extend(costs.iter().map(|cost| cost.to_cells(measure.label())));
        figures.extend(compare_relays(measure.label(), &costs));
    }
    for (kind, limit) in
        [(rest::Kind::Tls, budget::TLS_REST_BYTES), (rest::Kind::Http2, budget::HTTP2_REST_BYTES)]
    {
        // Each measurement starts a new proxy, because memory that was used before and is free
        // again would not show.
        for peer in plan.peers.iter().copied().filter(|peer| *peer != Peer::HaproxyTcp) {
            let proxy = EdgeProxy::start(plan, peer, &nodes, &certificate)?;
            let bytes = rest::bytes_per_connection(plan, kind, &proxy)
                .with_context(|| format!("{}: {}", peer.name(), kind.label()))?;
            let what = format!("{}: {}", peer.name(), kind.label());
            figures.push(match peer {
                Peer::Tollhouse => Figure::with_budget(what, bytes, limit),
                _ => Figure::free(what, bytes),
            });
        }
    }
    let (generators, figure) = generator::against_h2load(plan)?;
    figures.push(figure);
    let table = Table {
        caption: format!("Edge: median of {} rounds, one worker on one core", plan.rounds),
        columns: vec!["what", "proxy", "CPU µs each", "each/s"],
        cells,
    };
    let tables = vec![table, generators];
    Ok(CaseResult { case: Case::Edge.name(), rows: Vec::new(), figures, tables })
}

/// Cost of one request or handshake in a proxy.
struct Cost {
    peer: Peer,
    cpu_us: f64,
    per_second: f64,
}

impl Cost {
    fn to_cells(&self, what: &str) -> Vec<Value> {
        vec![json!(what), json!(self.peer.name()), json!(self.cpu_us), json!(self.per_second)]
    }
}

/// Compares our cost with that of the peer that sets the budget.
fn compare(what: &str, costs: &[Cost], limit: Budget, is_of_nginx: bool) -> Option<Figure> {
    let ours = costs.iter().find(|cost| cost.peer == Peer::Tollhouse)?;
    let others = costs
        .iter()
        .filter(|cost| cost.peer == Peer::Nginx || (cost.peer == Peer::Haproxy && !is_of_nginx));
    let best = others.min_by(|one, other| one.cpu_us.total_cmp(&other.cpu_us))?;
    let what = format!("{what}: CPU against {}", best.peer.name());
    Some(Figure::with_budget(what, ours.cpu_us / best.cpu_us, limit))
}

/// Compares the cost of our relay with that of HAProxy.
fn compare_relays(what: &str, costs: &[Cost]) -> Option<Figure> {
    let cost_of = |peer: Peer| costs.iter().find(|cost| cost.peer == peer);
    let (ours, theirs) = (cost_of(Peer::Tollhouse)?, cost_of(Peer::HaproxyTcp)?);
    let what = format!("{what}: CPU against {}", theirs.peer.name());
    Some(Figure::with_budget(what, ours.cpu_us / theirs.cpu_us, budget::RELAY_CPU))
}

/// Starts the gRPC node on the core of the load; it returns the message that it gets.
fn start_node(plan: &Plan) -> Result<(u16, Running)> {
    let port = free_port()?;
    let mut command = plan.cores.on_load_core(&plan.binary.display().to_string());
    command.args(["mock", "--workers", "1", "--listen", &format!("127.0.0.1:{port}")]);
    let mut running = Running::start(command, process::fresh_folder()?)?;
    running.wait_until_it_listens(port)?;
    Ok((port, running))
}

/// Measures all proxies concurrently under equal load, round after round.
fn requests(
    plan: &Plan,
    scenario: Scenario,
    proxies: &[EdgeProxy],
    message: &Path,
) -> Result<Vec<Cost>> {
    let mut rounds = Vec::new();
    for round in 0..=plan.rounds {
        let time = if round == 0 { WARM_UP } else { plan.round };
        let turn = |proxy: &EdgeProxy| load(plan, proxy, scenario, message, time);
        let costs: Result<Vec<(f64, f64)>> = std::thread::scope(|scope| {
            let turns: Vec<_> = proxies.iter().map(|proxy| scope.spawn(|| turn(proxy))).collect();
            let joined = turns.into_iter().map(|turn| turn.join().expect("no panic"));
            joined.collect()
        });
        let costs = costs.with_context(|| scenario.label())?;
        if round > 0 {
            rounds.push(costs);
        }
    }
    Ok(medians(proxies, &rounds))
}

/// Warm-up of connections to the nodes, caches and allocators before the first round.
const WARM_UP: Duration = Duration::from_secs(1);

fn load(
    plan: &Plan,
    proxy: &EdgeProxy,
    scenario: Scenario,
    message: &Path,
    time: Duration,
) -> Result<(f64, f64)> {
    let mut command = plan.cores.on_load_core("h2load");
    command.args(["-t1", "-D", &time.as_secs().max(1).to_string()]);
    command.args(scenario.arguments(proxy, message));
    let before = proxy.running.cpu_time()?;
    let text = printed(&mut command)?;
    let spent = proxy.running.cpu_time()?.saturating_sub(before);
    let (done, failed) = read_h2load(&text).with_context(|| text.clone())?;
    if done == 0 || failed > 0 {
        bail!("{}: {done} answered, {failed} failed:\n{text}", proxy.peer.name());
    }
    Ok((spent.as_secs_f64() * 1e6 / done as f64, done as f64 / time.as_secs_f64()))
}

/// Measures one proxy after the other, because a handshake keeps the client's core busier than the
/// server's.
fn handshakes(plan: &Plan, kind: Handshake, proxies: &[EdgeProxy]) -> Result<Vec<Cost>> {
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let costs: Result<Vec<(f64, f64)>> =
            proxies.iter().map(|proxy| open(plan, kind, proxy)).collect();
        rounds.push(costs?);
    }
    Ok(medians(proxies, &rounds))
}

fn open(plan: &Plan, kind: Handshake, proxy: &EdgeProxy) -> Result<(f64, f64)> {
    let seconds = plan.round.as_secs().max(1);
    let mut command = plan.cores.on_load_core("openssl");
    let kind = if kind == Handshake::Full { "-new" } else { "-reuse" };
    let address = format!("127.0.0.1:{}", proxy.tls_port);
    command.args(["s_time", kind, "-tls1_3", "-www", PATH, "-connect", &address]);
    command.args(["-time", &seconds.to_string()]);
    let before = proxy.running.cpu_time()?;
    let text = printed(&mut command)?;
    let spent = proxy.running.cpu_time()?.saturating_sub(before);
    let opened = read_s_time(&text).filter(|opened| *opened > 0).with_context(|| text.clone())?;
    Ok((spent.as_secs_f64() * 1e6 / opened as f64, opened as f64 / seconds as f64))
}

fn medians(proxies: &[EdgeProxy], rounds: &[Vec<(f64, f64)>]) -> Vec<Cost> {
    let costs = proxies.iter().enumerate().map(|(index, proxy)| Cost {
        peer: proxy.peer,
        cpu_us: median(rounds.iter().map(|round| round[index].0).collect()),
        per_second: median(rounds.iter().map(|round| round[index].1).collect()),
    });
    costs.collect()
}

fn printed(command: &mut std::process::Command) -> Result<String> {
    let output = command.output().with_context(|| shell::render(command))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{}: {text}{}", shell::render(command), String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}

/// Reads the counts of requests that succeeded and that failed.
fn read_h2load(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find(|line| line.starts_with("requests:"))?;
    let count = |word: &str| {
        let before = line.split(word).next()?.trim().rsplit([' ', ',']).next()?;
        before.parse().ok()
    };
    let succeeded: u64 = count(" succeeded")?;
    let failed: u64 = count(" failed")?;
    Some((succeeded, failed))
}

/// Reads the number of connections that were opened; with `-reuse`, that of the resumed ones.
fn read_s_time(text: &str) -> Option<u64> {
    let line = text.lines().rfind(|line| line.contains(" connections in "))?;
    line.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tools_print_is_read() {
        let text =
            "requests: 1204 total, 1304 started, 1204 done, 1200 succeeded, 4 failed, 0 errored";
        assert_eq!(read_h2load(text), Some((1200, 4)));
        assert_eq!(read_h2load("nothing"), None);
        let text = "1021 connections in 0.40s; 2552.50 connections/user sec, bytes read 0\n\
            1021 connections in 2 real seconds, 0 bytes read per connection\n";
        assert_eq!(read_s_time(text), Some(1021));
        assert_eq!(read_s_time(""), None);
    }
}
