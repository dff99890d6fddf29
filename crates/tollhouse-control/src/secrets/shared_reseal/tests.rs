//! Two keys, and others who write meanwhile.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde_json::{Value, json};
use tollhouse_config::bootstrap::Secret;
use tollhouse_model::Kind;
use tollhouse_plugin::sealing::{self, ObjectRef};
use tollhouse_store::Location;

use super::*;

const OLD: &str = "0123456789abcdef";
const NEW: &str = "fedcba9876543210";
const RECORD: &str = "/apisix/tollhouse/keyring";

/// More than one commit takes.
const CONSUMERS: usize = 3 * OBJECTS_MAX;

/// A store in memory with consumers, each with a key.
struct Place {
    store: Arc<dyn Store>,
    catalogue: Arc<Catalogue>,
    bootstrap: Bootstrap,
}

fn ring(keys: &[&str]) -> Keyring {
    Keyring::new(keys.iter().copied()).expect("the keys are good")
}

fn key_of(number: usize) -> String {
    format!("/apisix/consumers/c{number}")
}

/// What is done at once by a store in memory, where nobody can wait for it.
fn at_once<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("memory waits for nothing"),
    }
}

impl Place {
    fn new() -> Self {
        let store = tollhouse_store::open(&Location::Memory).expect("memory is there");
        let mut bootstrap = Bootstrap::default();
        bootstrap.encryption.keyring = [NEW, OLD].map(Secret::new).into();
        let place = Self { store, catalogue: crate::plugins::catalogue(), bootstrap };
        place.put(RECORD, &json!({"keys": [NEW, OLD]}));
        (0..CONSUMERS).for_each(|number| place.write(number, &ring(&[OLD])));
        place
    }

    fn put(&self, key: &str, value: &Value) {
        at_once(self.store.commit(Transaction::new().put(key, value.to_string()))).expect("memory");
    }

    fn write(&self, number: usize, keyring: &Keyring) {
        let conf = json!({"key-auth": {"key": format!("key of {number}")}});
        let mut consumer = json!({"username": format!("c{number}"), "plugins": conf});
        let name = format!("c{number}");
        sealing::seal(
            ObjectRef::new(Kind::Consumer, &name),
            &mut consumer,
            &self.catalogue,
            keyring,
        );
        self.put(&key_of(number), &consumer);
    }

    async fn reseal(
        &self,
        nodes: ApisixNodes,
        told: impl FnMut(usize, usize),
    ) -> Result<ResealReport, String> {
        let keyring = ring(&[NEW, OLD]);
        let secrets = SharedSecrets {
            store: self.store.as_ref(),
            bootstrap: &self.bootstrap,
            keyring: &keyring,
            catalogue: &self.catalogue,
        };
        secrets.reseal(nodes, told).await.map_err(|error| format!("{error:#}"))
    }

    fn value(&self, key: &str) -> Option<Value> {
        let entry = at_once(self.store.get(key)).expect("memory")?;
        serde_json::from_slice(&entry.value).ok()
    }

    /// Whether a consumer's key opens with the new key alone.
    fn is_new(&self, number: usize) -> bool {
        let value = self.value(&key_of(number)).expect("it is there");
        let sealed = value["plugins"]["key-auth"]["key"].as_str().expect("text").to_owned();
        let opened = ring(&[NEW]).hidden_in(&sealed, &format!("consumers/c{number} key-auth.key"));
        opened == Some(format!("key of {number}"))
    }
}

#[tokio::test]
async fn what_others_write_meanwhile_is_sealed_anew_too_and_what_they_delete_stays_away() {
    let place = Place::new();
    let mut first = None;
    let told = |written: usize, all: usize| {
        if first.is_none() {
            first = Some((written, all));
            place.write(CONSUMERS - 1, &ring(&[OLD]));
            place.write(CONSUMERS, &ring(&[OLD]));
            let delete = Transaction::new().delete(key_of(CONSUMERS - 2));
            at_once(place.store.commit(delete)).expect("memory");
        }
    };
    let resealed = place.reseal(ApisixNodes::Respected, told).await.expect("it is done");
    assert_eq!(first, Some((OBJECTS_MAX, CONSUMERS)));
    assert_eq!((resealed.written, resealed.is_complete()), (CONSUMERS, true), "{resealed:?}");
    assert_eq!(place.value(&key_of(CONSUMERS - 2)), None);
    for number in (0..=CONSUMERS).filter(|number| *number != CONSUMERS - 2) {
        assert!(place.is_new(number), "{number}");
    }
    let keys = place.value(RECORD).expect("it is there")["keys"].clone();
    let expected: Vec<_> = ring(&[NEW]).ids().map(str::to_owned).collect();
    assert_eq!(keys, json!(expected), "whoever has only the old one is refused from now on");
    assert_eq!(place.value("/apisix/tollhouse/reseal"), None);
    let again = place.reseal(ApisixNodes::Respected, |_, _| {}).await.expect("it is done");
    assert_eq!((again.written, again.sealed), (0, CONSUMERS));
}

#[tokio::test]
async fn what_apisix_nodes_can_read_is_left_to_them_unless_there_are_none() {
    let place = Place::new();
    place.write(3, &ring(&[OLD]).with_form(tollhouse_model::encryption::Form::Apisix));
    let before = place.value(&key_of(3));
    let refused = place.reseal(ApisixNodes::Respected, |_, _| {}).await.expect_err("refused");
    assert!(refused.contains("1 secrets") && refused.contains("--no-apisix-nodes"), "{refused}");
    assert_eq!(place.value(&key_of(3)), before);
    assert!(!place.is_new(0), "nothing was written");
    let resealed = place.reseal(ApisixNodes::None, |_, _| {}).await.expect("it is done");
    assert_eq!(resealed.written, CONSUMERS);
    assert!(place.is_new(3));
}

#[tokio::test]
async fn what_no_key_opens_stays_and_the_old_keys_stay_on_record() {
    let place = Place::new();
    place.write(7, &ring(&["aaaaaaaaaaaaaaaa"]));
    let resealed = place.reseal(ApisixNodes::Respected, |_, _| {}).await.expect("it is done");
    assert_eq!((resealed.written, resealed.lost), (CONSUMERS - 1, vec!["consumers/c7".to_owned()]));
    assert_eq!(place.value(RECORD), Some(json!({"keys": [NEW, OLD]})));
}

#[tokio::test]
async fn only_one_is_at_it_and_no_longer_than_it_lives() {
    let place = Place::new();
    let lease = at_once(place.store.grant(LEASE)).expect("memory");
    let begin = Transaction::new().put_under(lease, "/apisix/tollhouse/reseal", "{}");
    at_once(place.store.commit(begin)).expect("memory");
    let refused = place.reseal(ApisixNodes::Respected, |_, _| {}).await.expect_err("refused");
    assert!(refused.contains("another process is sealing the store again"), "{refused}");
    at_once(place.store.revoke(lease)).expect("memory");
    place.reseal(ApisixNodes::Respected, |_, _| {}).await.expect("it is done");
}

#[tokio::test]
async fn a_change_of_the_keys_on_the_way_ends_it() {
    let place = Place::new();
    let told = |_, _| place.put(RECORD, &json!({"keys": ["another", NEW, OLD]}));
    let broken_off = place.reseal(ApisixNodes::Respected, told).await.expect_err("broken off");
    let expected = format!("broken off after {OBJECTS_MAX} of {CONSUMERS} objects");
    assert!(broken_off.contains(&expected), "{broken_off}");
    assert_eq!((place.is_new(0), place.value("/apisix/tollhouse/reseal")), (true, None));
}
