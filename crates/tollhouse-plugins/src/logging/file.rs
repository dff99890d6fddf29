//! Log files with one entry per line. One thread writes all files, so that a slow disk delays no
//! request, and thousands of files need no further threads or descriptors.
//!
//! A file that was moved or removed is opened again, so that logs can be rotated without a signal.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};

use tollhouse_plugin::Queues;

use super::folder::LogPath;
use super::pending::{ENTRIES_MAX, Pending};

/// Maximum number of files that stay open between lines. A further file closes the one that was
/// written least recently.
const OPEN_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct LogFile {
    target: Arc<Target>,
    writer: Arc<LogWriter>,
}

#[derive(Debug)]
struct Target {
    path: LogPath,
    pending: Pending,
}

/// Thread that writes all log files. It starts with the first line and ends with the last file.
#[derive(Debug, Default)]
pub(crate) struct LogWriter(OnceLock<Sender<(Arc<Target>, Vec<u8>)>>);

impl LogFile {
    /// Returns the file at `path`, which is opened with the first line.
    pub(crate) fn new(path: LogPath, queues: Arc<Queues>, writer: Arc<LogWriter>) -> Self {
        let pending = Pending::new(ENTRIES_MAX, queues);
        Self { target: Arc::new(Target { path, pending }), writer }
    }

    /// Appends a line, including its line end; drops it if too many are waiting.
    pub(crate) fn append(&self, line: Vec<u8>) {
        let (bytes, Target { path, pending }) = (line.len(), &*self.target);
        if let Err(full) = pending.admit(bytes) {
            if full.is_worth_a_line() {
                let (path, dropped) = (path.whole(), full.dropped);
                tracing::warn!(path = %path.display(), dropped, "too many log lines wait; lines are dropped");
            }
            return;
        }
        let queue = self.writer.0.get_or_init(start);
        if queue.send((Arc::clone(&self.target), line)).is_err() {
            pending.release(1, bytes);
        }
    }
}

fn start() -> Sender<(Arc<Target>, Vec<u8>)> {
    // Each file's limit bounds the queue.
    let (sender, receiver) = mpsc::channel();
    let writer = std::thread::Builder::new().name("log-files".into());
    if let Err(error) = writer.spawn(move || write_lines(&receiver)) {
        tracing::error!(%error, "failed to start the writer of log files");
    }
    sender
}

fn write_lines(lines: &Receiver<(Arc<Target>, Vec<u8>)>) {
    let mut open = OpenFiles::default();
    let mut failures = 0_u64;
    while let Ok((target, line)) = lines.recv() {
        let Target { path, pending } = &*target;
        if let Err(error) = open.write_line(path, &line) {
            failures += 1;
            if failures.is_power_of_two() {
                let path = path.whole();
                tracing::warn!(path = %path.display(), %error, failures, "failed to write a log file");
            }
            pending.lose(1);
        }
        pending.release(1, line.len());
    }
}

/// Open files, most recently written first.
#[derive(Default)]
struct OpenFiles(Vec<(LogPath, File)>);

impl OpenFiles {
    fn write_line(&mut self, path: &LogPath, line: &[u8]) -> io::Result<()> {
        let found = self.0.iter().position(|(open, _)| open == path);
        let file = found.map(|at| self.0.remove(at).1).filter(|file| is_at(file, &path.whole()));
        let mut file = match file {
            Some(file) => file,
            None => path.open()?,
        };
        // One call per line, so that lines of several processes do not mix.
        file.write_all(line)?;
        self.0.truncate(OPEN_MAX - 1);
        self.0.insert(0, (path.clone(), file));
        Ok(())
    }
}

/// Whether `file` is still the file at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_to_the_file_of_that_name_whatever_became_of_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let log = LogPath::parse(dir.path(), "logs/a.log").unwrap();
        let (path, moved) = (log.whole(), dir.path().join("moved"));
        let mut open = OpenFiles::default();
        open.write_line(&log, b"1\n").unwrap();
        open.write_line(&log, b"2\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        open.write_line(&log, b"3\n").unwrap();
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "1\n2\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "3\n");
        std::fs::remove_file(&path).unwrap();
        open.write_line(&log, b"4\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "4\n");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_not_an_end() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        let path = |name| LogPath::parse(dir.path(), name).unwrap();
        let mut open = OpenFiles::default();
        assert!(open.write_line(&path("folder"), b"1\n").is_err());
        assert!(open.write_line(&path("a"), b"1\n").is_ok());
    }

    #[test]
    fn many_files_are_written_through_a_few_descriptors() {
        let dir = tempfile::tempdir().unwrap();
        let path = |number: usize| LogPath::parse(dir.path(), &number.to_string()).unwrap();
        let mut open = OpenFiles::default();
        for round in ["1\n", "2\n"] {
            (0..2 * OPEN_MAX).for_each(|file| {
                open.write_line(&path(file), round.as_bytes()).unwrap();
            });
        }
        assert_eq!(open.0.len(), OPEN_MAX);
        for file in 0..2 * OPEN_MAX {
            assert_eq!(std::fs::read_to_string(path(file).whole()).unwrap(), "1\n2\n");
        }
    }
}
