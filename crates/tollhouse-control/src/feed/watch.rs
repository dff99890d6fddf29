//! Detection of file changes by polling, with inotify as a hint.
//!
//! Only polling decides, because it also sees files that are replaced, mounted over, or on a
//! network. Inotify events trigger an early poll, but some of these changes cause no event. So the
//! file is polled every second without events, and every 25 ms if inotify is unavailable.

use std::fs::Metadata;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// Polling interval while the file may be changing; a change is in service within 100 ms.
const INTERVAL: Duration = Duration::from_millis(25);

/// Polling interval while no inotify events arrive.
const CALM_INTERVAL: Duration = Duration::from_secs(1);

/// Duration after an event for which the file counts as changing. A writer that writes in several
/// steps continues within this time.
const LIVELY_TIME: Duration = Duration::from_millis(250);

/// Pause after a reload, as a multiple of the reload time. A constantly changing file of any size
/// thus costs at most a tenth of a core.
const REST_AFTER_RELOAD: u32 = 9;

/// Granularity of file timestamps. A file that was read this soon after its last change is read
/// once more, because a second write may have the same timestamp.
const STAMP_GRAIN: Duration = Duration::from_millis(20);

/// A file, and its metadata at the last reading.
#[derive(Debug)]
pub struct WatchedFile {
    path: PathBuf,
    seen: Option<Look>,
    /// Whether the last reading was within the timestamp granularity of a change.
    was_fresh: bool,
    /// Time before which the file is not polled.
    rests_until: Instant,
    /// End of the fast polling that an event or a change started.
    lively_until: Instant,
    looked_at: Instant,
    /// Thread CPU time when the last change was found.
    found_at: Option<Duration>,
    notices: Option<Notices>,
}

#[derive(Debug, PartialEq, Eq, Clone)]
struct Look {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: SystemTime,
}

impl Look {
    fn at(path: &Path) -> Option<Look> {
        let metadata: Metadata = std::fs::metadata(path).ok()?;
        Some(Look {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: metadata.modified().ok()?,
        })
    }

    /// Whether a later write could leave all metadata unchanged.
    fn is_fresh(&self) -> bool {
        self.modified.elapsed().is_ok_and(|age| age < STAMP_GRAIN)
    }
}

impl WatchedFile {
    /// Starts watching `path`; call it before reading the file.
    pub fn new(path: PathBuf) -> Self {
        let seen = Look::at(&path);
        let was_fresh = seen.as_ref().is_some_and(Look::is_fresh);
        let now = Instant::now();
        let notices = Notices::open(&path).inspect_err(|error| {
            tracing::debug!(%error, "the kernel gives no notice of changed files");
        });
        Self {
            path,
            seen,
            was_fresh,
            rests_until: now,
            lively_until: now + LIVELY_TIME,
            looked_at: now,
            found_at: None,
            notices: notices.ok(),
        }
    }

    /// Waits until the file should be read again. Cancel safe.
    ///
    /// The thread's CPU time between two calls counts as the cost of the reload.
    pub async fn changed(&mut self) {
        if let Some(found_at) = self.found_at.take() {
            let took = thread_time().saturating_sub(found_at);
            self.rests_until = Instant::now() + took * REST_AFTER_RELOAD;
        }
        loop {
            self.wait_for_look().await;
            let now = Instant::now();
            self.looked_at = now;
            if self.has_changed() {
                self.lively_until = now + LIVELY_TIME;
                if let Some(notices) = &self.notices {
                    notices.follow(&self.path);
                }
                self.found_at = Some(thread_time());
                return;
            }
        }
    }

    async fn wait_for_look(&mut self) {
        let is_lively = Instant::now() < self.lively_until;
        let Some(notices) = self.notices.as_ref().filter(|_| !is_lively) else {
            return tokio::time::sleep_until(self.rests_until.max(self.looked_at + INTERVAL)).await;
        };
        let look_at = self.rests_until.max(self.looked_at + CALM_INTERVAL);
        tokio::select! {
            () = tokio::time::sleep_until(look_at) => {}
            () = notices.next() => self.lively_until = Instant::now() + LIVELY_TIME,
        }
    }

    /// Whether the file should be read again. A missing file is not a change, so that the last
    /// content stays in service.
    fn has_changed(&mut self) -> bool {
        if Instant::now() < self.rests_until {
            return false;
        }
        let Some(look) = Look::at(&self.path) else { return false };
        let changed = self.seen.as_ref() != Some(&look) || self.was_fresh;
        self.was_fresh = look.is_fresh();
        self.seen = Some(look);
        changed
    }
}

/// Inotify events of a file and of the names in its folder.
#[derive(Debug)]
struct Notices(AsyncFd<OwnedFd>);

impl Notices {
    fn open(path: &Path) -> std::io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // Only names: writes to other files of the folder do not matter.
        let names = WatchFlags::CREATE | WatchFlags::MOVED_TO;
        inotify::add_watch(&inotify, folder.unwrap_or(Path::new(".")), names)?;
        #[expect(deprecated, reason = "its successor is unsafe; what is owned stays open as long")]
        let notices = Self(AsyncFd::new(inotify)?);
        notices.follow(path);
        Ok(notices)
    }

    /// Adds a watch on the file that the path now refers to. If this fails, folder events and
    /// polling remain.
    fn follow(&self, path: &Path) {
        let content = WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        let _ = inotify::add_watch(self.0.get_ref(), path, content);
    }

    /// Waits for events and discards them, because polling gives the details.
    async fn next(&self) {
        let Ok(mut ready) = self.0.readable().await else { return std::future::pending().await };
        let mut text = [0; 4096];
        while rustix::io::read(self.0.get_ref(), &mut text).is_ok_and(|count| count > 0) {}
        ready.clear_ready();
    }
}

/// Returns the CPU time of the calling thread. Unlike wall time, it excludes waiting for serving
/// threads with a higher priority.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_noticed_and_a_missing_one_is_not_a_change() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("file");
        std::fs::write(&path, "one").expect("a file");
        let mut watched = WatchedFile::new(path.clone());
        std::fs::write(&path, "three").expect("a file");
        assert!(watched.has_changed());
        std::fs::remove_file(&path).expect("the file");
        assert!(!watched.has_changed());
    }

    #[tokio::test]
    async fn a_file_that_is_written_or_replaced_is_noticed_by_notice_and_by_look() {
        for has_notices in [true, false] {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let path = directory.path().join("file");
            std::fs::write(&path, "one").expect("a file");
            let mut watched = WatchedFile::new(path.clone());
            if !has_notices {
                watched.notices = None;
            }
            std::fs::write(&path, "two words").expect("a file");
            watched.changed().await;
            std::fs::write(directory.path().join("fresh"), "three").expect("a file");
            std::fs::rename(directory.path().join("fresh"), &path).expect("one folder");
            watched.changed().await;
            // The new file is watched too.
            std::fs::write(&path, "something else").expect("a file");
            watched.changed().await;
        }
    }
}
