//! A certificate is obtained and stored as an object in service.

use super::directory::Fault;
use super::{BEGIN_S, World};
use crate::listing::State;
use crate::settings::ExternalAccount;

const HOST: &str = "a.example";

#[tokio::test(start_paused = true)]
async fn a_name_gets_a_certificate_that_is_sealed_and_belongs_to_it() {
    let world = World::new(&[HOST]);
    let node = world.node("one");
    assert_eq!(node.view().await.state, State::Ordering);
    let view = node.until(|view| view.state == State::Valid).await;
    assert_eq!(view.issuer.as_deref(), Some("Test authority"));
    assert!(view.not_after.is_some_and(|at_s| at_s >= BEGIN_S + 6 * 86_400), "{view:?}");
    let object = world.certificate(HOST).await.expect("it is there");
    assert_eq!((&object["id"], &object["snis"][0]), (&"acme-a.example".into(), &HOST.into()));
    let kept = world.store.list("").await.expect("memory");
    for entry in &kept.entries {
        let text = String::from_utf8_lossy(&entry.value);
        assert!(!text.contains("PRIVATE KEY") && !text.contains("key_pkcs8"), "{}", entry.key);
    }
    let keys: Vec<&str> = kept.entries.iter().map(|entry| &*entry.key).collect();
    assert!(!keys.iter().any(|key| key.contains("/orders/") || key.contains("/challenges/")));
    assert!(node.answered.pending().is_empty());
    assert_eq!((world.directory.orders(), world.directory.accounts()), (1, 1));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_second_nonce_is_refused_and_the_certificate_comes_all_the_same() {
    let world = World::new(&[HOST]);
    world.directory.behave(|it| it.refuses_nonces = true);
    let node = world.node("one");
    node.until(|view| view.state == State::Valid).await;
    assert_eq!(world.directory.orders(), 1);
    assert_eq!(node.view().await.last_error, None);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_external_account_is_bound_where_the_authority_wants_one() {
    let mut world = World::new(&[HOST]);
    world.directory.behave(|it| it.wants_external_account = true);
    let node = world.node("one");
    let view = node.until(|view| view.state == State::Failing).await;
    let error = view.last_error.expect("it says why");
    assert_eq!(error.code, "acme_account_refused");
    assert!(error.remedy.contains("acme.eab"), "{error:?}");
    node.stop().await;
    let key = tollhouse_model::secret::SecretText::new("c2VjcmV0LXNlY3JldC1zZWNyZXQ=");
    world.settings.external_account = Some(ExternalAccount { id: "kid-1".to_owned(), key });
    let node = world.node("one");
    node.until(|view| view.state == State::Valid).await;
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_names_are_ordered_side_by_side_and_each_once() {
    let hosts: Vec<String> = (0..25).map(|number| format!("h{number}.example")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let world = World::new(&hosts);
    // An order without a response delays no other order.
    world.directory.fail("/finalize/0", Fault::Silent);
    let node = world.node("one");
    for _ in 0..600 {
        super::pass_s(1).await;
        let views = node.listing.list().await.expect("memory");
        if views.iter().filter(|view| view.state == State::Valid).count() == 24 {
            break;
        }
    }
    let views = node.listing.list().await.expect("memory");
    assert_eq!(views.iter().filter(|view| view.state == State::Valid).count(), 24, "{views:?}");
    assert_eq!(world.directory.orders(), 25);
    assert_eq!(world.directory.accounts(), 1, "turns that begin together share it");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_somebody_deletes_is_got_anew_but_not_without_end() {
    let world = World::new(&[HOST]);
    let node = world.node("one");
    for expected in 1..=4 {
        node.until(|view| view.state == State::Valid).await;
        assert_eq!(world.directory.orders(), expected);
        let delete = tollhouse_store::Transaction::new().delete("/apisix/ssls/acme-a.example");
        world.store.commit(delete).await.expect("memory");
    }
    let view = node.until(|view| view.state == State::Failing).await;
    assert_eq!(view.last_error.expect("why").code, "acme_issued_too_often");
    super::pass_s(5 * 86_400).await;
    assert_eq!(world.directory.orders(), 4);
    node.until(|view| view.state == State::Valid).await;
    node.stop().await;
}
