//! Suites: the published reports, measured again with one command, and what a proxied request costs. Each starts
//! what it needs on loopback, measures, is judged by the rules of honesty, and stops everything it started.
//!
//! A suite is a file that sets a [`stage`] and writes a plan; measuring is [`session`]'s work. The gateway
//! is a process like its peers, so that nothing is shared with what measures it.

mod api7;
mod connections;
mod cores;
mod gateway;
mod ngxway;
mod peer;
mod polaris;
mod program;
mod proxy;
mod shenyu;
mod shenyu_gateway;
mod stage;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::connections::Progress;
use crate::error::BenchError;
use crate::honesty;
use crate::plan::{Plan, PlannedCase};
use crate::published;
use crate::report;
use crate::session::{self, Event, Session};

pub use peer::{Peer, PeerError, Proxy, Running};

use stage::Stage;

/// A published report to measure again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// Apache ShenYu 2.6.0: an upstream of 20 ms and 2 KB, at 600 to 1200 connections.
    Shenyu,
    /// ngxway: fourteen runs of ab.
    Ngxway,
    /// API7 Gateway: eight combinations of plugins, routes and consumers, one worker.
    Api7,
    /// Polaris: registering, discovering, heartbeats and deregistering over gRPC, at any address.
    Polaris,
    /// c1000k: connections opened and held.
    Connections,
    /// Nobody's report: what a proxied request costs, by size of the answer and number of connections.
    Proxy,
}

impl Suite {
    /// All of them.
    pub const ALL: [Suite; 6] = [
        Suite::Shenyu,
        Suite::Ngxway,
        Suite::Api7,
        Suite::Polaris,
        Suite::Connections,
        Suite::Proxy,
    ];

    /// The word on the command line and in reports.
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

/// How long a suite takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Length {
    /// Seconds, for tests: everything starts, is measured for a moment, and ends.
    Glance,
    /// Minutes: to see that it works, and about where the figures lie.
    Quick,
    /// Less of it than published, three times.
    #[default]
    Standard,
    /// As many requests, or as long, as the published runs, in three repetitions.
    Full,
}

/// What a suite is told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How long it takes.
    pub length: Length,
    /// What runs beside Tollhouse, on the same cores with the same load.
    pub peers: Vec<Peer>,
    /// The program that is the gateway and the mock upstream.
    pub program: PathBuf,
    /// The server to measure, for the suite that starts none of its own.
    pub target: Option<String>,
    /// A command to be the direct baseline instead of the mock; it is given the port as `{port}`.
    pub baseline: Option<String>,
    /// The port of the upstream, where a peer leads to it already; otherwise a free one.
    pub upstream_port: Option<u16>,
    /// What the session is told.
    pub session: session::Options,
}

/// The beat of a suite's cases.
#[derive(Debug, Clone, Copy)]
struct Beat {
    warm_up: Duration,
    duration: Duration,
    repeat: u32,
}

/// How long a case of a glance lasts.
const MOMENT: Duration = Duration::from_millis(300);

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What happens in a suite, for whoever looks on.
#[derive(Debug)]
pub enum Look<'a> {
    /// A case of a session.
    Session(Event<'a>),
    /// Connections are being opened or held, to this subject.
    Connections(&'a str, &'a Progress),
}

/// Measures a suite. The stage is taken down when this returns, whatever happened.
///
/// # Errors
/// When something does not start or nothing could be measured.
pub fn run(
    suite: Suite,
    options: &Options,
    observe: &mut dyn FnMut(Look<'_>),
) -> Result<Session, BenchError> {
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

/// Measures a plan on a stage, with the load on its own cores.
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

/// A case of a glance is as small as it can be, whatever the machine is busy with.
fn shrink(planned: &mut PlannedCase) {
    const CONNECTIONS: usize = 4;
    const REQUESTS: u64 = 200;
    let load = &mut planned.case.load;
    load.connections = load.connections.min(CONNECTIONS);
    load.requests = load.requests.map(|requests| requests.min(REQUESTS));
}

/// Adds what was published, judges again, and keeps the whole.
fn finish(suite: Suite, session: &mut Session, options: &Options) -> Result<(), BenchError> {
    let report = &mut session.report;
    report.suite = Some(suite.name().to_owned());
    report.published = published::rows(suite.name());
    report.warnings = honesty::evaluate(report);
    match &options.session.save {
        Some(path) => report::save(report, path),
        None => Ok(()),
    }
}
