//! `tollhouse bench connections`: opens connections and holds them.

mod options;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use tollhouse_load::connections::{
    self, Launcher, Listen, Plan, Progress, Sources, serve_part, text,
};
use tollhouse_load::error::BenchError;
use tollhouse_load::preflight::Verdict;
use tollhouse_load::report::{self, Environment, Report};
use tollhouse_load::result::CaseResult;

use super::interrupt;
use super::terminal::{self, NOT_MEASURED};

/// Lines of progress that are kept come so often; on a terminal one line is written over instead.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Clears the rest of a line on a terminal.
const CLEAR: &str = "\x1b[K";

/// Arguments of `bench connections`.
#[derive(Debug, Args)]
#[command(after_help = options::EXAMPLES)]
pub struct ConnectionsArguments {
    /// What to connect to: host:port, or a URL (https:// speaks TLS). Without it, with --serve, both
    /// ends are here.
    #[arg(value_name = "TARGET")]
    target: Option<String>,
    /// Start the other end here too, in processes of its own.
    #[arg(long, conflicts_with = "target")]
    serve: bool,
    /// Be only the other end, for connections from other machines: ADDRESS:PORT of the first port.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["target", "serve"])]
    listen: Option<std::net::SocketAddr>,
    /// How many connections.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 10_000)]
    connections: u64,
    /// How many are opened a second.
    #[arg(short, long, value_name = "NUMBER", default_value_t = 5_000.0)]
    rate: f64,
    /// How long they are held once all are open.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    hold: Duration,
    /// How many ports, from the first: 1 of a target; of our own 100, or as many as leave 10,000
    /// connections to each.
    #[arg(long, value_name = "NUMBER")]
    ports: Option<u16>,
    /// The first port of --serve; by default the system chooses all of them.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    base_port: u16,
    /// Where connections come from: a number of loopback addresses, or addresses of this machine with
    /// commas between. By default as many loopback addresses as the number of ports makes necessary.
    #[arg(long, value_name = "NUMBER|ADDRESSES", value_parser = options::sources)]
    sources: Option<Sources>,
    /// A sign of life on every connection so often: a GET to an http target, otherwise a byte that is
    /// to come back.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ping: Option<Duration>,
    /// What the sign of life is.
    #[arg(long, value_enum, value_name = "KIND", requires = "ping")]
    ping_with: Option<options::PingWith>,
    /// Speak TLS with --serve or --listen, with a certificate made at the start.
    #[arg(long, conflicts_with = "target")]
    tls: bool,
    /// Take any certificate of a target.
    #[arg(short = 'k', long)]
    insecure: bool,
    /// PEM file of the authorities to trust instead of the system's.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// How long opening one, or the answer to a sign of life, may take.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    timeout: Duration,
    /// Processes that hold; by default as many as the limit of descriptors makes necessary.
    #[arg(long, value_name = "NUMBER")]
    processes: Option<u64>,
    /// Only print what this needs of the machine against what it allows, with the commands that help.
    #[arg(long)]
    preflight: bool,
    /// Write the result to a file that `tollhouse bench report` reads.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Be one of the processes of a run.
    #[arg(long, hide = true, value_name = "ROLE")]
    part: Option<String>,
}

/// Carries it out.
///
/// # Errors
/// What keeps it from being measured.
pub fn run(arguments: &ConnectionsArguments) -> Result<ExitCode, BenchError> {
    // What the processes run that this command starts for itself.
    if arguments.part.is_some() {
        return part();
    }
    if let Some(address) = arguments.listen {
        return listen(arguments, address);
    }
    if arguments.target.is_none() && !arguments.serve {
        return Err(BenchError::Case {
            key: "TARGET".into(),
            why: "is missing; name host:port, or have both ends here with --serve".into(),
        });
    }
    let plan = arguments.plan();
    if arguments.preflight {
        return preflight(&plan);
    }
    let stop = interrupt::stop_on_interrupt()?;
    let environment = Environment::collect();
    let mut ticker = Ticker::default();
    let measured = connections::hold(&plan, &launcher()?, &stop, &mut |now| ticker.show(now));
    ticker.end();
    let result = measured?;
    terminal::print(&lines(&text::render(&result, terminal::paint())))?;
    let is_met = result.missed_thresholds.is_empty();
    if let Some(path) = &arguments.json {
        report::save(&report_of(result, environment), path)?;
    }
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One of the processes of a run: told what to do by its standard input.
fn part() -> Result<ExitCode, BenchError> {
    let done = serve_part(std::io::stdin(), std::io::stdout().lock());
    // The coordinator has been told and says it.
    Ok(done.map_or(ExitCode::from(NOT_MEASURED), |()| ExitCode::SUCCESS))
}

fn preflight(plan: &Plan) -> Result<ExitCode, BenchError> {
    let rows = connections::preflight(plan)?;
    terminal::print(&lines(&text::limits(&rows, terminal::paint())))?;
    let is_enough = rows.iter().all(|row| row.verdict != Verdict::TooSmall);
    Ok(if is_enough { ExitCode::SUCCESS } else { ExitCode::from(NOT_MEASURED) })
}

/// The other end alone, until Ctrl-C.
fn listen(
    arguments: &ConnectionsArguments,
    address: std::net::SocketAddr,
) -> Result<ExitCode, BenchError> {
    let stop = interrupt::stop_on_interrupt()?;
    let listen = Listen {
        address: address.ip(),
        base_port: address.port(),
        ports: arguments.ports_own(),
        is_tls: arguments.tls,
    };
    let processes = arguments.processes.unwrap_or_else(|| arguments.plan().servers_here());
    let mut ticker = Ticker::default();
    let served =
        connections::listen(&listen, processes, &launcher()?, &stop, &mut |addresses, now| {
            ticker.show_text(&text::serving(addresses, now))
        });
    ticker.end();
    served.map(|()| ExitCode::SUCCESS)
}

/// This program, as a process of a run.
fn launcher() -> Result<Launcher, BenchError> {
    let path = std::env::current_exe()
        .map_err(|error| BenchError::System { doing: "finding this program".into(), error })?;
    let arguments = ["bench", "connections", "--part"].map(OsString::from).to_vec();
    Ok(Launcher::Program { path, arguments })
}

fn report_of(result: CaseResult, environment: Environment) -> Report {
    Report {
        title: result.name.clone(),
        suite: Some("connections".into()),
        about: "Connections are opened at a rate and held; what they cost is the growth of memory \
                between the first and the last."
            .into(),
        command: std::env::args().collect(),
        environment,
        created_at_ms: result.started_at_ms,
        results: vec![result],
        ..Report::default()
    }
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn duration(text: &str) -> Result<Duration, String> {
    tollhouse_stdx::fine_duration::parse(text)
}

/// Shows how it goes on standard error: one line that is written over, or a line now and then.
#[derive(Default)]
struct Ticker {
    shown: Option<Instant>,
}

impl Ticker {
    fn show(&mut self, progress: &Progress) {
        self.show_text(&text::progress(progress));
    }

    fn show_text(&mut self, text: &str) {
        let mut to = std::io::stderr();
        let now = Instant::now();
        // What cannot be shown is not missed: the result says all of it.
        let _ = if to.is_terminal() {
            write!(to, "\r{text}{CLEAR}")
        } else if self.shown.is_none_or(|shown| now.duration_since(shown) >= LINE_EVERY) {
            self.shown = Some(now);
            writeln!(to, "{text}")
        } else {
            return;
        };
        let _ = to.flush();
    }

    /// The result begins on a line of its own.
    fn end(&mut self) {
        let mut to = std::io::stderr();
        if to.is_terminal() {
            let _ = write!(to, "\r{CLEAR}");
        }
    }
}
