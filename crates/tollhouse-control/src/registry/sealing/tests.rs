//! Tests of the sealing: keys that are missing, wrong, or set later.

use tollhouse_config::bootstrap::Secret;
use tollhouse_store::{Event, Location, Transaction, WatchEvent};

use super::*;

const KEY: &str = "/identities/user/u1";
const USER: &str = r#"{"head":{"id":"u1"},"token":{"is_enabled":true,"text":"hush"}}"#;

async fn stored(store: &dyn Store) -> String {
    let entry = store.get(KEY).await.expect("readable").expect("stored");
    String::from_utf8_lossy(&entry.value).into_owned()
}

#[tokio::test]
async fn tokens_and_data_keys_are_sealed_in_the_store_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let bootstrap = Bootstrap { data_dir: folder.path().to_owned(), ..Bootstrap::default() };
    let inner = tollhouse_store::open(&Location::Memory).expect("memory");
    let store = seal(Arc::clone(&inner), &bootstrap).await.expect("a key is made");
    let file = r#"{"tags":{"internal-datakey":"hush","env":"x"}}"#;
    let put = Transaction::new()
        .put(KEY, USER)
        .put("/config-files/ns#g#f", file)
        .put("/instances/i", r#"{"token":"open"}"#);
    store.commit(put).await.expect("written");
    for entry in inner.list("/").await.expect("readable").entries {
        assert!(!String::from_utf8_lossy(&entry.value).contains("hush"), "{}", entry.key);
    }
    let again = seal(Arc::clone(&inner), &bootstrap).await.expect("the key is read");
    assert_eq!(stored(again.as_ref()).await, USER);
    let listing = open_listing(inner.list("/").await.expect("readable"), &bootstrap);
    let opened = listing.expect("the key is read").entries;
    let shown = |entry: &Entry| String::from_utf8_lossy(&entry.value).contains("hush");
    assert_eq!(opened.iter().filter(|entry| shown(entry)).count(), 2);
}

#[tokio::test]
async fn a_store_whose_key_is_missing_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bootstrap = Bootstrap { data_dir: folder.path().to_owned(), ..Bootstrap::default() };
    let inner = tollhouse_store::open(&Location::Memory).expect("memory");
    let store = seal(Arc::clone(&inner), &bootstrap).await.expect("a key is made");
    store.commit(Transaction::new().put(KEY, USER)).await.expect("written");
    std::fs::remove_file(folder.path().join(FILE)).expect("the key");
    let refused = seal(Arc::clone(&inner), &bootstrap).await.err().expect("refused");
    assert!(refused.to_string().contains("registry.keyring is missing"), "{refused}");
    bootstrap.encryption.allow_lost_keys = true;
    let store = seal(Arc::clone(&inner), &bootstrap).await.expect("allowed");
    assert!(stored(store.as_ref()).await.contains(r#""text":"""#));
}

const OTHER_KEY: &str = "0123456789abcdef";

fn bootstrap_in(folder: &tempfile::TempDir) -> Bootstrap {
    Bootstrap { data_dir: folder.path().to_owned(), ..Bootstrap::default() }
}

fn with_key(mut bootstrap: Bootstrap, key: &str) -> Bootstrap {
    bootstrap.encryption.keyring = vec![Secret::new(key)];
    bootstrap
}

fn shared(mut bootstrap: Bootstrap) -> Bootstrap {
    bootstrap.registry.store.mysql = Some(Secret::new("mysql://host/registry"));
    bootstrap
}

/// A store in memory with one token that the registry's own key has sealed.
async fn sealed_by_own_key(bootstrap: &Bootstrap) -> Arc<dyn Store> {
    let inner = tollhouse_store::open(&Location::Memory).expect("memory");
    let store = seal(Arc::clone(&inner), bootstrap).await.expect("a key is made");
    store.commit(Transaction::new().put(KEY, USER)).await.expect("written");
    inner
}

#[tokio::test]
async fn a_keyring_that_is_set_later_opens_what_the_own_key_has_sealed() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = sealed_by_own_key(&bootstrap_in(&folder)).await;
    let later = with_key(bootstrap_in(&folder), OTHER_KEY);
    let store = seal(Arc::clone(&inner), &later).await.expect("the own key still opens");
    assert_eq!(stored(store.as_ref()).await, USER);
    // Written again, the token is sealed with the configured key, which opens it without the file.
    store.commit(Transaction::new().put(KEY, USER)).await.expect("written");
    std::fs::remove_file(folder.path().join(FILE)).expect("the key");
    let store = seal(Arc::clone(&inner), &later).await.expect("the configured key opens");
    assert_eq!(stored(store.as_ref()).await, USER);
}

#[tokio::test]
async fn a_shared_registry_with_sealed_tokens_needs_a_keyring() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = tollhouse_store::open(&Location::Memory).expect("memory");
    let first = with_key(shared(bootstrap_in(&folder)), OTHER_KEY);
    let store = seal(Arc::clone(&inner), &first).await.expect("a keyring is set");
    store.commit(Transaction::new().put(KEY, USER)).await.expect("written");
    let mut second = shared(bootstrap_in(&folder));
    let refused = seal(Arc::clone(&inner), &second).await.err().expect("refused").to_string();
    assert!(refused.contains("encryption.keyring is not set"), "{refused}");
    assert!(refused.contains(KEY), "{refused}");
    second.encryption.allow_lost_keys = true;
    let store = seal(Arc::clone(&inner), &second).await.expect("allowed");
    assert!(stored(store.as_ref()).await.contains(r#""text":"""#), "no token");
}

#[tokio::test]
async fn a_token_that_arrives_sealed_is_no_token_of_a_node_without_a_keyring() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = tollhouse_store::open(&Location::Memory).expect("memory");
    let second = shared(bootstrap_in(&folder));
    let without = seal(Arc::clone(&inner), &second).await.expect("nothing is sealed yet");
    let mut watch = without.watch("/", without.revision().await.expect("readable"));
    let first = with_key(second, OTHER_KEY);
    let with = seal(Arc::clone(&inner), &first).await.expect("a keyring is set");
    with.commit(Transaction::new().put(KEY, USER)).await.expect("written");
    let WatchEvent::Commit(changes) = watch.next().await else { panic!("a commit") };
    let Some(Event::Put(entry)) = changes.events.into_iter().next() else { panic!("an entry") };
    let text = String::from_utf8_lossy(&entry.value).into_owned();
    assert!(text.contains(r#""text":"""#), "{text}");
    without.commit(Transaction::new().put(KEY, text)).await.expect("written");
    assert_eq!(stored(with.as_ref()).await, USER, "the sealed token stays");
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_destroys_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = bootstrap_in(&folder);
    let inner = sealed_by_own_key(&own).await;
    let elsewhere = tempfile::tempdir().expect("a folder");
    let mut wrong = with_key(bootstrap_in(&elsewhere), OTHER_KEY);
    let refused = seal(Arc::clone(&inner), &wrong).await.err().expect("refused").to_string();
    assert!(refused.contains(KEY) && refused.contains("encryption.keyring"), "{refused}");
    let listing = inner.list("/").await.expect("readable");
    assert!(open_listing(listing.clone(), &wrong).is_err(), "an export has no holes");
    assert!(open_entries(listing.entries, &wrong).is_err());

    wrong.encryption.allow_lost_keys = true;
    let store = seal(Arc::clone(&inner), &wrong).await.expect("allowed");
    let lost = stored(store.as_ref()).await;
    assert!(lost.contains(r#""text":"""#), "{lost}");
    let renamed = lost.replace("u1", "u2");
    store.commit(Transaction::new().put(KEY, renamed)).await.expect("written");
    let again = seal(Arc::clone(&inner), &own).await.expect("the own key");
    assert_eq!(stored(again.as_ref()).await, USER.replace("u1", "u2"), "nothing is lost");

    // A new token, or the end of the user, ends the old one.
    stored(store.as_ref()).await;
    store.commit(Transaction::new().put(KEY, USER.replace("hush", "new"))).await.expect("written");
    assert_eq!(stored(store.as_ref()).await, USER.replace("hush", "new"));
    store.commit(Transaction::new().put(KEY, USER.replace("hush", ""))).await.expect("written");
    assert_eq!(stored(store.as_ref()).await, USER.replace("hush", ""));
}

#[tokio::test]
async fn a_deleted_entry_leaves_no_sealed_text_to_its_successor() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = sealed_by_own_key(&bootstrap_in(&folder)).await;
    for delete in [Transaction::new().delete(KEY), Transaction::new().delete_prefix("/identities/")]
    {
        let elsewhere = tempfile::tempdir().expect("a folder");
        let mut wrong = with_key(bootstrap_in(&elsewhere), OTHER_KEY);
        wrong.encryption.allow_lost_keys = true;
        let store = seal(Arc::clone(&inner), &wrong).await.expect("allowed");
        stored(store.as_ref()).await;
        store.commit(delete).await.expect("deleted");
        let successor = USER.replace("hush", "");
        store.commit(Transaction::new().put(KEY, successor.clone())).await.expect("written");
        let entry = inner.get(KEY).await.expect("readable").expect("stored");
        assert_eq!(String::from_utf8_lossy(&entry.value), successor);
        let own = seal(Arc::clone(&inner), &bootstrap_in(&folder)).await.expect("the own key");
        own.commit(Transaction::new().put(KEY, USER)).await.expect("written");
    }
}
