//! Tests of checkers over scripted nodes in virtual time: schedule, changes of health, and changing
//! snapshots.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tollhouse_model::Upstream;
use tollhouse_model::upstream::{ActiveCheck, CheckKind, Checks, PassHost, Thresholds};
use tollhouse_net::resolve::Resolver;
use tollhouse_stdx::Endpoint;
use tollhouse_stdx::random::Random;

use super::probe::{Probe, ProbeOutcome, Prober, Probing};
use super::supervisor::HealthSupervisor;
use crate::change::UpstreamChange;
use crate::state::UpstreamState;
use crate::state::tests::{ask, hosts, resolver, upstream};

/// Checks with the defaults of the schema.
pub(crate) fn checks() -> Checks {
    let active = ActiveCheck {
        kind: CheckKind::Http,
        timeout: Duration::from_secs(1),
        concurrency: 10,
        host: None,
        port: None,
        http_method: "GET".into(),
        http_path: "/".into(),
        http_request_body: String::new(),
        grpc_service: String::new(),
        https_verify_certificate: true,
        request_headers: Vec::new(),
        healthy_interval: Duration::from_secs(1),
        unhealthy_interval: Duration::from_secs(1),
        thresholds: Thresholds {
            healthy_statuses: vec![200, 302],
            successes: 2,
            unhealthy_statuses: vec![429, 404, 500, 501, 502, 503, 504, 505],
            http_failures: 5,
            tcp_failures: 2,
            timeouts: 3,
        },
    };
    Checks { active, passive: None }
}

/// Nodes that respond as a test configures, after a delay.
#[derive(Default)]
struct Nodes {
    outcomes: Mutex<HashMap<Endpoint, ProbeOutcome>>,
    seen: Mutex<Vec<(Endpoint, String, Instant)>>,
    delay: Duration,
    under_way: AtomicUsize,
    under_way_most: AtomicUsize,
}

impl Nodes {
    fn set(&self, address: &str, outcome: ProbeOutcome) {
        self.outcomes.lock().unwrap().insert(endpoint(address), outcome);
    }

    fn count(&self, address: &str) -> usize {
        let address = endpoint(address);
        self.seen.lock().unwrap().iter().filter(|seen| seen.0 == address).count()
    }
}

fn endpoint(address: &str) -> Endpoint {
    address.parse::<SocketAddr>().unwrap().into()
}

impl Prober for Nodes {
    fn probe(self: Arc<Self>, probe: Probe) -> Probing {
        Box::pin(async move {
            self.seen.lock().unwrap().push((probe.address, probe.host, Instant::now()));
            let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
            self.under_way_most.fetch_max(under_way, Ordering::Relaxed);
            tokio::time::sleep(self.delay).await;
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            let outcome = self.outcomes.lock().unwrap().get(&probe.address).copied();
            outcome.unwrap_or(ProbeOutcome::Answered(200))
        })
    }
}

struct World {
    nodes: Arc<Nodes>,
    supervisor: Arc<HealthSupervisor>,
    resolver: Arc<Resolver>,
    state: Arc<UpstreamState>,
    task: tokio::task::JoinHandle<()>,
}

impl World {
    fn new(conf: &Upstream, delay: Duration) -> Self {
        let nodes = Arc::new(Nodes { delay, ..Nodes::default() });
        let supervisor = Arc::new(HealthSupervisor::with_prober(
            Arc::clone(&nodes) as Arc<dyn Prober>,
            Random::seeded(5),
        ));
        let resolver = resolver(&[("a.example", &["10.9.0.1"])]);
        let state = UpstreamState::build(conf, "routes/1", None, &resolver);
        supervisor.change_upstreams(&[UpstreamChange::to(&state)]);
        let runner = Arc::clone(&supervisor);
        let task = tokio::spawn(async move { runner.run().await });
        Self { nodes, supervisor, resolver, state, task }
    }

    fn change(&mut self, conf: &Upstream) {
        let previous = Some(&self.state);
        self.state = UpstreamState::build(conf, "routes/1", previous, &self.resolver);
        self.supervisor.change_upstreams(&[UpstreamChange::to(&self.state)]);
    }

    fn statuses(&self) -> String {
        let report = self.supervisor.report_of("routes/1");
        let nodes = report.map(|report| report.nodes).unwrap_or_default();
        nodes.iter().map(|node| format!("{:?}", node.status)).collect::<Vec<_>>().join(" ")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

fn two() -> Upstream {
    Upstream { checks: Some(checks()), ..upstream(&[("10.0.0.1:80", 1), ("10.0.0.2:80", 1)]) }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_probed_before_the_first_use() {
    let world = World::new(&two(), Duration::ZERO);
    pass(10.0).await;
    assert!(world.nodes.seen.lock().unwrap().is_empty());
    assert_eq!(world.supervisor.report(), []);
    ask(&world.state);
    pass(1.0).await;
    assert_eq!(world.statuses(), "Healthy Healthy");
}

#[tokio::test(start_paused = true)]
async fn the_first_probe_comes_after_an_interval_and_the_rest_in_its_rhythm() {
    let mut conf = two();
    conf.checks.as_mut().unwrap().active.healthy_interval = Duration::from_secs(10);
    let world = World::new(&conf, Duration::ZERO);
    ask(&world.state);
    // The checker starts within the first second; jitter is a tenth of the interval.
    pass(9.9).await;
    assert_eq!(world.nodes.count("10.0.0.1:80"), 0);
    pass(2.2).await;
    assert_eq!(world.nodes.count("10.0.0.1:80"), 1);
    pass(90.0).await;
    assert_eq!(world.nodes.count("10.0.0.1:80"), 10);
    assert_eq!(world.nodes.count("10.0.0.2:80"), 10);
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_leaves_the_traffic_and_comes_back() {
    let mut conf = two();
    conf.checks.as_mut().unwrap().active.unhealthy_interval = Duration::from_secs(5);
    let world = World::new(&conf, Duration::ZERO);
    ask(&world.state);
    pass(3.0).await;
    world.nodes.set("10.0.0.1:80", ProbeOutcome::Failed);
    pass(2.5).await;
    assert_eq!(world.statuses(), "Unhealthy Healthy");
    assert_eq!(hosts(&world.state, 4), ["10.0.0.2"; 4]);
    let probes = world.nodes.count("10.0.0.1:80");
    world.nodes.set("10.0.0.1:80", ProbeOutcome::Answered(200));
    pass(5.5).await;
    assert_eq!(world.statuses(), "MostlyUnhealthy Healthy");
    assert_eq!(world.nodes.count("10.0.0.1:80"), probes + 1);
    pass(5.0).await;
    assert_eq!(world.statuses(), "Healthy Healthy");
    let mut both = hosts(&world.state, 2);
    both.sort_unstable();
    assert_eq!(both, ["10.0.0.1", "10.0.0.2"]);
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_failure_has_its_own_threshold() {
    for (outcome, probes) in [
        (ProbeOutcome::Failed, 2),
        (ProbeOutcome::TimedOut, 3),
        (ProbeOutcome::Answered(503), 5),
        (ProbeOutcome::Answered(403), usize::MAX),
    ] {
        let world = World::new(&two(), Duration::ZERO);
        world.nodes.set("10.0.0.1:80", outcome);
        ask(&world.state);
        let mut flipped_after = usize::MAX;
        for _ in 0..200 {
            pass(0.1).await;
            if world.statuses().starts_with("Unhealthy") {
                flipped_after = world.nodes.count("10.0.0.1:80");
                break;
            }
        }
        assert_eq!(flipped_after, probes, "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn probes_at_a_time_are_bounded_and_every_node_gets_its_turn() {
    let many: Vec<String> = (1..=50).map(|i| format!("10.0.0.{i}:80")).collect();
    let nodes: Vec<(&str, u32)> = many.iter().map(|node| (node.as_str(), 1)).collect();
    let mut conf = Upstream { checks: Some(checks()), ..upstream(&nodes) };
    conf.checks.as_mut().unwrap().active.concurrency = 3;
    let world = World::new(&conf, Duration::from_millis(300));
    ask(&world.state);
    pass(60.0).await;
    assert_eq!(world.nodes.under_way_most.load(Ordering::Relaxed), 3);
    // 3 at a time, 300 ms each: 10 a second, so each of 50 nodes every 5 s.
    assert!(many.iter().all(|node| world.nodes.count(node) >= 9));
}

#[tokio::test(start_paused = true)]
async fn an_unrelated_change_keeps_health_and_rhythm() {
    let mut world = World::new(&two(), Duration::ZERO);
    world.nodes.set("10.0.0.1:80", ProbeOutcome::Failed);
    ask(&world.state);
    pass(5.0).await;
    assert_eq!(world.statuses(), "Unhealthy Healthy");
    let mut conf = two();
    conf.desc = Some("changed".into());
    world.change(&conf);
    assert_eq!(world.statuses(), "Unhealthy Healthy");
    assert_eq!(hosts(&world.state, 2), ["10.0.0.2"; 2]);
    // A further node: the others stay as they are, the new one is healthy.
    conf.nodes.insert(0, upstream(&[("10.0.0.3:80", 1)]).nodes.remove(0));
    world.change(&conf);
    pass(3.0).await;
    assert_eq!(world.statuses(), "Healthy Unhealthy Healthy");
    assert!(world.nodes.count("10.0.0.3:80") >= 1);
}

#[tokio::test(start_paused = true)]
async fn checkers_stop_with_their_upstream_or_their_checks() {
    let mut world = World::new(&two(), Duration::ZERO);
    ask(&world.state);
    pass(5.0).await;
    world.change(&upstream(&[("10.0.0.1:80", 1), ("10.0.0.2:80", 1)]));
    let count = world.nodes.count("10.0.0.1:80");
    pass(5.0).await;
    assert_eq!(world.nodes.count("10.0.0.1:80"), count);
    assert_eq!(world.supervisor.report(), []);

    // With other checks a new checker starts, because the upstream is in use.
    let mut conf = two();
    conf.checks.as_mut().unwrap().active.port = Some(9000);
    world.change(&conf);
    pass(5.0).await;
    assert!(world.nodes.count("10.0.0.1:9000") >= 2);
    world.supervisor.change_upstreams(&[UpstreamChange::gone("routes/1")]);
    assert_eq!(world.supervisor.report_of("routes/1"), None);
}

#[tokio::test(start_paused = true)]
async fn the_host_of_a_probe_follows_the_document() {
    let rewrite = PassHost::Rewrite("up.example".into());
    for (node, active_host, pass_host, expected) in [
        ("10.0.0.1:80", None, PassHost::Pass, "10.0.0.1"),
        ("10.0.0.1:80", None, rewrite.clone(), "up.example"),
        ("a.example:80", None, rewrite.clone(), "a.example"),
        ("a.example:80", Some("probe.example"), rewrite, "probe.example"),
        ("[::1]:80", None, PassHost::Pass, "[::1]"),
    ] {
        let mut conf = Upstream { checks: Some(checks()), pass_host, ..upstream(&[(node, 1)]) };
        conf.checks.as_mut().unwrap().active.host = active_host.map(str::to_owned);
        let world = World::new(&conf, Duration::ZERO);
        ask(&world.state);
        pass(4.0).await;
        assert_eq!(world.nodes.seen.lock().unwrap()[0].1, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_report_has_the_shape_of_the_control_api() {
    let conf = Upstream { checks: Some(checks()), ..upstream(&[("a.example:80", 1)]) };
    let world = World::new(&conf, Duration::ZERO);
    world.nodes.set("10.9.0.1:80", ProbeOutcome::Answered(500));
    ask(&world.state);
    pass(3.5).await;
    let report = serde_json::to_value(world.supervisor.report()).unwrap();
    let http_failure = report[0]["nodes"][0]["counter"]["http_failure"].clone();
    assert!(http_failure.as_u64().unwrap() >= 1);
    let expected = serde_json::json!([{
        "name": "/apisix/routes/1",
        "type": "http",
        "nodes": [{
            "ip": "10.9.0.1", "port": 80, "hostname": "a.example", "status": "mostly_healthy",
            "counter": {
                "success": 0, "http_failure": http_failure, "tcp_failure": 0,
                "timeout_failure": 0,
            },
        }],
    }]);
    assert_eq!(report, expected);
}
