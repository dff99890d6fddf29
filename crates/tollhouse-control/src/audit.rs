//! The audit log: `audit.log` in the data folder, one JSON object per line. Lines name actions and
//! never contain values. Each event also goes to the process log, which can be shipped to a place
//! that no key of this gateway can change.
//!
//! File sizes are bounded. Refused keys, which any stranger can cause, have their own file and rate
//! limit, so that they cannot push out the actions of callers with keys.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tollhouse_admin::{AuditDeed, AuditEvent, AuditSink};
use tollhouse_stdx::civil::CivilTime;
use tollhouse_telemetry::Metrics;

/// Size limit of one file in bytes, and number of files: room for about a million lines.
const FILE_BYTES_MAX: u64 = 32 << 20;
const FILES_MAX: u32 = 8;

/// Size limit in bytes and number of files, for lines about refused keys.
const REFUSED_FILE_BYTES_MAX: u64 = 4 << 20;
const REFUSED_FILES_MAX: u32 = 2;

/// Limit of lines about refused keys per [`WINDOW`]. Events above it are only counted; the next
/// line contains their number.
const REFUSED_LINES_MAX: u32 = 30;
const WINDOW: Duration = Duration::from_secs(60);

/// Writer of the audit log and of the file of refused keys.
#[derive(Debug)]
pub struct Audit {
    metrics: Arc<Metrics>,
    deeds: Mutex<RotatedFile>,
    refused: Mutex<RefusedKeys>,
}

#[derive(Debug)]
struct RefusedKeys {
    file: RotatedFile,
    since: Instant,
    lines: u32,
    untold: u64,
}

impl Audit {
    /// Creates the audit in a data folder. Its files are created with their first line.
    pub fn in_folder(data_dir: &Path, metrics: Arc<Metrics>) -> Self {
        let file = |name: &str, bytes_max, files_max| RotatedFile {
            path: data_dir.join(name),
            bytes_max,
            files_max,
            open: None,
        };
        let refused = RefusedKeys {
            file: file("audit-refused-keys.log", REFUSED_FILE_BYTES_MAX, REFUSED_FILES_MAX),
            since: Instant::now(),
            lines: 0,
            untold: 0,
        };
        let deeds = Mutex::new(file("audit.log", FILE_BYTES_MAX, FILES_MAX));
        Self { metrics, deeds, refused: Mutex::new(refused) }
    }
}

impl AuditSink for Audit {
    fn keep(&self, event: &AuditEvent) {
        let written = match event.deed {
            AuditDeed::RefusedKey => {
                self.metrics.process().admin_keys_refused.add(1);
                let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                refused.keep(event, Instant::now())
            }
            AuditDeed::Write
            | AuditDeed::SignIn
            | AuditDeed::SignOut
            | AuditDeed::Export
            | AuditDeed::Reveal => {
                log_event(event, 0);
                let mut deeds = self.deeds.lock().unwrap_or_else(PoisonError::into_inner);
                deeds.append(&line(event, 0))
            }
        };
        if let Err(error) = written {
            tracing::error!(%error, "failed to write the audit");
        }
    }
}

impl RefusedKeys {
    fn keep(&mut self, event: &AuditEvent, now: Instant) -> io::Result<()> {
        if now.duration_since(self.since) >= WINDOW {
            (self.since, self.lines) = (now, 0);
        }
        if self.lines >= REFUSED_LINES_MAX {
            self.untold += 1;
            return Ok(());
        }
        self.lines += 1;
        let untold = std::mem::take(&mut self.untold);
        log_event(event, untold);
        self.file.append(&line(event, untold))
    }
}

/// Writes the event to the process log.
fn log_event(event: &AuditEvent, untold: u64) {
    let AuditEvent { deed, actor, peer, method, path, status, revision } = event;
    let (deed, actor) = (deed.name(), actor.as_deref().unwrap_or("-"));
    tracing::info!(
        target: "tollhouse_audit",
        deed, actor, %peer, method, path, status, revision, untold, "audit"
    );
}

fn line(event: &AuditEvent, untold: u64) -> Vec<u8> {
    let AuditEvent { deed, actor, peer, method, path, status, revision } = event;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let at = CivilTime::from_unix_seconds(seconds).iso_date();
    let at = String::from_utf8_lossy(&at);
    let mut line = json!({
        "at": at,
        "deed": deed.name(),
        "actor": actor,
        "peer": peer.to_string(),
        "method": method,
        "path": path,
        "status": status,
        "revision": revision,
    });
    if untold > 0 {
        line["untold_before"] = untold.into();
    }
    let mut text = line.to_string().into_bytes();
    text.push(b'\n');
    text
}

/// A log file with rotation: a full `x.log` is renamed to `x.log.1`, `x.log.1` to `x.log.2`, and so
/// on.
#[derive(Debug)]
struct RotatedFile {
    path: PathBuf,
    bytes_max: u64,
    files_max: u32,
    open: Option<(File, u64)>,
}

impl RotatedFile {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let (mut file, mut bytes) = match self.open.take() {
            Some(open) => open,
            None => self.open()?,
        };
        if bytes > 0 && bytes + line.len() as u64 > self.bytes_max {
            self.rotate()?;
            (file, bytes) = self.open()?;
        }
        file.write_all(line)?;
        self.open = Some((file, bytes + line.len() as u64));
        Ok(())
    }

    fn open(&self) -> io::Result<(File, u64)> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (1..self.files_max).rev() {
            let from = if number == 1 { self.path.clone() } else { self.numbered(number - 1) };
            match std::fs::rename(from, self.numbered(number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(deed: AuditDeed) -> AuditEvent {
        AuditEvent {
            deed,
            actor: Some("night shift".to_owned()),
            peer: [127, 0, 0, 1].into(),
            method: "PUT".to_owned(),
            path: "/apisix/admin/routes/1".to_owned(),
            status: 201,
            revision: Some(7),
        }
    }

    #[test]
    fn strangers_push_out_no_line_about_a_caller() {
        let dir = tempfile::tempdir().expect("a folder");
        let metrics = Arc::new(Metrics::new());
        let audit = Audit::in_folder(dir.path(), Arc::clone(&metrics));
        audit.keep(&event(AuditDeed::Write));
        let refused = 2 * u64::from(REFUSED_LINES_MAX);
        (0..refused).for_each(|_| audit.keep(&event(AuditDeed::RefusedKey)));
        let read =
            |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("it is there");
        let deeds = read("audit.log");
        let first: serde_json::Value = serde_json::from_str(deeds.trim()).expect("one line");
        assert_eq!((&first["actor"], &first["revision"]), (&json!("night shift"), &json!(7)));
        assert_eq!(read("audit-refused-keys.log").lines().count() as u64, refused / 2);
        assert!(
            metrics.render().contains(&format!("tollhouse_admin_keys_refused_total {refused}"))
        );
    }

    #[test]
    fn files_are_bounded_and_the_newest_are_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.log");
        let mut file = RotatedFile { path: path.clone(), bytes_max: 4, files_max: 3, open: None };
        for line in ["1\n", "2\n", "3\n", "4\n", "5\n", "6\n", "7\n"] {
            file.append(line.as_bytes()).expect("there is room");
        }
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).ok();
        let found = ["a.log", "a.log.1", "a.log.2", "a.log.3"].map(read);
        let expected = ["7\n", "5\n6\n", "3\n4\n"].map(|text| Some(text.to_owned()));
        assert_eq!(found[..3], expected);
        assert_eq!(found[3], None);
    }
}
