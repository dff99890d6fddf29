//! What the file must stand: damage, other versions, a full disk, missing rights, a second process,
//! and the end of the process at any instant.

mod damage;
#[cfg(target_os = "linux")]
mod full;
mod killed;
mod outside;
#[cfg(target_os = "linux")]
mod sync;

use super::*;
use crate::backend::{open, open_with};
use crate::clock::{Clock, ManualClock};
use crate::error::ErrorKind;
use crate::options::Location;
use crate::watch::{Lost, WatchEvent};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

fn temporary() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn open_in(directory: &Path) -> Result<Arc<dyn Store>, StoreError> {
    open(&Location::Directory(directory.to_owned()))
}

fn error_in(directory: &Path) -> StoreError {
    open_in(directory).err().expect("the store is refused")
}

#[tokio::test]
async fn what_was_committed_outlasts_the_process() {
    let directory = temporary();
    let clock = ManualClock::at_ms(1_000);
    let options = Options { clock: Clock::Manual(Arc::clone(&clock)), ..Options::default() };
    let location = Location::Directory(directory.path().join("made/when/needed"));
    let expected = {
        let store = open_with(&location, &options).unwrap();
        store.commit(Transaction::new().put("k", "v").put("gone", "v")).await.unwrap();
        let lease = store.grant(Duration::from_secs(1)).await.unwrap();
        let change = Transaction::new().delete("gone").put_under(lease, "t", "v");
        store.commit(change).await.unwrap();
        store.list("").await.unwrap()
    };
    let store = open_with(&location, &options).unwrap();
    assert_eq!(store.list("").await.unwrap(), expected);
    assert_eq!(store.revision().await, Ok(Revision(2)));
    let first = store.watch("", Revision(1)).try_next();
    let is_lost = matches!(first, Some(WatchEvent::Lost(Lost::Compacted { .. })));
    assert!(is_lost, "commits of a former process are not kept");
    drop(store);

    clock.advance(Duration::from_secs(1));
    let store = open_with(&location, &options).unwrap();
    let WatchEvent::Commit(changes) = store.watch("", Revision(2)).next().await else {
        panic!("it is recent");
    };
    assert_eq!(changes.events[0].key(), "t", "it ended while nobody ran");
}

#[tokio::test]
async fn a_commit_goes_on_when_its_author_does_not() {
    let directory = temporary();
    let store = open_in(directory.path()).unwrap();
    {
        let mut commit = store.commit(Transaction::new().put("k", "v"));
        let waker = std::task::Waker::noop();
        let _ = commit.as_mut().poll(&mut std::task::Context::from_waker(waker));
    }
    drop(store);
    let store = open_in(directory.path()).unwrap();
    assert!(store.get("k").await.unwrap().is_some());
}

#[tokio::test]
async fn a_second_process_is_turned_away() {
    let directory = temporary();
    let store = open_in(directory.path()).unwrap();
    let error = error_in(directory.path());
    assert_eq!(error, StoreError::InUse { path: directory.path().join("store.lock") });
    store.commit(Transaction::new().put("k", "v")).await.unwrap();
    drop(store);
    assert!(open_in(directory.path()).is_ok());
}

#[tokio::test]
async fn the_file_is_for_its_owner_only() {
    let directory = temporary();
    let inner = directory.path().join("data");
    let store = open_in(&inner).unwrap();
    store.commit(Transaction::new().put("k", "v")).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&inner), 0o700);
    for name in ["store.db", "store.db-wal", "store.db-shm", "store.lock"] {
        assert_eq!(mode(&inner.join(name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_full_disk_refuses_a_write_and_keeps_the_rest() {
    let directory = temporary();
    let options = Options { pages_max: Some(64), ..Options::default() };
    let location = Location::Directory(directory.path().to_owned());
    let store = open_with(&location, &options).unwrap();
    let mut written: u64 = 0;
    let error = loop {
        let put = Transaction::new().put(format!("/k/{written:03}"), vec![1; 10_000]);
        match store.commit(put).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, StoreError::Full { path: directory.path().join("store.db") });
    assert!(written > 5, "{written}");
    assert_eq!(store.revision().await, Ok(Revision(written)), "a refused write makes no revision");

    // In one group with a write that does not fit, one that does is done.
    let large = store.commit(Transaction::new().put("/k/0", "v").put("large", vec![1; 200_000]));
    let small = store.commit(Transaction::new().delete("/k/000").put("small", "v"));
    let (large, small) = tokio::join!(large, small);
    assert!(matches!(large, Err(StoreError::Full { .. })), "{large:?}");
    assert_eq!(small.unwrap().revision, Revision(written + 1));

    let mut watch = store.watch("", Revision(written));
    let WatchEvent::Commit(changes) = watch.next().await else { panic!("it is recent") };
    assert_eq!(changes.events.len(), 2);
    assert_eq!(watch.try_next(), None, "nobody hears of what was refused");
    drop(store);
    let store = open_in(directory.path()).unwrap();
    let keys = store.list("").await.unwrap().entries.len();
    assert_eq!(u64::try_from(keys), Ok(written), "one was deleted and one added");
    assert!(store.get("/k/0").await.unwrap().is_none());
}

/// Runs something on a thread that has no more rights than the permissions of files give it.
fn without_privilege<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    let as_nobody = || {
        if rustix::process::geteuid().is_root() {
            // Of this thread only: the call of the system knows no processes.
            let nobody = rustix::process::Uid::from_raw(65_534);
            let root = rustix::process::Uid::ROOT;
            rustix::thread::set_thread_res_uid(root, nobody, root).unwrap();
        }
        run()
    };
    std::thread::scope(|scope| scope.spawn(as_nobody).join().unwrap())
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let directory = temporary();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let empty = directory.path().join("empty");
    let used = directory.path().join("used");
    fs::create_dir(&empty).unwrap();
    drop(open_in(&used).unwrap());
    mode(&used.join("store.db"), 0o444);
    mode(&used.join("store.lock"), 0o444);
    for path in [&empty, &used, directory.path()] {
        mode(path, 0o555);
    }
    for path in [&empty, &used, &directory.path().join("missing")] {
        let error = without_privilege(|| error_in(path));
        let text = error.to_string();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{text}");
        assert!(text.contains(&*path.to_string_lossy()), "{text}");
        assert!(text.contains("give the user of this process the right"), "{text}");
    }
    mode(directory.path(), 0o755);
    mode(&empty, 0o755);
    mode(&used, 0o755);
}

#[test]
fn a_file_in_place_of_the_directory_is_named() {
    let directory = temporary();
    let file = directory.path().join("file");
    fs::write(&file, "text").unwrap();
    for path in [file.clone(), file.join("below")] {
        let text = error_in(&path).to_string();
        assert!(text.contains("not a directory"), "{text}");
    }
}
