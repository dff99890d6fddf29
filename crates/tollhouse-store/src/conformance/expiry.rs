//! Cases about expiry: entries are removed in separate commits that watchers see.

use super::{Case, Fixture, next};
use crate::changes::{Changes, Event};
use crate::transaction::Transaction;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    |fixture| Box::pin(an_entry_ends_in_a_commit_of_its_own(fixture)),
    |fixture| Box::pin(what_ends_together_is_removed_together(fixture)),
    |fixture| Box::pin(the_last_put_decides_about_the_end(fixture)),
    |fixture| Box::pin(a_time_that_never_comes_is_kept(fixture)),
];

fn deleted(changes: &Changes) -> Vec<&str> {
    let is_delete = |event: &&Event| matches!(event, Event::Delete { .. });
    changes.events.iter().filter(is_delete).map(Event::key).collect()
}

async fn an_entry_ends_in_a_commit_of_its_own(fixture: Fixture) {
    let lease = fixture.grant(10).await;
    fixture.commit(Transaction::new().put_under(lease, "short", "v").put("long", "v")).await;
    let entry = fixture.get("short").await.expect("it was put");
    assert!(entry.expires_at_ms.is_some());

    fixture.pass(9).await;
    fixture.put("other", "v").await;
    assert!(fixture.get("short").await.is_some(), "its time has not come");

    let mut watch = fixture.watch().await;
    fixture.pass(1).await;
    let changes = next(&mut watch).await;
    assert!(changes.revision > entry.mod_revision);
    assert_eq!((deleted(&changes), changes.events.len()), (vec!["short"], 1));
    assert_eq!(fixture.keys("").await, ["long", "other"]);
    assert_eq!(fixture.revision().await, changes.revision);
    fixture.commit(Transaction::new().put("short", "v").when_absent("short")).await;
}

async fn what_ends_together_is_removed_together(fixture: Fixture) {
    for (key, seconds) in [("a", 5), ("b", 5), ("c", 6)] {
        fixture.put_for(seconds, key).await;
    }
    let mut watch = fixture.watch().await;
    fixture.pass(5).await;
    let mut keys = Vec::new();
    while keys.len() < 2 {
        keys.extend(deleted(&next(&mut watch).await).into_iter().map(str::to_owned));
    }
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(fixture.keys("").await, ["c"]);
    fixture.pass(1).await;
    assert_eq!(deleted(&next(&mut watch).await), ["c"]);
}

async fn the_last_put_decides_about_the_end(fixture: Fixture) {
    fixture.put_for(5, "kept").await;
    fixture.put("kept", "v").await;
    fixture.put_for(5, "extended").await;
    fixture.put_for(50, "extended").await;
    fixture.put_for(50, "shortened").await;
    fixture.put_for(7, "shortened").await;
    fixture.put_for(5, "deleted").await;
    fixture.commit(Transaction::new().delete("deleted")).await;
    fixture.put("deleted", "again").await;
    fixture.put_for(5, "last").await;
    let mut watch = fixture.watch().await;
    fixture.pass(5).await;
    assert_eq!(deleted(&next(&mut watch).await), ["last"]);
    fixture.pass(2).await;
    assert_eq!(deleted(&next(&mut watch).await), ["shortened"]);
    assert_eq!(fixture.keys("").await, ["deleted", "extended", "kept"]);
    fixture.pass(50).await;
    assert_eq!(deleted(&next(&mut watch).await), ["extended"]);
    assert_eq!(watch.try_next(), None);
}

async fn a_time_that_never_comes_is_kept(fixture: Fixture) {
    let lease = fixture.store().grant(Duration::MAX).await.expect("there is room for it");
    fixture.commit(Transaction::new().put_under(lease, "k", "v")).await;
    assert!(fixture.get("k").await.is_some_and(|entry| entry.expires_at_ms.is_some()));
    fixture.pass(1).await;
    fixture.put("other", "v").await;
    assert!(fixture.get("k").await.is_some());
}
