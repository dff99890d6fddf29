//! Findings about the process: parts that are down, objects that cannot be used, certificates that
//! end, and missing protection of its own listeners.

use std::net::SocketAddr;

use serde_json::Value;
use tollhouse_config::Bootstrap;
use tollhouse_model::certificate::format_date;
use tollhouse_stdx::plural::{counted, counted_as};
use tollhouse_telemetry::ProcessMetrics;

use super::finding::{Finding, Kind, Severity};
use crate::context::ControlContext;
use crate::outages::Outages;
use crate::resources::dangling::Unused;

/// Time before expiry, in seconds, from which a certificate is a finding.
const ENDS_SOON_S: i64 = 14 * 86_400;

/// Age in seconds of an undelivered change from which the watch of a store is a finding. Ordinarily
/// changes arrive within milliseconds.
const WATCH_BEHIND_S: i64 = 5;

/// Limit of findings about objects; the control API lists all problems.
const OBJECTS_MAX: usize = 50;

/// Duration in milliseconds for which a loss is reported as a finding.
const LOSS_MS: u64 = 5 * 60 * 1000;

/// Watches for lost log entries.
#[derive(Debug, Default)]
pub(super) struct LossWatch {
    lost: u64,
    last_ms: u64,
}

impl LossWatch {
    /// Adds a finding if log entries were lost in the last minutes; `lost` counts since the start.
    pub(super) fn find(&mut self, lost: u64, now_ms: u64, findings: &mut Vec<Finding>) {
        if lost > self.lost {
            (self.lost, self.last_ms) = (lost, now_ms);
        }
        if lost > 0 && now_ms < self.last_ms + LOSS_MS {
            let entries = counted_as(lost, "log entry was", "log entries were");
            let what = format!("{entries} lost since the start");
            let finding =
                Finding::about(Severity::Warning, Kind::LogEntriesLost, "logs".to_owned(), what);
            let remedy = "see whether the disk is full or slow, and whether the servers of the logger plugins answer";
            findings.push(finding.with_remedy(remedy).with_count(lost));
        }
    }
}

/// Adds the findings about the process.
pub(super) fn find(cx: &ControlContext, now_ms: u64, findings: &mut Vec<Finding>) {
    add_outages(&cx.outages, findings);
    add_copy(cx.metrics.process(), findings);
    add_lag(cx.metrics.process(), findings);
    add_problems(&cx.serving.configuration.status(), findings);
    add_unused(&cx.serving.configuration.unused(), findings);
    let ends = cx.metrics_page.certificates().all();
    add_certificates(&ends, i64::try_from(now_ms / 1000).unwrap_or(i64::MAX), findings);
    add_open_access(&cx.bootstrap, findings);
}

fn add_outages(outages: &Outages, findings: &mut Vec<Finding>) {
    for (part, reason) in outages.list() {
        // The configuration in service continues to serve without the other parts.
        let severity = if part.is_needed() { Severity::Problem } else { Severity::Warning };
        let what = format!("{} is down: {reason}", part.name());
        let finding = Finding::about(severity, Kind::PartDown, part.name().to_owned(), what);
        findings.push(finding.with_remedy("see the log of the process"));
    }
}

/// Adds a finding while a copy serves in place of a shared store.
fn add_copy(process: &ProcessMetrics, findings: &mut Vec<Finding>) {
    if process.store_copy_in_service.value() == 0 {
        return;
    }
    let written_s = Some(process.store_copy_written.value()).filter(|time| *time > 0);
    let written = written_s.map_or(String::new(), |time| format!(" of {}", format_date(time)));
    let what = format!("a copy{written} serves: the store has been away since the start");
    let finding =
        Finding::about(Severity::Warning, Kind::StoreBehind, "store copy".to_owned(), what);
    let remedy = "see whether store.etcd.endpoints are right and reachable; changes made meanwhile are not served";
    findings.push(finding.with_remedy(remedy));
}

/// Adds a finding while the watch of a shared store is behind.
fn add_lag(process: &ProcessMetrics, findings: &mut Vec<Finding>) {
    let seconds = process.store_watch_behind_time.value();
    if seconds < WATCH_BEHIND_S {
        return;
    }
    let unsigned = |number: i64| number.unsigned_abs();
    let revisions = counted(unsigned(process.store_watch_behind_revisions.value()), "revision");
    let seconds = counted(unsigned(seconds), "second");
    let what =
        format!("the watch of etcd is {revisions} behind: a change of {seconds} ago is not served");
    let finding =
        Finding::about(Severity::Warning, Kind::StoreBehind, "store watch".to_owned(), what);
    let remedy = "see whether the members of etcd are in step (etcdctl endpoint status --cluster) and whether \
                  this machine is overloaded";
    findings.push(finding.with_remedy(remedy));
}

/// Adds a finding for each problem of the configuration in service, and of a refused document.
fn add_problems(status: &Value, findings: &mut Vec<Finding>) {
    let list = |name: &str| status[name].as_array().cloned().unwrap_or_default();
    for problem in list("refused") {
        let what = format!("the last document was refused: {}", described(&problem));
        findings.push(about_object(&problem, Kind::ObjectInvalid, what));
    }
    for problem in list("problems").into_iter().take(OBJECTS_MAX) {
        let is_warning = problem["severity"] == "warning";
        let what = match is_warning {
            true => described(&problem),
            false => format!("set aside: {}", described(&problem)),
        };
        let kind = if is_warning { Kind::NoEffect } else { Kind::ObjectInvalid };
        findings.push(about_object(&problem, kind, what));
    }
}

/// Adds one finding about all objects that no other refers to.
fn add_unused(unused: &Unused, findings: &mut Vec<Finding>) {
    if unused.count == 0 {
        return;
    }
    let objects = counted_as(unused.count, "object has", "objects have");
    let more = if unused.count > unused.first.len() { ", …" } else { "" };
    let what = format!(
        "{objects} no effect, because no other refers to them: {}{more}",
        unused.first.join(", ")
    );
    let finding = Finding::about(Severity::Note, Kind::NoEffect, "unused objects".to_owned(), what);
    findings.push(finding.with_remedy("refer to them in a route, or delete them"));
}

/// Finding about an object or a document; the last good version serves.
fn about_object(problem: &Value, kind: Kind, what: String) -> Finding {
    let part = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
    Finding::about(Severity::Warning, kind, part("path"), what).with_remedy(part("hint"))
}

fn described(problem: &Value) -> String {
    let part = |name: &str| problem[name].as_str().unwrap_or_default();
    match (part("path"), part("reason")) {
        ("", "") => problem.to_string(),
        ("", reason) => reason.to_owned(),
        (path, reason) => format!("{path}: {reason}"),
    }
}

fn add_certificates(ends: &[(String, i64)], now_s: i64, findings: &mut Vec<Finding>) {
    for (id, end_s) in ends {
        let left_s = end_s - now_s;
        if left_s >= ENDS_SOON_S {
            continue;
        }
        let (severity, what) = match left_s {
            ..0 => {
                (Severity::Problem, format!("the certificate {id} has ended; clients refuse it"))
            }
            _ => {
                let days = counted(u64::try_from(left_s / 86_400).unwrap_or_default(), "day");
                (Severity::Warning, format!("the certificate {id} ends in {days}"))
            }
        };
        let finding = Finding::about(severity, Kind::CertificateEnding, format!("ssls/{id}"), what);
        findings.push(finding.with_remedy("write a new one to the same object"));
    }
}

/// Adds findings about missing access protection.
fn add_open_access(bootstrap: &Bootstrap, findings: &mut Vec<Finding>) {
    let admin = &bootstrap.admin;
    let is_far = |addresses: &[SocketAddr]| addresses.iter().any(|it| !it.ip().is_loopback());
    let mut add = |setting: &str, what: &str, remedy: &str| {
        let subject = setting.to_owned();
        let finding = Finding::about(Severity::Warning, Kind::AccessOpen, subject, what.to_owned());
        findings.push(finding.with_remedy(remedy));
    };
    if !admin.key_required {
        let what = "this gateway can be changed without a key: admin.key_required is false";
        add("admin.key_required", what, "set admin.key_required to true");
    }
    if is_far(&bootstrap.listen.admin) && admin.tls.cert.is_none() {
        let what = "keys of the Admin API cross the network in the clear: listen.admin is reached from other \
                    machines, without TLS";
        add("admin.tls", what, "set admin.tls.cert and admin.tls.key, or listen on 127.0.0.1");
    }
    if is_far(&bootstrap.listen.control) && bootstrap.control.tls.client_ca.is_none() {
        let what = "all clients of the control API can read the configuration: listen.control is reached from \
                    other machines, and asks for no certificate";
        add("control.tls", what, "set control.tls.client_ca, or listen on 127.0.0.1");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tollhouse_telemetry::Metrics;

    use super::*;
    use crate::outages::Part;

    fn texts(findings: Vec<Finding>) -> Vec<(Severity, String)> {
        findings.into_iter().map(|finding| (finding.severity, finding.what)).collect()
    }

    #[test]
    fn only_parts_that_clients_need_fail_requests() {
        let outages = Outages::new(Arc::new(Metrics::new()));
        outages.report(Part::Registry, "the port is taken");
        outages.report(Part::Admin, "the disk is gone");
        let mut findings = Vec::new();
        add_outages(&outages, &mut findings);
        let expected = [
            (Severity::Warning, "admin is down: the disk is gone".to_owned()),
            (Severity::Problem, "registry is down: the port is taken".to_owned()),
        ];
        assert_eq!(texts(findings), expected);
    }

    #[test]
    fn a_watch_that_is_behind_is_told_after_some_seconds() {
        let metrics = Metrics::new();
        let told = |seconds, revisions| {
            metrics.process().store_watch_behind_time.set(seconds);
            metrics.process().store_watch_behind_revisions.set(revisions);
            let mut findings = Vec::new();
            add_lag(metrics.process(), &mut findings);
            texts(findings)
        };
        assert_eq!(told(0, 0), []);
        assert_eq!(told(4, 7), []);
        let what =
            "the watch of etcd is 7 revisions behind: a change of 5 seconds ago is not served";
        assert_eq!(told(5, 7), [(Severity::Warning, what.to_owned())]);
    }

    #[test]
    fn certificates_are_told_two_weeks_before_their_end() {
        let now_s = 1_000_000;
        let ends = [("a", -1), ("b", 86_400), ("c", 20 * 86_400)];
        let ends = ends.map(|(id, left_s)| (id.to_owned(), now_s + left_s));
        let mut findings = Vec::new();
        add_certificates(&ends, now_s, &mut findings);
        let expected = [
            (Severity::Problem, "the certificate a has ended; clients refuse it".to_owned()),
            (Severity::Warning, "the certificate b ends in 1 day".to_owned()),
        ];
        assert_eq!(texts(findings), expected);
    }

    #[test]
    fn problems_name_their_object_and_what_helps() {
        let status = json!({"refused": [], "problems": [
            {"severity": "error", "path": "routes/1.uri", "reason": "is missing", "hint": "add it"},
            {"severity": "warning", "path": "stream_routes/1", "reason": "no listener", "hint": ""},
        ]});
        let mut findings = Vec::new();
        add_problems(&status, &mut findings);
        assert_eq!((findings[0].remedy.as_str(), findings[1].kind), ("add it", Kind::NoEffect));
        let expected = [
            (Severity::Warning, "set aside: routes/1.uri: is missing".to_owned()),
            (Severity::Warning, "stream_routes/1: no listener".to_owned()),
        ];
        assert_eq!(texts(findings), expected);
    }

    #[test]
    fn a_loss_is_told_for_some_minutes() {
        let mut watch = LossWatch::default();
        let mut told = |lost, now_ms| {
            let mut findings = Vec::new();
            watch.find(lost, now_ms, &mut findings);
            findings.first().map(|finding| finding.what.clone())
        };
        assert_eq!(told(0, 1), None);
        assert_eq!(told(2, 2).as_deref(), Some("2 log entries were lost since the start"));
        assert!(told(2, LOSS_MS).is_some());
        assert_eq!(told(2, LOSS_MS + 3), None);
    }

    #[test]
    fn access_without_protection_is_found() {
        let mut bootstrap = Bootstrap::default();
        let mut findings = Vec::new();
        add_open_access(&bootstrap, &mut findings);
        assert!(findings.is_empty());
        bootstrap.admin.key_required = false;
        bootstrap.listen.admin = vec![SocketAddr::from(([0, 0, 0, 0], 9180))];
        add_open_access(&bootstrap, &mut findings);
        let settings: Vec<_> = findings.iter().map(|finding| &*finding.subject).collect();
        assert_eq!(settings, ["admin.key_required", "admin.tls"]);
    }
}
