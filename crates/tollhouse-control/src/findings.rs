//! Findings: faults of the running gateway, computed in one place and read by all doors: `status`,
//! `doctor`, `top`, `/v1/findings`, the metrics and the console.
//!
//! A task computes the list about once a second from what the data plane and the parts of the
//! process know; nothing is added to the path of a request. One module per source of facts.

mod changes;
mod clock;
mod discovery;
mod finding;
mod handshakes;
mod limits;
mod nodes;
mod period;
mod process;
mod registry;
mod routes;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio::sync::{Notify, watch};
use tollhouse_proxy::SnapshotCell;
use tollhouse_telemetry::ErrorCode;
use tollhouse_telemetry::catalogue::FINDINGS;
use tollhouse_telemetry::exposition::{Exposition, labels};

pub use self::finding::{EarlierChange, Finding, Kind, RequestQuery, Severity};

use self::changes::ChangeLog;
use self::clock::ClockWatch;
use self::handshakes::HandshakeWatch;
use self::limits::LimitWatch;
use self::process::LossWatch;
use self::registry::RegistryWatch;
use self::routes::{RouteFacts, RouteWatch};
use crate::context::ControlContext;

/// Pause between two computations.
const INTERVAL: Duration = Duration::from_secs(1);

/// Pause as a multiple of the last computation's duration, so that huge configurations cost at most
/// two per cent of a core.
const REST_FACTOR: u32 = 50;

/// Longest rest of the control thread between two computations that callers ask for. Together with
/// a computation it is far below [`FRESH_TIME_MAX`].
const REST_MAX: Duration = Duration::from_millis(500);

/// Limit of findings in the list; the worst come first.
const LISTED_MAX: usize = 200;

/// Codes of requests that fail because of an object that cannot be used.
const REFUSES_WITHOUT_OBJECT: [ErrorCode; 2] =
    [ErrorCode::PluginUnavailable, ErrorCode::RouteInvalid];

/// Limit of the wait for a fresh list.
const FRESH_TIME_MAX: Duration = Duration::from_secs(2);

/// The current findings, the worst first.
#[derive(Debug)]
pub struct FindingBoard {
    published: watch::Sender<Arc<[Finding]>>,
    /// Wakes the task that computes the list.
    wanted: Notify,
}

impl Default for FindingBoard {
    fn default() -> Self {
        Self { published: watch::Sender::new(Arc::default()), wanted: Notify::new() }
    }
}

impl FindingBoard {
    /// Returns the findings as last computed, the worst first.
    pub fn list(&self) -> Arc<[Finding]> {
        Arc::clone(&self.published.borrow())
    }

    /// Requests a new list, which includes the last request, and waits for it. If that takes too
    /// long, the older list stays.
    pub async fn refresh(&self) {
        let mut published = self.published.subscribe();
        self.wanted.notify_one();
        // The sender is alive, because `self` is borrowed.
        let _ = tokio::time::timeout(FRESH_TIME_MAX, published.changed()).await;
    }

    /// Returns the findings as a JSON array.
    pub fn to_json(&self) -> Value {
        self.list().iter().map(Finding::to_json).collect()
    }

    /// Writes the part of the metrics page: the number of findings of each kind.
    pub fn write(&self, page: &mut Exposition) {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for finding in self.list().iter() {
            *counts.entry((finding.severity.name(), finding.kind.name())).or_default() += 1;
        }
        page.family(FINDINGS.name, FINDINGS.help, FINDINGS.kind);
        for ((severity, kind), count) in counts {
            page.sample(&labels([("severity", severity), ("kind", kind)]), count);
        }
    }

    /// Waits until the next computation is due. A caller may shorten the pause, but not below a
    /// rest in proportion to the last computation, so that callers in a loop leave the thread free.
    async fn rest(&self, took: Duration) {
        let rest = (took * REST_FACTOR).min(REST_MAX);
        let pause = INTERVAL.max(took * REST_FACTOR);
        tokio::time::sleep(rest).await;
        tokio::select! {
            () = tokio::time::sleep(pause - rest) => {}
            () = self.wanted.notified() => {}
        }
    }

    fn publish(&self, findings: Vec<Finding>) {
        self.published.send_replace(findings.into());
    }
}

/// Computes the findings for the life of the process.
pub async fn watch(cx: ControlContext, snapshots: Arc<SnapshotCell>) {
    let board = Arc::clone(cx.metrics_page.findings());
    let mut watcher = Watcher::new(cx, snapshots);
    loop {
        let began = Instant::now();
        board.publish(watcher.look(unix_ms()).await);
        board.rest(began.elapsed()).await;
    }
}

/// State between two computations.
struct Watcher {
    cx: ControlContext,
    snapshots: Arc<SnapshotCell>,
    /// Time at which each finding was first seen, in milliseconds since 1970.
    seen: HashMap<(Kind, String), u64>,
    changes: ChangeLog,
    routes: RouteWatch,
    handshakes: HandshakeWatch,
    clock: ClockWatch,
    limits: LimitWatch,
    losses: LossWatch,
    registry: RegistryWatch,
}

impl Watcher {
    fn new(cx: ControlContext, snapshots: Arc<SnapshotCell>) -> Self {
        Self {
            cx,
            snapshots,
            seen: HashMap::new(),
            changes: ChangeLog::default(),
            routes: RouteWatch::default(),
            handshakes: HandshakeWatch::default(),
            clock: ClockWatch::default(),
            limits: LimitWatch::default(),
            losses: LossWatch::default(),
            registry: RegistryWatch::default(),
        }
    }

    async fn look(&mut self, now_ms: u64) -> Vec<Finding> {
        let mut findings = self.collect(now_ms);
        self.date(&mut findings, now_ms);
        sort(&mut findings);
        findings.truncate(LISTED_MAX);
        self.changes.follow(&self.cx.serving.configuration, &findings).await;
        for finding in &mut findings {
            let since_ms = finding.since_ms.unwrap_or(now_ms);
            finding.change = self.changes.before(since_ms, &finding.subject).cloned();
        }
        findings
    }

    fn collect(&mut self, now_ms: u64) -> Vec<Finding> {
        let mut findings = Vec::new();
        let snapshot = self.snapshots.load();
        nodes::find(&snapshot, &self.cx.console.node_history, now_ms, &mut findings);
        let (metrics, rates) = (&*self.cx.metrics, &*self.cx.console.object_rates);
        let facts = RouteFacts { snapshot: &snapshot, metrics, rates, now_ms };
        self.routes.find(&facts, &mut findings);
        self.handshakes.find(metrics, now_ms, &mut findings);
        self.clock.find(now_ms, &mut findings);
        self.limits.find(metrics, now_ms, &mut findings);
        process::find(&self.cx, now_ms, &mut findings);
        discovery::find(&self.cx.serving.drivers.sources, &mut findings);
        self.losses.find(self.cx.metrics_page.lost_log_entries(), now_ms, &mut findings);
        if let Some(registry) = self.cx.metrics_page.registry().registry() {
            self.registry.find(&registry.state_full(), &mut findings);
            let terms = &self.cx.bootstrap.registry;
            registry::find_limits(&registry, terms.memory_max, &mut findings);
        }
        raise_causes(&mut findings);
        findings
    }

    /// Gives findings without a start the time at which they were first seen.
    fn date(&mut self, findings: &mut [Finding], now_ms: u64) {
        let mut seen = HashMap::with_capacity(findings.len());
        for finding in findings {
            let key = (finding.kind, finding.subject.clone());
            let first = self.seen.get(&key).copied().unwrap_or(now_ms);
            let since = *finding.since_ms.get_or_insert(first);
            seen.insert(key, since);
        }
        self.seen = seen;
    }
}

/// Makes objects that cannot be used a problem while requests are refused because of one. A problem
/// may be anywhere in the configuration of a route: in its service, say, or in a global rule.
fn raise_causes(findings: &mut [Finding]) {
    let refuses = |code: &String| REFUSES_WITHOUT_OBJECT.iter().any(|it| it.text() == code);
    let codes = findings.iter().filter_map(|finding| finding.requests.as_ref()?.code.as_ref());
    if !codes.into_iter().any(refuses) {
        return;
    }
    let invalid = findings.iter_mut().filter(|finding| finding.kind == Kind::ObjectInvalid);
    invalid.for_each(|finding| finding.severity = Severity::Problem);
}

/// Sorts the findings, the worst first: causes before effects, and of one kind the most frequent.
fn sort(findings: &mut [Finding]) {
    findings.sort_by(|one, other| {
        let rank = |finding: &Finding| (finding.severity, finding.kind);
        let order = rank(one).cmp(&rank(other)).then_with(|| other.count.cmp(&one.count));
        order.then_with(|| one.subject.cmp(&other.subject))
    });
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_telemetry::exposition::Format;

    fn finding(severity: Severity, kind: Kind, subject: &str) -> Finding {
        Finding::about(severity, kind, subject.to_owned(), String::new())
    }

    #[test]
    fn the_worst_comes_first_and_causes_before_effects() {
        let mut findings = vec![
            finding(Severity::Warning, Kind::NodeFailing, "a"),
            finding(Severity::Problem, Kind::RouteFailing, "b").with_count(90),
            finding(Severity::Problem, Kind::NodeFailing, "c").with_count(3),
            finding(Severity::Problem, Kind::NodeFailing, "d").with_count(30),
        ];
        sort(&mut findings);
        let order: Vec<&str> = findings.iter().map(|finding| finding.subject.as_str()).collect();
        assert_eq!(order, ["d", "c", "b", "a"]);
    }

    #[test]
    fn an_object_that_makes_requests_fail_is_a_problem() {
        let invalid = || finding(Severity::Warning, Kind::ObjectInvalid, "routes/1.plugins");
        let code = Some(ErrorCode::PluginUnavailable.text().to_owned());
        let refused = finding(Severity::Problem, Kind::RouteFailing, "routes/1")
            .with_requests(RequestQuery { code, ..RequestQuery::default() });
        let mut findings = vec![invalid(), refused];
        raise_causes(&mut findings);
        assert_eq!(findings[0].severity, Severity::Problem);
        let mut alone = vec![invalid()];
        raise_causes(&mut alone);
        assert_eq!(alone[0].severity, Severity::Warning);
    }

    #[tokio::test(start_paused = true)]
    async fn callers_in_a_loop_leave_the_thread_free() {
        let board = FindingBoard::default();
        for (took_ms, is_wanted, expected_ms) in [
            (2, false, 1_000),
            (2, true, 100),
            (40, false, 2_000),
            (40, true, 500),
            (200, true, 500),
        ] {
            if is_wanted {
                board.wanted.notify_one();
            }
            let began = tokio::time::Instant::now();
            board.rest(Duration::from_millis(took_ms)).await;
            assert_eq!(began.elapsed(), Duration::from_millis(expected_ms), "{took_ms}");
        }
    }

    #[test]
    fn the_page_counts_each_kind() {
        let board = FindingBoard::default();
        let page = || {
            let mut page = Exposition::new(Format::Text);
            board.write(&mut page);
            String::from_utf8(page.finish()).expect("text")
        };
        assert!(!page().contains("} "));
        board.publish(vec![
            finding(Severity::Problem, Kind::NodeFailing, "a"),
            finding(Severity::Problem, Kind::NodeFailing, "b"),
        ]);
        let line = "tollhouse_findings{severity=\"problem\",kind=\"node_failing\"} 2\n";
        assert!(page().ends_with(line), "{}", page());
    }
}
