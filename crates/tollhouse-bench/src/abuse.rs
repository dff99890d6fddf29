//! Case of a well-behaved client during attacks. Its latency is compared with the latency without
//! an attack, and the memory of the gateway is measured. Attackers are limited in number, rate and
//! time, and use only addresses of this machine.
//!
//! `abuse/attack.rs` contains the attacks, `abuse/ordinary.rs` the well-behaved clients,
//! `abuse/node.rs` the nodes.

mod attack;
pub(crate) mod frames;
mod node;
mod ordinary;

use super::budget::{self, Figure};
use super::case::{BODY_BYTES, Case};
use super::edge::proxy::Certificate;
use super::measure::median;
use super::plan::{Core, Plan};
use super::report::{CaseResult, Table};
use super::{client, gateway, origin, shell};
use anyhow::{Context, Result};
use node::Nodes;
use ordinary::{Ordinary, Waits};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use tollhouse_testbed::{Bootstrap, Listen, free_port};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    /// Requests cancelled over a node connection that other clients share, with a node that counts
    /// resets.
    ResetsOverSharedConnection,
    /// Idle connections to the TLS port.
    SilentTls,
    /// Requests cancelled while a node connection is being opened.
    ResetsWhileOpening,
    /// HTTP/2 bodies that the node does not read.
    UnreadBodies,
    /// Datagrams from many sources, one each.
    ForgedDatagrams,
    /// Connections that send a request to a silent node and close, or send nothing.
    DepartedClients,
}

impl Attack {
    const ALL: [Self; 6] = [
        Self::ResetsOverSharedConnection,
        Self::SilentTls,
        Self::ResetsWhileOpening,
        Self::UnreadBodies,
        Self::ForgedDatagrams,
        Self::DepartedClients,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::ResetsOverSharedConnection => "resets over a shared node connection",
            Self::SilentTls => "silent TLS connections",
            Self::ResetsWhileOpening => "resets while a node connection opens",
            Self::UnreadBodies => "unread HTTP/2 bodies",
            Self::ForgedDatagrams => "one-datagram UDP sessions",
            Self::DepartedClients => "departed HTTP/1.1 clients",
        }
    }

    /// Returns the well-behaved client whose requests take the path that is attacked.
    fn ordinary(self, ports: Listen) -> Ordinary {
        match self {
            Self::ResetsOverSharedConnection => {
                Ordinary::Kept { port: ports.http, path: "/shared" }
            }
            Self::ResetsWhileOpening | Self::UnreadBodies => {
                Ordinary::Kept { port: ports.http, path: "/r/0" }
            }
            Self::DepartedClients => Ordinary::Fresh { port: ports.http, path: "/r/0" },
            Self::SilentTls => Ordinary::Hello { port: ports.https },
            Self::ForgedDatagrams => Ordinary::Datagrams { port: ports.stream_udp },
        }
    }
}

/// Runs the case.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let mut result = CaseResult::new(Case::Abuse, Vec::new(), Vec::new());
    let folder = tempfile::tempdir()?;
    let certificate = Certificate::make(folder.path())?;
    let origin = origin::start(plan, BODY_BYTES)?;
    let mut cells = Vec::new();
    for attack in Attack::ALL {
        let rounds: Result<Vec<Round>> =
            (0..plan.rounds).map(|_| round(plan, attack, origin.port, &certificate)).collect();
        let summary = Round::median(&rounds.with_context(|| attack.label())?);
        let label = attack.label();
        result.figures.extend([
            Figure::with_budget(
                format!("{label}: p99 over quiet"),
                summary.ratio(),
                budget::ABUSE_P99,
            ),
            Figure::with_budget(
                format!("{label}: failed requests"),
                summary.failures,
                budget::NOTHING_LOST,
            ),
            Figure::free(format!("{label}: memory, MiB over quiet"), summary.memory_mib),
        ]);
        cells.push(summary.to_cells(label));
    }
    result.tables.push(Table {
        caption: "One ordinary client beside the attack".to_owned(),
        columns: vec![
            "attack",
            "quiet p99, µs",
            "p99, µs",
            "requests",
            "failed",
            "memory, MiB",
            "attacks",
            "node connections",
        ],
        cells,
    });
    Ok(result)
}

#[derive(Debug, Clone, Copy, Default)]
struct Round {
    quiet_p99_us: f64,
    p99_us: f64,
    requests: f64,
    failures: f64,
    memory_mib: f64,
    /// Number of requests, connections or datagrams that the attackers sent.
    attacks: f64,
    /// Number of connections accepted by the attacked nodes.
    node_connections: f64,
}

impl Round {
    fn median(rounds: &[Self]) -> Self {
        let of = |value: fn(&Self) -> f64| median(rounds.iter().map(value).collect());
        Self {
            quiet_p99_us: of(|round| round.quiet_p99_us),
            p99_us: of(|round| round.p99_us),
            requests: of(|round| round.requests),
            // The sum over the rounds, not the median, because even one failure counts.
            failures: rounds.iter().map(|round| round.failures).sum(),
            memory_mib: of(|round| round.memory_mib),
            attacks: of(|round| round.attacks),
            node_connections: of(|round| round.node_connections),
        }
    }

    fn ratio(&self) -> f64 {
        self.p99_us / self.quiet_p99_us
    }

    fn to_cells(self, label: &str) -> Vec<Value> {
        let numbers = [
            self.quiet_p99_us,
            self.p99_us,
            self.requests,
            self.failures,
            self.memory_mib,
            self.attacks,
            self.node_connections,
        ];
        let rounded = numbers.map(|number| json!((number * 10.0).round() / 10.0));
        [&[json!(label)][..], &rounded].concat()
    }
}

/// Runs one attack on a new gateway, so that no state of the previous attack remains.
fn round(
    plan: &Plan,
    attack: Attack,
    origin_port: u16,
    certificate: &Certificate,
) -> Result<Round> {
    let nodes = Nodes::start()?;
    let listen = gateway::listen(free_port()?)?;
    let ports = Listen { https: free_port()?, stream_udp: free_port()?, ..listen };
    let settings = "tls: { fallback_sni: bench.test }\nlimits: { buffered_bytes: 32MiB }\n";
    let bootstrap = Bootstrap { listen: ports, settings, ..Bootstrap::default() };
    let resources = resources(origin_port, &nodes, certificate)?;
    let program = plan.gateway(Core::Proxy, &bootstrap, &resources)?;
    program.wait_until_it_listens(ports.https)?;
    program.wait_until_it_answers(ports.http, &client::probe("/r/0", ""))?;
    let ordinary = attack.ordinary(ports);
    // Warms up pools, arenas and the client before the measurement.
    ordinary.run(plan.round / 4, &AtomicBool::new(false))?;
    let quiet = ordinary.run(plan.round, &AtomicBool::new(false))?;
    // The kernel keeps the peak. Samples of the memory would walk its pages on the core of the
    // well-behaved client, which costs a millisecond per sample and more as the memory grows.
    let before = program.reset_peak_memory()?;
    let accepted_before = nodes.accepted();
    let AttackResult { waits, attacks } = attacked(plan, attack, ports)?;
    let peak = program.peak_memory_bytes()?;
    Ok(Round {
        quiet_p99_us: quiet.p99_us(),
        p99_us: waits.p99_us(),
        requests: waits.count() as f64,
        failures: waits.failures as f64,
        memory_mib: peak.saturating_sub(before) as f64 / f64::from(1 << 20),
        attacks: attacks as f64,
        node_connections: (nodes.accepted() - accepted_before) as f64,
    })
}

/// Latencies of the well-behaved client during the attack, and number of attacks.
struct AttackResult {
    waits: Waits,
    attacks: u64,
}

/// Runs the well-behaved client during the attack.
fn attacked(plan: &Plan, attack: Attack, ports: Listen) -> Result<AttackResult> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            // The attacker runs with low priority, so that it does not delay the well-behaved
            // client, which shares its core.
            shell::stand_back();
            attack::run(attack, ports, &is_over)
        });
        shell::pause(plan.round / 4);
        let waits = attack.ordinary(ports).run(plan.round, &is_over);
        is_over.store(true, Ordering::Relaxed);
        let attacks = attacker.join().ok().context("the attacker ended early")?;
        Ok(AttackResult { waits: waits?, attacks })
    })
}

fn resources(origin_port: u16, nodes: &Nodes, certificate: &Certificate) -> Result<String> {
    let upstream = |port: u16, scheme: &str| {
        json!({
            "type": "roundrobin", "scheme": scheme, "nodes": { format!("127.0.0.1:{port}"): 1 },
            "retries": 0,
        })
    };
    let route = |id: &str, uri: &str, upstream: Value| json!({ "id": id, "uri": uri, "upstream": upstream });
    let routes = [
        route("ordinary", "/r/0", upstream(origin_port, "http")),
        route("shared", "/shared", upstream(nodes.counting_port, "grpc")),
        route("opening", "/opening", upstream(nodes.silent_port, "grpcs")),
        route("silent", "/silent", upstream(nodes.silent_port, "http")),
    ];
    let datagrams = json!({
        "id": "datagrams",
        "upstream": {
            "type": "roundrobin", "scheme": "udp", "nodes": { format!("127.0.0.1:{}", nodes.udp_port): 1 },
        },
    });
    let ssl = json!({
        "id": "bench",
        "snis": ["bench.test"],
        "cert": std::fs::read_to_string(&certificate.chain)?,
        "key": std::fs::read_to_string(&certificate.key)?,
    });
    Ok(json!({ "routes": routes, "stream_routes": [datagrams], "ssls": [ssl] }).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_keeps_every_failure() {
        let round =
            |p99_us, failures| Round { quiet_p99_us: 100.0, p99_us, failures, ..Round::default() };
        let summary = Round::median(&[round(150.0, 0.0), round(900.0, 3.0), round(120.0, 1.0)]);
        assert_eq!((summary.ratio(), summary.failures), (1.5, 4.0));
        assert_eq!(summary.to_cells("x").len(), 8);
    }
}
