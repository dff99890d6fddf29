//! Case of the latency tail during configuration changes: 50 route changes per second among 10,000
//! routes, compared with an unchanged configuration of the same proxy.
//!
//! Each change replaces the whole declarative file.

use super::budget::{self, Figure};
use super::case::{BODY_BYTES, Case};
use super::client::Connection;
use super::gateway::{route_json, routes_json};
use super::measure::{Contender, Row, Sample};
use super::peer::{Peer, Proxy};
use super::plan::Plan;
use super::prober::{self, Pace};
use super::report::CaseResult;
use super::{origin, shell};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const ROUTES: usize = 10_000;
/// Interval between two changes: 50 per second.
const CHANGE_INTERVAL: Duration = Duration::from_millis(20);
/// Number of connections. Together with the pace of each, they give 4,000 requests per second, a
/// tenth of what the proxy's core can serve; with more, queueing would hide the effect.
const CONNECTIONS: u32 = 4;
const INTERVAL: Duration = Duration::from_millis(1);
const WARM_UP: Duration = Duration::from_secs(1);
/// Maximum time to wait until a change is visible.
const VISIBLE_MAX: Duration = Duration::from_secs(10);

/// Runs the case for Tollhouse only, because the other peers restart to change a route.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let origin = origin::start(plan, BODY_BYTES)?;
    let proxy = Peer::Tollhouse.start(plan, origin.port, ROUTES)?;
    let contender = Contender {
        label: "tollhouse".to_owned(),
        proxy: &proxy,
        path: "/r/0",
        script: None,
        connections: CONNECTIONS as usize,
    };
    let rows = measure(plan, &contender, origin.port)?;
    let p99_ratio = rows[2].p99_us / rows[1].p99_us;
    let figures = vec![
        Figure::with_budget("p99 under churn over p99 without", p99_ratio, budget::P99_UNDER_CHURN),
        Figure::free("file replaced to change visible, ms", visible_after_ms(&proxy, origin.port)?),
    ];
    Ok(CaseResult::new(Case::Churn, rows, figures))
}

/// Returns the latencies in three rows: without any writes, while the file is written to a folder
/// that no proxy watches, and while it is written for the proxy.
fn measure(plan: &Plan, contender: &Contender<'_>, origin_port: u16) -> Result<Vec<Row>> {
    let elsewhere = shell::fresh_folder()?;
    let unwatched = elsewhere.path().join("resources.json");
    let watched = contender.proxy.program.folder().join("resources.json");
    contender.turn(WARM_UP)?;
    let (mut quiet, mut beside, mut changing) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        quiet.push(turn(plan, contender)?);
        beside.push(turn_beside_writer(plan, contender, &unwatched, origin_port)?);
        changing.push(turn_beside_writer(plan, contender, &watched, origin_port)?);
    }
    Ok(vec![
        Row::from_samples("no change, nothing written", &quiet),
        Row::from_samples("no change, file written elsewhere", &beside),
        Row::from_samples("50 changes a second", &changing),
    ])
}

fn turn(plan: &Plan, contender: &Contender<'_>) -> Result<Sample> {
    let pace = Pace {
        port: contender.proxy.port,
        path: contender.path,
        connections: CONNECTIONS,
        interval: INTERVAL,
        duration: plan.round,
    };
    contender.account(|| prober::run(&pace))
}

/// Measures one round while the file is rewritten at a constant pace. The pace is the same whether
/// a proxy watches the file or not, so that the cost of writing cancels out in the comparison.
fn turn_beside_writer(
    plan: &Plan,
    contender: &Contender<'_>,
    path: &Path,
    origin_port: u16,
) -> Result<Sample> {
    let (stop, stopped) = channel();
    let path = path.to_owned();
    let writer = std::thread::spawn(move || change_until(&stopped, &path, origin_port));
    let sample = turn(plan, contender);
    // Dropping the sender ends the writer.
    drop(stop);
    let changes = writer.join().map_err(|_| anyhow::anyhow!("the writer stopped early"))??;
    let expected = plan.round.as_millis() / CHANGE_INTERVAL.as_millis();
    if u128::from(changes) < expected * 9 / 10 {
        println!("only {changes} of {expected} changes were made: the machine is too busy");
    }
    sample
}

/// Changes one route after the other until the sender of `stopped` is dropped; returns the number
/// of changes.
fn change_until(stopped: &Receiver<()>, path: &Path, origin_port: u16) -> Result<u32> {
    shell::stand_back();
    let mut file = ResourceFile::new(path, origin_port);
    let start = Instant::now();
    let mut changes = 0_u32;
    loop {
        let due = start + CHANGE_INTERVAL * changes;
        let wait = due.saturating_duration_since(Instant::now());
        if !matches!(stopped.recv_timeout(wait), Err(RecvTimeoutError::Timeout)) {
            return Ok(changes);
        }
        changes += 1;
        file.change(changes as usize % ROUTES);
        file.replace()?;
    }
}

/// Resource file in memory. A change modifies one digit in place, so that its cost is little more
/// than that of writing the file.
struct ResourceFile {
    path: PathBuf,
    text: Vec<u8>,
    /// Byte positions in `text` of the last digit of each route's priority.
    digits: Vec<usize>,
}

impl ResourceFile {
    fn new(path: &Path, origin_port: u16) -> Self {
        let text = routes_json(origin_port, ROUTES).into_bytes();
        let mark = b"\"priority\":";
        let at_mark = |window: (usize, &[u8])| (window.1 == mark).then_some(window.0 + mark.len());
        let digits = text.windows(mark.len()).enumerate().filter_map(at_mark).collect();
        Self { path: path.to_owned(), text, digits }
    }

    /// Changes the priority of a route.
    fn change(&mut self, number: usize) {
        let digit = &mut self.text[self.digits[number]];
        *digit = if *digit == b'9' { b'0' } else { *digit + 1 };
    }

    /// Appends a route to the file's text.
    fn add(&mut self, route: &str) {
        let end = self.text.len() - b"]}".len();
        self.text.truncate(end);
        self.text.extend_from_slice(format!(",\n{route}]}}").as_bytes());
    }

    /// Writes a temporary file and renames it, so that readers never see a partial file.
    fn replace(&self) -> Result<()> {
        let aside = self.path.with_extension("next");
        std::fs::write(&aside, &self.text).context("writing the routes")?;
        std::fs::rename(&aside, &self.path).context("replacing the routes")
    }
}

/// Returns the time from replacing the file until a new route answers.
fn visible_after_ms(proxy: &Proxy, origin_port: u16) -> Result<f64> {
    let mut file = ResourceFile::new(&proxy.program.folder().join("resources.json"), origin_port);
    file.add(&route_json(origin_port, ROUTES));
    let start = Instant::now();
    file.replace()?;
    let mut connection = Connection::open(proxy.port)?;
    while start.elapsed() < VISIBLE_MAX {
        if connection.get(&format!("/r/{ROUTES}"))? == 200 {
            return Ok(start.elapsed().as_secs_f64() * 1e3);
        }
        shell::pause(Duration::from_millis(1));
    }
    bail!("a change was not visible after {VISIBLE_MAX:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(file: &ResourceFile) -> Vec<serde_json::Value> {
        file.replace().unwrap();
        let text = std::fs::read_to_string(&file.path).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["routes"].as_array().unwrap().clone()
    }

    #[test]
    fn a_change_touches_one_route_and_the_file_stays_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = ResourceFile::new(&folder.path().join("resources.json"), 81);
        file.change(7);
        let changed = routes(&file);
        assert_eq!(changed.len(), ROUTES);
        assert_eq!((&changed[7]["priority"], &changed[8]["priority"]), (&1.into(), &0.into()));
        file.add(&route_json(81, ROUTES));
        assert_eq!(routes(&file)[ROUTES]["id"], ROUTES.to_string());
    }
}
