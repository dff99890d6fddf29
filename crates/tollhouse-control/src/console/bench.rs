//! Load tests started from the console. Each runs in a separate process of this program, so that it
//! shares no threads with the measured gateway. One test runs at a time, for at most ten minutes,
//! against this machine or the targets that the bootstrap file allows. Results are stored in the
//! data folder.

mod wanted;

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use self::wanted::{BenchRequest, CONNECTIONS_MAX, SECONDS_MAX};

/// Extra time beyond the requested duration before the process is killed, for warm-up and pending
/// requests.
const GRACE: Duration = Duration::from_secs(60);

/// Limit of stored results; the oldest are deleted.
const KEPT_MAX: usize = 50;

/// Limits of stored progress lines and of output bytes of a running test.
const LINES_MAX: usize = 200;
const TEXT_BYTES_MAX: u64 = 256 * 1024;

/// Limit of points in a time series.
const POINTS_MAX: usize = 300;

/// Running and stored load tests. Cheap to clone.
#[derive(Clone)]
pub struct Bench(Arc<BenchState>);

/// Settings of load tests from the console.
#[derive(Debug, Clone, Default)]
pub struct BenchSettings {
    /// Whether load tests may be started.
    pub is_on: bool,
    /// Targets that they may have.
    pub targets: Vec<String>,
}

struct BenchState {
    is_on: bool,
    targets: Vec<String>,
    folder: PathBuf,
    program: PathBuf,
    running: Mutex<Option<Running>>,
}

struct Running {
    id: String,
    info: Value,
    started: Instant,
    lines: VecDeque<String>,
    child: Option<Child>,
    is_stopped: bool,
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Bench({})", self.0.is_on)
    }
}

impl Bench {
    /// `data_dir` receives the results in the folder `bench`; `program` runs the tests.
    pub fn new(settings: BenchSettings, data_dir: &Path, program: PathBuf) -> Self {
        let BenchSettings { is_on, targets } = settings;
        let folder = data_dir.join("bench");
        let targets = targets.iter().map(|target| target.to_ascii_lowercase()).collect();
        Self(Arc::new(BenchState { is_on, targets, folder, program, running: Mutex::new(None) }))
    }

    /// Returns the availability, the running test, and the stored results, newest first.
    pub(super) fn list(&self) -> Value {
        let running = self.running().as_ref().map(Running::view);
        let mut names: Vec<String> = self.ids();
        names.sort_unstable_by(|one, other| other.cmp(one));
        let runs = names.iter().filter_map(|id| {
            let mut run = self.read(id)?;
            let fields = run.as_object_mut()?;
            // Lists have the figures, not what charts are drawn from.
            fields.remove("text");
            fields.remove("series");
            for case in fields.get_mut("cases").and_then(Value::as_array_mut).into_iter().flatten()
            {
                case.as_object_mut().map(|case| case.remove("curve"));
            }
            Some(run)
        });
        json!({
            "is_on": self.0.is_on,
            "targets": self.0.targets,
            "running": running,
            "runs": runs.collect::<Value>(),
            "seconds_max": SECONDS_MAX,
            "connections_max": CONNECTIONS_MAX,
        })
    }

    /// Starts a test, and returns its id.
    pub(super) fn start(&self, question: &Value) -> Result<Value, String> {
        if !self.0.is_on {
            return Err(
                "the load generator is not started from here; set console.bench to true".into()
            );
        }
        let wanted: BenchRequest =
            serde_json::from_value(question.clone()).map_err(|error| error.to_string())?;
        wanted.check(&self.0.targets)?;
        fs::create_dir_all(&self.0.folder).map_err(|error| format!("the data folder: {error}"))?;
        // The lock is held until the new test is registered, so that two simultaneous starts cannot
        // both succeed.
        let mut running = self.running();
        if running.is_some() {
            return Err("another measurement is under way; two would measure each other".into());
        }
        self.make_room();
        let at_ms = now_ms();
        let id = format!("{at_ms:013}");
        let arguments = wanted.arguments();
        let (head, tail) = arguments.split_at(arguments.len() - 2);
        let mut command = Command::new(&self.0.program);
        command.args(head).arg("--json").arg(self.path(&id, "result.json")).args(tail);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("it does not start: {error}"))?;
        let info = json!({
            "id": id,
            "at_ms": at_ms,
            "name": if wanted.name.is_empty() { &wanted.url } else { &wanted.name },
            "url": wanted.url,
            "connections": wanted.connections,
            "seconds": wanted.seconds,
            "repeat": wanted.repeat,
            "rate": wanted.rate,
            "thresholds": wanted.thresholds,
            "command": format!("tollhouse {}", arguments.join(" ")),
        });
        tracing::info!(
            url = wanted.url,
            connections = wanted.connections,
            "a measurement is started"
        );
        let (out, error) = (child.stdout.take(), child.stderr.take());
        *running = Some(Running {
            id: id.clone(),
            info,
            started: Instant::now(),
            lines: VecDeque::new(),
            child: Some(child),
            is_stopped: false,
        });
        drop(running);
        let (bench, own) = (self.clone(), id.clone());
        let time_max = Duration::from_secs(wanted.seconds * wanted.repeat) + GRACE;
        std::thread::spawn(move || bench.follow(&own, out, error, time_max));
        Ok(json!({ "id": id }))
    }

    /// Returns a test by id: with progress lines while it runs, with output and time series
    /// afterwards. `None` if no test has the id.
    pub(super) fn one(&self, id: &str) -> Option<Value> {
        if let Some(running) = self.running().as_ref().filter(|running| running.id == id) {
            let mut shown = running.view();
            shown["lines"] = running.lines.iter().map(String::as_str).collect();
            return Some(shown);
        }
        self.read(&known(id)?)
    }

    /// Returns a stored file of a finished test, such as its result or page; `None` if it does not
    /// exist.
    pub(super) fn file(&self, id: &str, name: &str) -> Option<Vec<u8>> {
        fs::read(self.path(&known(id)?, name)).ok()
    }

    /// Stops the running test, or deletes a finished one.
    pub(super) fn end(&self, id: &str) -> bool {
        if let Some(running) = self.running().as_mut().filter(|running| running.id == id) {
            running.is_stopped = true;
            // Fails if the process has just ended by itself.
            return running.child.as_mut().is_some_and(|child| child.kill().is_ok());
        }
        known(id).is_some_and(|id| self.forget(&id))
    }

    /// Compares two results with `tollhouse bench compare`, and returns its text.
    pub(super) fn compare(&self, before: &str, after: &str) -> Result<Value, String> {
        let path = |id: &str| {
            let path = known(id).map(|id| self.path(&id, "result.json"));
            path.filter(|path| path.is_file()).ok_or_else(|| format!("unknown measurement {id}"))
        };
        let mut command = Command::new(&self.0.program);
        command.args(["bench", "compare"]).arg(path(before)?).arg(path(after)?);
        let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.is_empty() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        Ok(json!({ "text": text }))
    }

    /// Reads the process's output until it ends or is killed, then stores the result.
    fn follow(
        &self,
        id: &str,
        out: Option<impl Read + Send + 'static>,
        error: Option<impl Read + Send + 'static>,
        time_max: Duration,
    ) {
        let own = self.clone();
        let progress = std::thread::spawn(move || {
            let lines = error.into_iter().flat_map(|error| BufReader::new(error).lines());
            lines.map_while(Result::ok).for_each(|line| own.keep_line(line));
        });
        let text = std::thread::spawn(move || {
            let mut text = Vec::new();
            // After a read error, the text read so far is kept.
            let _ = out.map(|out| out.take(TEXT_BYTES_MAX).read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        let ended = self.wait(time_max);
        let text = text.join().unwrap_or_default();
        // This thread ends when the pipe closes, that is, with the process.
        let _ = progress.join();
        let mut running = self.running();
        let Some(over) = running.take() else { return };
        drop(running);
        let mut run = over.info;
        run["end"] = match (ended, over.is_stopped) {
            (_, true) => "stopped".into(),
            (Some(0 | 1), false) => "done".into(),
            (_, false) => "failed".into(),
        };
        run["took_seconds"] = over.started.elapsed().as_secs().into();
        run["text"] = if text.is_empty() {
            over.lines.into_iter().collect::<Vec<_>>().join("\n").into()
        } else {
            text.into()
        };
        if let Some(result) = fs::read(self.path(id, "result.json"))
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
        {
            run["series"] = series(&result);
            if let Some(mut figures) = self.figures(id) {
                run["cases"] = figures["cases"].take();
                run["outcomes"] = figures["thresholds"].take();
            }
            self.draw(id);
        }
        if let Err(error) = fs::write(self.path(id, "json"), run.to_string()) {
            tracing::warn!(%error, "a measurement cannot be written down");
        }
    }

    /// Waits for the process, and kills it after `time_max`. Returns its exit code, if it has one.
    fn wait(&self, time_max: Duration) -> Option<i32> {
        /// Interval between two looks at the process.
        const LOOK: Duration = Duration::from_millis(100);
        let started = Instant::now();
        loop {
            {
                let mut running = self.running();
                let child = running.as_mut().and_then(|running| running.child.as_mut())?;
                match child.try_wait() {
                    Ok(Some(status)) => return status.code(),
                    Ok(None) if started.elapsed() < time_max => {}
                    Ok(None) | Err(_) => {
                        // Killing a process that has just ended fails, which does not matter.
                        let _ = child.kill();
                        return child.wait().ok().and_then(|status| status.code());
                    }
                }
            }
            // The thread is never unparked; a spurious wake-up only polls early.
            std::thread::park_timeout(LOOK);
        }
    }

    /// Runs `tollhouse bench report` for the figures of a result; `None` if it fails.
    fn figures(&self, id: &str) -> Option<Value> {
        let mut command = Command::new(&self.0.program);
        command.args(["bench", "report", "--format", "summary"]);
        command.arg(self.path(id, "result.json")).stdin(Stdio::null());
        let output = command.output().ok().filter(|output| output.status.success())?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Runs `tollhouse bench report` to create the HTML page of a result.
    fn draw(&self, id: &str) {
        let mut command = Command::new(&self.0.program);
        command.args(["bench", "report"]).arg(self.path(id, "result.json"));
        command.arg("-o").arg(self.path(id, "html")).stdin(Stdio::null()).stdout(Stdio::null());
        if let Err(error) = command.stderr(Stdio::null()).status() {
            tracing::warn!(%error, "the page of a measurement cannot be drawn");
        }
    }

    fn keep_line(&self, line: String) {
        let mut running = self.running();
        let Some(running) = running.as_mut() else { return };
        if running.lines.len() == LINES_MAX {
            running.lines.pop_front();
        }
        running.lines.push_back(line);
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, id: &str, name: &str) -> PathBuf {
        self.0.folder.join(format!("{id}.{name}"))
    }

    fn read(&self, id: &str) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.path(id, "json")).ok()?).ok()
    }

    fn ids(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| known(name.strip_suffix(".json")?)).collect()
    }

    fn make_room(&self) {
        let mut ids = self.ids();
        ids.sort_unstable();
        let over = (ids.len() + 1).saturating_sub(KEPT_MAX);
        for id in ids.iter().take(over) {
            self.forget(id);
        }
    }

    fn forget(&self, id: &str) -> bool {
        let gone = ["json", "result.json", "html"].map(|name| fs::remove_file(self.path(id, name)));
        gone[0].is_ok()
    }
}

impl Running {
    fn view(&self) -> Value {
        let mut shown = self.info.clone();
        shown["is_running"] = true.into();
        shown["elapsed_seconds"] = self.started.elapsed().as_secs().into();
        shown["last_line"] = self.lines.back().map(String::as_str).into();
        shown
    }
}

/// Returns the id if it is valid: 13 digits, so that it cannot lead out of the folder.
fn known(id: &str) -> Option<String> {
    let is_id = id.len() == 13 && id.bytes().all(|byte| byte.is_ascii_digit());
    is_id.then(|| id.to_owned())
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time series of each repetition: seconds, requests per second, median and p99 in
/// milliseconds.
fn series(result: &Value) -> Value {
    let results = result["results"].as_array().into_iter().flatten();
    let runs = results.map(|run| {
        let all = run["series"].as_array().map_or(&[][..], Vec::as_slice);
        let step = all.len().div_ceil(POINTS_MAX).max(1);
        let points = all.iter().step_by(step).map(|one| {
            let number = |name: &str| one[name].as_f64().unwrap_or_default();
            let span_s = number("span_ns") / 1e9;
            let rate = if span_s > 0.0 { number("completed") / span_s } else { 0.0 };
            json!([number("at_ns") / 1e9, rate, number("p50_ns") / 1e6, number("p99_ns") / 1e6])
        });
        points.collect::<Value>()
    });
    runs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_out_of_no_folder() {
        assert_eq!(known("1700000000000").as_deref(), Some("1700000000000"));
        for id in ["", "../../../../x", "170000000000/", "17000000000001"] {
            assert_eq!(known(id), None, "{id}");
        }
    }

    #[test]
    fn what_is_off_starts_nothing() {
        let folder = std::env::temp_dir();
        let bench = Bench::new(BenchSettings::default(), &folder, "/nonexistent".into());
        let refused = bench.start(&json!({"url": "http://127.0.0.1/"})).expect_err("it is off");
        assert!(refused.contains("console.bench"), "{refused}");
    }
}
