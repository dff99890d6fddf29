//! Keyrings that are there, missing, another's, new and old.

use std::path::Path;
use std::sync::Arc;

use tollhouse_config::bootstrap::Secret;
use tollhouse_plugin::sealing::{ObjectRef, PrivateKeys};
use tollhouse_store::{Location, Transaction};

use super::*;
use tollhouse_model::Kind;

const OLD: &str = "0123456789abcdef";
const NEW: &str = "fedcba9876543210";

/// A store in memory beside a data folder.
struct Place {
    folder: tempfile::TempDir,
    store: Arc<dyn Store>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = tollhouse_store::open(&Location::Memory).expect("memory is there");
        Self { folder, store }
    }

    fn bootstrap(&self, keys: &[&str]) -> Bootstrap {
        let mut bootstrap =
            Bootstrap { data_dir: self.folder.path().to_owned(), ..Bootstrap::default() };
        bootstrap.encryption.keyring = keys.iter().map(|key| Secret::new(*key)).collect();
        bootstrap
    }

    async fn open(&self, bootstrap: &Bootstrap) -> Result<Keyring, String> {
        let catalogue = crate::plugins::catalogue();
        let opened = keyring_for(bootstrap, self.store.as_ref(), &catalogue).await;
        opened.map_err(|error| format!("{error:#}"))
    }

    /// Writes a consumer whose key is sealed by this keyring, or lies open.
    async fn write(&self, keyring: Option<&Keyring>) {
        let mut jack = json!({"username": "jack", "plugins": {"key-auth": {"key": "jacks-key"}}});
        if let Some(keyring) = keyring {
            sealing::seal(
                ObjectRef::new(Kind::Consumer, "jack"),
                &mut jack,
                &crate::plugins::catalogue(),
                keyring,
            );
        }
        let put = Transaction::new().put("/apisix/consumers/jack", jack.to_string());
        self.store.commit(put).await.expect("it can be written");
    }

    async fn sealed_key(&self) -> String {
        let entry = self.store.get("/apisix/consumers/jack").await.expect("it can be read");
        let value: Value =
            serde_json::from_slice(&entry.expect("it is there").value).expect("it is JSON");
        value["plugins"]["key-auth"]["key"].as_str().expect("it is text").to_owned()
    }
}

fn ring(keys: &[&str]) -> Keyring {
    Keyring::new(keys.iter().copied()).expect("the keys are good")
}

fn keyring_file(folder: &Path) -> std::path::PathBuf {
    folder.join("keyring")
}

#[tokio::test]
async fn a_store_without_secrets_gets_a_keyring_that_stays_its_own() {
    let place = Place::new();
    let bootstrap = place.bootstrap(&[]);
    let made = place.open(&bootstrap).await.expect("nothing is lost");
    assert_eq!(place.open(&bootstrap).await, Ok(made.clone()));
    place.write(Some(&made)).await;
    std::fs::remove_file(keyring_file(place.folder.path())).expect("it is kept");
    let error = place.open(&bootstrap).await.expect_err("the keyring is not there");
    assert!(error.contains("the keyring that opens them is not there: put it back as"), "{error}");
    assert!(!error.contains('\n') && !keyring_file(place.folder.path()).exists());
}

#[tokio::test]
async fn a_missing_keyring_is_told_by_the_values_where_the_store_has_no_record() {
    for form in [Form::Marked, Form::Apisix] {
        let place = Place::new();
        place.write(Some(&ring(&[OLD]).with_form(form))).await;
        assert!(place.open(&place.bootstrap(&[])).await.is_err(), "{form:?}");
        assert!(place.open(&place.bootstrap(&[NEW])).await.is_err(), "{form:?}");
        assert!(place.open(&place.bootstrap(&[OLD])).await.is_ok(), "{form:?}");
    }
}

#[tokio::test]
async fn another_keyring_than_the_stores_is_refused_until_the_loss_is_accepted() {
    let place = Place::new();
    let keyring = place.open(&place.bootstrap(&[OLD])).await.expect("it is new");
    place.write(Some(&keyring)).await;
    let mut swapped = place.bootstrap(&[NEW]);
    let error = place.open(&swapped).await.expect_err("it is another's");
    assert!(error.contains("was sealed with another keyring than encryption.keyring"), "{error}");
    let before = place.sealed_key().await;
    swapped.encryption.allow_lost_keys = true;
    place.open(&swapped).await.expect("the loss is accepted");
    assert_eq!(place.sealed_key().await, before, "what is lost is not sealed once more");
    swapped.encryption.allow_lost_keys = false;
    place.open(&swapped).await.expect("it was accepted");
    place.open(&place.bootstrap(&[OLD])).await.expect("the old key is still known");
}

#[tokio::test]
async fn everything_is_sealed_with_the_newest_key() {
    let place = Place::new();
    let old = place.open(&place.bootstrap(&[OLD])).await.expect("it is new");
    let apisix = old.clone().with_form(Form::Apisix);
    for written in [Some(&old), Some(&apisix), None] {
        place.write(written).await;
        place.open(&place.bootstrap(&[NEW, OLD])).await.expect("both are known");
        let sealed = place.sealed_key().await;
        let plain = ring(&[NEW]).hidden_in(&sealed, "consumers/jack key-auth.key");
        assert_eq!(plain.as_deref(), Some("jacks-key"), "the old key is needed no more");
        place.open(&place.bootstrap(&[NEW])).await.expect("it is known");
        let mut shared = place.bootstrap(&[OLD, NEW]);
        shared.encryption.apisix_form = true;
        place.open(&shared).await.expect("it is known");
        let sealed = place.sealed_key().await;
        assert_eq!(sealed, apisix.seal("jacks-key", "key-auth.key"), "as APISIX reads it");
    }
    let mut jack = json!({"plugins": {"key-auth": {"key": place.sealed_key().await}}});
    let catalogue = crate::plugins::catalogue();
    sealing::unseal(
        ObjectRef::new(Kind::Consumer, "jack"),
        &mut jack,
        &catalogue,
        &old,
        PrivateKeys::Opened,
    );
    assert_eq!(jack["plugins"]["key-auth"]["key"], "jacks-key");
}

#[tokio::test]
async fn what_lies_open_in_a_store_without_a_keyring_is_sealed_with_the_one_that_is_kept() {
    let place = Place::new();
    place.write(None).await;
    let bootstrap = place.bootstrap(&[]);
    let made = place.open(&bootstrap).await.expect("nothing is lost");
    let sealed = place.sealed_key().await;
    assert_eq!(
        made.hidden_in(&sealed, "consumers/jack key-auth.key").as_deref(),
        Some("jacks-key")
    );
}

#[tokio::test]
async fn objects_of_shenyu_that_lie_open_are_sealed_and_move_to_the_newest_key() {
    const KEY: &str = "/shenyu/appAuth/A";
    const OBJECT: &str = r#"{"appKey":"A","appSecret":"hush"}"#;
    let place = Place::new();
    // A store of before: its record says nothing of ShenYu's objects.
    let old = place.open(&place.bootstrap(&[OLD])).await.expect("it is new");
    let ids: Vec<&str> = old.ids().collect();
    let record = json!({"keys": ids, "form": "marked"}).to_string();
    let put = Transaction::new().put(RECORD, record).put(KEY, OBJECT);
    place.store.commit(put).await.expect("it can be written");
    for keys in [&[OLD][..], &[NEW, OLD], &[NEW]] {
        place.open(&place.bootstrap(keys)).await.expect("the keys are known");
        let entry = place.store.get(KEY).await.expect("it can be read").expect("it is there");
        assert!(!String::from_utf8_lossy(&entry.value).contains("hush"), "{keys:?}");
        let opened = shenyu_store::open_entry(entry, &ring(&keys[..1]));
        assert_eq!(&opened.value[..], OBJECT.as_bytes(), "{keys:?}");
    }
    let error = place.open(&place.bootstrap(&[OLD])).await.expect_err("it was sealed anew");
    assert!(error.contains("was sealed with another keyring"), "{error}");
}
