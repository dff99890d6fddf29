//! Repeats c1000k: opens and holds many connections, to our own server and to the gateway, and
//! measures their memory cost at both ends.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::resources::Resources;
use super::stage::{Stage, request};
use super::{Length, MOMENT, Options, seconds};
use crate::case::TlsOptions;
use crate::connections::{self, End, Launcher, Listen, Plan, Progress, Sources};
use crate::error::BenchError;
use crate::report::Report;
use crate::session::Session;

/// Number of ports of our own server, so that even a million connections find local ports.
const PORTS: u16 = 100;
/// Connections opened per second, low enough for any accept backlog.
const RATE: f64 = 5_000.0;
/// Time limit for opening a connection.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections to the gateway, because by default only 28,000 local ports are
/// available per destination.
const GATEWAY_MAX: u64 = 20_000;

/// Returns the numbers of connections, and the hold time.
fn sizes(length: Length) -> (&'static [u64], Duration) {
    match length {
        Length::Glance => (&[100], MOMENT),
        Length::Quick => (&[5_000], seconds(3)),
        Length::Standard => (&[10_000, 50_000], seconds(10)),
        Length::Full => (&[10_000, 50_000, 100_000], seconds(30)),
    }
}

/// Measures all sizes and reports progress.
pub(super) fn run(
    options: &Options,
    observe: &mut dyn FnMut(&str, &Progress),
) -> Result<Session, BenchError> {
    let mut stage = Stage::new(options, usize::MAX)?;
    let upstream = stage.mock(&[], "/")?;
    let resources = Resources::default().route("/*", upstream.port, &json!({}));
    let gateway = stage.gateway("tollhouse", &resources, &request("/", ""))?;
    let (sizes, hold) = sizes(options.length);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut report = Report {
        title: "Connections held".into(),
        about: format!(
            "Connections are opened at {RATE} a second and held for {hold:?}: against processes that only \
             hold the other end, and against Tollhouse. What one costs is the growth of memory between the \
             first and the last."
        ),
        command: options.session.command.clone(),
        environment: stage.environment(),
        created_at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        configurations: stage.configurations().clone(),
        ..Report::default()
    };
    let own = End::Own(Listen {
        address: Ipv4Addr::LOCALHOST.into(),
        base_port: 0,
        ports: PORTS,
        is_tls: false,
    });
    let through = End::Given { url: gateway.url("/"), ports: 1 };
    for (subject, end, limit) in [("server", own, u64::MAX), ("tollhouse", through, GATEWAY_MAX)] {
        for connections in sizes.iter().map(|size| *size.min(&limit)) {
            // Sizes above the gateway's limit are all reduced to it and are measured once.
            let is_known = report
                .results
                .iter()
                .any(|result| result.subject == subject && result.concurrency == connections);
            if is_known || options.session.stop.is_stopped() {
                continue;
            }
            let plan = planned(end.clone(), connections, hold);
            let launcher = launcher(options);
            let stop = &options.session.stop;
            let result =
                connections::hold(&plan, &launcher, stop, &mut |now| observe(subject, now))?;
            let mut result = result;
            result.subject = subject.to_owned();
            result.concurrency = connections;
            report.results.push(result);
        }
    }
    Ok(Session { report, failed: None })
}

fn planned(end: End, connections: u64, hold: Duration) -> Plan {
    Plan {
        end,
        connections,
        rate: RATE,
        sources: Sources::Automatic,
        ping: None,
        tls: TlsOptions::default(),
        hold,
        timeout: TIMEOUT,
        processes: None,
    }
}

/// Returns the launcher that starts this program as a holder or server process.
fn launcher(options: &Options) -> Launcher {
    let arguments = ["bench", "connections", "--part"].map(OsString::from).to_vec();
    Launcher::Program { path: options.program.clone(), arguments }
}
