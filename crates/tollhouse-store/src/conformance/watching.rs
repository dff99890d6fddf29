//! Cases about watches: whole commits, in order, without gaps.

use super::{Case, Fixture, end, next, together};
use crate::changes::Event;
use crate::entry::Revision;
use crate::future::BoxFuture;
use crate::transaction::Transaction;
use crate::watch::{Lost, Watch, WatchEvent};
use std::future::poll_fn;
use std::task::Poll;

pub(super) const CASES: &[Case] = &[
    |fixture| Box::pin(commits_arrive_whole_and_in_order(fixture)),
    |fixture| Box::pin(a_watch_begins_after_its_revision(fixture)),
    |fixture| Box::pin(a_watch_sees_its_prefix(fixture)),
    |fixture| Box::pin(a_waiting_watcher_is_woken(fixture)),
    |fixture| Box::pin(a_list_and_a_watch_miss_nothing(fixture)),
    |fixture| Box::pin(who_is_too_far_behind_is_lost(fixture)),
    |fixture| Box::pin(a_revision_to_come_is_lost(fixture)),
];

/// Cases for stores in this process, where every commit is reported at once.
pub(super) const EMBEDDED: &[Case] = &[
    |fixture| Box::pin(a_watch_knows_how_far_it_is(fixture)),
    |fixture| Box::pin(the_end_of_the_store_ends_the_watch(fixture)),
];

async fn commits_arrive_whole_and_in_order(fixture: Fixture) {
    let mut watch = fixture.watch().await;
    let put = Transaction::new().put("/r/1", "a").put("/r/2", "b").put("x", "c");
    let first = fixture.commit(put).await.revision;
    fixture.commit(Transaction::new().delete("gone")).await;
    fixture.refused(Transaction::new().put("y", "d").when_exists("gone")).await;
    let remove = Transaction::new().delete_prefix("/r/").put("x", "e");
    let second = fixture.commit(remove).await.revision;

    let changes = next(&mut watch).await;
    assert_eq!(changes.revision, first);
    let keys: Vec<_> = changes.events.iter().map(Event::key).collect();
    assert_eq!(keys, ["/r/1", "/r/2", "x"]);
    let changes = next(&mut watch).await;
    assert_eq!(changes.revision, second);
    let entry = fixture.get("x").await.expect("it was put");
    let expected = [
        Event::Delete { key: "/r/1".into(), revision: second },
        Event::Delete { key: "/r/2".into(), revision: second },
        Event::Put(entry),
    ];
    assert_eq!(changes.events, expected);
    assert_eq!(watch.try_next(), None);
    assert_eq!(watch.revision(), second);
}

async fn a_watch_begins_after_its_revision(fixture: Fixture) {
    let mut revisions = vec![fixture.revision().await];
    for number in 1..=5 {
        revisions.push(fixture.put("k", &number.to_string()).await);
    }
    for (index, after) in revisions.iter().enumerate() {
        let mut watch = fixture.store().watch("", *after);
        for expected in &revisions[index + 1..] {
            assert_eq!(next(&mut watch).await.revision, *expected);
        }
        assert_eq!(watch.try_next(), None, "after {after}");
    }
}

async fn a_watch_sees_its_prefix(fixture: Fixture) {
    let before = fixture.revision().await;
    let mut watch = fixture.store().watch("/a/", before);
    let mixed = Transaction::new().put("/a/1", "v").put("/b/1", "v").delete("/a/2");
    let mixed = fixture.commit(mixed).await.revision;
    fixture.put("/b/2", "v").await;

    let changes = next(&mut watch).await;
    let keys: Vec<_> = changes.events.iter().map(Event::key).collect();
    assert_eq!((changes.revision, keys), (mixed, vec!["/a/1"]));

    let mut late = fixture.store().watch("/a/", mixed);
    let last = fixture.put("/a/3", "v").await;
    assert_eq!(next(&mut late).await.revision, last);
    assert_eq!(next(&mut watch).await.revision, last);
}

async fn a_watch_knows_how_far_it_is(fixture: Fixture) {
    let before = fixture.revision().await;
    let mut watch = fixture.store().watch("/a/", before);
    let other = fixture.put("/b/2", "v").await;
    // A caller that waits for this revision need not wait for a change under its prefix.
    assert_eq!(watch.next().await, WatchEvent::Progress(other));
    assert_eq!(watch.revision(), other);
    assert_eq!(watch.try_next(), None);
}

async fn a_waiting_watcher_is_woken(fixture: Fixture) {
    let mut watch = fixture.watch().await;
    {
        // Dropping a waiting future must not lose an event.
        let mut waiting = Box::pin(watch.next());
        poll_fn(|cx| {
            assert!(waiting.as_mut().poll(cx).is_pending(), "nothing was committed yet");
            Poll::Ready(())
        })
        .await;
    }
    let futures: Vec<BoxFuture<'_, Revision>> =
        vec![Box::pin(async { next(&mut watch).await.revision }), Box::pin(fixture.put("k", "v"))];
    let revisions = together(futures).await;
    assert_eq!(revisions[0], revisions[1]);
}

async fn a_list_and_a_watch_miss_nothing(fixture: Fixture) {
    const COMMITS: usize = 50;
    let write: BoxFuture<'_, usize> = Box::pin(async {
        for number in 0..COMMITS {
            fixture.put(&format!("/k/{number:03}"), "v").await;
        }
        COMMITS
    });
    let follow: BoxFuture<'_, usize> = Box::pin(async {
        let listing = fixture.store().list("/k/").await.expect("the store lists");
        let mut watch = fixture.store().watch("/k/", listing.revision);
        let mut keys: Vec<_> = listing.entries.into_iter().map(|entry| entry.key).collect();
        while keys.len() < COMMITS {
            let events = next(&mut watch).await.events;
            keys.extend(events.iter().map(|event| Box::from(event.key())));
        }
        assert!(keys.is_sorted(), "{keys:?}");
        keys.dedup();
        keys.len()
    });
    assert_eq!(together(vec![write, follow]).await, [COMMITS, COMMITS]);
}

fn is_compacted(lost: &Lost) -> bool {
    matches!(lost, Lost::Compacted { .. })
}

async fn who_is_too_far_behind_is_lost(fixture: Fixture) {
    let before = fixture.revision().await;
    let mut slow = fixture.store().watch("", before);
    fixture.put("k", "v").await;
    fixture.subject.compact().await;
    // A store may have read ahead for this watch, but it must not skip a commit.
    let first = loop {
        match slow.next().await {
            WatchEvent::Progress(_) => {}
            first => break first,
        }
    };
    match first {
        WatchEvent::Commit(changes) => assert_eq!(changes.events[0].key(), "k"),
        WatchEvent::Lost(lost) => assert!(is_compacted(&lost), "{lost}"),
        WatchEvent::Progress(_) => unreachable!("it is passed over"),
    }
    let mut late = fixture.store().watch("", before);
    for _ in 0..2 {
        let lost = end(&mut late).await;
        assert!(is_compacted(&lost), "{lost}");
    }
    let listing = fixture.store().list("").await.expect("the store lists");
    let mut again = fixture.store().watch("", listing.revision);
    let revision = fixture.put("k", "w").await;
    assert_eq!(next(&mut again).await.revision, revision);
}

async fn a_revision_to_come_is_lost(fixture: Fixture) {
    let newest = fixture.put("k", "v").await;
    let lost = end(&mut fixture.store().watch("", Revision(newest.0 + 1))).await;
    assert!(is_compacted(&lost) || matches!(lost, Lost::Rewound { .. }), "{lost}");
}

async fn the_end_of_the_store_ends_the_watch(fixture: Fixture) {
    let mut watch: Watch = fixture.watch().await;
    let revision = fixture.put("k", "v").await;
    assert!(!watch.is_over());
    drop(fixture);
    assert!(watch.is_over());
    assert_eq!(next(&mut watch).await.revision, revision);
    assert_eq!(end(&mut watch).await, Lost::Closed);
}
