//! Cases about transactions: atomicity, a single revision, and conditions before operations.

use super::{Case, Fixture, put, together};
use crate::entry::Revision;
use crate::error::{ErrorKind, StoreError};
use crate::future::BoxFuture;
use crate::transaction::Transaction;

/// Number of concurrent writers.
const AUTHORS: u64 = 16;

pub(super) const CASES: &[Case] = &[
    |fixture| Box::pin(operations_share_a_revision(fixture)),
    |fixture| Box::pin(a_failed_condition_changes_nothing(fixture)),
    |fixture| Box::pin(conditions_come_before_any_operation(fixture)),
    |fixture| Box::pin(a_guard_that_changed_refuses(fixture)),
    |fixture| Box::pin(a_store_that_changed_refuses(fixture)),
    |fixture| Box::pin(a_key_is_changed_once(fixture)),
    |fixture| Box::pin(what_changes_nothing_makes_no_revision(fixture)),
    |fixture| Box::pin(a_prefix_is_removed_at_once(fixture)),
    |fixture| Box::pin(parallel_commits_get_a_revision_each(fixture)),
    |fixture| Box::pin(no_increment_is_lost(fixture)),
    |fixture| Box::pin(one_of_many_creates(fixture)),
];

async fn operations_share_a_revision(fixture: Fixture) {
    let first = fixture.commit(put("old", "0").put("changed", "0")).await.revision;
    let transaction = Transaction::new().put("new", "1").put("changed", "2").delete("old");
    let committed = fixture.commit(transaction).await;
    assert!(committed.revision > first);
    assert_eq!(committed.removed, 1);
    let previous: Vec<_> = committed
        .previous
        .iter()
        .map(|entry| entry.as_ref().map(|entry| (&entry.value[..], entry.mod_revision)))
        .collect();
    assert_eq!(previous, [None, Some((&b"0"[..], first)), Some((&b"0"[..], first))]);
    for (key, value, created) in [("new", "1", committed.revision), ("changed", "2", first)] {
        let entry = fixture.get(key).await.expect("it was put");
        assert_eq!(entry.value, value);
        assert_eq!((entry.create_revision, entry.mod_revision), (created, committed.revision));
    }
}

async fn a_failed_condition_changes_nothing(fixture: Fixture) {
    let before = fixture.revision().await;
    let first = fixture.put("here", "1").await;
    let write = || Transaction::new().put("here", "2").delete_prefix("other/");
    let later = Revision(first.0 + 1);
    let cases = [
        (write().when_absent("here"), "here"),
        (write().when_exists("gone"), "gone"),
        (write().when_modified_at("here", before), "here"),
        (write().when_modified_at("here", later), "here"),
        (write().when_modified_at("gone", first), "gone"),
        (write().when_unchanged_since("here", before), "here"),
        // If several fail, every backend names the first.
        (write().when_exists("here").when_absent("gone").when_exists("a").when_exists("b"), "a"),
    ];
    for (transaction, key) in cases {
        let error = fixture.refused(transaction.clone()).await;
        assert_eq!(error, StoreError::Conflict { key: key.into() }, "{transaction:?}");
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert_eq!(fixture.value("here").await.as_deref(), Some("1"));
        assert_eq!(fixture.revision().await, first);
    }
    let held = Transaction::new()
        .when_exists("here")
        .when_absent("gone")
        .when_modified_at("here", first)
        .when_unchanged_since("here", first)
        .when_unchanged_since("gone", before)
        .put("here", "2");
    assert!(fixture.commit(held).await.revision > first);
}

/// Two callers check different keys, and each undoes what the other has checked: the store must
/// refuse one transaction.
async fn a_guard_that_changed_refuses(fixture: Fixture) {
    let seen = fixture.put("upstream", "1").await;
    let refer = put("route", "1").when_exists("upstream").put("guard", "1");
    let remove = || {
        Transaction::new()
            .delete("upstream")
            .when_unchanged_since("upstream", seen)
            .when_unchanged_since("guard", seen)
    };
    fixture.commit(refer.clone()).await;
    let error = fixture.refused(remove()).await;
    assert_eq!(error, StoreError::Conflict { key: "guard".into() });

    fixture.commit(Transaction::new().delete("route").delete("guard")).await;
    fixture.commit(remove()).await;
    let error = fixture.refused(refer).await;
    assert_eq!(error, StoreError::Conflict { key: "upstream".into() });
}

/// A caller that has read everything requires that nothing was added since.
async fn a_store_that_changed_refuses(fixture: Fixture) {
    let seen = fixture.put("a", "1").await;
    let remove = |seen| Transaction::new().delete("a").when_nothing_put_since(seen);
    let later = fixture.put("b", "1").await;
    assert_eq!(fixture.refused(remove(seen)).await, StoreError::Outdated { revision: seen });
    assert_eq!(fixture.value("a").await.as_deref(), Some("1"));
    fixture.commit(remove(later)).await;
    assert_eq!(fixture.value("a").await, None);
}

async fn a_key_is_changed_once(fixture: Fixture) {
    let before = fixture.revision().await;
    for (transaction, key) in [
        (put("k", "1").put("k", "2"), "k"),
        (put("k", "1").delete("k"), "k"),
        (put("a/k", "1").delete_prefix("a/"), "a/k"),
    ] {
        let error = fixture.refused(transaction).await;
        assert_eq!(error, StoreError::ChangedTwice { key: key.into() });
    }
    assert_eq!(fixture.revision().await, before);
}

async fn conditions_come_before_any_operation(fixture: Fixture) {
    fixture.commit(put("k", "v").when_absent("k")).await;
    let delete = Transaction::new().delete("k").put("l", "v").when_exists("k").when_absent("l");
    assert_eq!(fixture.commit(delete).await.removed, 1);
    assert_eq!(fixture.keys("").await, ["l"]);
}

async fn what_changes_nothing_makes_no_revision(fixture: Fixture) {
    let revision = fixture.put("k", "v").await;
    let cases = [
        Transaction::new(),
        Transaction::new().when_exists("k"),
        Transaction::new().delete("gone"),
        Transaction::new().delete_prefix("gone/"),
    ];
    for transaction in cases {
        let committed = fixture.commit(transaction.clone()).await;
        assert_eq!((committed.revision, committed.removed), (revision, 0), "{transaction:?}");
        assert_eq!(committed.previous.len(), transaction.operations.len());
    }
    assert!(fixture.put("k", "v").await > revision, "an equal value is put all the same");
}

async fn a_prefix_is_removed_at_once(fixture: Fixture) {
    for key in ["/r", "/r/1", "/r/2", "/r/3", "/r0"] {
        fixture.put(key, "old").await;
    }
    let remove = Transaction::new().delete_prefix("/r/").put("/r", "new");
    let committed = fixture.commit(remove).await;
    assert_eq!(committed.removed, 3);
    assert_eq!(committed.previous[0], None, "of a prefix nothing is handed back");
    assert_eq!(fixture.keys("").await, ["/r", "/r0"]);
    let created = fixture.put("/r/2", "new").await;
    let entry = fixture.get("/r/2").await.expect("it was put");
    assert_eq!(entry.create_revision, created, "a removed key is a new one");
    let all = fixture.commit(Transaction::new().delete_prefix("")).await;
    assert_eq!(all.removed, 3);
    assert!(fixture.keys("").await.is_empty());
}

async fn parallel_commits_get_a_revision_each(fixture: Fixture) {
    let before = fixture.revision().await;
    let commit = |author: u64| -> BoxFuture<'_, Revision> {
        let fixture = &fixture;
        Box::pin(async move { fixture.put(&format!("/author/{author}"), "v").await })
    };
    let mut revisions = together((1..=AUTHORS).map(commit).collect()).await;
    revisions.sort_unstable();
    assert!(revisions[0] > before);
    assert!(revisions.windows(2).all(|pair| pair[0] < pair[1]), "{revisions:?}");
    for entry in fixture.store().list("/author/").await.expect("the store lists").entries {
        assert_eq!(entry.create_revision, entry.mod_revision);
        assert!(revisions.contains(&entry.mod_revision));
    }
}

async fn no_increment_is_lost(fixture: Fixture) {
    const EACH: u64 = 8;
    fixture.put("count", "0").await;
    let author = |_| -> BoxFuture<'_, ()> {
        let fixture = &fixture;
        Box::pin(async move {
            for _ in 0..EACH {
                increment(fixture, "count").await;
            }
        })
    };
    together((0..AUTHORS).map(author).collect()).await;
    assert_eq!(fixture.value("count").await, Some((AUTHORS * EACH).to_string()));
}

/// Reads, adds one and writes; repeats if another caller has written in between.
async fn increment(fixture: &Fixture, key: &str) {
    loop {
        let entry = fixture.get(key).await.expect("it is there");
        let text = String::from_utf8_lossy(&entry.value);
        let next = text.parse::<u64>().expect("it is a number") + 1;
        let write = put(key, &next.to_string()).when_modified_at(key, entry.mod_revision);
        match fixture.store().commit(write).await {
            Ok(_) => return,
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn one_of_many_creates(fixture: Fixture) {
    let create =
        |author: u64| fixture.store().commit(put("name", &author.to_string()).when_absent("name"));
    let results = together((0..AUTHORS).map(create).collect()).await;
    let winners: Vec<usize> = (0..results.len()).filter(|index| results[*index].is_ok()).collect();
    assert_eq!(winners.len(), 1);
    assert_eq!(fixture.value("name").await, Some(winners[0].to_string()));
}
