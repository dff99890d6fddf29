//! Failures of the authority and the store.

use std::sync::Arc;

use tollhouse_model::encryption::Keyring;

use super::directory::Fault;
use super::{BEGIN_S, World, pass_s};
use crate::listing::State;

const HOST: &str = "a.example";

#[tokio::test(start_paused = true)]
async fn a_limit_on_orders_is_respected_to_the_second_and_shown() {
    let world = World::new(&[HOST]);
    world.directory.fail("/new-order", Fault::Later(429, Some(3600)));
    let node = world.node("one");
    let view = node.until(|view| view.state == State::Failing).await;
    let error = view.last_error.as_ref().expect("it says why");
    assert_eq!(
        (error.code, error.detail.contains("too many of them")),
        ("acme_rate_limited", true)
    );
    assert!(view.next_attempt.is_some_and(|at_s| at_s >= BEGIN_S + 3600), "{view:?}");
    node.until(|view| view.state == State::Valid).await;
    let asked_s = world.directory.asked_s("/");
    let first = world.directory.asked_s("/new-order")[0];
    assert!(!asked_s.iter().any(|at_s| (first + 1..first + 3600).contains(at_s)), "{asked_s:?}");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_endpoint_holds_for_all_names_and_over_a_restart() {
    let world = World::new(&[HOST, "b.example", "c.example"]);
    world.directory.fail("/dir", Fault::Later(503, Some(1800)));
    let node = world.node("one");
    node.until(|view| view.state == State::Failing).await;
    let before = world.directory.asked_s("/").len();
    node.stop().await;
    let node = world.node("one");
    pass_s(1700).await;
    assert_eq!(world.directory.asked_s("/").len(), before, "nobody is asked before its time");
    node.until(|view| view.state == State::Valid).await;
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_authority_that_is_away_is_asked_ever_more_rarely() {
    let world = World::new(&[HOST]);
    (0..6).for_each(|_| world.directory.fail("/dir", Fault::NoAnswer));
    let node = world.node("one");
    let view = node.until(|view| view.state == State::Failing).await;
    assert_eq!(view.last_error.expect("why").code, "acme_unreachable");
    node.until(|view| view.state == State::Valid).await;
    let asked_s = world.directory.asked_s("/dir");
    let waits: Vec<u64> = asked_s.windows(2).take(6).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.is_sorted() && waits[0] >= 60 && waits[5] >= 3600, "{waits:?}");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_cut_cost_a_wait_and_no_second_order() {
    for path in ["/order/", "/authz/", "/chall/", "/finalize/", "/cert/"] {
        let world = World::new(&[HOST]);
        world.directory.fail(path, Fault::Truncated);
        let node = world.node("one");
        node.until(|view| view.state == State::Valid).await;
        assert_eq!(world.directory.orders(), 1, "{path}");
        node.stop().await;
    }
    // The content of a truncated response to one of these paths is lost, so that a second order may
    // be created.
    for path in ["/dir", "/new-order"] {
        let world = World::new(&[HOST]);
        world.directory.fail(path, Fault::Truncated);
        let node = world.node("one");
        node.until(|view| view.state == State::Valid).await;
        assert!(world.directory.orders() <= 2, "{path}");
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn challenges_fail_no_more_than_four_times_in_any_hour() {
    let world = World::new(&[HOST]);
    world.directory.behave(|it| it.sees_answers = false);
    let node = world.node("one");
    let view = node.until(|view| view.state == State::Failing).await;
    let error = view.last_error.expect("it says why");
    assert_eq!(
        (error.code, &*error.detail),
        ("acme_challenge_failed", "connection: it is connection")
    );
    assert!(error.remedy.contains("port 80"), "{error:?}");
    pass_s(12 * 3600).await;
    let asked_s = world.directory.asked_s("/chall/");
    assert!(asked_s.len() > 6, "{asked_s:?}");
    for window in asked_s.windows(5) {
        assert!(window[4] - window[0] >= 3600, "{asked_s:?}");
    }
    world.directory.behave(|it| it.sees_answers = true);
    node.until(|view| view.state == State::Valid).await;
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_finalisation_that_fails_is_repeated_on_the_same_order() {
    for fault in
        [Fault::Problem("orderNotReady"), Fault::Problem("serverInternal"), Fault::Later(500, None)]
    {
        let world = World::new(&[HOST]);
        world.directory.fail("/finalize/", fault.clone());
        let node = world.node("one");
        node.until(|view| view.state == State::Failing).await;
        node.until(|view| view.state == State::Valid).await;
        assert_eq!(world.directory.orders(), 1, "{fault:?}");
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_authority_refuses_is_told_in_its_words() {
    let world = World::new(&[HOST]);
    world.directory.fail("/new-order", Fault::Problem("rejectedIdentifier"));
    let node = world.node("one");
    let view = node.until(|view| view.state == State::Failing).await;
    let error = view.last_error.expect("it says why");
    assert_eq!(
        (error.code, &*error.detail),
        ("acme_order_refused", "rejectedIdentifier: it is rejectedIdentifier")
    );
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_account_that_the_authority_has_forgotten_is_made_anew() {
    let world = World::new(&[HOST]);
    let node = world.node("one");
    node.until(|view| view.state == State::Valid).await;
    let delete = tollhouse_store::Transaction::new().delete("/apisix/ssls/acme-a.example");
    world.directory.fail("/new-order", Fault::Problem("accountDoesNotExist"));
    world.store.commit(delete).await.expect("memory");
    node.until(|view| view.state == State::Failing).await;
    node.until(|view| view.state == State::Valid).await;
    assert_eq!(world.directory.accounts(), 2);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_keyring_orders_nothing_and_says_so() {
    let mut world = World::new(&[HOST]);
    let node = world.node("one");
    node.until(|view| view.state == State::Valid).await;
    node.stop().await;
    world.keyring = Arc::new(Keyring::generate().expect("random numbers"));
    let before = world.directory.asked_s("/").len();
    let node = world.node("one");
    let view = node.until(|view| view.state == State::Failing).await;
    let error = view.last_error.expect("it says why");
    assert_eq!(error.code, "acme_key_unopened");
    assert!(error.remedy.contains("restore the keyring"), "{error:?}");
    pass_s(7_200).await;
    assert_eq!(world.directory.asked_s("/").len(), before);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_an_older_key_has_sealed_is_sealed_anew() {
    let old = ["0123456789abcdef"];
    let mut world = World::new(&[HOST]);
    world.keyring = Arc::new(Keyring::new(old).expect("a key"));
    let node = world.node("one");
    node.until(|view| view.state == State::Valid).await;
    node.stop().await;
    world.keyring = Arc::new(Keyring::new(["fedcba9876543210", old[0]]).expect("two keys"));
    let node = world.node("one");
    pass_s(5).await;
    node.stop().await;
    let listing = world.store.list("tollhouse/acme/accounts/").await.expect("memory");
    let account: serde_json::Value =
        serde_json::from_slice(&listing.entries[0].value).expect("an account");
    let newest = Keyring::new(["fedcba9876543210"]).expect("a key");
    let sealed = account["credentials"].as_str().expect("text");
    assert!(newest.hidden_in(sealed, "acme.account").is_some());
}
