//! Data about the running process for the console. Everything is read on request, except traffic,
//! which is sampled every second.

pub mod bench;
pub mod bound;
pub mod node_history;
pub(crate) mod nodes;
mod object_history;
pub mod object_rates;
pub mod observers;
mod requests;
pub mod sampler;
pub mod shenyu;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tollhouse_admin::{BenchFile, ConsoleSource, LiveQuery, Question, RequestFilter};
use tollhouse_config::Document;
use tollhouse_proxy::SnapshotCell;
use tollhouse_telemetry::Metrics;

use self::bench::Bench;
use crate::context::ControlContext;
use crate::explain::ServedQuestions;
use crate::feed::Source;
use crate::process_log;
use crate::settings;
use crate::trial;

/// Limit of problems in the overview; it also contains their full number.
const PROBLEMS_LISTED_MAX: usize = 50;

/// Limit of certificates in the overview; the next to expire come first.
const CERTIFICATES_LISTED_MAX: usize = 20;

/// Seconds over which the overview counts failed requests.
const RECENT_SECONDS: usize = 15;

/// The running process, as the console sees it.
pub struct RunningProcess {
    cx: ControlContext,
    snapshots: Arc<SnapshotCell>,
    questions: ServedQuestions,
    source: String,
    bench: Bench,
}

impl RunningProcess {
    /// `source` is the origin of the configuration, and is only displayed.
    pub fn new(cx: &ControlContext, snapshots: &Arc<SnapshotCell>, source: &Source) -> Self {
        let settings = Arc::new(settings::data_plane(&cx.bootstrap));
        Self {
            cx: cx.clone(),
            snapshots: Arc::clone(snapshots),
            questions: ServedQuestions::new(Arc::clone(snapshots), settings),
            source: source.name(),
            bench: cx.console.bench.clone(),
        }
    }

    /// Returns the manual page of a plugin: the text of its module's doc comment. `None` for an
    /// unknown plugin.
    fn manual_page(name: &str) -> Option<String> {
        let (_, source) = tollhouse_plugins::PAGES.iter().find(|(plugin, _)| *plugin == name)?;
        let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
        let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(line));
        Some(lines.collect::<Vec<_>>().join("\n"))
    }
}

/// Times of plugins since the start, by name, in microseconds.
fn plugin_times(metrics: &Metrics) -> Value {
    let times = metrics.plugin_times().into_iter().map(|(plugin, time)| {
        let (p50, p99) = (time.quantile_us(500), time.quantile_us(990));
        (plugin, json!({"timed": time.count(), "mean": time.mean_us(), "p50": p50, "p99": p99}))
    });
    Value::Object(times.collect())
}

impl ConsoleSource for RunningProcess {
    fn overview(&self) -> Value {
        let mut configuration = self.cx.serving.configuration.status();
        let problems = configuration["problems"].as_array().map_or(0, Vec::len);
        if let Some(list) = configuration["problems"].as_array_mut() {
            list.truncate(PROBLEMS_LISTED_MAX);
        }
        let down = self.cx.outages.list().into_iter();
        let down = down.map(|(part, reason)| json!({"part": part.name(), "reason": reason}));
        // Sorted by expiry before the list is cut.
        let mut ends = self.cx.metrics_page.certificates().all().to_vec();
        ends.sort_by_key(|(_, end)| *end);
        let ends = ends.iter().take(CERTIFICATES_LISTED_MAX);
        let ends = ends.map(|(id, end)| json!({"id": id, "ends_at": end}));
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "hostname": self.cx.identity.hostname,
            "id": self.cx.identity.id,
            "started_at": self.cx.identity.boot_time_s,
            "source": self.source,
            "is_ready": self.cx.serving.configuration.is_ready(),
            "revision": configuration["revision"],
            "routes_in_service": configuration["routes"],
            "problem_count": problems,
            "problems": configuration["problems"],
            "refused": configuration["refused"],
            "down": down.collect::<Vec<_>>(),
            "listeners": self.cx.bound.to_json(),
            "certificates": ends.collect::<Vec<_>>(),
            "findings": self.cx.metrics_page.findings().to_json(),
            "nodes": nodes::count(&self.snapshots.load()).to_json(),
            "plugin_refusals": self.cx.metrics.plugin_refusals(),
            "plugin_times": plugin_times(&self.cx.metrics),
            "failed_recently": self.cx.console.sampler.server_errors(RECENT_SECONDS),
        })
    }

    fn problems(&self) -> Value {
        self.cx.serving.configuration.status()["problems"].take()
    }

    fn problems_at(&self, beginning: &str) -> Vec<Value> {
        self.cx.serving.configuration.problems_at(beginning)
    }

    fn foresee(&self, document: &Document) -> Vec<Value> {
        trial::problems_of(document, &self.cx.bootstrap)
    }

    fn live(&self, since: u64) -> Value {
        self.cx.console.sampler.after(since)
    }

    fn live_objects(&self, query: &LiveQuery<'_>) -> Value {
        self.cx.console.object_rates.top(query)
    }

    fn requests(&self, filter: &RequestFilter) -> Value {
        requests::list(&self.cx.metrics, filter)
    }

    fn nodes(&self, search: &str) -> Value {
        nodes::list(&self.snapshots.load(), &self.cx.console.node_history, search)
    }

    fn explain(&self, question: &Question) -> Result<Value, String> {
        self.questions.answer(question)
    }

    fn log_lines(&self, from: u64) -> Value {
        process_log::process_log().lines(from)
    }

    fn log_level(&self) -> Value {
        process_log::process_log().level()
    }

    fn set_log_level(&self, level: &str, seconds: u64) -> Result<(), String> {
        process_log::process_log().set_level(level, Duration::from_secs(seconds))
    }

    fn findings(&self) -> Value {
        self.cx.metrics_page.findings().to_json()
    }

    fn reload(&self) -> Result<(), String> {
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::HUP)
            .map_err(|error| error.to_string())
    }

    fn benches(&self) -> Value {
        self.bench.list()
    }

    fn start_bench(&self, question: &Value) -> Result<Value, String> {
        self.bench.start(question)
    }

    fn bench(&self, id: &str) -> Option<Value> {
        self.bench.one(id)
    }

    fn bench_file(&self, id: &str, file: BenchFile) -> Option<Vec<u8>> {
        let extension = match file {
            BenchFile::Page => "html",
            BenchFile::Result => "result.json",
        };
        self.bench.file(id, extension)
    }

    fn end_bench(&self, id: &str) -> bool {
        self.bench.end(id)
    }

    fn compare_benches(&self, before: &str, after: &str) -> Result<Value, String> {
        self.bench.compare(before, after)
    }

    fn settings(&self) -> Value {
        let rows = self.cx.bootstrap.setting_views().into_iter().map(|setting| {
            json!({
                "name": setting.name,
                "value": setting.value,
                "default": setting.default,
                "is_default": setting.value == setting.default,
                "takes": setting.takes,
                "doc": setting.doc,
                "variable": setting.variable,
            })
        });
        json!({ "rows": rows.collect::<Value>() })
    }

    fn manual(&self, plugin: &str) -> Option<String> {
        Self::manual_page(plugin)
    }
}
