//! Watching: whole commits, in order, none left out.

use super::{Case, Fixture, together};
use crate::changes::Event;
use crate::entry::Revision;
use crate::error::StoreError;
use crate::limits::{HISTORY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::store::BoxFuture;
use crate::transaction::Transaction;
use bytes::Bytes;
use std::future::poll_fn;
use std::task::Poll;

pub(super) const CASES: &[Case] = &[
    |fixture| Box::pin(commits_arrive_whole_and_in_order(fixture)),
    |fixture| Box::pin(a_watch_begins_after_its_revision(fixture)),
    |fixture| Box::pin(a_waiting_watcher_is_woken(fixture)),
    |fixture| Box::pin(a_list_and_a_watch_miss_nothing(fixture)),
    |fixture| Box::pin(who_is_too_far_behind_lists_again(fixture)),
    |fixture| Box::pin(a_revision_to_come_is_refused(fixture)),
    |fixture| Box::pin(the_end_of_the_store_ends_the_watch(fixture)),
];

async fn commits_arrive_whole_and_in_order(fixture: Fixture) {
    let mut watch = fixture.store.watch(Revision::ZERO).await.expect("all is kept");
    fixture.commit(Transaction::new().put("/r/1", "a").put("/r/2", "b").put("x", "c")).await;
    fixture.commit(Transaction::new().delete("gone")).await;
    fixture.refused(Transaction::new().put("y", "d").when_exists("gone")).await;
    fixture.commit(Transaction::new().delete_prefix("/r/").put("x", "e")).await;

    let first = watch.next().await.expect("it is kept");
    assert_eq!(first.revision, Revision(1));
    let keys: Vec<_> = first.events.iter().map(Event::key).collect();
    assert_eq!(keys, ["/r/1", "/r/2", "x"]);
    let second = watch.next().await.expect("it is kept");
    let revision = Revision(2);
    assert_eq!(second.revision, revision);
    let entry = fixture.get("x").await.expect("it was put");
    let expected = [
        Event::Delete { key: "/r/1".into(), revision },
        Event::Delete { key: "/r/2".into(), revision },
        Event::Put(entry),
    ];
    assert_eq!(second.events, expected);
    assert_eq!(watch.try_next(), Ok(None));
    assert_eq!(watch.revision(), revision);
}

async fn a_watch_begins_after_its_revision(fixture: Fixture) {
    for number in 1..=5 {
        fixture.put("k", &number.to_string()).await;
    }
    for after in 0..=5 {
        let mut watch = fixture.store.watch(Revision(after)).await.expect("all is kept");
        for expected in after + 1..=5 {
            assert_eq!(watch.next().await.map(|c| c.revision), Ok(Revision(expected)));
        }
        assert_eq!(watch.try_next(), Ok(None), "after {after}");
    }
}

async fn a_waiting_watcher_is_woken(fixture: Fixture) {
    let mut watch = fixture.store.watch(Revision::ZERO).await.expect("all is kept");
    {
        // A future that is dropped while it waits takes nothing with it.
        let mut waiting = Box::pin(watch.next());
        poll_fn(|cx| {
            assert!(waiting.as_mut().poll(cx).is_pending(), "nothing was committed yet");
            Poll::Ready(())
        })
        .await;
    }
    let futures: Vec<BoxFuture<'_, Revision>> = vec![
        Box::pin(async { watch.next().await.expect("it is kept").revision }),
        Box::pin(fixture.put("k", "v")),
    ];
    assert_eq!(together(futures).await, [Revision(1), Revision(1)]);
}

async fn a_list_and_a_watch_miss_nothing(fixture: Fixture) {
    const COMMITS: u64 = 50;
    let write: BoxFuture<'_, u64> = Box::pin(async {
        for number in 0..COMMITS {
            fixture.put(&format!("/k/{number:03}"), "v").await;
        }
        COMMITS
    });
    let follow: BoxFuture<'_, u64> = Box::pin(async {
        let listing = fixture.store.list("/k/").await.expect("the store lists");
        let mut watch = fixture.store.watch(listing.revision).await.expect("it is recent");
        let mut count = u64::try_from(listing.entries.len()).expect("it is a small number");
        assert_eq!(Revision(count), listing.revision);
        while count < COMMITS {
            let changes = watch.next().await.expect("it is kept");
            assert_eq!(changes.revision, Revision(count + 1));
            count += 1;
        }
        count
    });
    assert_eq!(together(vec![write, follow]).await, [COMMITS, COMMITS]);
}

async fn who_is_too_far_behind_lists_again(fixture: Fixture) {
    let mut slow = fixture.store.watch(Revision::ZERO).await.expect("all is kept");
    let value = Bytes::from(vec![0; VALUE_BYTES_MAX]);
    for _ in 0..=HISTORY_BYTES_MAX / VALUE_BYTES_MAX {
        fixture.commit(Transaction::new().put("large", value.clone())).await;
    }
    let is_compacted = |error: &StoreError| matches!(error, StoreError::Compacted { .. });
    let error = slow.next().await.expect_err("what it wants next is gone");
    assert!(is_compacted(&error), "{error}");
    let error = fixture.store.watch(Revision::ZERO).await.err().expect("that is gone");
    assert!(is_compacted(&error), "{error}");
    let listing = fixture.store.list("").await.expect("the store lists");
    let mut again = fixture.store.watch(listing.revision).await.expect("it is recent");
    let revision = fixture.put("k", "v").await;
    assert_eq!(again.next().await.map(|changes| changes.revision), Ok(revision));
}

async fn a_revision_to_come_is_refused(fixture: Fixture) {
    fixture.put("k", "v").await;
    let error = fixture.store.watch(Revision(2)).await.err();
    let expected =
        StoreError::Compacted { after: Revision(2), oldest: Revision(0), newest: Revision(1) };
    assert_eq!(error, Some(expected));
}

async fn the_end_of_the_store_ends_the_watch(fixture: Fixture) {
    let mut watch = fixture.store.watch(Revision::ZERO).await.expect("all is kept");
    fixture.put("k", "v").await;
    drop(fixture);
    assert_eq!(watch.next().await.map(|changes| changes.revision), Ok(Revision(1)));
    assert_eq!(watch.next().await, Err(StoreError::Closed));
}
