//! Looking at a store from outside, beside a process that has it open and after one that was killed.

use super::*;
use crate::{WatchEvent, backup_directory, read_directory};

fn keys(directory: &Path, prefix: &str) -> Vec<Box<str>> {
    let listing = read_directory(directory, prefix).unwrap();
    listing.entries.into_iter().map(|entry| entry.key).collect()
}

fn copy(directory: &Path, file: &Path) -> Result<(), StoreError> {
    backup_directory(directory, file, &mut |_| {})
}

#[tokio::test]
async fn it_is_read_and_copied_while_it_is_open_and_after() {
    let (directory, other) = (temporary(), temporary());
    let store = open_in(directory.path()).unwrap();
    store.commit(Transaction::new().put("/a/1", "v").put("/b/1", "v")).await.unwrap();
    assert_eq!(keys(directory.path(), "/a/"), ["/a/1".into()]);
    copy(directory.path(), &other.path().join("store.db")).unwrap();
    store.commit(Transaction::new().put("/a/2", "v")).await.unwrap();
    assert_eq!(keys(directory.path(), "/a/"), ["/a/1".into(), "/a/2".into()]);
    let expected = store.list("").await.unwrap();
    drop(store);
    assert_eq!(read_directory(directory.path(), ""), Ok(expected));

    let copied = open_in(other.path()).unwrap();
    assert_eq!(copied.list("").await.unwrap().entries.len(), 2);
    assert_eq!(copied.revision().await, Ok(Revision(1)));
}

#[tokio::test]
async fn a_copy_reports_its_progress_and_is_of_one_revision() {
    let (directory, other) = (temporary(), temporary());
    let store = open_in(directory.path()).unwrap();
    let value = vec![b'v'; 1024 * 1024];
    for number in 0..40 {
        store.commit(Transaction::new().put(format!("{number}"), value.clone())).await.unwrap();
    }
    let file = other.path().join("store.db");
    let mut reports = Vec::new();
    let runtime = tokio::runtime::Handle::current();
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| {
            backup_directory(directory.path(), &file, &mut |progress| {
                reports.push(progress);
                // What is committed between two steps stays out of the copy.
                let commit = store.commit(Transaction::new().put("late", "v"));
                runtime.block_on(commit).unwrap();
            })
        });
        copying.join().unwrap().unwrap();
    });
    assert!(reports.len() > 1, "{reports:?}");
    assert!(reports.is_sorted_by_key(|progress| progress.done_bytes), "{reports:?}");
    let last = reports.last().unwrap();
    assert_eq!(last.done_bytes, last.total_bytes);
    let copied = open_in(other.path()).unwrap();
    assert_eq!(copied.revision().await, Ok(Revision(40)));
    assert_eq!(copied.get("late").await, Ok(None));
}

#[test]
fn what_is_not_there_or_not_ours_is_refused_and_left() {
    let directory = temporary();
    let path = directory.path().join("store.db");
    assert_eq!(
        read_directory(directory.path(), ""),
        Err(StoreError::Missing { path: path.clone() })
    );
    assert!(!path.exists(), "nothing is made by looking");
    fs::write(&path, "no store at all").unwrap();
    assert!(matches!(read_directory(directory.path(), ""), Err(StoreError::Corrupt { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"no store at all");
}

#[tokio::test]
async fn a_file_that_is_there_is_never_replaced() {
    let (directory, other) = (temporary(), temporary());
    drop(open_in(directory.path()).unwrap());
    let file = other.path().join("kept");
    fs::write(&file, "kept").unwrap();
    assert_eq!(copy(directory.path(), &file), Err(StoreError::FileExists { path: file.clone() }));
    assert_eq!(fs::read(&file).unwrap(), b"kept");
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1, "nothing is left behind");
}

#[tokio::test]
async fn a_lock_of_an_outside_tool_costs_those_who_queue_behind_it_one_wait() {
    let directory = temporary();
    let store = open_in(directory.path()).unwrap();
    let outside = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
    outside.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = std::time::Instant::now();
    let commits =
        (0..8).map(|number| store.commit(Transaction::new().put(format!("{number}"), "v")));
    let outcomes = join_all(commits).await;
    assert!(outcomes.iter().all(|it| matches!(it, Err(StoreError::InUse { .. }))), "{outcomes:?}");
    // The first may have gone alone; the rest waited together.
    assert!(started.elapsed() < 4 * file::BUSY_TIMEOUT, "{:?}", started.elapsed());
    outside.execute_batch("ROLLBACK").unwrap();
    store.commit(Transaction::new().put("k", "v")).await.unwrap();
}

#[tokio::test]
async fn a_single_entry_is_read_while_long_lists_are_under_way() {
    let directory = temporary();
    let store = open_in(directory.path()).unwrap();
    let value = vec![b'v'; 1024 * 1024];
    for number in 0..32 {
        store.commit(Transaction::new().put(format!("{number}"), value.clone())).await.unwrap();
    }
    let lists = async {
        join_all((0..4).map(|_| store.list(""))).await.into_iter().for_each(|it| drop(it.unwrap()));
    };
    let mut lists = std::pin::pin!(lists);
    tokio::select! {
        biased;
        () = &mut lists => panic!("the look-up was waited for"),
        entry = store.get("7") => assert!(entry.unwrap().is_some()),
    }
    lists.await;
}

#[test]
fn what_a_killed_backup_left_is_removed_by_the_next_and_one_under_way_is_not() {
    let (directory, other) = (temporary(), temporary());
    drop(open_in(directory.path()).unwrap());
    let file = other.path().join("copy");
    let leftover = other.path().join("copy.unfinished-1-1");
    let under_way = other.path().join("copy.unfinished-2-2");
    fs::write(&leftover, "half").unwrap();
    fs::write(&under_way, "half").unwrap();
    let held = fs::File::open(&under_way).unwrap();
    held.lock().unwrap();
    copy(directory.path(), &file).unwrap();
    assert!(file.exists() && under_way.exists() && !leftover.exists());
}

#[tokio::test]
async fn a_list_can_always_be_watched_from() {
    let directory = temporary();
    let store = open_in(directory.path()).unwrap();
    let writes = async {
        for number in 0..200_u32 {
            store.commit(Transaction::new().put("k", number.to_string())).await.unwrap();
        }
    };
    let looks = async {
        for _ in 0..200 {
            let listing = store.list("").await.unwrap();
            let first = store.watch("", listing.revision).try_next();
            assert!(!matches!(first, Some(WatchEvent::Lost(_))), "the history has what is listed");
        }
    };
    tokio::join!(writes, looks);
}

/// All of them at once, in their order.
async fn join_all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) {
            return std::task::Poll::Ready(());
        }
        std::task::Poll::Pending
    })
    .await;
    done.into_iter().flatten().collect()
}
