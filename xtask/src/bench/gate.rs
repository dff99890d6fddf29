//! `cargo x bench --gate`: user instructions a plain proxied request costs, counted by callgrind.
//!
//! Instructions do not depend on what else the machine does, so that they can gate a merge where
//! times cannot. Two runs of different length are counted; the slope between them is the request,
//! and start and end fall out.

mod origin;

use super::budget::{Figure, INSTRUCTIONS_PER_REQUEST};
use super::client::Connection;
use super::peer::{routes_json, write_tollhouse};
use super::process::{self, Running, free_port};
use crate::shell;
use anyhow::{Context, Result, bail};
use origin::Origin;
use std::path::Path;
use std::process::Command;

/// Connections that are kept open, each with one request at a time.
const CONNECTIONS: usize = 16;
/// Requests of the short run: enough for every connection to be past its first ones.
const REQUESTS_SHORT: usize = 320;
/// Requests of the long run.
const REQUESTS_LONG: usize = 3520;

/// A request with nine headers, about what a browser's call of an API sends.
const REQUEST: &str = "GET /r/0?page=2 HTTP/1.1\r\n\
    Host: api.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: application/json, text/plain, */*\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br\r\n\
    Referer: https://www.example.com/app/list\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef\r\n\
    X-Request-Id: 5f1d7a3c-8a39-4f56-9a34-0d2f8f0b6d11\r\n\
    Cache-Control: no-cache\r\n\r\n";

/// Whether instructions can be counted here.
pub(crate) fn is_possible() -> bool {
    shell::find_program("valgrind").is_some()
}

/// Counts, prints the figure, and fails past the budget.
pub(crate) fn run(binary: &Path) -> Result<()> {
    let origin = Origin::start()?;
    let short = count(binary, origin.port(), REQUESTS_SHORT)?;
    let long = count(binary, origin.port(), REQUESTS_LONG)?;
    let figure = Figure::judged(
        "user instructions per plain proxied request",
        slope(short, long),
        INSTRUCTIONS_PER_REQUEST,
    );
    let verdict = figure.verdict();
    println!("{}: {:.0} (budget {}, {verdict})", figure.what, figure.value, budget_text());
    if figure.value > INSTRUCTIONS_PER_REQUEST.limit {
        bail!("past the budget; see where they go with callgrind_annotate");
    }
    Ok(())
}

fn budget_text() -> String {
    format!("{} / {}", INSTRUCTIONS_PER_REQUEST.limit, INSTRUCTIONS_PER_REQUEST.stretch)
}

fn slope(short: u64, long: u64) -> f64 {
    (long as f64 - short as f64) / (REQUESTS_LONG - REQUESTS_SHORT) as f64
}

/// Starts the program under callgrind, sends so many requests, ends it, and reads the total.
fn count(binary: &Path, origin_port: u16, requests: usize) -> Result<u64> {
    let folder = process::fresh_folder()?;
    let port = free_port()?;
    write_tollhouse(&folder, port, &routes_json(origin_port, 1))?;
    let profile = shell::target_directory()?.join(format!("callgrind.out.{requests}"));
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(binary)
        .args(["run", "--config"])
        .arg(folder.path().join("tollhouse.yaml"));
    let mut running = Running::start(command, folder)?;
    running.wait_until_it_answers(port, "/r/0").context("under valgrind")?;
    send(port, requests)?;
    running.stop();
    let text = std::fs::read_to_string(&profile)
        .with_context(|| format!("callgrind wrote no {}", profile.display()))?;
    total(&text).with_context(|| format!("no total in {}", profile.display()))
}

/// One request on every connection, then one answer from every connection, and again.
fn send(port: u16, requests: usize) -> Result<()> {
    let mut connections: Vec<Connection> =
        (0..CONNECTIONS).map(|_| Connection::open(port)).collect::<Result<_>>()?;
    for _ in 0..requests / CONNECTIONS {
        for connection in &mut connections {
            connection.send(REQUEST.as_bytes())?;
        }
        for connection in &mut connections {
            let status = connection.receive()?;
            if status != 200 {
                bail!("status {status} during the measurement");
            }
        }
    }
    Ok(())
}

/// The sum over all threads, from the end of callgrind's file.
fn total(text: &str) -> Option<u64> {
    let value_of = |name: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(name));
        lines.filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).max()
    };
    value_of("totals:").or_else(|| value_of("summary:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_nine_headers() {
        assert_eq!(REQUEST.trim_end().lines().count(), 1 + 9);
    }

    #[test]
    fn start_and_end_fall_out_of_the_slope() {
        let start_and_end = 5_000_000;
        let cost = |requests: usize| start_and_end + 9_000 * requests as u64;
        assert!((slope(cost(REQUESTS_SHORT), cost(REQUESTS_LONG)) - 9_000.0).abs() < 1e-9);
    }

    #[test]
    fn the_total_is_read() {
        assert_eq!(total("events: Ir\nfn=(1)\n1 2\nsummary: 41\n\ntotals: 42\n"), Some(42));
        assert_eq!(total("summary: 41\n"), Some(41));
        assert_eq!(total(""), None);
    }

    #[test]
    fn client_and_origin_of_the_gate_understand_each_other() {
        let origin = Origin::start().unwrap();
        send(origin.port(), 3 * CONNECTIONS).unwrap();
    }
}
