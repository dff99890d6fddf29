//! A finding: one thing that is wrong, with its cause and what helps. All doors show findings:
//! `status`, `doctor`, `top`, `/v1/findings`, the metrics and the console.

use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Requests fail now.
    Problem,
    /// Requests may fail soon.
    Warning,
    /// The configuration is possibly intended.
    Note,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// Subject of a finding. Of equal severity, earlier kinds come first: causes before their effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A part of the process is down.
    PartDown,
    /// The store is read late or not at all, so that older objects are in service.
    StoreBehind,
    /// A registry outside of this process, from which upstreams get their nodes, cannot be read.
    SourceFailing,
    /// A node fails the requests that are sent to it.
    NodeFailing,
    /// An upstream has no node, or a service no healthy instance.
    ServiceEmpty,
    /// A node does not pass its health checks.
    NodeUnhealthy,
    /// The name of a node has no address.
    NodeUnresolved,
    /// An object of the configuration, or a whole document, cannot be used.
    ObjectInvalid,
    /// A limit of the gateway or of a plugin refuses requests.
    LimitReached,
    /// TLS handshakes with clients fail.
    HandshakesFailing,
    /// The clock of this machine was set.
    ClockStep,
    /// Requests of a route fail or are refused.
    RouteFailing,
    /// Requests match no route.
    RouteMissing,
    CertificateEnding,
    LogEntriesLost,
    /// An object is in service without effect.
    NoEffect,
    /// An instance of the registry that no heartbeat and no check watches.
    InstanceUnchecked,
    /// Access to the gateway itself is not protected.
    AccessOpen,
    /// An engine that the configuration names: etcd, a database or Redis.
    Engine,
}

impl Kind {
    /// Returns the stable word of the kind, as in metrics and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::PartDown => "part_down",
            Self::StoreBehind => "store_behind",
            Self::SourceFailing => "source_failing",
            Self::NodeFailing => "node_failing",
            Self::ServiceEmpty => "service_empty",
            Self::NodeUnhealthy => "node_unhealthy",
            Self::NodeUnresolved => "node_unresolved",
            Self::ObjectInvalid => "object_invalid",
            Self::LimitReached => "limit_reached",
            Self::HandshakesFailing => "handshakes_failing",
            Self::ClockStep => "clock_step",
            Self::RouteFailing => "route_failing",
            Self::RouteMissing => "route_missing",
            Self::CertificateEnding => "certificate_ending",
            Self::LogEntriesLost => "log_entries_lost",
            Self::NoEffect => "no_effect",
            Self::InstanceUnchecked => "instance_unchecked",
            Self::AccessOpen => "access_open",
            Self::Engine => "engine",
        }
    }
}

/// Change of the configuration that preceded a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierChange {
    /// Time of the change, in milliseconds since 1970.
    pub at_ms: u64,
    /// Name of the row in the list of changes.
    pub name: String,
    /// Path of the object, such as `routes/1`.
    pub path: String,
    /// `create`, `replace`, `patch`, `delete` or `undo`.
    pub deed: &'static str,
    /// Name of the key, or of the file, that made the change.
    pub actor: Option<String>,
}

/// Filter that selects the requests of a finding among the recent ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestQuery {
    pub route: Option<String>,
    pub code: Option<String>,
    pub status: Option<String>,
    pub search: Option<String>,
}

impl RequestQuery {
    /// Returns the command that prints these requests.
    pub fn command(&self) -> String {
        let mut command = "tollhouse requests".to_owned();
        let options = [("route", &self.route), ("code", &self.code), ("status", &self.status)];
        for (name, value) in options {
            if let Some(value) = value {
                command.push_str(&format!(" --{name} {value}"));
            }
        }
        if let Some(search) = &self.search {
            command.push_str(&format!(" {search}"));
        }
        command
    }

    fn to_json(&self) -> Value {
        let all = [
            ("route", &self.route),
            ("code", &self.code),
            ("status", &self.status),
            ("q", &self.search),
        ];
        let set = all.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let mut filter: Value = set.map(|(name, value)| (name.to_owned(), json!(value))).collect();
        filter["command"] = self.command().into();
        filter
    }
}

/// Something that is wrong, or may soon be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    pub kind: Kind,
    /// The object, node or part that it is about, such as `routes/1`; identifies the finding
    /// together with its kind.
    pub subject: String,
    /// Description of the problem and its place.
    pub what: String,
    /// Suggested action; may be empty.
    pub remedy: String,
    /// Start, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Number of failures.
    pub count: Option<u64>,
    /// Last change of the configuration before the start.
    pub change: Option<EarlierChange>,
    /// The requests that failed.
    pub requests: Option<RequestQuery>,
}

impl Finding {
    /// Returns a finding about an engine.
    pub fn new(severity: Severity, what: String, remedy: &str) -> Self {
        Self::about(severity, Kind::Engine, String::new(), what).with_remedy(remedy)
    }

    pub fn about(severity: Severity, kind: Kind, subject: String, what: String) -> Self {
        Self {
            severity,
            kind,
            subject,
            what,
            remedy: String::new(),
            since_ms: None,
            count: None,
            change: None,
            requests: None,
        }
    }

    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }

    #[must_use]
    pub fn with_count(self, count: u64) -> Self {
        Self { count: Some(count), ..self }
    }

    #[must_use]
    pub fn since(self, unix_ms: u64) -> Self {
        Self { since_ms: Some(unix_ms), ..self }
    }

    #[must_use]
    pub fn with_requests(self, requests: RequestQuery) -> Self {
        Self { requests: Some(requests), ..self }
    }

    /// Returns the JSON form of the finding, for programs.
    pub fn to_json(&self) -> Value {
        let change = self.change.as_ref().map(|change| {
            json!({
                "at_ms": change.at_ms,
                "name": change.name,
                "path": change.path,
                "deed": change.deed,
                "actor": change.actor,
            })
        });
        json!({
            "severity": self.severity.name(),
            "kind": self.kind.name(),
            "subject": self.subject,
            "what": self.what,
            "remedy": self.remedy,
            "since_ms": self.since_ms,
            "count": self.count,
            "change": change,
            "requests": self.requests.as_ref().map(RequestQuery::to_json),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_selects_the_requests_of_a_finding() {
        let some = |text: &str| Some(text.to_owned());
        let none = RequestQuery::default;
        for (query, expected) in [
            (none(), "tollhouse requests"),
            (
                RequestQuery { route: some("r1"), code: some("no_nodes"), ..none() },
                "tollhouse requests --route r1 --code no_nodes",
            ),
            (
                RequestQuery { status: some("5xx"), search: some("10.0.0.7:80"), ..none() },
                "tollhouse requests --status 5xx 10.0.0.7:80",
            ),
        ] {
            assert_eq!(query.command(), expected);
        }
    }

    #[test]
    fn causes_come_before_their_effects() {
        assert!(Severity::Problem < Severity::Warning && Severity::Warning < Severity::Note);
        assert!(Kind::NodeFailing < Kind::RouteFailing && Kind::ObjectInvalid < Kind::RouteFailing);
    }
}
