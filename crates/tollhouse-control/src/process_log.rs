//! The process's own log: the last lines for remote viewing, and a temporary change of the level.
//! Log lines are also written to standard error; `tracing` decides which.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tollhouse_plugin::OwnLog;
use tollhouse_polaris::http::ServerLog;

/// Limits of stored lines, and of their bytes in total.
const LINES_MAX: usize = 500;
const BYTES_MAX: usize = 256 * 1024;

/// Maximum length of a stored line in bytes; longer lines are cut.
const LINE_BYTES_MAX: usize = 4 * 1024;

/// Maximum duration of a temporary level, because a detailed log costs and operators forget to
/// reset it.
const OTHER_LEVEL_MAX: Duration = Duration::from_secs(3600);

/// Callback that changes the log filter. The filter syntax is that of `log` in the bootstrap file.
pub type SetFilter = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// State of the log; one per process.
#[derive(Default)]
pub struct ProcessLog {
    buffer: Mutex<LogBuffer>,
    level: Mutex<Level>,
    followers: Arc<OwnLog>,
    set_filter: OnceLock<SetFilter>,
}

#[derive(Default)]
struct LogBuffer {
    lines: VecDeque<Line>,
    bytes: usize,
    next: u64,
}

struct Line {
    number: u64,
    at_ms: u64,
    text: String,
}

#[derive(Default)]
struct Level {
    configured: String,
    other: Option<Other>,
    /// Rises with each change, so that an expired timer does not undo a later change.
    changes: u64,
}

struct Other {
    text: String,
    until: Instant,
}

pub fn process_log() -> &'static ProcessLog {
    static LOG: OnceLock<ProcessLog> = OnceLock::new();
    LOG.get_or_init(ProcessLog::default)
}

impl ProcessLog {
    /// Sets the configured filter and the callback that changes it.
    pub fn begin(&self, configured: &str, set_filter: SetFilter) {
        lock(&self.level).configured = configured.to_owned();
        // Only the first call has an effect.
        let _ = self.set_filter.set(set_filter);
    }

    /// Plugins that receive the lines.
    pub(crate) fn followers(&self) -> &Arc<OwnLog> {
        &self.followers
    }

    /// Stores a line with the current time, and passes it to plugins; the oldest lines are dropped when the buffer is full.
    pub fn keep(&self, line: &str) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut end = line.len().min(LINE_BYTES_MAX);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        let text = without_colours(&line[..end]);
        self.followers.pass(&text);
        let mut buffer = lock(&self.buffer);
        while buffer.lines.len() == LINES_MAX || buffer.bytes + text.len() > BYTES_MAX {
            let Some(gone) = buffer.lines.pop_front() else { break };
            buffer.bytes -= gone.text.len();
        }
        buffer.bytes += text.len();
        let number = buffer.next;
        buffer.next += 1;
        let at_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        buffer.lines.push_back(Line { number, at_ms, text });
    }

    /// Returns the lines from this number on, oldest first.
    pub fn lines(&self, from: u64) -> Value {
        let buffer = lock(&self.buffer);
        let lines = buffer.lines.iter().filter(|line| line.number >= from);
        let lines = lines
            .map(|line| json!({ "number": line.number, "at_ms": line.at_ms, "text": line.text }));
        json!({ "next": buffer.next, "lines": lines.collect::<Value>() })
    }

    /// Returns the level in effect, and the remaining time of a temporary one.
    pub fn level(&self) -> Value {
        let level = lock(&self.level);
        let left = |other: &Other| other.until.saturating_duration_since(Instant::now()).as_secs();
        json!({
            "level": level.other.as_ref().map_or(&level.configured, |other| &other.text),
            "configured": level.configured,
            "seconds_left": level.other.as_ref().map(left),
            "seconds_max": OTHER_LEVEL_MAX.as_secs(),
        })
    }

    /// Sets a temporary level, for at most an hour.
    ///
    /// # Errors
    /// If the level is invalid.
    pub fn set_level(&'static self, text: &str, time: Duration) -> Result<(), String> {
        let set_filter = self.set_filter.get().ok_or("this process keeps no log of itself")?;
        set_filter(text)?;
        let time = time.min(OTHER_LEVEL_MAX);
        let change = {
            let mut level = lock(&self.level);
            level.changes += 1;
            let is_back = text == level.configured;
            level.other =
                (!is_back).then(|| Other { text: text.to_owned(), until: Instant::now() + time });
            level.changes
        };
        tracing::info!(level = text, seconds = time.as_secs(), "the level of this log is changed");
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            self.fall_back(change);
        });
        Ok(())
    }

    /// Restores the configured level, unless it was changed again since.
    fn fall_back(&self, change: u64) {
        let mut level = lock(&self.level);
        if level.changes != change || level.other.take().is_none() {
            return;
        }
        let configured = level.configured.clone();
        drop(level);
        if let Some(Err(error)) = self.set_filter.get().map(|set| set(&configured)) {
            tracing::error!(error, "the level of this log cannot be set back");
        }
    }
}

/// Level of this process's log, for operators of the registry.
#[derive(Debug)]
pub(crate) struct ProcessLogLevel;

impl ServerLog for ProcessLogLevel {
    fn level(&self) -> String {
        process_log().level()["level"].as_str().unwrap_or_default().to_owned()
    }

    fn set_level(&self, level: &str) -> Result<(), String> {
        process_log().set_level(level, OTHER_LEVEL_MAX)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the text without terminal colour sequences (ECMA-48 §8.3.117).
fn without_colours(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut characters = line.trim_end().chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // `ESC [ … m`: skips to the first letter.
            characters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            text.push(character);
        }
    }
    text
}

/// Log writer: writes to standard error and stores the lines.
#[derive(Debug, Default)]
pub struct BufferedStderr(Vec<u8>);

impl Write for BufferedStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for BufferedStderr {
    fn drop(&mut self) {
        // One write per event, so that lines of several threads do not mix. A write error is
        // ignored, because it must not end the process.
        let _ = io::stderr().write_all(&self.0);
        String::from_utf8_lossy(&self.0).lines().for_each(|line| process_log().keep(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_without_their_colours() {
        let log = ProcessLog::default();
        log.keep("\u{1b}[2m12:00\u{1b}[0m \u{1b}[32m INFO\u{1b}[0m started\n");
        assert_eq!(log.lines(0)["lines"][0]["text"], "12:00  INFO started");
        for number in 0..2 * LINES_MAX {
            log.keep(&format!("line {number}"));
        }
        let all = log.lines(0);
        let lines = all["lines"].as_array().expect("a list");
        assert_eq!((lines.len(), &all["next"]), (LINES_MAX, &json!(2 * LINES_MAX + 1)));
        assert_eq!(log.lines(2 * LINES_MAX as u64)["lines"][0]["text"], "line 999");
    }

    #[test]
    fn long_lines_and_many_bytes_stay_within_their_bound() {
        let log = ProcessLog::default();
        for _ in 0..LINES_MAX {
            log.keep(&"ä".repeat(LINE_BYTES_MAX));
        }
        let buffer = lock(&log.buffer);
        assert!(buffer.bytes <= BYTES_MAX && buffer.lines.len() > 10, "{}", buffer.bytes);
    }

    #[tokio::test(start_paused = true)]
    async fn another_level_falls_back_by_itself() {
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let log: &'static ProcessLog = Box::leak(Box::default());
        let set = |text: &str| match text {
            "nonsense" => Err("no level".to_owned()),
            text => {
                lock(&SAID).push(text.to_owned());
                Ok(())
            }
        };
        log.begin("info", Box::new(set));
        assert!(log.set_level("nonsense", Duration::from_secs(1)).is_err());
        log.set_level("debug", Duration::from_secs(60)).expect("it is one");
        log.set_level("trace", Duration::from_secs(90)).expect("it is one");
        assert_eq!(log.level()["level"], "trace");
        tokio::time::sleep(Duration::from_secs(70)).await;
        assert_eq!(log.level()["level"], "trace", "the end of one does not end the next");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(
            (&log.level()["level"], &log.level()["seconds_left"]),
            (&json!("info"), &Value::Null)
        );
        assert_eq!(*lock(&SAID), ["debug", "trace", "info"]);
    }
}
