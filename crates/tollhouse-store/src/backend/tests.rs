//! All backends against the common suite, and what they have in common beyond it: backups.

use super::*;
use crate::conformance;
use crate::entry::Revision;
use crate::transaction::Transaction;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

fn temporary() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[tokio::test]
async fn memory_conforms() {
    let open =
        |clock| open_with(&Location::Memory, &Options { clock, ..Options::default() }).unwrap();
    conformance::run(&open).await;
}

#[tokio::test]
async fn sqlite_conforms() {
    let parent = temporary();
    let next = std::sync::atomic::AtomicU32::new(0);
    let open = |clock| {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let location = Location::Directory(parent.path().join(number.to_string()));
        open_with(&location, &Options { clock, ..Options::default() }).unwrap()
    };
    conformance::run(&open).await;
}

#[tokio::test]
async fn a_backup_opens_as_a_store() {
    let parent = temporary();
    for location in [Location::Memory, Location::Directory(parent.path().join("original"))] {
        let store = open(&location).unwrap();
        for number in 0..100 {
            let put = Transaction::new().put(format!("/k/{number:02}"), vec![0; number * 100]);
            store.commit(put).await.unwrap();
        }
        let hour = Duration::from_secs(3600);
        store.commit(Transaction::new().put_for(hour, "/t", "v").delete("/k/50")).await.unwrap();
        let expected = store.list("").await.unwrap();

        let restored = temporary();
        let file = restored.path().join("store.db");
        store.backup(&file).await.unwrap();
        store.commit(Transaction::new().put("later", "v")).await.unwrap();
        let names: Vec<_> = fs::read_dir(restored.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["store.db"], "nothing unfinished is left");

        let copy = open(&Location::Directory(restored.path().to_owned())).unwrap();
        assert_eq!(copy.list("").await.unwrap(), expected, "{location:?}");
        let committed = copy.commit(Transaction::new().put("k", "v")).await.unwrap();
        assert_eq!(committed.revision, Revision(102));
    }
}

#[tokio::test]
async fn a_backup_overwrites_nothing() {
    let parent = temporary();
    let original = parent.path().join("original");
    for location in [Location::Memory, Location::Directory(original.clone())] {
        let store = open(&location).unwrap();
        store.commit(Transaction::new().put("k", "v")).await.unwrap();
        let file = parent.path().join("precious");
        fs::write(&file, "do not touch").unwrap();
        let error = store.backup(&file).await.unwrap_err();
        assert_eq!(error, StoreError::FileExists { path: file.clone() });
        assert_eq!(fs::read(&file).unwrap(), b"do not touch");

        let nowhere = parent.path().join("no-such-directory/file");
        assert!(store.backup(&nowhere).await.is_err());
        assert_eq!(store.list("").await.unwrap().entries.len(), 1);
    }
    let store = open(&Location::Directory(original.clone())).unwrap();
    let error = store.backup(&original.join("store.db")).await.unwrap_err();
    assert!(matches!(error, StoreError::FileExists { .. }), "{error}");
}

#[tokio::test]
async fn a_backup_is_one_revision_while_writes_go_on() {
    let parent = temporary();
    let store = open(&Location::Directory(parent.path().join("original"))).unwrap();
    for number in 0..200 {
        // Two keys that always change together.
        let value = vec![u8::try_from(number).unwrap(); 5000];
        store.commit(Transaction::new().put("a", value.clone()).put("b", value)).await.unwrap();
        if number % 50 == 0 {
            let directory = parent.path().join(format!("copy-{number}"));
            fs::create_dir(&directory).unwrap();
            let file = directory.join("store.db");
            let value = vec![0; 5000];
            let write = store.commit(Transaction::new().put("a", value.clone()).put("b", value));
            let (copied, written) = tokio::join!(store.backup(&file), write);
            copied.unwrap();
            written.unwrap();
            let copy = open(&Location::Directory(directory)).unwrap();
            let listing = copy.list("").await.unwrap();
            let (a, b) = (&listing.entries[0], &listing.entries[1]);
            assert_eq!((&a.value, a.mod_revision), (&b.value, b.mod_revision));
            assert_eq!(a.mod_revision, listing.revision);
        }
    }
}
