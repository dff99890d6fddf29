//! Polaris's report: registering, discovering, heartbeats and deregistering over gRPC, with the messages
//! of the published ghz files: against Tollhouse, or a server that is running at any address.
//!
//! What is registered is sent heartbeats and deregistered again, equally often; every answer must be 200000. The
//! services that are discovered are the published ones, one for each worker of the generator, and are
//! registered before.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::stage::Stage;
use super::{Length, MOMENT, Options, seconds};
use crate::case::{Case, Checks, GrpcCall, GrpcData, Threshold};
use crate::error::BenchError;
use crate::plan::{Plan, PlannedCase};
use crate::resource::{Selector, Watched};
use crate::session::{self, Event, Session};

/// Calls in flight, as the published commands suggest.
const CONCURRENCY: usize = 100;
/// Calls share connections, as ghz has them share one.
const CONNECTIONS: usize = 4;
const PROTO: &str = include_str!("polaris.proto");

/// What a call that did what was asked is answered with.
const DONE: u32 = 200_000;
/// The method that is called as often as time allows; the others as often as something was registered.
const DISCOVER: &str = "Discover";

/// An instance in the service of each worker, of so many threads and lanes on each.
fn discovered(threads: usize) -> (String, u64) {
    let message = format!(
        r#"{{
  "service": "PERF-1-TEST-SVCID-g{{{{mod .RequestNumber {threads}}}}}c{{{{div .RequestNumber {threads}}}}}",
  "namespace": "default",
  "host": "127.0.0.1",
  "port": "{{{{add 1000 .RequestNumber}}}}"
}}"#
    );
    (message, (threads * CONCURRENCY) as u64)
}

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
        "discover",
        "Discover",
        r#"{ "type": 1, "service": { "name": "PERF-1-TEST-SVCID-{{.WorkerID}}", "namespace": "default" } }"#,
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

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Amount {
    /// Instances that are registered, sent one heartbeat and deregistered.
    instances: u64,
    /// How long services are discovered.
    duration: Duration,
    repeat: u32,
}

fn amount(length: Length) -> Amount {
    let (instances, duration, repeat) = match length {
        Length::Glance => (200, MOMENT, 1),
        Length::Quick => (20_000, seconds(5), 1),
        Length::Standard => (100_000, seconds(10), 3),
        Length::Full => (300_000, seconds(60), 3),
    };
    Amount { instances, duration, repeat }
}

/// What is measured: where it is, what the report calls it, what the kernel tells of it.
struct Subject {
    address: String,
    name: &'static str,
    watch: Vec<Watched>,
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
    let mut stage = Stage::new(options, usize::MAX)?;
    let subject = subject(options, &mut stage)?;
    prepare(&stage, options, &subject.address, &proto)?;
    let plan = plan(options, &stage, &subject, &proto);
    let mut session = match options.target {
        None => super::measure(&stage, &plan, options, observe)?,
        // A server on another machine leaves all cores of this one to the generator.
        Some(_) => session::run(&plan, &options.session, observe)?,
    };
    session.report.configurations.insert("polaris.proto".into(), PROTO.into());
    Ok(session)
}

/// The server that was named, or one that is started here.
fn subject(options: &Options, stage: &mut Stage) -> Result<Subject, BenchError> {
    if let Some(target) = &options.target {
        let address = target.strip_prefix("grpc://").unwrap_or(target).to_owned();
        return Ok(Subject { watch: watch(&address), address, name: "registry" });
    }
    let server = stage.registry("tollhouse")?;
    let address = format!("127.0.0.1:{}", server.port);
    Ok(Subject { address, name: "tollhouse", watch: vec![server.watched] })
}

/// Registers what will be discovered; the figures of that are nobody's concern.
fn prepare(
    stage: &Stage,
    options: &Options,
    address: &str,
    proto: &Path,
) -> Result<(), BenchError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (message, requests) = discovered(threads);
    let mut case = case(address, proto, ("prepare", "RegisterInstance", &message));
    case.load.requests = Some(requests);
    let session_options = session::Options {
        stop: options.session.stop.clone(),
        environment: Some(stage.environment()),
        ..session::Options::default()
    };
    let session = session::run(&Plan::from_case(case), &session_options, &mut |_| {})?;
    let failed = session.report.results.iter().map(|result| result.counts.failed).sum::<u64>();
    let stopped = options.session.stop.is_stopped();
    if failed > 0 && !stopped {
        let why = format!("{failed} of the {requests} services to discover were not registered");
        return Err(BenchError::Machine(why));
    }
    Ok(())
}

fn plan(options: &Options, stage: &Stage, subject: &Subject, proto: &Path) -> Plan {
    let amount = amount(options.length);
    let planned = |operation: (&str, &str, &str)| {
        let mut case = case(&subject.address, proto, operation);
        match operation.1 {
            // The others change what is there, each instance once: they are bounded by how many
            // there are.
            DISCOVER => case.load.duration = Some(amount.duration),
            _ => case.load.requests = Some(amount.instances),
        }
        case.thresholds = Vec::from_iter("failures < 1".parse::<Threshold>());
        PlannedCase { subject: subject.name.into(), case, watch: subject.watch.clone() }
    };
    let place = match options.target {
        None => stage.sentence(),
        Some(_) => format!("The registry is at {}.", subject.address),
    };
    Plan {
        name: "Polaris's benchmark, measured again".into(),
        about: format!(
            "The four calls of the published ghz files, {CONCURRENCY} in flight over {CONNECTIONS} \
             connections: {} instances are registered, sent one heartbeat and deregistered, services of one \
             instance are discovered. An answer with another code than {DONE} is a failure. {place}",
            amount.instances
        ),
        repeat: amount.repeat,
        cases: OPERATIONS.into_iter().map(planned).collect(),
        ..Plan::default()
    }
}

/// A call with its message, as often as it will be told.
fn case(address: &str, proto: &Path, (name, method, data): (&str, &str, &str)) -> Case {
    let mut case = Case::new(format!("grpc://{address}"));
    case.name = name.to_owned();
    case.grpc = Some(GrpcCall {
        call: format!("v1.PolarisGRPC.{method}"),
        proto: Some(proto.to_owned()),
        data: Some(GrpcData::Json(data.to_owned())),
        ..GrpcCall::default()
    });
    case.load.connections = CONNECTIONS;
    case.load.streams = CONCURRENCY / CONNECTIONS;
    case.checks = Checks { body_json: Some(("/code".into(), DONE.into())), ..Checks::default() };
    case
}

/// The server, when it runs on this machine.
fn watch(target: &str) -> Vec<Watched> {
    let Some((host, port)) = target.rsplit_once(':') else { return Vec::new() };
    let is_here = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    let port = port.parse().ok().filter(|_| is_here);
    port.map(|port| Watched::new("target", Selector::Port(port))).into_iter().collect()
}
