//! Suites: published benchmarks repeated with one command, and the cost of a proxied request. A
//! suite starts the needed programs on loopback, measures, applies the rules of honesty, and stops
//! everything it started.
//!
//! Each suite is a file that builds a [`stage`] and a plan; [`session`] measures the plan. The
//! gateway is a separate process like its peers, so that it shares nothing with the generator.

mod api7;
mod connections;
mod ngxway;
mod peer;
mod polaris;
mod polaris_server;
mod proxy;
mod resources;
mod shenyu;
mod shenyu_gateway;
mod stage;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::case::Load;
use crate::connections::Progress;
use crate::error::BenchError;
use crate::honesty;
use crate::plan::{Plan, PlannedCase};
use crate::published;
use crate::report;
use crate::result::CaseResult;
use crate::session::{self, Event, Session};

pub(crate) use api7::{plain_case_of as api7_plain_case, plugins_of as api7_plugins};
pub use peer::{Peer, PeerError, Proxy, Running};

use stage::Stage;

/// Published benchmark that the program can repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// Apache ShenYu 2.6.0: an upstream of 20 ms and 2 KB, at 600 to 1200 connections.
    Shenyu,
    /// ngxway's benchmark: fourteen runs of ab.
    Ngxway,
    /// API7 Gateway: eight combinations of plugins, routes and consumers, with one worker.
    Api7,
    /// Polaris: register, discover, heartbeat and deregister over gRPC, at any address.
    Polaris,
    /// c1000k: opens connections and holds them.
    Connections,
    /// Not a published benchmark: the cost of a proxied request, by response size and number of
    /// connections.
    Proxy,
}

impl Suite {
    pub const ALL: [Suite; 6] = [
        Suite::Shenyu,
        Suite::Ngxway,
        Suite::Api7,
        Suite::Polaris,
        Suite::Connections,
        Suite::Proxy,
    ];

    /// Returns the name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Shenyu => "shenyu",
            Suite::Ngxway => "ngxway",
            Suite::Api7 => "api7",
            Suite::Polaris => "polaris",
            Suite::Connections => "connections",
            Suite::Proxy => "proxy",
        }
    }
}

impl FromStr for Suite {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|suite| suite.name() == text);
        let names = Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("`{text}` is not a suite; the suites are {names}"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Length {
    /// Seconds, for tests: everything starts, is measured for a moment, and ends.
    Glance,
    /// Minutes, for a rough picture of the figures.
    Quick,
    /// Shorter than published; with three repetitions, except in the suite `connections`.
    #[default]
    Standard,
    /// As many requests as the published runs have, or as long runs; with three repetitions, except
    /// in the suite `connections`, which opens each number of connections once.
    Full,
}

#[derive(Debug, Clone, Default)]
pub struct Options {
    pub length: Length,
    /// Programs measured beside Tollhouse, on its cores and with its load.
    pub peers: Vec<Peer>,
    /// Path of the program that serves as gateway and mock upstream.
    pub program: PathBuf,
    /// Server to measure, for the suite that can use an existing one.
    pub target: Option<String>,
    /// Shell command started as the direct baseline instead of the mock; `{port}` in it is replaced
    /// by the port.
    pub baseline: Option<String>,
    /// Port of the upstream, if a running peer already forwards to it; by default a free port.
    pub upstream_port: Option<u16>,
    pub session: session::Options,
}

/// Warm-up, duration and repetitions of a suite's cases.
#[derive(Debug, Clone, Copy)]
struct Beat {
    warm_up: Duration,
    duration: Duration,
    repeat: u32,
}

impl Beat {
    /// Creates a closed loop for a duration.
    fn load(&self, connections: usize) -> Load {
        Load {
            connections,
            duration: Some(self.duration),
            warm_up: self.warm_up,
            ..Load::default()
        }
    }
}

/// Duration of a case of [`Length::Glance`].
const MOMENT: Duration = Duration::from_millis(300);

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Event of a suite, for observers.
#[derive(Debug)]
pub enum Look<'a> {
    Session(Event<'a>),
    /// Progress of opening or holding connections, with the name of the subject.
    Connections(&'a str, &'a Progress),
}

/// Measures a suite. All programs are stopped when this returns, even after an error.
///
/// # Errors
/// If a program does not start, or nothing could be measured.
pub fn run(
    suite: Suite,
    options: &Options,
    observe: &mut dyn FnMut(Look<'_>),
) -> Result<Session, BenchError> {
    check_peers(suite, &options.peers)?;
    let mut look = |event: Event<'_>| observe(Look::Session(event));
    let mut session = match suite {
        Suite::Shenyu => shenyu::run(options, &mut look),
        Suite::Ngxway => ngxway::run(options, &mut look),
        Suite::Api7 => api7::run(options, &mut look),
        Suite::Polaris => polaris::run(options, &mut look),
        Suite::Proxy => proxy::run(options, &mut look),
        Suite::Connections => connections::run(options, &mut |subject, progress| {
            observe(Look::Connections(subject, progress));
        }),
    }?;
    finish(suite, &mut session, options)?;
    Ok(session)
}

/// Refuses peers that the suite cannot measure, before anything is started.
fn check_peers(suite: Suite, peers: &[Peer]) -> Result<(), BenchError> {
    let wanted = suite == Suite::Polaris;
    match peers.iter().find(|peer| peer.is_registry() != wanted) {
        None => Ok(()),
        Some(peer) if wanted => Err(BenchError::Machine(format!(
            "{} is not a registry; the peers of the suite polaris are polaris=PATH and polaris=HOST:PORT",
            peer.name()
        ))),
        Some(_) => Err(BenchError::Machine(format!(
            "polaris is a registry, which only the suite polaris measures, not {}",
            suite.name()
        ))),
    }
}

/// Measures a plan on a stage, with the generator on separate cores.
fn measure(
    stage: &Stage,
    plan: &Plan,
    options: &Options,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Session, BenchError> {
    let mut plan = plan.clone();
    if options.length == Length::Glance {
        plan.cases.iter_mut().for_each(shrink);
    }
    let environment = stage.environment();
    let session_options =
        session::Options { environment: Some(environment), ..options.session.clone() };
    let mut session = stage.on_load_cores(|| session::run(&plan, &session_options, observe))?;
    session.report.configurations.extend(stage.configurations().clone());
    Ok(session)
}

/// Reduces a case of [`Length::Glance`] to a minimum, so that it also works on a busy machine.
fn shrink(planned: &mut PlannedCase) {
    const CONNECTIONS: usize = 4;
    const REQUESTS: u64 = 200;
    let load = &mut planned.case.load;
    load.connections = load.connections.min(CONNECTIONS);
    load.requests = load.requests.map(|requests| requests.min(REQUESTS));
}

/// Adds the published figures, evaluates the rules again, and saves the report.
fn finish(suite: Suite, session: &mut Session, options: &Options) -> Result<(), BenchError> {
    let report = &mut session.report;
    report.suite = Some(suite.name().to_owned());
    report.results.iter_mut().for_each(remove_temporary_paths);
    report.published = published::rows(suite.name());
    report.warnings = honesty::evaluate(report);
    match &options.session.save {
        Some(path) => report::save(report, path),
        None => Ok(()),
    }
}

/// Shortens paths in temporary folders, which have no meaning after the suite.
fn remove_temporary_paths(result: &mut CaseResult) {
    for process in &mut result.processes {
        let words = process.command.split(' ').map(without_temporary_folder);
        process.command = words.collect::<Vec<_>>().join(" ");
    }
    let call = result.case.as_mut().and_then(|case| case.grpc.as_mut());
    if let Some(proto) = call.and_then(|call| call.proto.as_mut()) {
        *proto = without_temporary_folder(&proto.to_string_lossy()).into();
    }
}

/// Returns a word without the path of a folder in the machine's temporary folder.
fn without_temporary_folder(word: &str) -> String {
    without_folder_in(word, &std::env::temp_dir().display().to_string())
}

fn without_folder_in(word: &str, temporary: &str) -> String {
    let temporary = temporary.trim_end_matches('/');
    let Some((before, rest)) = word.split_once(&*format!("{temporary}/")) else {
        return word.to_owned();
    };
    let inner = rest.split_once('/').map_or(rest, |(_, inner)| inner);
    format!("{before}{inner}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_without_temporary_folders() {
        let place = std::env::temp_dir().join(".tmpAb12/nginx");
        let word = format!("--prefix={}", place.display());
        assert_eq!(without_temporary_folder(&word), "--prefix=nginx");
        assert_eq!(without_temporary_folder("/usr/sbin/nginx"), "/usr/sbin/nginx");
        for temporary in ["/var/t", "/var/t/"] {
            assert_eq!(without_folder_in("-p=/var/t/.tmpAb12/nginx", temporary), "-p=nginx");
        }
    }

    #[test]
    fn a_suite_refuses_peers_that_it_cannot_measure() {
        let registry = || Peer::RunningPolaris("10.0.0.5:8091".into());
        let proxy = || Peer::Proxy(Proxy::Nginx);
        for (suite, peer, is_measured) in [
            (Suite::Polaris, registry(), true),
            (Suite::Polaris, proxy(), false),
            (Suite::Shenyu, proxy(), true),
            (Suite::Shenyu, registry(), false),
        ] {
            assert_eq!(check_peers(suite, &[peer]).is_ok(), is_measured, "{suite:?}");
        }
    }
}
