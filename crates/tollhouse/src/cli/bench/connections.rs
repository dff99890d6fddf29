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

/// Interval between progress lines when standard error is not a terminal; on a terminal one line is
/// overwritten.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Escape sequence that clears the rest of a line.
const CLEAR: &str = "\x1b[K";

/// Arguments of `bench connections`.
#[derive(Debug, Args)]
#[command(after_help = options::EXAMPLES)]
pub struct ConnectionsArguments {
    /// Target: host:port, or a URL (https:// for TLS). Without a target, --serve starts both ends
    /// here.
    #[arg(value_name = "TARGET")]
    target: Option<String>,
    /// Start the other end here too, in separate processes.
    #[arg(long, conflicts_with = "target")]
    serve: bool,
    /// Run only the other end, for connections from other machines: ADDRESS:PORT of the first port.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["target", "serve"])]
    listen: Option<std::net::SocketAddr>,
    /// Number of connections.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 10_000)]
    connections: u64,
    /// Connections opened per second.
    #[arg(short, long, value_name = "NUMBER", default_value_t = 5_000.0)]
    rate: f64,
    /// Time for which all connections are held once they are open.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    hold: Duration,
    /// Number of ports, from the first: 1 for a target; with --serve 100, or as many as keep 10,000
    /// connections or fewer on each.
    #[arg(long, value_name = "NUMBER")]
    ports: Option<u16>,
    /// First port of --serve; by default the system chooses all ports.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    base_port: u16,
    /// Source addresses: a number of loopback addresses, or addresses of this machine separated by
    /// commas. By default as many loopback addresses as the number of ports requires.
    #[arg(long, value_name = "NUMBER|ADDRESSES", value_parser = options::sources)]
    sources: Option<Sources>,
    /// Interval between pings on every connection: a GET to an http target, otherwise a byte that
    /// must be echoed.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    ping: Option<Duration>,
    /// Kind of ping.
    #[arg(long, value_enum, value_name = "KIND", requires = "ping")]
    ping_with: Option<options::PingWith>,
    /// Speak TLS with --serve or --listen, with a certificate made at the start.
    #[arg(long, conflicts_with = "target")]
    tls: bool,
    /// Accept any certificate of a target.
    #[arg(short = 'k', long)]
    insecure: bool,
    /// PEM file of the authorities to trust instead of the system's.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Timeout of opening a connection, and of the answer to a ping.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    timeout: Duration,
    /// Number of processes that hold connections; by default as many as the limit of descriptors
    /// requires.
    #[arg(long, value_name = "NUMBER")]
    processes: Option<u64>,
    /// Only compare the needs of this run with the limits of the machine, and print the commands
    /// that raise them.
    #[arg(long)]
    preflight: bool,
    /// Write the result to a file that `tollhouse bench report` reads.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run as one of the processes of a run.
    #[arg(long, hide = true, value_name = "ROLE")]
    part: Option<String>,
}

/// Opens and holds the connections, and prints the result.
///
/// # Errors
/// If nothing can be measured.
pub fn run(arguments: &ConnectionsArguments) -> Result<ExitCode, BenchError> {
    // The processes that this command starts run this branch.
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

/// Runs as one of the processes of a run. The coordinator sends the instructions on standard input.
fn part() -> Result<ExitCode, BenchError> {
    let done = serve_part(std::io::stdin(), std::io::stdout().lock());
    // The coordinator has the error, and reports it.
    Ok(done.map_or(ExitCode::from(NOT_MEASURED), |()| ExitCode::SUCCESS))
}

fn preflight(plan: &Plan) -> Result<ExitCode, BenchError> {
    let rows = connections::preflight(plan)?;
    terminal::print(&lines(&text::limits(&rows, terminal::paint())))?;
    let is_enough = rows.iter().all(|row| row.verdict != Verdict::TooSmall);
    Ok(if is_enough { ExitCode::SUCCESS } else { ExitCode::from(NOT_MEASURED) })
}

/// Runs only the end that accepts connections, until Ctrl-C.
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

/// Returns the command that starts this program again as one process of a run (`bench connections
/// --part`).
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

/// Progress on standard error: on a terminal one line that is overwritten, otherwise a line every
/// [`LINE_EVERY`].
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
        // Ignored, because the result contains everything.
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

    /// Clears the progress line, so that the result starts on an empty line.
    fn end(&mut self) {
        let mut to = std::io::stderr();
        if to.is_terminal() {
            let _ = write!(to, "\r{CLEAR}");
        }
    }
}
