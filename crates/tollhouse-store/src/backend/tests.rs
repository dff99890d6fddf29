//! All backends against the common suite, and backups of the one that lies in a file.

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::conformance::{self, Subject};
use crate::entry::Revision;
use crate::future::BoxFuture;
use crate::limits::{HISTORY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::transaction::Transaction;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

fn temporary() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// A store in this process, by a clock that is moved by hand.
struct Embedded {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
}

impl Embedded {
    fn open(location: &Location) -> Box<dyn Subject> {
        let clock = ManualClock::at_ms(1_800_000_000_000);
        let options = Options { clock: Clock::Manual(Arc::clone(&clock)), ..Options::default() };
        let store = open_with(location, &options).expect("the store opens");
        Box::new(Self { store, clock })
    }
}

impl Subject for Embedded {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn pass(&self, time: Duration) -> BoxFuture<'_, ()> {
        self.clock.advance(time);
        Box::pin(std::future::ready(()))
    }

    fn compact(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            for _ in 0..=HISTORY_BYTES_MAX / VALUE_BYTES_MAX {
                let large = Transaction::new().put("large", vec![0; VALUE_BYTES_MAX]);
                self.store.commit(large).await.expect("there is room");
            }
        })
    }
}

#[tokio::test]
async fn memory_conforms() {
    conformance::run(&|| Embedded::open(&Location::Memory)).await;
}

#[tokio::test]
async fn sqlite_conforms() {
    let parent = temporary();
    let next = std::sync::atomic::AtomicU32::new(0);
    let open = || {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Embedded::open(&Location::Directory(parent.path().join(number.to_string())))
    };
    conformance::run(&open).await;
}

#[tokio::test]
async fn a_backup_opens_as_a_store() {
    let original = temporary();
    let store = open(&Location::Directory(original.path().to_owned())).unwrap();
    for number in 0..100 {
        let put = Transaction::new().put(format!("/k/{number:02}"), vec![0; number * 100]);
        store.commit(put).await.unwrap();
    }
    let lease = store.grant(Duration::from_secs(3600)).await.unwrap();
    store.commit(Transaction::new().put_under(lease, "/t", "v").delete("/k/50")).await.unwrap();
    let expected = store.list("").await.unwrap();

    let restored = temporary();
    let file = restored.path().join("store.db");
    backup_directory(original.path(), &file, &mut |_| {}).unwrap();
    store.commit(Transaction::new().put("later", "v")).await.unwrap();
    let names: Vec<_> =
        fs::read_dir(restored.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["store.db"], "nothing unfinished is left");

    let copy = open(&Location::Directory(restored.path().to_owned())).unwrap();
    assert_eq!(copy.list("").await.unwrap(), expected);
    let committed = copy.commit(Transaction::new().put("k", "v")).await.unwrap();
    assert_eq!(committed.revision, Revision(102));
}

#[tokio::test]
async fn a_backup_overwrites_nothing() {
    let parent = temporary();
    let original = parent.path().join("original");
    let store = open(&Location::Directory(original.clone())).unwrap();
    store.commit(Transaction::new().put("k", "v")).await.unwrap();
    let file = parent.path().join("precious");
    fs::write(&file, "do not touch").unwrap();
    let backup = |file: &Path| backup_directory(&original, file, &mut |_| {});
    assert_eq!(backup(&file), Err(StoreError::FileExists { path: file.clone() }));
    assert_eq!(fs::read(&file).unwrap(), b"do not touch");
    assert!(backup(&parent.path().join("no-such-directory/file")).is_err());
    let own = backup(&original.join("store.db")).unwrap_err();
    assert!(matches!(own, StoreError::FileExists { .. }), "{own}");
    assert_eq!(store.list("").await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn a_backup_is_one_revision_while_writes_go_on() {
    let parent = temporary();
    let original = parent.path().join("original");
    let store = open(&Location::Directory(original.clone())).unwrap();
    for number in 0..200 {
        // Two keys that always change together.
        let value = vec![u8::try_from(number).unwrap(); 5000];
        store.commit(Transaction::new().put("a", value.clone()).put("b", value)).await.unwrap();
        if number % 50 == 0 {
            let directory = parent.path().join(format!("copy-{number}"));
            fs::create_dir(&directory).unwrap();
            let (source, file) = (original.clone(), directory.join("store.db"));
            let copying = std::thread::spawn(move || backup_directory(&source, &file, &mut |_| {}));
            let value = vec![0; 5000];
            let write = Transaction::new().put("a", value.clone()).put("b", value);
            store.commit(write).await.unwrap();
            copying.join().unwrap().unwrap();
            let copy = open(&Location::Directory(directory)).unwrap();
            let listing = copy.list("").await.unwrap();
            let (a, b) = (&listing.entries[0], &listing.entries[1]);
            assert_eq!((&a.value, a.mod_revision), (&b.value, b.mod_revision));
            assert_eq!(a.mod_revision, listing.revision);
        }
    }
}
