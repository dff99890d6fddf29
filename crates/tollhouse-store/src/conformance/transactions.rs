//! Transactions: all or nothing, one revision, conditions judged first.

use super::{Case, Fixture, put, together};
use crate::entry::Revision;
use crate::error::StoreError;
use crate::store::BoxFuture;
use crate::transaction::Transaction;

/// How many authors commit side by side.
const AUTHORS: u64 = 16;

pub(super) const CASES: &[Case] = &[
    |fixture| Box::pin(operations_share_a_revision_and_see_each_other(fixture)),
    |fixture| Box::pin(a_failed_condition_changes_nothing(fixture)),
    |fixture| Box::pin(conditions_are_judged_before_any_operation(fixture)),
    |fixture| Box::pin(what_changes_nothing_makes_no_revision(fixture)),
    |fixture| Box::pin(a_prefix_can_be_replaced_at_once(fixture)),
    |fixture| Box::pin(parallel_commits_get_a_revision_each(fixture)),
    |fixture| Box::pin(no_increment_is_lost(fixture)),
    |fixture| Box::pin(one_of_many_creates(fixture)),
];

async fn operations_share_a_revision_and_see_each_other(fixture: Fixture) {
    fixture.put("old", "0").await;
    let transaction = Transaction::new()
        .put("new", "1")
        .put("new", "2")
        .delete("old")
        .delete("old")
        .put("old", "3");
    let committed = fixture.commit(transaction).await;
    assert_eq!((committed.revision, committed.removed), (Revision(2), 1));
    let previous: Vec<_> = committed
        .previous
        .iter()
        .map(|entry| entry.as_ref().map(|entry| (&entry.value[..], entry.mod_revision.0)))
        .collect();
    assert_eq!(previous, [None, Some((&b"1"[..], 2)), Some((&b"0"[..], 1)), None, None]);
    for (key, value) in [("new", &b"2"[..]), ("old", &b"3"[..])] {
        let entry = fixture.get(key).await.expect("it was put");
        assert_eq!(entry.value, value);
        assert_eq!((entry.create_revision, entry.mod_revision), (Revision(2), Revision(2)));
    }
}

async fn a_failed_condition_changes_nothing(fixture: Fixture) {
    fixture.put("here", "1").await;
    let write = || Transaction::new().put("here", "2").delete_prefix("");
    let cases = [
        (write().when_absent("here"), "here"),
        (write().when_exists("gone"), "gone"),
        (write().when_modified_at("here", Revision(0)), "here"),
        (write().when_modified_at("here", Revision(2)), "here"),
        (write().when_modified_at("gone", Revision(1)), "gone"),
        (write().when_exists("here").when_absent("gone").when_exists("a").when_exists("b"), "a"),
    ];
    for (transaction, key) in cases {
        let error = fixture.refused(transaction.clone()).await;
        assert_eq!(error, StoreError::Conflict { key: key.into() }, "{transaction:?}");
        assert_eq!(fixture.value("here").await.as_deref(), Some("1"));
        assert_eq!(fixture.revision().await, Revision(1));
    }
    let held = Transaction::new()
        .when_exists("here")
        .when_absent("gone")
        .when_modified_at("here", Revision(1))
        .put("here", "2");
    assert_eq!(fixture.commit(held).await.revision, Revision(2));
}

async fn conditions_are_judged_before_any_operation(fixture: Fixture) {
    fixture.commit(put("k", "v").when_absent("k")).await;
    let delete = Transaction::new().delete("k").put("l", "v").when_exists("k").when_absent("l");
    assert_eq!(fixture.commit(delete).await.removed, 1);
    assert_eq!(fixture.keys("").await, ["l"]);
}

async fn what_changes_nothing_makes_no_revision(fixture: Fixture) {
    fixture.put("k", "v").await;
    let cases = [
        Transaction::new(),
        Transaction::new().when_exists("k"),
        Transaction::new().delete("gone"),
        Transaction::new().delete_prefix("gone/"),
    ];
    for transaction in cases {
        let committed = fixture.commit(transaction.clone()).await;
        assert_eq!((committed.revision, committed.removed), (Revision(1), 0), "{transaction:?}");
        assert_eq!(committed.previous.len(), transaction.operations.len());
    }
    assert_eq!(fixture.put("k", "v").await, Revision(2), "an equal value is put all the same");
}

async fn a_prefix_can_be_replaced_at_once(fixture: Fixture) {
    for key in ["/r", "/r/1", "/r/2", "/r/3", "/r0"] {
        fixture.put(key, "old").await;
    }
    let replace = Transaction::new().delete_prefix("/r/").put("/r/2", "new").put("/r/4", "new");
    let committed = fixture.commit(replace).await;
    assert_eq!((committed.removed, committed.previous), (3, vec![None, None, None]));
    assert_eq!(fixture.keys("").await, ["/r", "/r/2", "/r/4", "/r0"]);
    let entry = fixture.get("/r/2").await.expect("it was put");
    assert_eq!(entry.create_revision, committed.revision, "a removed key is a new one");
    let all = fixture.commit(Transaction::new().delete_prefix("")).await;
    assert_eq!(all.removed, 4);
    assert!(fixture.keys("").await.is_empty());
}

async fn parallel_commits_get_a_revision_each(fixture: Fixture) {
    let commit = |author: u64| -> BoxFuture<'_, Revision> {
        let fixture = &fixture;
        Box::pin(async move { fixture.put(&format!("/author/{author}"), "v").await })
    };
    let mut revisions = together((1..=AUTHORS).map(commit).collect()).await;
    revisions.sort_unstable();
    assert_eq!(revisions, (1..=AUTHORS).map(Revision).collect::<Vec<_>>());
    for entry in fixture.store.list("/author/").await.expect("the store lists").entries {
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
    assert_eq!(fixture.revision().await, Revision(1 + AUTHORS * EACH));
}

/// Reads, adds one and writes, until nobody else wrote in between.
async fn increment(fixture: &Fixture, key: &str) {
    loop {
        let entry = fixture.get(key).await.expect("it is there");
        let text = String::from_utf8_lossy(&entry.value);
        let next = text.parse::<u64>().expect("it is a number") + 1;
        let write = put(key, &next.to_string()).when_modified_at(key, entry.mod_revision);
        match fixture.store.commit(write).await {
            Ok(_) => return,
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn one_of_many_creates(fixture: Fixture) {
    let create =
        |author: u64| fixture.store.commit(put("name", &author.to_string()).when_absent("name"));
    let results = together((0..AUTHORS).map(create).collect()).await;
    let winners: Vec<usize> = (0..results.len()).filter(|index| results[*index].is_ok()).collect();
    assert_eq!(winners.len(), 1);
    assert_eq!(fixture.value("name").await, Some(winners[0].to_string()));
    assert_eq!(fixture.revision().await, Revision(1));
}
