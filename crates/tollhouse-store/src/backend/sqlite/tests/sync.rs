//! A disk that no longer confirms what is flushed to it.
//!
//! The test starts itself as a child, which has the system refuse every flush from some point on.

use super::*;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter_all_threads};
use std::collections::BTreeMap;
use std::process::Command;

/// Tells the child where its store is.
const CHILD_VARIABLE: &str = "TOLLHOUSE_STORE_TEST_SYNC";
const CHILD_TEST: &str = "backend::sqlite::tests::sync::child_whose_disk_fails";

/// The system's numbers of `fsync` and `fdatasync`.
const FLUSHES: [i64; 2] = if cfg!(target_arch = "aarch64") { [82, 83] } else { [74, 75] };
/// What a failing disk answers: `EIO`.
const IO_ERROR: u32 = 5;

/// From here on every flush of this process fails.
fn fail_flushes() {
    let rules: BTreeMap<i64, Vec<_>> = FLUSHES.into_iter().map(|call| (call, vec![])).collect();
    let architecture = std::env::consts::ARCH.try_into().expect("filters are known for it");
    let (others, flushes) = (SeccompAction::Allow, SeccompAction::Errno(IO_ERROR));
    let filter = SeccompFilter::new(rules, others, flushes, architecture).expect("it is a filter");
    let program: BpfProgram = filter.try_into().expect("it is short");
    apply_filter_all_threads(&program).expect("a process may filter its own calls");
}

/// Does nothing unless it is started by the other test.
#[tokio::test]
async fn child_whose_disk_fails() {
    let Ok(directory) = std::env::var(CHILD_VARIABLE) else {
        return;
    };
    let store = open_in(Path::new(&directory)).unwrap();
    let put = |key: &str| store.commit(Transaction::new().put(key, "v"));
    let before = put("before").await.unwrap().revision;
    let mut watch = store.watch("", before);
    fail_flushes();

    let (first, second) = tokio::join!(put("first"), put("second"));
    assert!(matches!(first, Err(StoreError::Unconfirmed { .. })), "{first:?}");
    assert_eq!(first.unwrap_err().kind(), ErrorKind::Unknown);
    let is_refused = |error: &StoreError| {
        matches!(error, StoreError::Unconfirmed { .. } | StoreError::Stopped { .. })
    };
    assert!(second.as_ref().is_err_and(is_refused), "{second:?}");
    // Nothing that comes later is called durable, whether it adds or removes.
    for later in [put("later"), store.commit(Transaction::new().delete("before"))] {
        let error = later.await.unwrap_err();
        assert!(matches!(error, StoreError::Stopped { .. }), "{error}");
        assert!(error.to_string().contains("then restart"), "{error}");
    }
    let lease = store.grant(Duration::from_secs(1)).await.unwrap();
    let leased = store.commit(Transaction::new().put_under(lease, "leased", "v")).await;
    assert!(matches!(leased, Err(StoreError::Stopped { .. })), "{leased:?}");

    // What was there is read on, and whoever follows learns that the store has to be opened anew.
    assert_eq!(store.list("").await.unwrap().entries.len(), 1);
    assert_eq!(store.revision().await, Ok(before));
    assert!(watch.is_over());
    assert_eq!(watch.next().await, WatchEvent::Lost(Lost::Closed));
}

#[tokio::test]
async fn after_a_flush_that_failed_nothing_is_called_durable() {
    let directory = temporary();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", CHILD_TEST, "--nocapture", "--test-threads=1"])
        .env(CHILD_VARIABLE, directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stdout));

    // Opened anew by a process whose disk works: what was confirmed is there, and it goes on.
    let store = open_in(directory.path()).unwrap();
    assert!(store.get("before").await.unwrap().is_some());
    for key in ["later", "leased"] {
        assert_eq!(store.get(key).await, Ok(None), "{key}");
    }
    store.commit(Transaction::new().put("again", "v")).await.unwrap();
    let log = directory.path().join("store.db-wal");
    assert!(fs::metadata(log).unwrap().len() > 0, "the commit went to the log");
}
