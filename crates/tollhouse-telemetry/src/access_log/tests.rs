//! Tests of the log as a whole: cores, channel, thread, file.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use super::*;

fn metrics() -> Arc<ProcessMetrics> {
    Arc::new(ProcessMetrics::default())
}

fn status_layout() -> Layout {
    Layout::template("$status", Escape::Default).expect("a good format")
}

fn write(core: &CoreLog, status: u16) {
    let values = &[(Variable::Status, Value::from_number(status))];
    core.write(&ListedValues { unix_ms: 0, values });
}

fn start_in(path: &Path) -> AccessLog {
    AccessLog::start(status_layout(), &Target::File(path.to_owned()), metrics())
        .expect("the file can be opened")
}

#[test]
fn lines_of_all_cores_reach_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let log = start_in(&path);
    let metrics = Arc::clone(&log.metrics);
    let cores: Vec<CoreLog> = (0..3).map(|_| log.core()).collect();
    for round in 0..1_000 {
        for (index, core) in (0_u16..).zip(&cores) {
            write(core, 100 + index);
            if round % 250 == 0 {
                core.flush();
            }
        }
    }
    drop(cores);
    log.shutdown();
    let text = std::fs::read_to_string(&path).expect("the file is there");
    for status in ["100", "101", "102"] {
        assert_eq!(text.lines().filter(|line| *line == status).count(), 1_000);
    }
    assert_eq!(metrics.access_log_lines.value(), 3_000);
    assert_eq!(metrics.access_log_lines_dropped.value(), 0);
}

#[test]
fn a_moved_file_is_let_go_when_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, moved) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    // The writer is called directly, because the order of events matters and threads would blur it.
    let metrics = metrics();
    let sink = Target::File(path.clone()).open().expect("the file can be opened");
    let mut writer = Writer::new(sink, metrics);
    let batch = |text: &str| writer::Batch {
        bytes: text.as_bytes().to_vec(),
        lines: 1,
        home: sync_channel(1).0,
    };
    writer.take(batch("before\n"), std::time::Instant::now());
    std::fs::rename(&path, &moved).expect("it can be moved");
    writer.take(batch("between\n"), std::time::Instant::now());
    writer.reopen();
    writer.take(batch("after\n"), std::time::Instant::now());
    let read = |path: &Path| std::fs::read_to_string(path).expect("the file is there");
    assert_eq!(read(&moved), "before\nbetween\n");
    assert_eq!(read(&path), "after\n");
    // Other users of the machine must not read the addresses and paths of clients.
    for path in [&path, &moved] {
        let mode = std::fs::metadata(path).expect("the file is there").permissions().mode();
        assert_eq!(mode & 0o137, 0, "{} has the mode {mode:o}", path.display());
    }
}

#[test]
fn a_request_to_reopen_reaches_the_writer_before_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let log = start_in(&path);
    std::fs::remove_file(&path).expect("it can be removed");
    log.reopen();
    let core = log.core();
    write(&core, 200);
    core.flush();
    log.shutdown();
    assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), Some("200\n"));
}

/// Signals when a write begins, and blocks the write until the test lets it through.
struct Gate {
    entered: SyncSender<()>,
    let_through: Receiver<()>,
}

impl Sink for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.entered.send(());
        let _ = self.let_through.recv();
        Ok(bytes.len())
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_slow_disk_drops_lines_and_never_holds_a_core() {
    let (entered, writes_begun) = sync_channel(16);
    let (let_go, let_through) = channel();
    let gate = Box::new(Gate { entered, let_through });
    let metrics = metrics();
    let log = AccessLog::with_sink(status_layout(), gate, Arc::clone(&metrics), 1)
        .expect("the thread starts");
    let core = log.core();

    write(&core, 200);
    core.flush();
    writes_begun.recv().expect("the first batch is being written");
    write(&core, 201);
    core.flush();
    assert_eq!(metrics.access_log_lines_dropped.value(), 0, "the second fills the channel");
    for _ in 0..3 {
        write(&core, 202);
        write(&core, 202);
        core.flush();
    }
    assert_eq!(metrics.access_log_lines_dropped.value(), 6, "the others find no room");

    drop(let_go);
    drop(core);
    log.shutdown();
    assert_eq!(metrics.access_log_lines.value(), 2);
    assert_eq!(metrics.access_log_lines_dropped.value(), 6);
}

#[test]
fn a_core_has_a_bounded_number_of_buffers() {
    let (entered, _writes_begun) = sync_channel(1_000);
    let (let_go, let_through) = channel();
    let gate = Box::new(Gate { entered, let_through });
    let metrics = metrics();
    let log = AccessLog::with_sink(status_layout(), gate, Arc::clone(&metrics), 1_000)
        .expect("the thread starts");
    let core = log.core();
    let rounds = 3 * BUFFERS_A_CORE as u64;
    for _ in 0..rounds {
        write(&core, 200);
        core.flush();
    }
    let handed_over = BUFFERS_A_CORE as u64 - 1;
    assert_eq!(metrics.access_log_lines_dropped.value(), rounds - handed_over);
    drop(let_go);
    drop(core);
    log.shutdown();
    assert_eq!(metrics.access_log_lines.value(), handed_over);
}

#[test]
fn a_full_buffer_is_handed_over_without_being_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let log = start_in(&path);
    let core = log.core();
    let line_bytes = "200\n".len();
    for _ in 0..BUFFER_BYTES / line_bytes {
        write(&core, 200);
    }
    write(&core, 404);
    log.shutdown();
    let text = std::fs::read_to_string(&path).expect("the file is there");
    assert_eq!(text.len(), BUFFER_BYTES, "the last line was neither due nor flushed");
}

#[test]
fn a_core_that_outlives_the_log_loses_its_lines_and_nothing_else() {
    let log = AccessLog::with_sink(status_layout(), Box::new(StdoutSink), metrics(), 1)
        .expect("the thread starts");
    let core = log.core();
    let metrics = Arc::clone(&log.metrics);
    log.shutdown();
    write(&core, 200);
    core.flush();
    assert_eq!(metrics.access_log_lines_dropped.value(), 1);
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_at_the_start() {
    let target = Target::parse("/no/such/folder/access.log");
    assert!(AccessLog::start(status_layout(), &target, metrics()).is_err());
    assert_eq!(Target::parse("-"), Target::Stdout);
}
