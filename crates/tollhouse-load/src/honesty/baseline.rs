//! Checks against the direct baseline: the load of the gateway's cases, but without a gateway,
//! measured before and after.

use super::conditions::cache_hit;
use super::view::{DIRECT, Group, Session};
use super::{Findings, Severity};
use crate::report::Spread;
use crate::report::figure;
use crate::result::CaseResult;

/// Difference above which a gateway's percentile below the baseline's is not chance.
const BELOW_MIN: f64 = 0.01;
/// Relative difference above which gateway and baseline probably did not measure equal work.
const BELOW_CAUTION: f64 = 0.05;
/// Acceptable change of the baseline during a session.
const DRIFT_MAX: f64 = 0.10;
/// Relative difference below which two rates count as equal load.
const SAME_RATE: f64 = 0.02;

/// Detects gateways that appear faster than the direct baseline, which is impossible.
pub(super) fn below_direct(session: &Session<'_>, findings: &mut Findings) {
    for group in session.groups.iter().filter(|group| group.subject != DIRECT) {
        // Responses from a cache may be faster; another rule reports them.
        if cache_hit(group.first()).is_some() {
            continue;
        }
        let Some(direct) = baseline_of(session, group) else { continue };
        let below = percentiles_below(group, direct);
        let Some(worst) = below.iter().map(|found| found.share).reduce(f64::max) else { continue };
        let severity = if worst > BELOW_CAUTION { Severity::Invalid } else { Severity::Caution };
        let shown: Vec<String> = below.iter().map(Below::describe).collect();
        findings.about(
            group.first(),
            "below-direct",
            severity,
            format!(
                "{} of {}: a gateway cannot answer before its upstream does. Connections stalled or \
                 failed, or a cache answered; check failures and bodies.",
                shown.join(", "),
                direct.title(),
            ),
        );
    }
}

/// A percentile of a gateway that lies below that of the baseline.
struct Below {
    percent: f64,
    gateway_ns: f64,
    direct_ns: f64,
    share: f64,
}

impl Below {
    fn describe(&self) -> String {
        format!(
            "p{} is {} < {}",
            self.percent,
            figure::time(self.gateway_ns),
            figure::time(self.direct_ns)
        )
    }
}

fn percentiles_below(group: &Group<'_>, direct: &Group<'_>) -> Vec<Below> {
    const COMPARED: [f64; 5] = [50.0, 75.0, 90.0, 95.0, 99.0];
    let below = COMPARED.into_iter().filter_map(|percent| {
        let (gateway, base) = (percentile(group, percent)?, percentile(direct, percent)?);
        let share = 1.0 - gateway.median / base.median;
        // Runs with overlapping ranges may differ by chance. Single runs have no range and are
        // compared directly.
        (share > BELOW_MIN && !gateway.overlaps(&base)).then_some(Below {
            percent,
            gateway_ns: gateway.median,
            direct_ns: base.median,
            share,
        })
    });
    below.collect()
}

fn percentile(group: &Group<'_>, percent: f64) -> Option<Spread> {
    let of_run = |run: &&CaseResult| run.headline().percentile_ns(percent).map(|ns| ns as f64);
    Spread::from_values(group.runs.iter().filter_map(of_run))
}

/// Returns the direct case that is a lower bound for the gateway's times: in an open loop the case
/// with an equal rate; in a closed loop the case with most connections, but not more than the
/// gateway's, because more connections only make it slower.
fn baseline_of<'s, 'a>(session: &'s Session<'a>, group: &Group<'_>) -> Option<&'s Group<'a>> {
    let of = group.first();
    let fits = |direct: &&Group<'_>| {
        let direct = direct.first();
        match (of.intended_rate, direct.intended_rate) {
            (Some(rate), Some(base)) => (rate / base - 1.0).abs() < SAME_RATE,
            _ => {
                of.open_loop == direct.open_loop
                    && direct.concurrency > 0
                    && direct.concurrency <= of.concurrency
            }
        }
    };
    let direct = session.groups.iter().filter(|group| group.subject == DIRECT);
    direct.filter(fits).max_by_key(|direct| direct.first().concurrency)
}

/// Checks that the baseline was measured before and after the gateways and did not change.
pub(super) fn drift(session: &Session<'_>, findings: &mut Findings) {
    let results = &session.report.results;
    let is_direct = |result: &CaseResult| result.subject == DIRECT;
    let Some(first) = results.iter().position(|result| !is_direct(result)) else { return };
    let last = results.iter().rposition(|result| !is_direct(result)).unwrap_or(first);
    let is_measured = results.iter().any(|result| result.case.is_some());
    if !is_about_gateways(session) {
        return;
    }
    let (before, after) = (&results[..first], &results[last + 1..]);
    // A published table cannot be measured again; for those, only a completely missing baseline is
    // reported.
    let missing = match (before.is_empty(), after.is_empty()) {
        (true, true) if !results.iter().any(is_direct) => Some(
            "The direct baseline is missing: the time that a gateway adds cannot be told from that of its upstream. \
             Measure the upstream directly in the same session, before and after.",
        ),
        (false, true) if is_measured => Some(
            "The direct baseline was measured before the gateway but not after: a machine that became \
             slower in between would look like a slow gateway. Measure it again at the end.",
        ),
        (true, false) if is_measured => Some(
            "The direct baseline was measured after the gateway but not before: measure it at both ends \
             of the session.",
        ),
        _ => None,
    };
    if let Some(message) = missing {
        findings.overall("baseline", Severity::Note, message.to_owned());
    }
    moved(before, after, findings);
}

/// Whether the report measures gateways. Suites define it; otherwise several subjects count as
/// several paths to one upstream.
fn is_about_gateways(session: &Session<'_>) -> bool {
    /// Suites without a gateway: the target itself answers.
    const WITHOUT_GATEWAY: [&str; 2] = ["polaris", "connections"];
    match session.report.suite.as_deref() {
        Some(suite) => !WITHOUT_GATEWAY.contains(&suite),
        None => session.subjects().len() > 1,
    }
}

fn moved(before: &[CaseResult], after: &[CaseResult], findings: &mut Findings) {
    for again in after {
        // The closest earlier run, because still earlier ones may have drifted.
        let Some(base) = before.iter().rev().find(|base| base.name == again.name) else { continue };
        let p50 = |result: &CaseResult| {
            result.headline().percentile_ns(50.0).map_or(0.0, |value_ns| value_ns as f64)
        };
        let pairs = [
            (base.goodput, again.goodput, "requests/s", figure::rate as fn(f64) -> String),
            (p50(base), p50(again), "at p50", figure::time),
        ];
        let off: Vec<String> = pairs
            .into_iter()
            .filter(|(old, new, ..)| *old > 0.0 && (new / old - 1.0).abs() > DRIFT_MAX)
            .map(|(old, new, what, shown)| format!("{} → {} {what}", shown(old), shown(new)))
            .collect();
        if !off.is_empty() {
            findings.about(
                again,
                "baseline",
                Severity::Caution,
                format!(
                    "The direct baseline moved during the session: {}. What lies in between moved with it; \
                     find what else ran on the machine and measure again.",
                    off.join(", "),
                ),
            );
        }
    }
}
