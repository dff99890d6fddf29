//! Notices that a file has changed, by looking at it.
//!
//! Looking is used instead of kernel notifications because it also sees files that are replaced,
//! mounted over, or kept on a network: at this interval it costs nothing that can be measured.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How often the file is looked at; a change serves well within 100 ms.
pub const INTERVAL: Duration = Duration::from_millis(25);

/// How many times as long as a reload took nothing is looked at after it: a file that changes all the
/// time then costs at most a tenth of a core, however large it is.
const REST_AFTER_RELOAD: u32 = 9;

/// How coarse time stamps may be: a file that was looked at this soon after its last change is read
/// once more, since a second write may hide behind the first.
const STAMP_GRAIN: Duration = Duration::from_millis(20);

/// A file and how it looked when it was last read.
#[derive(Debug)]
pub struct Watched {
    path: PathBuf,
    seen: Option<Look>,
    /// Whether the last look came too soon after a change to tell.
    was_fresh: bool,
    /// Not looked at before then.
    rests_until: Instant,
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

    /// Whether a later write could leave the file looking the same.
    fn is_fresh(&self) -> bool {
        self.modified.elapsed().is_ok_and(|age| age < STAMP_GRAIN)
    }
}

impl Watched {
    /// Watches `path`, which is about to be read.
    pub fn new(path: PathBuf) -> Self {
        let seen = Look::at(&path);
        let was_fresh = seen.as_ref().is_some_and(Look::is_fresh);
        Self { path, seen, was_fresh, rests_until: Instant::now() }
    }

    /// Whether the file should be read again. A file that is gone is no change: what was read
    /// last keeps serving.
    pub fn has_changed(&mut self) -> bool {
        if Instant::now() < self.rests_until {
            return false;
        }
        let Some(look) = Look::at(&self.path) else { return false };
        let changed = self.seen.as_ref() != Some(&look) || self.was_fresh;
        self.was_fresh = look.is_fresh();
        self.seen = Some(look);
        changed
    }

    /// Says how much processor time the reload took that a change led to.
    pub fn reloaded(&mut self, took: Duration) {
        self.rests_until = Instant::now() + took * REST_AFTER_RELOAD;
    }
}

/// Processor time of the calling thread: unlike the time on the wall, it does not grow where serving
/// threads go first.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_noticed_and_a_missing_one_is_not_a_change() {
        let directory =
            std::env::temp_dir().join(format!("tollhouse-watch-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a temporary directory");
        let path = directory.join("file");
        std::fs::write(&path, "one").expect("a file");
        let mut watched = Watched::new(path.clone());
        std::fs::write(&path, "three").expect("a file");
        assert!(watched.has_changed());
        std::fs::remove_file(&path).expect("the file");
        assert!(!watched.has_changed());
        std::fs::remove_dir_all(&directory).expect("the directory");
    }
}
