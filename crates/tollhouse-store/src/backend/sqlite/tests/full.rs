//! A disk without room, as a real file system has it: the test starts itself once more where it sees a small one.

use super::*;
use crate::conformance::removals_are_taken;
use crate::limits::RESERVE_BYTES;
use std::path::PathBuf;
use std::process::Command;
use tollhouse_testkit::SmallDisk;

/// Tells the child where the disk is.
const CHILD_VARIABLE: &str = "TOLLHOUSE_STORE_TEST_DISK";

/// Runs a test of this file on a small disk; `None` where none can be mounted.
fn on_small_disk(test: &str) -> Option<()> {
    let disk = SmallDisk::mount("12m")?;
    let program = disk.program(&std::env::current_exe().expect("this program"));
    let ran = Command::new(program)
        .args(["--exact", &format!("backend::sqlite::tests::full::{test}"), "--nocapture"])
        .env(CHILD_VARIABLE, disk.path())
        .output()
        .expect("it can be started");
    let text = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && text.contains("1 passed"), "{text}");
    Some(())
}

/// The disk, in the child.
fn disk() -> Option<PathBuf> {
    std::env::var_os(CHILD_VARIABLE).map(PathBuf::from)
}

fn fill(disk: &Path) {
    use std::io::Write;
    let mut file = fs::File::create(disk.join("filling")).expect("a name takes no room");
    for bytes in [1 << 20, 4 << 10] {
        while file.write_all(&vec![0; bytes]).is_ok() {}
    }
}

fn with_reserve() -> Options {
    Options { reserve_bytes: RESERVE_BYTES, ..Options::default() }
}

#[tokio::test]
async fn a_full_disk_takes_more_removals_than_the_log_has_room_for() {
    let Some(disk) = disk() else {
        on_small_disk("a_full_disk_takes_more_removals_than_the_log_has_room_for");
        return;
    };
    for reserve_bytes in [RESERVE_BYTES, RESERVE_BYTES / 16] {
        let options = Options { reserve_bytes, ..Options::default() };
        let location = Location::Directory(disk.join("store"));
        let store = open_with(&location, &options).unwrap();
        removals_are_taken(store.as_ref(), || fill(&disk)).await;
        drop(store);
        fs::remove_dir_all(disk.join("store")).unwrap();
        fs::remove_file(disk.join("filling")).unwrap();
    }
}

#[tokio::test]
async fn a_store_opens_on_a_full_disk_by_its_reserve_and_is_read_without_one() {
    let Some(disk) = disk() else {
        on_small_disk("a_store_opens_on_a_full_disk_by_its_reserve_and_is_read_without_one");
        return;
    };
    let directory = disk.join("store");
    let location = Location::Directory(directory.clone());
    let store = open_with(&location, &with_reserve()).unwrap();
    store.commit(Transaction::new().put("k", "v")).await.unwrap();
    let listing = store.list("").await.unwrap();
    drop(store);
    fill(&disk);
    let store = open_with(&location, &with_reserve()).expect("the reserve makes room");
    // Behind this the writer has looked for room for another reserve.
    store.commit(Transaction::new().delete("none")).await.unwrap();
    assert!(!directory.join("store.reserve").exists());
    drop(store);

    fill(&disk);
    let refused = error_in(&directory);
    assert_eq!(refused, StoreError::Full { path: directory.join("store.db") });
    assert!(refused.to_string().contains("make room"), "{refused}");
    let read = crate::read_directory_alone(&directory, "").expect("nothing is written");
    assert_eq!(read, listing);
    fs::remove_file(disk.join("filling")).unwrap();
    let store = open_with(&location, &with_reserve()).expect("there is room again");
    assert_eq!(store.list("").await.unwrap(), listing);
}
