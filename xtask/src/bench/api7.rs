//! What plugins and consumers cost: the scenarios of API7 Gateway's published benchmark, with
//! nginx and HAProxy doing what they can of it in the same run, and the published figures beside.
//!
//! The scenarios themselves are in `api7/scenario.rs`.

mod published;
mod scenario;

use super::budget::{self, Figure};
use super::cases::{CONNECTIONS, Case};
use super::measure::{self, Contender, Row, Turns};
use super::peer::{Peer, Proxy, Setup};
use super::report::{CaseResult, Table};
use super::{Plan, origin};
use anyhow::{Context, Result};
use scenario::{BODY_BYTES, HUNDRED, MANY, ONE, Plugins, Size};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Short turns, and more of them than elsewhere: twenty proxies take theirs one after the other, and
/// those that are compared should meet the same disturbances.
const TURNS: Turns = Turns { count: 5, duration: Duration::from_secs(3) };
const QUICK_TURNS: Turns = Turns { count: 1, duration: Duration::from_secs(1) };
/// With the second, the proxy shares a core with the load.
const WORKERS: [usize; 2] = [1, 2];

/// One proxy in one scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    peer: Peer,
    plugins: Plugins,
    size: Size,
}

/// Runs the case, with one worker and then with two.
pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let entries = entries(plan);
    let mut result = CaseResult::new(Case::Api7.name(), Vec::new(), Vec::new());
    for workers in WORKERS {
        let measured = measure(plan, &entries, workers)?;
        let found = Found { rows: entries.iter().copied().zip(&measured).collect(), workers };
        result.figures.extend(found.figures());
        result.tables.push(found.table());
        result.rows.extend(measured);
    }
    Ok(result)
}

/// What each peer can do, in the order of the table.
fn entries(plan: &Plan) -> Vec<Entry> {
    let mut entries = Vec::new();
    for plugins in Plugins::ALL {
        for size in [ONE, HUNDRED, MANY] {
            let possible = |peer: &Peer| can_take_part(*peer, plugins, size);
            let able = plan.peers.iter().copied().filter(possible);
            entries.extend(able.map(|peer| Entry { peer, plugins, size }));
        }
    }
    entries
}

fn can_take_part(peer: Peer, plugins: Plugins, size: Size) -> bool {
    match (peer, plugins) {
        (Peer::Tollhouse, Plugins::None | Plugins::KeyAuthAndLimitCount) => true,
        (Peer::Tollhouse, _) | (Peer::Nginx, Plugins::Mocking) => size != MANY,
        (Peer::Nginx | Peer::Haproxy, Plugins::None) => true,
        (Peer::Nginx | Peer::Haproxy | Peer::HaproxyTcp, _) => false,
    }
}

fn measure(plan: &Plan, entries: &[Entry], workers: usize) -> Result<Vec<Row>> {
    let origin = origin::start(&plan.cores, BODY_BYTES)?;
    let scripts = tempfile::tempdir()?;
    let mut paths: BTreeMap<usize, PathBuf> = BTreeMap::new();
    for size in [ONE, HUNDRED, MANY] {
        let path = scripts.path().join(format!("{}.lua", size.routes));
        std::fs::write(&path, size.script())?;
        paths.insert(size.routes, path);
    }
    let proxies: Vec<Proxy> = entries
        .iter()
        .map(|entry| entry.start(plan, origin.port, workers).context(entry.label(workers)))
        .collect::<Result<_>>()?;
    let contenders: Vec<Contender<'_>> = entries
        .iter()
        .zip(&proxies)
        .map(|(entry, proxy)| Contender {
            label: entry.label(workers),
            proxy,
            path: "",
            script: paths.get(&entry.size.routes).map(PathBuf::as_path),
            connections: CONNECTIONS,
        })
        .collect();
    let turns = if plan.is_quick { QUICK_TURNS } else { TURNS };
    measure::in_turns(plan, &contenders, turns)
}

impl Entry {
    fn label(self, workers: usize) -> String {
        let Self { peer, plugins, size } = self;
        let (peer, plugins, size) = (peer.name(), plugins.name(), size.title());
        format!("{peer}, {plugins}, {size}, {}", title_of(workers))
    }

    fn start(self, plan: &Plan, origin_port: u16, workers: usize) -> Result<Proxy> {
        let resources = self.plugins.resources(self.size, origin_port);
        let answer = scenario::own_answer();
        let lines = self.size.last_key_line();
        let setup = Setup {
            workers,
            resources: Some(&resources),
            own_answer: (self.plugins == Plugins::Mocking).then_some(&answer),
            probe_lines: &lines,
            ..Setup::plain(origin_port, self.size.routes)
        };
        self.peer.start_with(&plan.cores, &plan.binary, &setup)
    }
}

/// What was measured with so many workers.
struct Found<'a> {
    rows: Vec<(Entry, &'a Row)>,
    workers: usize,
}

impl Found<'_> {
    fn row(&self, peer: Peer, plugins: Plugins, size: Size) -> Option<&Row> {
        let wanted = Entry { peer, plugins, size };
        self.rows.iter().find(|(entry, _)| *entry == wanted).map(|(_, row)| *row)
    }

    fn ours(&self, plugins: Plugins, size: Size) -> Option<&Row> {
        self.row(Peer::Tollhouse, plugins, size)
    }

    /// The rows of the budget, and how the peers compare. Budgets hold for one worker on a core of
    /// its own.
    fn figures(&self) -> Vec<Figure> {
        let both = Plugins::KeyAuthAndLimitCount;
        let mut figures = Vec::new();
        let mut ratio = |what: &str, budget, over: Option<&Row>, under: Option<&Row>| {
            let (Some(over), Some(under)) = (over, under) else { return };
            let value = over.cpu_us_per_request / under.cpu_us_per_request;
            let what = format!("CPU of {what}, {}", title_of(self.workers));
            let budget = if self.workers == 1 { budget } else { None };
            figures.push(Figure { what, value, budget });
        };
        for size in [ONE, HUNDRED, MANY] {
            let what = format!("key-auth + limit-count over none, {}", size.title());
            let (over, under) = (self.ours(both, size), self.ours(Plugins::None, size));
            ratio(&what, Some(budget::CPU_OF_TWO_PLUGINS), over, under);
        }
        for plugins in [Plugins::None, both] {
            let what = format!("{} over {}, {}", MANY.title(), ONE.title(), plugins.name());
            let (over, under) = (self.ours(plugins, MANY), self.ours(plugins, ONE));
            ratio(&what, Some(budget::CPU_AT_MANY_ROUTES), over, under);
        }
        for size in [ONE, HUNDRED] {
            let what = format!("mocking against nginx's return, {}", size.title());
            let theirs = self.row(Peer::Nginx, Plugins::Mocking, size);
            let budget = Some(budget::CPU_OF_MOCKING);
            ratio(&what, budget, self.ours(Plugins::Mocking, size), theirs);
        }
        for (peer, size) in [Peer::Nginx, Peer::Haproxy].into_iter().flat_map(with_sizes) {
            let what = format!("none against {}, {}", peer.name(), size.title());
            let theirs = self.row(peer, Plugins::None, size);
            ratio(&what, None, self.ours(Plugins::None, size), theirs);
        }
        figures
    }

    /// Our ratios beside the published ones.
    fn table(&self) -> Table {
        let caption = format!(
            "Tollhouse with {}, each scenario over none at the same size. The last \
             five columns are API7 Gateway's published figures for one worker, from another machine: \
             their absolute numbers say nothing here, the ratios do. Published is no CPU time; with \
             one saturated worker the cost of a request is one over the rate.",
            title_of(self.workers)
        );
        let columns = vec![
            "plugins",
            "size",
            "CPU ÷ none",
            "QPS ÷ none",
            "published: 1 ÷ (QPS ÷ none)",
            "published: QPS ÷ none",
            "other machine: QPS",
            "other machine: P95 ms",
            "other machine: P99 ms",
        ];
        let ours = self.rows.iter().filter(|(entry, _)| entry.peer == Peer::Tollhouse);
        let cells = ours.filter_map(|(entry, row)| self.cells(*entry, row)).collect();
        Table { caption, columns, cells }
    }

    fn cells(&self, entry: Entry, row: &Row) -> Option<Vec<Value>> {
        let Entry { plugins, size, .. } = entry;
        let none = self.ours(Plugins::None, size)?;
        let published = published::find(plugins, size);
        let rate = |line: published::Published| line.requests_per_second;
        let published_ratio =
            published.map(rate).zip(published::find(Plugins::None, size).map(rate));
        let published_ratio = published_ratio.map(|(rate, none)| rate / none);
        Some(vec![
            json!(plugins.name()),
            json!(size.title()),
            json!(row.cpu_us_per_request / none.cpu_us_per_request),
            json!(row.requests_per_second / none.requests_per_second),
            json!(published_ratio.map(f64::recip)),
            json!(published_ratio),
            json!(published.map(rate)),
            json!(published.map(|line| line.p95_ms)),
            json!(published.map(|line| line.p99_ms)),
        ])
    }
}

fn title_of(workers: usize) -> String {
    format!("{workers} worker{}", if workers == 1 { "" } else { "s" })
}

fn with_sizes(peer: Peer) -> [(Peer, Size); 3] {
    [ONE, HUNDRED, MANY].map(|size| (peer, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cpu_us_per_request: f64) -> Row {
        Row {
            label: String::new(),
            requests_per_second: 1e6 / cpu_us_per_request,
            p50_us: 1.0,
            p95_us: Some(1.0),
            p99_us: 1.0,
            cpu_us_per_request,
            errors: 0,
        }
    }

    fn entry(peer: Peer, plugins: Plugins, size: Size) -> Entry {
        Entry { peer, plugins, size }
    }

    #[test]
    fn peers_do_what_they_can() {
        let count = |peer: Peer| {
            let all = Plugins::ALL.into_iter().flat_map(|plugins| {
                [ONE, HUNDRED, MANY].map(|size| can_take_part(peer, plugins, size))
            });
            all.filter(|can| *can).count()
        };
        assert_eq!(Peer::all().into_iter().map(count).collect::<Vec<_>>(), [12, 5, 3, 0]);
    }

    #[test]
    fn budgets_judge_one_worker_only() {
        let (none, both, mocked, nginx) = (row(10.0), row(10.5), row(6.0), row(5.0));
        let rows = vec![
            (entry(Peer::Tollhouse, Plugins::None, ONE), &none),
            (entry(Peer::Tollhouse, Plugins::KeyAuthAndLimitCount, ONE), &both),
            (entry(Peer::Tollhouse, Plugins::Mocking, ONE), &mocked),
            (entry(Peer::Nginx, Plugins::Mocking, ONE), &nginx),
        ];
        let verdicts = |workers| -> Vec<(f64, &'static str)> {
            let figures = Found { rows: rows.clone(), workers }.figures();
            figures.iter().map(|figure| (figure.value, figure.verdict())).collect()
        };
        assert_eq!(verdicts(1), [(1.05, "met"), (1.2, "missed")]);
        assert_eq!(verdicts(2), [(1.05, ""), (1.2, "")]);
    }

    #[test]
    fn published_ratios_stand_beside_ours() {
        let (none, both) = (row(10.0), row(11.0));
        let rows = vec![
            (entry(Peer::Tollhouse, Plugins::None, ONE), &none),
            (entry(Peer::Tollhouse, Plugins::KeyAuthAndLimitCount, ONE), &both),
            (entry(Peer::Nginx, Plugins::None, ONE), &none),
        ];
        let table = Found { rows, workers: 1 }.table();
        assert_eq!(table.cells.len(), 2);
        let number = |index: usize| table.cells[1][index].as_f64().unwrap();
        assert!((number(2) - 1.1).abs() < 1e-9 && (number(4) - 1.274).abs() < 1e-3);
        assert_eq!(table.columns.len(), table.cells[1].len());
    }
}
