//! Polaris's benchmark: register, discover, heartbeat and deregister over gRPC, with the messages
//! of the published ghz files; against Tollhouse, Polaris' own server beside it, or a running server
//! at any address.
//!
//! Every registered instance receives one heartbeat and is deregistered. Every response must have
//! the code 200000. The discovered services are the published ones, one per worker of the
//! generator, registered beforehand.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::peer::Peer;
use super::stage::{Server, Stage};
use super::{Length, MOMENT, Options, seconds};
use crate::case::{Case, Checks, GrpcCall, GrpcData, Threshold};
use crate::error::BenchError;
use crate::plan::{Plan, PlannedCase};
use crate::report::figure;
use crate::resource::{Selector, Watched};
use crate::session::{self, Event, Session};

/// Concurrent calls, as in the published commands.
const CONCURRENCY: usize = 100;
/// Number of connections shared by the calls; ghz uses one.
const CONNECTIONS: usize = 4;
const PROTO: &str = include_str!("polaris.proto");

/// Code in a successful response of Polaris.
const DONE: u32 = 200_000;
/// Method that is called for a fixed duration; the others are called once per instance.
const DISCOVER: &str = "Discover";

/// Returns the message that registers the discovered services, one per worker, and their number.
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

/// Call of the benchmark.
#[derive(Clone, Copy)]
struct Operation<'a> {
    name: &'static str,
    method: &'static str,
    message: &'a str,
}

/// Operations in order of dependency.
const OPERATIONS: [Operation<'static>; 4] = [
    Operation {
        name: "register",
        method: "RegisterInstance",
        message: r#"{
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
    },
    Operation {
        name: "heartbeat",
        method: "Heartbeat",
        message: r#"{
  "id": "polaris-perf-test-1-ins-{{.RequestNumber}}",
  "service": "POLARIS-PERF-TEST-1",
  "namespace": "default",
  "healthy": true,
  "isolate": false,
  "mtime": "{{.TimestampUnix}}"
}"#,
    },
    Operation {
        name: "discover",
        method: "Discover",
        message: r#"{ "type": 1, "service": { "name": "PERF-1-TEST-SVCID-{{.WorkerID}}", "namespace": "default" } }"#,
    },
    Operation {
        name: "deregister",
        method: "DeregisterInstance",
        message: r#"{
  "id": "polaris-perf-test-1-ins-{{.RequestNumber}}",
  "service": "POLARIS-PERF-TEST-1",
  "namespace": "default"
}"#,
    },
];

/// Amount of work of a measurement.
#[derive(Debug, Clone, Copy)]
struct Amount {
    /// Number of instances registered, sent one heartbeat and deregistered.
    instances: u64,
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

/// Name of Polaris' own server in the report.
const POLARIS: &str = "polaris";

/// Measured system: address, name in the report, processes to watch.
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
    let subjects = subjects(options, &mut stage)?;
    for subject in &subjects {
        prepare(&stage, options, &subject.address, &proto)?;
    }
    let plan = plan(options, &stage, &subjects, &proto);
    let mut session = match options.target {
        None => super::measure(&stage, &plan, options, observe)?,
        // A server on another machine leaves all cores of this one to the generator.
        Some(_) => session::run(&plan, &options.session, observe)?,
    };
    session.report.configurations.insert("polaris.proto".into(), PROTO.into());
    Ok(session)
}

/// Returns the given server or starts one, and then the peers.
fn subjects(options: &Options, stage: &mut Stage) -> Result<Vec<Subject>, BenchError> {
    let first = match &options.target {
        Some(target) => running(target, "registry"),
        None => started(stage.registry("tollhouse")?, "tollhouse"),
    };
    let mut subjects = vec![first];
    for peer in &options.peers {
        subjects.push(match peer {
            Peer::Polaris(program) => started(stage.polaris(program)?, POLARIS),
            Peer::RunningPolaris(address) => running(address, POLARIS),
            // The suite has refused gateways before anything was started.
            Peer::Proxy(_) | Peer::Shenyu(_) | Peer::Running(_) => continue,
        });
    }
    Ok(subjects)
}

fn running(target: &str, name: &'static str) -> Subject {
    let address = target.strip_prefix("grpc://").unwrap_or(target).to_owned();
    Subject { watch: watch(&address), address, name }
}

fn started(server: Server, name: &'static str) -> Subject {
    let address = format!("127.0.0.1:{}", server.port);
    Subject { address, name, watch: vec![server.watched] }
}

/// Registers the services to discover; this is not measured.
fn prepare(
    stage: &Stage,
    options: &Options,
    address: &str,
    proto: &Path,
) -> Result<(), BenchError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (message, requests) = discovered(threads);
    let prepare = Operation { name: "prepare", method: "RegisterInstance", message: &message };
    let mut case = case(address, proto, prepare);
    case.load.requests = Some(requests);
    // One after the other: Polaris' server refuses some of many services created at once.
    (case.load.connections, case.load.streams) = (1, 1);
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

fn plan(options: &Options, stage: &Stage, subjects: &[Subject], proto: &Path) -> Plan {
    let amount = amount(options.length);
    let planned = |operation: Operation<'static>, subject: &Subject| {
        let mut case = case(&subject.address, proto, operation);
        match operation.method {
            // The other operations change each instance once, so that the number of instances
            // bounds them.
            DISCOVER => case.load.duration = Some(amount.duration),
            _ => case.load.requests = Some(amount.instances),
        }
        case.thresholds = Vec::from_iter("failures < 1".parse::<Threshold>());
        PlannedCase { subject: subject.name.into(), case, watch: subject.watch.clone() }
    };
    let place = match &options.target {
        None => stage.sentence().replacen("Gateways", "Registries", 1),
        Some(target) => format!("The registry is at {target}."),
    };
    Plan {
        name: "Polaris's benchmark, measured again".into(),
        about: format!(
            "The four calls of the published ghz files, {CONCURRENCY} in flight over {CONNECTIONS} \
             connections: {} instances are registered, sent one heartbeat and deregistered, services of one \
             instance are discovered. An answer with another code than {DONE} is a failure. {place}",
            figure::count(amount.instances)
        ),
        repeat: amount.repeat,
        // Subjects alternate within an operation, so that drift affects all of them alike.
        cases: OPERATIONS
            .into_iter()
            .flat_map(|operation| subjects.iter().map(move |subject| (operation, subject)))
            .map(|(operation, subject)| planned(operation, subject))
            .collect(),
        ..Plan::default()
    }
}

/// Creates a case for one method; the caller sets its amount.
fn case(address: &str, proto: &Path, operation: Operation<'_>) -> Case {
    let Operation { name, method, message } = operation;
    let mut case = Case::new(format!("grpc://{address}"));
    case.name = name.to_owned();
    case.grpc = Some(GrpcCall {
        call: format!("v1.PolarisGRPC.{method}"),
        proto: Some(proto.to_owned()),
        data: Some(GrpcData::Json(message.to_owned())),
        ..GrpcCall::default()
    });
    case.load.connections = CONNECTIONS;
    case.load.streams = CONCURRENCY / CONNECTIONS;
    case.checks = Checks { body_json: Some(("/code".into(), DONE.into())), ..Checks::default() };
    case
}

/// Returns the server's processes if it runs on this machine.
fn watch(target: &str) -> Vec<Watched> {
    let Some((host, port)) = target.rsplit_once(':') else { return Vec::new() };
    let is_here = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    let port = port.parse().ok().filter(|_| is_here);
    port.map(|port| Watched::new("target", Selector::Port(port))).into_iter().collect()
}
