//! Tests of the writer when the disk fails, in virtual time.

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;

use super::super::sink::FileSink;
use super::*;

/// Sink that accepts bytes until its space is used up, and then reports a full disk.
struct SmallDisk {
    text: Arc<Mutex<Vec<u8>>>,
    room: Arc<Mutex<usize>>,
}

impl Sink for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut room = self.room.lock().expect("no test panics with the lock");
        if *room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let count = bytes.len().min(*room);
        *room -= count;
        self.text.lock().expect("no test panics with the lock").extend(&bytes[..count]);
        Ok(count)
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Bench {
    writer: Writer,
    metrics: Arc<ProcessMetrics>,
    text: Arc<Mutex<Vec<u8>>>,
    room: Arc<Mutex<usize>>,
}

impl Bench {
    fn with_room(room: usize) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let room = Arc::new(Mutex::new(room));
        let metrics = Arc::new(ProcessMetrics::default());
        let disk = SmallDisk { text: Arc::clone(&text), room: Arc::clone(&room) };
        let writer = Writer::new(Box::new(disk), Arc::clone(&metrics));
        Self { writer, metrics, text, room }
    }

    fn make_room(&self, room: usize) {
        *self.room.lock().expect("no test panics with the lock") = room;
    }

    fn text(&self) -> String {
        let text = self.text.lock().expect("no test panics with the lock");
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Returns the numbers of lines written, lines dropped, and failures.
    fn counts(&self) -> (u64, u64, u64) {
        let metrics = &self.metrics;
        (
            metrics.access_log_lines.value(),
            metrics.access_log_lines_dropped.value(),
            metrics.access_log_write_failures.value(),
        )
    }
}

fn batch(text: &str) -> Batch {
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
    Batch { bytes: text.as_bytes().to_vec(), lines, home: sync_channel(1).0 }
}

#[test]
fn a_full_disk_drops_lines_until_it_is_tried_again() {
    let mut bench = Bench::with_room(6);
    let start = Instant::now();
    bench.writer.take(batch("one\ntwo\nthree\n"), start);
    assert_eq!(bench.text(), "one\ntw");
    assert_eq!(bench.counts(), (1, 2, 1));
    assert!(bench.writer.is_failing());

    bench.make_room(100);
    bench.writer.take(batch("four\n"), start + RETRY_AFTER / 2);
    assert_eq!(bench.counts(), (1, 3, 1), "the disk is left alone for a while");

    bench.writer.take(batch("five\nsix\n"), start + RETRY_AFTER);
    assert_eq!(bench.text(), "one\ntw\nfive\nsix\n", "the torn line stands alone");
    assert_eq!(bench.counts(), (3, 3, 1));
    assert!(!bench.writer.is_failing());
}

#[test]
fn a_disk_that_stays_full_is_tried_once_a_period() {
    let mut bench = Bench::with_room(0);
    let start = Instant::now();
    for tenth in 0..50 {
        bench.writer.take(batch("line\n"), start + RETRY_AFTER / 10 * tenth);
    }
    assert_eq!(bench.counts(), (0, 50, 5));
}

#[test]
fn reopening_ends_the_wait() {
    let mut bench = Bench::with_room(0);
    let start = Instant::now();
    bench.writer.take(batch("lost\n"), start);
    bench.make_room(100);
    bench.writer.reopen();
    bench.writer.take(batch("kept\n"), Instant::now());
    assert_eq!(bench.text(), "kept\n");
    assert_eq!(bench.counts(), (1, 1, 1));
}

#[test]
fn the_systems_full_disk_is_survived() {
    let sink = FileSink::open(Path::new("/dev/full")).expect("Linux has /dev/full");
    let metrics = Arc::new(ProcessMetrics::default());
    let mut writer = Writer::new(Box::new(sink), Arc::clone(&metrics));
    writer.take(batch("one\ntwo\n"), Instant::now());
    assert!(writer.is_failing());
    assert_eq!(metrics.access_log_lines_dropped.value(), 2);
    assert_eq!(metrics.access_log_lines.value(), 0);
}

#[test]
fn an_emptied_buffer_goes_home_whatever_the_disk_says() {
    for room in [0, 100] {
        let mut bench = Bench::with_room(room);
        let (way_home, home) = sync_channel(1);
        let batch = Batch { bytes: b"line\n".to_vec(), lines: 1, home: way_home };
        bench.writer.take(batch, Instant::now());
        assert_eq!(home.try_recv().map(|buffer| buffer.len()), Ok(0));
    }
}
