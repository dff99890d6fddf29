//! The tail while the configuration changes: 50 route changes a second among 10,000 routes, against
//! the same proxy with none.
//!
//! Changes arrive the way they do with a declarative file: the whole file is replaced.

use super::budget::{self, Figure};
use super::cases::{BODY_BYTES, Case};
use super::client::Connection;
use super::measure::{Contender, Row, Sample};
use super::peer::{Peer, Proxy, route_json};
use super::report::CaseResult;
use super::{Plan, origin};
use crate::shell;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

const ROUTES: usize = 10_000;
/// 50 changes a second.
const CHANGE_INTERVAL: Duration = Duration::from_millis(20);
/// Few enough that the proxy is not saturated: a queue would hide what is looked for.
const CONNECTIONS: usize = 4;
/// A change that is not visible by then is lost.
const VISIBLE_MAX: Duration = Duration::from_secs(10);

/// Runs the case; only Tollhouse can take part, the others start anew to change a route.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    if !plan.peers.contains(&Peer::Tollhouse) {
        println!("nothing to compare without tollhouse");
        return Ok(CaseResult { case: Case::Churn.name(), rows: Vec::new(), figures: Vec::new() });
    }
    let origin = origin::start(&plan.cores, BODY_BYTES)?;
    let proxy = Peer::Tollhouse.start(&plan.cores, &plan.binary, origin.port, ROUTES)?;
    let contender = Contender {
        label: "tollhouse".to_owned(),
        proxy: &proxy,
        path: "/r/0",
        script: None,
        connections: CONNECTIONS,
    };
    contender.turn(&plan.cores, Duration::from_secs(1))?;
    let (mut steady, mut changing) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        steady.push(contender.turn(&plan.cores, plan.round)?);
        changing.push(turn_under_churn(plan, &contender, origin.port)?);
    }
    let rows = vec![Row::of("no change", &steady), Row::of("50 changes a second", &changing)];
    let figures = vec![
        Figure::judged(
            "p99 under churn over p99 without",
            rows[1].p99_us / rows[0].p99_us,
            budget::P99_UNDER_CHURN,
        ),
        Figure::free("file replaced to change visible, ms", visible_after_ms(&proxy, origin.port)?),
    ];
    Ok(CaseResult { case: Case::Churn.name(), rows, figures })
}

fn turn_under_churn(plan: &Plan, contender: &Contender<'_>, origin_port: u16) -> Result<Sample> {
    let (stop, stopped) = channel();
    let path = contender.proxy.running.folder().join("resources.json");
    let writer = std::thread::spawn(move || change_until(&stopped, &path, origin_port));
    let sample = contender.turn(&plan.cores, plan.round);
    end(stop);
    let changes = writer.join().map_err(|_| anyhow::anyhow!("the writer stopped early"))??;
    println!("{changes} changes in {:?}", plan.round);
    sample
}

/// Dropping the sender is the sign to stop.
fn end(stop: Sender<()>) {
    drop(stop);
}

/// Changes one route after the other; returns how many changes were made.
fn change_until(stopped: &Receiver<()>, path: &Path, origin_port: u16) -> Result<u64> {
    let mut file = ResourceFile::new(path, origin_port);
    let start = Instant::now();
    let mut changes = 0_u32;
    loop {
        let due = start + CHANGE_INTERVAL * changes;
        let wait = due.saturating_duration_since(Instant::now());
        if !matches!(stopped.recv_timeout(wait), Err(RecvTimeoutError::Timeout)) {
            return Ok(u64::from(changes));
        }
        changes += 1;
        file.change(changes as usize % ROUTES, u64::from(changes));
        file.replace("")?;
    }
}

/// The routes as text, so that a change costs the load side as little as possible.
struct ResourceFile {
    path: PathBuf,
    origin_port: u16,
    routes: Vec<String>,
}

impl ResourceFile {
    fn new(path: &Path, origin_port: u16) -> Self {
        let routes = (0..ROUTES).map(|number| route_json(origin_port, number, 0)).collect();
        Self { path: path.to_owned(), origin_port, routes }
    }

    fn change(&mut self, number: usize, priority: u64) {
        self.routes[number] = route_json(self.origin_port, number, priority);
    }

    /// Writes aside and renames, so that no reader sees half a file.
    fn replace(&self, more: &str) -> Result<()> {
        let text = format!("{{\"routes\":[{}{more}]}}", self.routes.join(",\n"));
        let aside = self.path.with_extension("next");
        std::fs::write(&aside, text).context("writing the routes")?;
        std::fs::rename(&aside, &self.path).context("replacing the routes")
    }
}

/// How long after the file was replaced a new route answers.
fn visible_after_ms(proxy: &Proxy, origin_port: u16) -> Result<f64> {
    let file = ResourceFile::new(&proxy.running.folder().join("resources.json"), origin_port);
    let start = Instant::now();
    file.replace(&format!(",\n{}", route_json(origin_port, ROUTES, 0)))?;
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

    #[test]
    fn a_change_touches_one_route_and_the_file_stays_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resources.json");
        let mut file = ResourceFile::new(&path, 81);
        file.change(7, 3);
        file.replace("").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let routes = value["routes"].as_array().unwrap();
        assert_eq!(routes.len(), ROUTES);
        assert_eq!((&routes[7]["priority"], &routes[8]["priority"]), (&3.into(), &0.into()));
    }
}
