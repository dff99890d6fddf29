//! Entries that end: each in a commit of its own that watchers see.

use super::{Case, Fixture, START_MS};
use crate::changes::{Changes, Event};
use crate::entry::Revision;
use crate::transaction::Transaction;
use crate::watch::Watch;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

pub(super) const CASES: &[Case] = &[
    |fixture| Box::pin(an_entry_ends_in_a_commit_of_its_own(fixture)),
    |fixture| Box::pin(what_ends_together_is_removed_together(fixture)),
    |fixture| Box::pin(the_last_put_decides_about_the_end(fixture)),
    |fixture| Box::pin(a_time_that_never_comes_is_kept(fixture)),
];

fn put_for(seconds: u32, key: &str) -> Transaction {
    Transaction::new().put_for(SECOND * seconds, key, "v")
}

async fn watch(fixture: &Fixture) -> Watch {
    let revision = fixture.revision().await;
    fixture.store.watch(revision).await.expect("it is recent")
}

fn deleted(changes: &Changes) -> Vec<&str> {
    let is_delete = |event: &&Event| matches!(event, Event::Delete { .. });
    changes.events.iter().filter(is_delete).map(Event::key).collect()
}

async fn an_entry_ends_in_a_commit_of_its_own(fixture: Fixture) {
    fixture.commit(put_for(10, "short").put("long", "v")).await;
    let entry = fixture.get("short").await.expect("it was put");
    assert_eq!(entry.expires_at_ms, Some(START_MS + 10_000));

    fixture.clock.advance(SECOND * 9);
    assert_eq!(fixture.put("other", "v").await, Revision(2));
    assert!(fixture.get("short").await.is_some(), "its time has not come");

    let mut watch = watch(&fixture).await;
    fixture.clock.advance(SECOND);
    let changes = watch.next().await.expect("it is kept");
    assert_eq!((changes.revision, deleted(&changes)), (Revision(3), vec!["short"]));
    assert_eq!(changes.events.len(), 1);
    assert_eq!(fixture.keys("").await, ["long", "other"]);
    assert_eq!(fixture.revision().await, Revision(3));
    fixture.commit(put_for(1, "short").when_absent("short")).await;
}

async fn what_ends_together_is_removed_together(fixture: Fixture) {
    for (key, seconds) in [("a", 5), ("b", 5), ("c", 6)] {
        fixture.commit(put_for(seconds, key)).await;
    }
    let mut watch = watch(&fixture).await;
    fixture.clock.advance(SECOND * 5);
    let mut keys = Vec::new();
    while keys.len() < 2 {
        let changes = watch.next().await.expect("it is kept");
        keys.extend(deleted(&changes).into_iter().map(str::to_owned));
    }
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(fixture.keys("").await, ["c"]);
    fixture.clock.advance(SECOND);
    assert_eq!(deleted(&watch.next().await.expect("it is kept")), ["c"]);
}

async fn the_last_put_decides_about_the_end(fixture: Fixture) {
    let for_ever = Transaction::new().put("kept", "v");
    let setup = [
        put_for(5, "kept"),
        for_ever,
        put_for(5, "extended"),
        put_for(50, "extended"),
        put_for(50, "shortened"),
        put_for(7, "shortened"),
        put_for(5, "deleted"),
        Transaction::new().delete("deleted").put("deleted", "again"),
        put_for(5, "last"),
    ];
    for transaction in setup {
        fixture.commit(transaction).await;
    }
    let mut watch = watch(&fixture).await;
    fixture.clock.advance(SECOND * 5);
    assert_eq!(deleted(&watch.next().await.expect("it is kept")), ["last"]);
    fixture.clock.advance(SECOND * 2);
    assert_eq!(deleted(&watch.next().await.expect("it is kept")), ["shortened"]);
    assert_eq!(fixture.keys("").await, ["deleted", "extended", "kept"]);
    fixture.clock.advance(SECOND * 50);
    assert_eq!(deleted(&watch.next().await.expect("it is kept")), ["extended"]);
    assert_eq!(watch.try_next(), Ok(None));
}

async fn a_time_that_never_comes_is_kept(fixture: Fixture) {
    fixture.commit(Transaction::new().put_for(Duration::MAX, "k", "v")).await;
    let entry = fixture.get("k").await.expect("it was put");
    assert_eq!(entry.expires_at_ms, Some(i64::MAX.unsigned_abs()));
    fixture.clock.advance(SECOND);
    fixture.put("other", "v").await;
    assert!(fixture.get("k").await.is_some());
}
