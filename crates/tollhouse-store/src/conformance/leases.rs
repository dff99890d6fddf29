//! Cases about leases: entries end with their lease, and a holder whose lease has ended cannot
//! write.

use super::{Case, Fixture, next, put};
use crate::changes::Event;
use crate::error::{ErrorKind, StoreError};
use crate::lease::LeaseId;
use crate::transaction::Transaction;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    |fixture| Box::pin(a_revoked_lease_takes_what_it_holds(fixture)),
    |fixture| Box::pin(who_revoked_a_lease_is_fenced(fixture)),
    |fixture| Box::pin(a_lease_that_never_was_is_none(fixture)),
];

/// Cases for stores with a manual clock.
pub(super) const EMBEDDED: &[Case] = &[
    |fixture| Box::pin(a_lease_that_is_renewed_lasts(fixture)),
    |fixture| Box::pin(who_lost_a_lease_is_fenced(fixture)),
];

async fn a_lease_that_is_renewed_lasts(fixture: Fixture) {
    let lease = fixture.put_for(10, "member").await;
    fixture.commit(Transaction::new().put_under(lease, "address", "v")).await;
    let revision = fixture.revision().await;
    for _ in 0..3 {
        fixture.pass(6).await;
        fixture.store().keep_alive(lease).await.expect("it is held");
    }
    assert_eq!(fixture.keys("").await, ["address", "member"]);
    assert_eq!(fixture.revision().await, revision, "to renew a lease changes nothing");
    let mut watch = fixture.watch().await;
    fixture.pass(10).await;
    let mut gone = Vec::new();
    while gone.len() < 2 {
        gone.extend(next(&mut watch).await.events.iter().map(|event| event.key().to_owned()));
    }
    gone.sort_unstable();
    assert_eq!(gone, ["address", "member"]);
    let fenced = fixture.store().keep_alive(lease).await;
    assert_eq!(fenced, Err(StoreError::Fenced { lease }));
}

async fn a_revoked_lease_takes_what_it_holds(fixture: Fixture) {
    let lease = fixture.put_for(100, "held").await;
    fixture.commit(Transaction::new().put_under(lease, "taken", "v")).await;
    fixture.put("taken", "for ever").await;
    let other = fixture.put_for(100, "another").await;
    let mut watch = fixture.watch().await;
    fixture.store().revoke(lease).await.expect("it ends");
    let events = next(&mut watch).await.events;
    let is_removal = |event: &Event| matches!(event, Event::Delete { key, .. } if **key == *"held");
    assert!(events.len() == 1 && is_removal(&events[0]), "{events:?}");
    assert_eq!(fixture.keys("").await, ["another", "taken"]);
    fixture.store().revoke(lease).await.expect("it has ended already");
    fixture.store().keep_alive(other).await.expect("the other is held still");
}

async fn who_revoked_a_lease_is_fenced(fixture: Fixture) {
    let lease = fixture.grant(10).await;
    fixture.commit(put("task", "1").while_held(lease)).await;
    fixture.store().revoke(lease).await.expect("it ends");
    assert_fenced(&fixture, lease).await;
}

async fn who_lost_a_lease_is_fenced(fixture: Fixture) {
    let lease = fixture.grant(10).await;
    fixture.commit(put("task", "1").while_held(lease)).await;
    fixture.pass(10).await;
    assert_fenced(&fixture, lease).await;
}

async fn assert_fenced(fixture: &Fixture, lease: LeaseId) {
    for transaction in [
        put("task", "2").while_held(lease),
        Transaction::new().put_under(lease, "task", "2"),
        put("task", "2").while_held(lease).when_absent("task"),
    ] {
        let error = fixture.refused(transaction).await;
        assert_eq!(error, StoreError::Fenced { lease });
        assert_eq!(error.kind(), ErrorKind::Fenced);
    }
    assert_eq!(fixture.value("task").await.as_deref(), Some("1"));
}

async fn a_lease_that_never_was_is_none(fixture: Fixture) {
    let never = LeaseId(1 << 40);
    assert_eq!(fixture.store().keep_alive(never).await, Err(StoreError::Fenced { lease: never }));
    fixture.store().revoke(never).await.expect("there is nothing to end");
    // A lease of zero duration has ended at once.
    let lease = fixture.store().grant(Duration::ZERO).await.expect("there is room for it");
    fixture.refused(put("k", "v").while_held(lease)).await;
}
