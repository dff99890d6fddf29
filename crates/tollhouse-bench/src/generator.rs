//! Compares the CPU time per request of Tollhouse's load generator with that of wrk, ab, h2load and
//! ghz. The server does as little as possible, on a separate core.
//!
//! A generator that needs much CPU time per request becomes the bottleneck of its own measurements,
//! and the latencies that it prints then include its own queues. The code that reads the output is
//! in `generator/tool.rs`.

mod tool;

use super::budget::{self, Budget, Figure};
use super::case::Case;
use super::measure::median;
use super::origin;
use super::plan::{Core, Plan};
use super::report::{CaseResult, Table};
use crate::shell;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::time::Duration;
use tollhouse_testbed::Program;

pub(crate) use tool::{RequestCounts, read_h2load};
use tool::{Server, Tool};

/// Duration of the run before the first round, which warms up the page cache and raises the core's
/// frequency.
const WARM_UP: Duration = Duration::from_secs(1);

/// Comparison (duel) of Tollhouse's generator with another one that sends equal requests.
struct Duel {
    protocol: &'static str,
    server: Server,
    theirs: Tool,
    ours: Tool,
    budget: Option<Budget>,
}

/// Duel over HTTP/2, which the edge case runs too.
const HTTP2_DUEL: Duel = Duel {
    protocol: "HTTP/2",
    server: Server::Http2,
    theirs: Tool::H2load,
    ours: Tool::OurHttp2,
    budget: Some(budget::GENERATOR_CPU_AGAINST_H2LOAD),
};

const DUELS: [Duel; 4] = [
    Duel {
        protocol: "HTTP/1.1",
        server: Server::Http1,
        theirs: Tool::Wrk,
        ours: Tool::OurWrk,
        budget: Some(budget::GENERATOR_CPU_AGAINST_WRK),
    },
    Duel {
        protocol: "HTTP/1.0, kept",
        server: Server::Http1,
        theirs: Tool::Ab,
        ours: Tool::OurAb,
        budget: None,
    },
    HTTP2_DUEL,
    Duel {
        protocol: "gRPC",
        server: Server::Grpc,
        theirs: Tool::Ghz,
        ours: Tool::OurGrpc,
        budget: Some(budget::GENERATOR_CPU_AGAINST_GHZ),
    },
];

/// Runs the case. Generators that are not installed are skipped with a message.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let (mut cells, mut figures) = (Vec::new(), Vec::new());
    for duel in DUELS {
        let program = duel.theirs.program();
        if shell::find_program(program).is_none() {
            println!("skipped: {program} is not installed");
            continue;
        }
        match fight(plan, &duel) {
            Ok((theirs, ours)) => {
                figures.push(duel.figure(ours.cpu_us_per_request / theirs.cpu_us_per_request));
                cells.extend(duel.cells(theirs, ours));
            }
            // If a duel fails, its budget counts as missed, and the results of the other duels are
            // kept.
            Err(error) => {
                println!("failed: {} against {program}: {error:#}", duel.ours.label());
                figures.push(duel.figure(f64::NAN));
            }
        }
    }
    if cells.is_empty() {
        bail!("no generator could be compared; `cargo x install` installs those there are");
    }
    let tables = vec![table_of(plan, cells)];
    Ok(CaseResult { tables, ..CaseResult::new(Case::Load, Vec::new(), figures) })
}

/// Compares our generator with h2load over HTTP/2; h2load has to be installed.
pub(crate) fn against_h2load(plan: &Plan) -> Result<(Table, Figure)> {
    let (theirs, ours) = fight(plan, &HTTP2_DUEL)?;
    let figure = HTTP2_DUEL.figure(ours.cpu_us_per_request / theirs.cpu_us_per_request);
    Ok((table_of(plan, HTTP2_DUEL.cells(theirs, ours).into()), figure))
}

fn table_of(plan: &Plan, cells: Vec<Vec<Value>>) -> Table {
    Table {
        caption: format!(
            "Generators: median of {} rounds, one thread on one core, the server on another",
            plan.rounds
        ),
        columns: COLUMNS.to_vec(),
        cells,
    }
}

impl Duel {
    fn figure(&self, value: f64) -> Figure {
        let (program, protocol) = (self.theirs.program(), self.protocol);
        let what = format!("CPU of the generator against {program}, {protocol}");
        Figure { what, value, budget: self.budget }
    }

    fn cells(&self, theirs: Sample, ours: Sample) -> [Vec<Value>; 2] {
        [theirs.to_cells(self.theirs, self.protocol), ours.to_cells(self.ours, self.protocol)]
    }
}

const COLUMNS: [&str; 6] =
    ["generator", "protocol", "CPU µs/request", "requests/CPU-s", "requests/s", "errors"];

/// Result of one run of a generator.
#[derive(Clone, Copy, Debug)]
struct Sample {
    cpu_us_per_request: f64,
    requests_per_second: f64,
    errors: u64,
}

/// Runs both generators alternately against the same server, round after round.
fn fight(plan: &Plan, duel: &Duel) -> Result<(Sample, Sample)> {
    let (port, _server) = start(plan, duel.server)?;
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for tool in [duel.theirs, duel.ours] {
        turn(plan, tool, port, WARM_UP)?;
    }
    for _ in 0..plan.rounds {
        theirs.push(turn(plan, duel.theirs, port, plan.round)?);
        ours.push(turn(plan, duel.ours, port, plan.round)?);
    }
    Ok((Sample::median_of(&theirs), Sample::median_of(&ours)))
}

/// Runs a generator once. Its CPU time is taken from the total of this program's ended child
/// processes.
fn turn(plan: &Plan, tool: Tool, port: u16, duration: Duration) -> Result<Sample> {
    let folder = shell::fresh_folder()?;
    let mut command = tool.command(plan, folder.path(), port, duration)?;
    let before = Program::ended_cpu_time();
    let text = shell::output_of(&mut command)?;
    let spent = Program::ended_cpu_time().saturating_sub(before);
    let counted = tool.read(&text, folder.path());
    let counted = counted.with_context(|| format!("{} printed:\n{text}", tool.label()))?;
    if counted.requests == 0 {
        bail!("{}: no request was answered", tool.label());
    }
    Ok(Sample {
        cpu_us_per_request: spent.as_secs_f64() * 1e6 / counted.requests as f64,
        requests_per_second: counted.requests as f64 / duration.as_secs_f64(),
        errors: counted.errors,
    })
}

/// Starts the server on the core of the program under test, and returns its port.
fn start(plan: &Plan, server: Server) -> Result<(u16, Program)> {
    match server {
        Server::Http1 => origin::start_null(plan, ""),
        Server::Http2 => origin::start_null(plan, " http2"),
        Server::Grpc => plan.mock(Core::Proxy),
    }
}

impl Sample {
    fn median_of(samples: &[Self]) -> Self {
        let of = |value: fn(&Self) -> f64| median(samples.iter().map(value).collect());
        Self {
            cpu_us_per_request: of(|sample| sample.cpu_us_per_request),
            requests_per_second: of(|sample| sample.requests_per_second),
            errors: samples.iter().map(|sample| sample.errors).sum(),
        }
    }

    fn to_cells(self, tool: Tool, protocol: &str) -> Vec<Value> {
        vec![
            json!(tool.label()),
            json!(protocol),
            json!((self.cpu_us_per_request * 100.0).round() / 100.0),
            json!((1e6 / self.cpu_us_per_request).round()),
            json!(self.requests_per_second.round()),
            json!(self.errors.to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_rounds_counts_and_errors_add_up() {
        let sample = |cpu_us_per_request, errors| Sample {
            cpu_us_per_request,
            requests_per_second: 1.0,
            errors,
        };
        let median = Sample::median_of(&[sample(4.0, 0), sample(90.0, 2), sample(5.0, 1)]);
        assert_eq!((median.cpu_us_per_request, median.errors), (5.0, 3));
        assert_eq!(median.to_cells(Tool::Wrk, "HTTP/1.1")[3], json!(200_000.0));
    }
}
