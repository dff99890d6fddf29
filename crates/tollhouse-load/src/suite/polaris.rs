//! Polaris's report: registering, discovering, heartbeats and deregistering over gRPC, with the messages
//! of the published ghz files. Measures a server that is already running, at any address.

use std::fs;

use super::{Beat, Length, MOMENT, Options, seconds};
use crate::case::{Case, GrpcCall, GrpcData, Threshold};
use crate::error::BenchError;
use crate::plan::{Plan, PlannedCase};
use crate::resource::{Selector, Watched};
use crate::session::{self, Event, Session};

/// Where Polaris listens.
const TARGET_DEFAULT: &str = "127.0.0.1:8091";
/// Calls in flight, as the published commands suggest.
const CONCURRENCY: usize = 100;
/// Calls share connections, as ghz has them share one.
const CONNECTIONS: usize = 4;
const PROTO: &str = include_str!("polaris.proto");

/// What is called, in the order in which one needs the one before, with its message.
const OPERATIONS: [(&str, &str, &str); 4] = [
    (
        "register",
        "RegisterInstance",
        r#"{
  "id": "polaris-perf-test-1-ins-{{.RequestNumber}}",
  "service": "POLARIS-PERF-TEST-1",
  "namespace": "default",
  "host": "fakehost-{{randomString 8 }}.com",
  "port": "{{randomInt 1000 50000}}",
  "enable_health_check": true,
  "health_check": { "type": 1, "heartbeat": { "ttl": 3 } },
  "healthy": true,
  "isolate": false,
  "ctime": "{{.TimestampUnix}}",
  "mtime": "{{.TimestampUnix}}"
}"#,
    ),
    (
        "discover",
        "Discover",
        r#"{ "type": 1, "service": { "name": "PERF-1-TEST-SVCID-{{.WorkerID}}", "namespace": "default" } }"#,
    ),
    (
        "heartbeat",
        "Heartbeat",
        r#"{
  "id": "polaris-perf-test-1-ins-{{.RequestNumber}}",
  "service": "POLARIS-PERF-TEST-1",
  "namespace": "default",
  "healthy": true,
  "isolate": false,
  "mtime": "{{.TimestampUnix}}"
}"#,
    ),
    (
        "deregister",
        "DeregisterInstance",
        r#"{
  "id": "polaris-perf-test-1-ins-{{.RequestNumber}}",
  "service": "POLARIS-PERF-TEST-1",
  "namespace": "default"
}"#,
    ),
];

fn beat(length: Length) -> Beat {
    let (duration, repeat) = match length {
        Length::Glance => (MOMENT, 1),
        Length::Quick => (seconds(5), 1),
        Length::Standard => (seconds(30), 1),
        Length::Full => (seconds(60), 3),
    };
    Beat { warm_up: seconds(0), duration, repeat }
}

pub(super) fn run(
    options: &Options,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Session, BenchError> {
    let system = |error: std::io::Error| BenchError::System {
        doing: "writing the protocol's description".into(),
        error,
    };
    let folder = tempfile::tempdir().map_err(system)?;
    let proto = folder.path().join("polaris.proto");
    fs::write(&proto, PROTO).map_err(system)?;
    let target = options.target.as_deref().unwrap_or(TARGET_DEFAULT);
    let target = target.strip_prefix("grpc://").unwrap_or(target);
    let beat = beat(options.length);
    let planned = |(name, method, data): (&str, &str, &str)| {
        let mut case = Case::new(format!("grpc://{target}"));
        case.name = name.to_owned();
        case.grpc = Some(GrpcCall {
            call: format!("v1.PolarisGRPC.{method}"),
            proto: Some(proto.clone()),
            data: Some(GrpcData::Json(data.to_owned())),
            ..GrpcCall::default()
        });
        case.load.connections = CONNECTIONS;
        case.load.streams = CONCURRENCY / CONNECTIONS;
        case.load.duration = Some(beat.duration);
        case.thresholds = Vec::from_iter("failure_rate < 0.1%".parse::<Threshold>());
        PlannedCase { subject: "registry".into(), case, watch: watch(target) }
    };
    let plan = Plan {
        name: "Polaris's benchmark, measured again".into(),
        about: format!(
            "The four calls of the published ghz files against the registry at {target}, {CONCURRENCY} \
             in flight over {CONNECTIONS} connections."
        ),
        repeat: beat.repeat,
        cases: OPERATIONS.into_iter().map(planned).collect(),
        ..Plan::default()
    };
    let told = options.session.clone();
    let mut session = session::run(&plan, &told, observe)?;
    session.report.configurations.insert("polaris.proto".into(), PROTO.into());
    Ok(session)
}

/// The server, when it runs on this machine.
fn watch(target: &str) -> Vec<Watched> {
    let Some((host, port)) = target.rsplit_once(':') else { return Vec::new() };
    let is_here = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    let port = port.parse().ok().filter(|_| is_here);
    port.map(|port| Watched::new("target", Selector::Port(port))).into_iter().collect()
}
