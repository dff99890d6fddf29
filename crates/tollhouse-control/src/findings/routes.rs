//! Findings about requests that fail or are refused, by route and error code: those of the last
//! minute or two, as shares of the route's requests.

use std::collections::{HashMap, HashSet};

use tollhouse_proxy::Snapshot;
use tollhouse_stdx::plural::counted;
use tollhouse_telemetry::recent::FailureGroup;
use tollhouse_telemetry::{Counted, ErrorCode, Metrics};

use super::finding::{Finding, Kind, RequestQuery, Severity};
use super::period::{MARK_MS, Period};
use crate::console::object_rates::ObjectRates;

/// Failures from which a route is a finding.
const FAILURES_MIN: u64 = 3;

/// Shares of a route's requests, in per cent, from which failures are a warning and a problem.
const WARNING_PERCENT: u64 = 5;
const PROBLEM_PERCENT: u64 = 50;

/// Refusals, which clients cause, from which a route is a finding, and their share in per cent.
const REFUSALS_MIN: u64 = 5;
const REFUSED_PERCENT: u64 = 20;

/// A kind of failure: route, code, status and plugin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    route: String,
    code: Option<ErrorCode>,
    status: u16,
    plugin: String,
}

/// Failures of one kind on all cores.
#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u64,
    first_ms: u64,
    last_ms: u64,
}

/// Failures at the start of the period; its total are the requests of all routes, and of none.
#[derive(Debug, Default)]
pub(super) struct RouteWatch(Period<Key>);

/// Sources of the counts.
pub(super) struct RouteFacts<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) metrics: &'a Metrics,
    pub(super) rates: &'a ObjectRates,
    pub(super) now_ms: u64,
}

impl RouteWatch {
    /// Adds the findings about requests of the period.
    pub(super) fn find(&mut self, facts: &RouteFacts<'_>, findings: &mut Vec<Finding>) {
        let all = sum(&facts.metrics.failure_groups());
        let recent = |failures: &Failures| failures.last_ms + MARK_MS >= facts.now_ms;
        let active: Vec<(&Key, &Failures)> =
            all.iter().filter(|(_, failures)| recent(failures)).collect();
        let total = facts.metrics.downstream().requests;
        let mut requests = requests(facts, active.iter().map(|(key, _)| key.route.as_str()));
        // Requests without a route are compared with all.
        requests.insert(String::new(), self.0.new_of_all(total));
        for (key, failures) in active {
            let new = self.0.new_of(key, failures.count);
            let requests = requests.get(key.route.as_str()).copied().unwrap_or(0).max(new);
            let since_ms = (self.0.before(key) == 0).then_some(failures.first_ms);
            if let Some(finding) = find_one(key, Share { new, requests }) {
                findings.push(Finding { since_ms, ..finding });
            }
        }
        let counts = all.into_iter().map(|(key, failures)| (key, failures.count));
        self.0.mark(facts.now_ms, total, counts);
    }
}

fn sum(groups: &[FailureGroup]) -> HashMap<Key, Failures> {
    let mut sums: HashMap<Key, Failures> = HashMap::new();
    for group in groups {
        let key = Key {
            route: group.route.text(),
            code: group.code,
            status: group.status,
            plugin: group.plugin.text(),
        };
        let FailureGroup { count, first_ms, last_ms, .. } = *group;
        let sum = sums.entry(key).or_insert(Failures { count: 0, first_ms, last_ms });
        sum.count += count;
        sum.first_ms = sum.first_ms.min(first_ms);
        sum.last_ms = sum.last_ms.max(last_ms);
    }
    sums
}

/// Returns the number of requests of each of these routes in the period. Costs a pass over all
/// routes, unless no route fails.
fn requests<'a>(
    facts: &RouteFacts<'_>,
    ids: impl Iterator<Item = &'a str>,
) -> HashMap<String, u64> {
    let ids: HashSet<&str> = ids.filter(|id| !id.is_empty()).collect();
    if ids.is_empty() {
        return HashMap::new();
    }
    let routes = facts.snapshot.counted_routes();
    let routes: Vec<_> = routes.filter(|entry| ids.contains(entry.route.id.as_str())).collect();
    let numbers = routes.iter().map(|entry| entry.number);
    let totals = facts.metrics.object_requests(Counted::Routes, numbers);
    let of_route = routes.iter().zip(totals).map(|(entry, (requests, _))| {
        let id = entry.route.id.to_string();
        let before = facts.rates.requests_before(&id);
        (id, requests.saturating_sub(before))
    });
    of_route.collect()
}

/// Failures of one kind among the requests of their route.
#[derive(Debug, Clone, Copy)]
struct Share {
    new: u64,
    requests: u64,
}

impl Share {
    fn percent(self) -> u64 {
        self.new * 100 / self.requests.max(1)
    }
}

/// Returns a finding about failures of one kind; `None` if they are few.
fn find_one(key: &Key, share: Share) -> Option<Finding> {
    let (severity, kind) = weigh(key.code, share)?;
    let word = key.code.map_or_else(|| format!("nodes answer {}", key.status), |it| it.to_string());
    let by = if key.plugin.is_empty() { String::new() } else { format!(" by {}", key.plugin) };
    let (new, requests) = (share.new, share.requests);
    let what = match kind {
        Kind::RouteMissing => format!("{} matched no route", counted(new, "request")),
        _ if key.route.is_empty() => format!("{}: {word}{by}", counted(new, "request")),
        _ => {
            let requests = counted(requests, "request");
            format!("{new} of {requests} of routes/{} fail: {word}{by}", key.route)
        }
    };
    let route = Some(key.route.clone()).filter(|route| !route.is_empty());
    let place = route.as_ref().map_or(String::new(), |route| format!("routes/{route} "));
    let status = key.code.is_none().then(|| key.status.to_string());
    let code = key.code.map(|code| code.text().to_owned());
    let remedy = key.code.map_or("see the logs of the nodes", ErrorCode::remedy);
    let finding = Finding::about(severity, kind, format!("{place}{word}{by}"), what);
    let query = RequestQuery { route, code, status, search: None };
    Some(finding.with_remedy(remedy).with_count(new).with_requests(query))
}

/// Returns the severity and kind of failures; `None` if they are few, or if the operator cannot
/// prevent them.
fn weigh(code: Option<ErrorCode>, share: Share) -> Option<(Severity, Kind)> {
    let is_refused = share.new >= REFUSALS_MIN && share.percent() >= REFUSED_PERCENT;
    let refused = |kind| is_refused.then_some((Severity::Warning, kind));
    match code {
        Some(ErrorCode::RouteNotFound) => refused(Kind::RouteMissing),
        Some(ErrorCode::ConnectionLimit | ErrorCode::MemoryLimit) => {
            Some((Severity::Problem, Kind::LimitReached))
        }
        Some(ErrorCode::ConnectionLimitPerAddress) => Some((Severity::Warning, Kind::LimitReached)),
        Some(ErrorCode::LimitExceeded) => {
            let is_many = share.new >= FAILURES_MIN && share.percent() >= WARNING_PERCENT;
            is_many.then_some((Severity::Warning, Kind::LimitReached))
        }
        Some(ErrorCode::FaultInjected) => Some((Severity::Note, Kind::RouteFailing)),
        Some(code) if code.status() < 500 => refused(Kind::RouteFailing),
        _ if share.new < FAILURES_MIN || share.percent() < WARNING_PERCENT => None,
        _ if share.percent() < PROBLEM_PERCENT => Some((Severity::Warning, Kind::RouteFailing)),
        _ => Some((Severity::Problem, Kind::RouteFailing)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_weigh_by_their_share_and_by_their_cause() {
        let problem = Some((Severity::Problem, Kind::RouteFailing));
        let warning = |kind| Some((Severity::Warning, kind));
        for (code, new, requests, expected) in [
            (Some(ErrorCode::UpstreamReadTimeout), 30, 30, problem),
            (Some(ErrorCode::UpstreamReadTimeout), 30, 100, warning(Kind::RouteFailing)),
            (Some(ErrorCode::UpstreamReadTimeout), 30, 10_000, None),
            (Some(ErrorCode::UpstreamReadTimeout), 2, 2, None),
            (None, 3, 4, problem),
            (Some(ErrorCode::AuthInvalid), 5, 10, warning(Kind::RouteFailing)),
            (Some(ErrorCode::AuthInvalid), 5, 100, None),
            (Some(ErrorCode::LimitExceeded), 5, 100, warning(Kind::LimitReached)),
            (
                Some(ErrorCode::MemoryLimit),
                1,
                1_000_000,
                Some((Severity::Problem, Kind::LimitReached)),
            ),
            (Some(ErrorCode::RouteNotFound), 5, 5, warning(Kind::RouteMissing)),
        ] {
            assert_eq!(weigh(code, Share { new, requests }), expected, "{code:?} {new} {requests}");
        }
    }

    #[test]
    fn a_finding_names_route_code_and_plugin() {
        let key = |code, plugin: &str| Key {
            route: "r1".to_owned(),
            code,
            status: 503,
            plugin: plugin.to_owned(),
        };
        let refused = key(Some(ErrorCode::AuthInvalid), "key-auth");
        let finding = find_one(&refused, Share { new: 6, requests: 8 }).expect("a finding");
        assert_eq!(finding.what, "6 of 8 requests of routes/r1 fail: auth_invalid by key-auth");
        let command = finding.requests.map(|requests| requests.command());
        assert_eq!(command.as_deref(), Some("tollhouse requests --route r1 --code auth_invalid"));
        let answered = find_one(&key(None, ""), Share { new: 6, requests: 8 }).expect("a finding");
        assert_eq!(answered.what, "6 of 8 requests of routes/r1 fail: nodes answer 503");
    }
}
