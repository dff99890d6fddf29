//! CPU time of a request over HTTP/2, TLS and gRPC at Tollhouse, nginx and HAProxy, all under load
//! at the same time, and CPU time of a handshake. h2load sends the requests, and OpenSSL opens the
//! connections.
//!
//! The case also measures the CPU time of a TCP relay, the memory of connections at rest, and the
//! CPU time of a request in our own generator.
//!
//! The configuration of each proxy is in `edge/proxy.rs`.

pub(crate) mod proxy;
mod relay;
mod rest;

use super::budget::{self, Budget, Figure};
use super::case::{BODY_BYTES, Case};
use super::generator::{self, RequestCounts};
use super::measure::{at_once, median};
use super::origin;
use super::peer::Peer;
use super::plan::{Core, Plan};
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
/// Length of the gRPC messages in bytes.
const MESSAGE_BYTES: usize = 100;

/// Protocol of the requests and their connections.
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

    fn budget(self) -> Budget {
        match self {
            Self::Http2 => budget::HTTP2_CPU,
            Self::Http2Tls => budget::HTTP2_TLS_CPU,
            Self::Https => budget::HTTPS_CPU,
            Self::Grpc => budget::GRPC_CPU,
        }
    }

    /// Returns the peers that Tollhouse is compared with; the budget is relative to the cheapest
    /// one.
    fn rivals(self) -> &'static [Peer] {
        if self == Self::Https { &[Peer::Nginx] } else { &[Peer::Nginx, Peer::Haproxy] }
    }

    /// Returns the arguments of h2load.
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
    let origin = origin::start(plan, BODY_BYTES)?;
    let (grpc_port, _node) = plan.mock(Core::Load)?;
    let nodes = Nodes { http_port: origin.port, grpc_port };
    let peers = plan.peers.iter().copied().filter(|peer| *peer != Peer::HaproxyTcp);
    let proxies: Result<Vec<EdgeProxy>> =
        peers.map(|peer| EdgeProxy::start(plan, peer, &nodes, &certificate)).collect();
    let proxies = proxies?;
    let (mut cells, mut figures) = (Vec::new(), Vec::new());
    for scenario in SCENARIOS {
        let costs = requests(plan, scenario, &proxies, &message)?;
        cells.extend(costs.iter().map(|cost| cost.to_cells(scenario.label())));
        figures.extend(compare(scenario.label(), &costs, scenario.rivals(), scenario.budget()));
    }
    for (kind, label) in
        [(Handshake::Full, "full handshake, P-256"), (Handshake::Resumed, "resumed handshake")]
    {
        let costs = handshakes(plan, kind, &proxies)?;
        cells.extend(costs.iter().map(|cost| cost.to_cells(label)));
        figures.extend(compare(label, &costs, &[Peer::Nginx], budget::HANDSHAKE_CPU));
    }
    drop(proxies);
    for measure in relay::Measure::ALL {
        let costs = relay::run(plan, measure)?;
        cells.extend(costs.iter().map(|cost| cost.to_cells(measure.label())));
        figures.extend(compare(measure.label(), &costs, &[Peer::HaproxyTcp], budget::RELAY_CPU));
    }
    for (kind, limit) in
        [(rest::Kind::Tls, budget::TLS_REST_BYTES), (rest::Kind::Http2, budget::HTTP2_REST_BYTES)]
    {
        // Each measurement starts a new proxy, because connections that reuse memory freed earlier
        // would not increase the memory of the process.
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
    Ok(CaseResult { tables, ..CaseResult::new(Case::Edge, Vec::new(), figures) })
}

/// CPU time of one request or handshake in a proxy.
#[derive(Debug, Clone, Copy)]
struct Cost {
    peer: Peer,
    cpu_us: f64,
    per_second: f64,
}

impl Cost {
    fn new(peer: Peer, spent: Duration, count: u64, time: Duration) -> Self {
        Self {
            peer,
            cpu_us: spent.as_secs_f64() * 1e6 / count as f64,
            per_second: count as f64 / time.as_secs_f64(),
        }
    }

    fn to_cells(self, what: &str) -> Vec<Value> {
        vec![json!(what), json!(self.peer.name()), json!(self.cpu_us), json!(self.per_second)]
    }
}

/// Returns the cost of Tollhouse relative to the cheapest of the `rivals`.
fn compare(what: &str, costs: &[Cost], rivals: &[Peer], limit: Budget) -> Option<Figure> {
    let ours = costs.iter().find(|cost| cost.peer == Peer::Tollhouse)?;
    let others = costs.iter().filter(|cost| rivals.contains(&cost.peer));
    let best = others.min_by(|one, other| one.cpu_us.total_cmp(&other.cpu_us))?;
    let what = format!("{what}: CPU against {}", best.peer.name());
    Some(Figure::with_budget(what, ours.cpu_us / best.cpu_us, limit))
}

/// Measures all proxies under the same load at the same time, round after round.
fn requests(
    plan: &Plan,
    scenario: Scenario,
    proxies: &[EdgeProxy],
    message: &Path,
) -> Result<Vec<Cost>> {
    let mut rounds = Vec::new();
    for round in 0..=plan.rounds {
        let time = if round == 0 { WARM_UP } else { plan.round };
        let costs = at_once(proxies, |proxy| load(proxy, scenario, message, time));
        rounds.push(costs.with_context(|| scenario.label())?);
    }
    Ok(medians(&rounds[1..]))
}

/// Duration of the load before the first round, which warms up connections to the nodes, caches and
/// allocators.
const WARM_UP: Duration = Duration::from_secs(1);

fn load(proxy: &EdgeProxy, scenario: Scenario, message: &Path, time: Duration) -> Result<Cost> {
    let mut command = shell::command("h2load");
    command.args(["-t1", "-D", &time.as_secs().max(1).to_string()]);
    command.args(scenario.arguments(proxy, message));
    let before = proxy.program.cpu_time()?;
    let text = shell::output_of(&mut command)?;
    let spent = proxy.program.cpu_time()?.saturating_sub(before);
    let RequestCounts { requests, errors } =
        generator::read_h2load(&text).with_context(|| text.clone())?;
    if requests == 0 || errors > 0 {
        bail!("{}: {requests} answered, {errors} failed:\n{text}", proxy.peer.name());
    }
    Ok(Cost::new(proxy.peer, spent, requests, time))
}

/// Measures one proxy after the other, because a handshake keeps the client's core busier than the
/// server's.
fn handshakes(plan: &Plan, kind: Handshake, proxies: &[EdgeProxy]) -> Result<Vec<Cost>> {
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let costs = proxies.iter().map(|proxy| open(plan, kind, proxy));
        rounds.push(costs.collect::<Result<Vec<_>>>()?);
    }
    Ok(medians(&rounds))
}

fn open(plan: &Plan, kind: Handshake, proxy: &EdgeProxy) -> Result<Cost> {
    let seconds = plan.round.as_secs().max(1);
    let mut command = shell::command("openssl");
    let kind = if kind == Handshake::Full { "-new" } else { "-reuse" };
    let address = format!("127.0.0.1:{}", proxy.tls_port);
    command.args(["s_time", kind, "-tls1_3", "-www", PATH, "-connect", &address]);
    command.args(["-time", &seconds.to_string()]);
    let before = proxy.program.cpu_time()?;
    let text = shell::output_of(&mut command)?;
    let spent = proxy.program.cpu_time()?.saturating_sub(before);
    let opened = read_s_time(&text).filter(|opened| *opened > 0).with_context(|| text.clone())?;
    Ok(Cost::new(proxy.peer, spent, opened, Duration::from_secs(seconds)))
}

/// Returns the median cost of each proxy. All rounds list the same proxies in the same order.
fn medians(rounds: &[Vec<Cost>]) -> Vec<Cost> {
    let Some(first) = rounds.first() else { return Vec::new() };
    let costs = first.iter().enumerate().map(|(index, cost)| {
        let of = |value: fn(&Cost) -> f64| {
            median(rounds.iter().map(|round| value(&round[index])).collect())
        };
        Cost {
            peer: cost.peer,
            cpu_us: of(|cost| cost.cpu_us),
            per_second: of(|cost| cost.per_second),
        }
    });
    costs.collect()
}

/// Parses the number of opened connections in the output of `openssl s_time`; with `-reuse`, the
/// number of resumed ones.
fn read_s_time(text: &str) -> Option<u64> {
    let line = text.lines().rfind(|line| line.contains(" connections in "))?;
    line.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_openssl_is_read() {
        let text = "1021 connections in 0.40s; 2552.50 connections/user sec, bytes read 0\n\
            1021 connections in 2 real seconds, 0 bytes read per connection\n";
        assert_eq!(read_s_time(text), Some(1021));
        assert_eq!(read_s_time(""), None);
    }
}
