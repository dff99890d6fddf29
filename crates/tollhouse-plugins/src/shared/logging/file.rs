//! A file that entries are appended to, one line each, by a thread of its own: a disk that stalls
//! holds up no request.
//!
//! The file is opened again when it has been moved away or removed, so that whoever rotates logs
//! need not tell anybody.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};

use tollhouse_plugin::Queues;

use super::pending::{ENTRIES_MAX, Pending};

/// A log file; its thread begins with the first line and ends when nobody can write any more.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    pending: Arc<Pending>,
    queue: OnceLock<Sender<Vec<u8>>>,
}

impl LogFile {
    /// The file at `path`; nothing happens before the first line.
    pub(crate) fn new(path: PathBuf, queues: Arc<Queues>) -> Self {
        let pending = Arc::new(Pending::new(ENTRIES_MAX, queues));
        Self { path, pending, queue: OnceLock::new() }
    }

    /// Appends a line, whose end is part of it; drops it where too many wait already.
    pub(crate) fn append(&self, line: Vec<u8>) {
        let bytes = line.len();
        if let Err(full) = self.pending.admit(bytes) {
            if full.is_worth_a_line() {
                let (path, dropped) = (self.path.display(), full.dropped);
                tracing::warn!(%path, dropped, "too many log lines wait; lines are dropped");
            }
            return;
        }
        let queue = self.queue.get_or_init(|| {
            // What the queue holds is bounded by what is admitted.
            let (sender, receiver) = mpsc::channel();
            let (path, pending) = (self.path.clone(), Arc::clone(&self.pending));
            let writer = std::thread::Builder::new().name("log-file".into());
            if let Err(error) = writer.spawn(move || write_lines(&path, &receiver, &pending)) {
                tracing::error!(%error, "failed to start the writer of a log file");
            }
            sender
        });
        if queue.send(line).is_err() {
            self.pending.release(1, bytes);
        }
    }
}

fn write_lines(path: &Path, lines: &Receiver<Vec<u8>>, pending: &Pending) {
    let mut file = None;
    let mut failures = 0_u64;
    while let Ok(line) = lines.recv() {
        if let Err(error) = write_line(&mut file, path, &line) {
            file = None;
            failures += 1;
            if failures.is_power_of_two() {
                let path = path.display();
                tracing::warn!(%path, %error, failures, "failed to write a log file");
            }
            pending.lose(1);
        }
        pending.release(1, line.len());
    }
}

fn write_line(file: &mut Option<File>, path: &Path, line: &[u8]) -> io::Result<()> {
    let current = file.take().filter(|file| is_at(file, path));
    let mut current = match current {
        Some(current) => current,
        None => open(path)?,
    };
    // One call a line: lines of several processes do not mix.
    current.write_all(line)?;
    *file = Some(current);
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o640);
    match (options.open(path), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(parent)?;
            options.open(path)
        }
        (opened, _) => opened,
    }
}

/// Whether `file` is still the one at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_to_the_file_of_that_name_whatever_became_of_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("logs/a.log"), dir.path().join("moved"));
        let mut file = None;
        write_line(&mut file, &path, b"1\n").unwrap();
        write_line(&mut file, &path, b"2\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        write_line(&mut file, &path, b"3\n").unwrap();
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "1\n2\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "3\n");
        std::fs::remove_file(&path).unwrap();
        write_line(&mut file, &path, b"4\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "4\n");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_not_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = None;
        assert!(write_line(&mut file, dir.path(), b"1\n").is_err());
        assert!(write_line(&mut file, &dir.path().join("a"), b"1\n").is_ok());
    }
}
