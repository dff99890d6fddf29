//! Tests against a real etcd: the conformance suite of all stores, and behaviour that needs an etcd
//! process per test.

use crate::member::{COMPACT, PUT, TXN};
use crate::messages::{LeaseRequest, PutRequest, TxnRequest};
use crate::options::{EtcdOptions, Relocation};
use crate::store::EtcdStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tollhouse_store::conformance::{self, Subject};
use tollhouse_store::{
    BoxFuture, ErrorKind, Revision, Store, StoreError, Transaction, Watch, WatchEvent,
};
use tollhouse_testkit::patience::DEADLINE;
use tollhouse_testkit::{ClosedPort, Etcd};

fn options(etcd: &Etcd, namespace: &str) -> EtcdOptions {
    EtcdOptions {
        endpoints: vec![etcd.url()],
        user: None,
        tls: None,
        timeout: Duration::from_secs(2),
        namespace: namespace.to_owned(),
        own_prefix: format!("own/{namespace}"),
        relocation: None,
    }
}

fn open(etcd: &Etcd) -> Arc<EtcdStore> {
    Arc::new(EtcdStore::open(&options(etcd, "")).expect("the address is one"))
}

/// A store whose etcd is compacted on request, for the conformance suite.
struct StoreState {
    store: Arc<dyn Store>,
    inner: Arc<EtcdStore>,
}

impl Subject for StoreState {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn pass(&self, _: Duration) -> BoxFuture<'_, ()> {
        unreachable!("nobody moves the time of an etcd")
    }

    fn compact(&self) -> BoxFuture<'_, ()> {
        Box::pin(compact(&self.inner))
    }
}

async fn compact(store: &EtcdStore) {
    // etcd keeps the compacted revision itself, so another key is written first.
    let other = PutRequest { key: "other".into(), ..PutRequest::default() };
    store.endpoints().read(&PUT, &other).await.expect("it is put");
    let newest = store.revision().await.expect("it answers");
    let request = LeaseRequest { id: i64::try_from(newest.0).expect("it is small") };
    store.endpoints().read(&COMPACT, &request).await.expect("it forgets");
}

#[tokio::test]
async fn etcd_conforms() {
    let Some(etcd) = Etcd::start() else { return };
    let next = AtomicU32::new(0);
    let open = || -> Box<dyn Subject> {
        let namespace = format!("{}/", next.fetch_add(1, Ordering::Relaxed));
        let inner = EtcdStore::open(&options(&etcd, &namespace)).expect("the address is one");
        let inner = Arc::new(inner);
        Box::new(StoreState { store: Arc::<EtcdStore>::clone(&inner), inner })
    };
    conformance::run_shared(&open).await;
}

#[tokio::test]
async fn an_etcd_without_room_takes_removals() {
    let Some(etcd) = Etcd::start_with_quota(1_000_000) else { return };
    // The suite fills the etcd with entries.
    conformance::removals_are_taken(open(&etcd).as_ref(), || {}).await;
}

async fn put(store: &EtcdStore, key: &str, value: &str) -> Revision {
    let put = Transaction::new().put(key, value.to_owned());
    store.commit(put).await.expect("it is done").revision
}

async fn next_key(watch: &mut Watch) -> String {
    loop {
        match watch.next().await {
            WatchEvent::Commit(changes) => return changes.events[0].key().to_owned(),
            WatchEvent::Progress(_) => {}
            WatchEvent::Lost(lost) => panic!("{lost}"),
        }
    }
}

#[tokio::test]
async fn a_watch_goes_on_over_a_restart_and_misses_nothing() {
    let Some(mut etcd) = Etcd::start() else { return };
    let (store, other) = (open(&etcd), open(&etcd));
    let first = put(&store, "/a/1", "v").await;
    let mut watch = store.watch("/a/", first);
    put(&store, "/a/2", "v").await;
    assert_eq!(next_key(&mut watch).await, "/a/2");
    let mut outages = store.outages();
    etcd.kill();
    outages.wait_for(Option::is_some).await.expect("it is noticed");
    let refused = store.list("/a/").await.expect_err("nobody answers");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    let refused = store.commit(Transaction::new().put("/a/x", "v")).await.expect_err("nobody");
    assert!(matches!(refused, StoreError::Unreachable { .. }), "{refused}");
    etcd.run();
    put(&other, "/a/3", "v").await;
    assert_eq!(next_key(&mut watch).await, "/a/3");
    outages.wait_for(Option::is_none).await.expect("it is noticed");
}

/// Waits until a watch has delivered a commit after a revision.
async fn hear_after(watch: &mut Watch, revision: Revision) {
    let heard = async {
        loop {
            match watch.next().await {
                WatchEvent::Commit(changes) if changes.revision > revision => return,
                WatchEvent::Commit(_) | WatchEvent::Progress(_) => {}
                WatchEvent::Lost(lost) => panic!("{lost}"),
            }
        }
    };
    tokio::time::timeout(DEADLINE, heard).await.expect("it looks whether it still hears");
}

#[tokio::test]
async fn a_quiet_watch_moves_on_while_others_write_and_is_not_lost_when_etcd_forgets() {
    let Some(mut etcd) = Etcd::start() else { return };
    let options = EtcdOptions { own_prefix: "/a/own/".to_owned(), ..options(&etcd, "") };
    let store = EtcdStore::open_quiet(&options, Duration::from_millis(50)).expect("an address");
    let other = open(&etcd);
    let first = put(&store, "/a/1", "v").await;
    let mut watch = store.watch("/a/", first);
    for number in 0..200 {
        put(&other, "/b/1", &number.to_string()).await;
    }
    compact(&other).await;
    hear_after(&mut watch, other.revision().await.expect("it answers")).await;
    // A watch could not resume at the revision at which this one began, because it is compacted.
    let mut lost = store.watch("/a/", first);
    assert!(matches!(lost.next().await, WatchEvent::Lost(_)));
    etcd.kill();
    etcd.run();
    // A broken connection fails once more, so another store writes.
    put(&open(&etcd), "/a/2", "v").await;
    let key = async {
        loop {
            let key = next_key(&mut watch).await;
            if key != "/a/own/tick" {
                return key;
            }
        }
    };
    let key = tokio::time::timeout(DEADLINE, key).await.expect("it goes on");
    assert_eq!(key, "/a/2");
}

#[tokio::test]
async fn a_watch_that_has_much_to_catch_up_with_hears_all_of_it_once() {
    const VALUES: usize = 6;
    let Some(etcd) = Etcd::start() else { return };
    let store = open(&etcd);
    let first = put(&store, "/a/0", "v").await;
    // The values together exceed a message, so that etcd sends them in several.
    let value = "x".repeat(1024 * 1024);
    for number in 1..=VALUES {
        put(&store, &format!("/a/{number}"), &value).await;
    }
    let mut watch = store.watch("/a/", first);
    let heard = async {
        let mut heard = Vec::new();
        while heard.len() < VALUES {
            match watch.next().await {
                WatchEvent::Commit(changes) => {
                    assert_eq!(changes.events.len(), 1, "each was a commit of its own");
                    heard.push(changes.events[0].key().to_owned());
                }
                WatchEvent::Progress(_) => {}
                WatchEvent::Lost(lost) => panic!("{lost}"),
            }
        }
        put(&store, "/a/last", "v").await;
        heard.push(next_key(&mut watch).await);
        heard
    };
    let heard = tokio::time::timeout(DEADLINE, heard).await.expect("it hears of all");
    let mut all: Vec<String> = (1..=VALUES).map(|number| format!("/a/{number}")).collect();
    all.push("/a/last".to_owned());
    assert_eq!(heard, all);
}

#[tokio::test]
async fn whoever_etcd_does_not_know_any_more_logs_in_again() {
    let Some(etcd) = Etcd::start() else { return };
    for arguments in ["user add root:root", "user grant-role root root", "auth enable"] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let Some(()) = etcd.control(&arguments) else { return };
    }
    let user = Some(("root".to_owned(), "root".to_owned()));
    let options = EtcdOptions { user, ..options(&etcd, "") };
    let store = Arc::new(EtcdStore::open(&options).expect("the address is one"));
    let first = put(&store, "/a/1", "v").await;
    let mut watch = store.watch("/a/", first);
    // This invalidates all tokens, as some minutes without use do.
    for arguments in [&["--user", "root:root", "auth", "disable"][..], &["auth", "enable"]] {
        let Some(()) = etcd.control(arguments) else { return };
    }
    let writes = (2..10).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { put(&store, &format!("/a/{number}"), "v").await })
    });
    for write in writes.collect::<Vec<_>>() {
        write.await.expect("none is refused");
    }
    let heard = async {
        for _ in 2..10 {
            next_key(&mut watch).await;
        }
    };
    tokio::time::timeout(DEADLINE, heard).await.expect("the watch goes on, or is taken up again");
}

#[tokio::test]
async fn what_expires_is_told_to_watchers() {
    let Some(etcd) = Etcd::start() else { return };
    let store = open(&etcd);
    let lease = store.grant(Duration::from_millis(1)).await.expect("it is granted");
    let put = Transaction::new().put_under(lease, "/a/1", "v").while_held(lease);
    let revision = store.commit(put).await.expect("the lease stands").revision;
    store.keep_alive(lease).await.expect("it stands");
    let entry = store.get("/a/1").await.expect("it reads").expect("it is there");
    assert!(entry.expires_at_ms.is_some());
    let mut watch = store.watch("/a/", revision);
    assert_eq!(next_key(&mut watch).await, "/a/1");
    assert_eq!(store.keep_alive(lease).await, Err(StoreError::Fenced { lease }));
}

#[tokio::test]
async fn a_member_that_is_away_costs_no_request() {
    let Some(etcd) = Etcd::start() else { return };
    let closed = ClosedPort::new();
    let mut options = options(&etcd, "");
    options.endpoints.insert(0, format!("http://{}", closed.address()));
    let store = EtcdStore::open(&options).expect("the addresses are some");
    let mut watch = store.watch("/a/", Revision(1));
    put(&store, "/a/1", "v").await;
    assert_eq!(next_key(&mut watch).await, "/a/1");
    assert_eq!(store.list("/a/").await.expect("one answers").entries.len(), 1);
}

#[tokio::test]
async fn a_listing_comes_in_pages_of_one_revision() {
    const KEYS: usize = 1_234;
    let Some(etcd) = Etcd::start() else { return };
    let store = open(&etcd);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("/a/{number:05}")).collect();
    for keys in keys.chunks(store.limits().operations_max) {
        let all = keys.iter().fold(Transaction::new(), |all, key| all.put(key.as_str(), "v"));
        store.commit(all).await.expect("it fits");
    }
    let listing = store.list("/a/").await.expect("it lists");
    assert_eq!(listing.revision, store.revision().await.expect("it answers"));
    let listed: Vec<&str> = listing.entries.iter().map(|entry| &*entry.key).collect();
    assert_eq!(listed, keys);
    let page = store.list_page("/a/", "/a/00099", 700).await.expect("it lists");
    assert_eq!((page.entries.len(), &*page.entries[0].key), (700, "/a/00100"));
}

#[tokio::test]
async fn a_listing_is_of_one_revision_though_etcd_forgets_while_it_is_read() {
    let Some(etcd) = Etcd::start() else { return };
    let store = open(&etcd);
    // The keys fill three pages. The first and the last key are written in one transaction.
    for part in 0..12 {
        let keys = (0..100).map(|number| format!("/a/{part:02}{number:02}"));
        let puts = keys.fold(Transaction::new(), |puts, key| puts.put(key, "0"));
        store.commit(puts).await.expect("it takes them");
    }
    let both = |number: u32| {
        let value = number.to_string();
        Transaction::new().put("/a/0000", value.clone()).put("/a/1199", value)
    };
    store.commit(both(0)).await.expect("it takes them");
    let ended = Arc::new(AtomicU32::new(0));
    let (writer, over) = (Arc::clone(&store), Arc::clone(&ended));
    let writing = tokio::spawn(async move {
        let mut number = 0;
        while over.load(Ordering::Relaxed) == 0 {
            number += 1;
            writer.commit(both(number)).await.expect("it takes them");
            compact(&writer).await;
        }
    });
    let mut whole = 0;
    for _ in 0..100 {
        match store.list("/a/").await {
            Ok(listing) => {
                whole += 1;
                assert_eq!(listing.entries.len(), 1200);
                let [first, last] = [0, 1199].map(|at| &listing.entries[at]);
                assert_eq!((&first.value, first.mod_revision), (&last.value, last.mod_revision));
            }
            // Every attempt at the listing was overtaken by a compaction.
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
    ended.store(1, Ordering::Relaxed);
    writing.await.expect("nothing panicked");
    let listing = store.list("/a/").await.expect("nobody is in its way");
    assert_eq!(listing.entries.len(), 1200);
    println!("{whole} of 100 listings were whole beside the writer");
}

#[tokio::test]
async fn a_change_that_nobody_confirmed_is_found_where_it_was_made() {
    let Some(etcd) = Etcd::start() else { return };
    let store = open(&etcd);
    let both = Transaction::new().put("/a/1", "v").put("/a/2", "w");
    assert_eq!(store.find_commit(&both).await, None, "it was not made");
    let revision = store.commit(both.clone()).await.expect("it is done").revision;
    let found = store.find_commit(&both).await.expect("it was made");
    assert_eq!(found.revision, revision);
    put(&store, "/a/2", "w").await;
    assert_eq!(store.find_commit(&both).await, None, "two commits are not one");
    let removal = Transaction::new().delete("/a/1");
    assert_eq!(store.find_commit(&removal).await, None, "nobody knows who removed it");
}

#[tokio::test]
async fn an_etcd_that_answers_nothing_is_given_up_in_time() {
    let Some(etcd) = Etcd::start() else { return };
    let options = EtcdOptions { timeout: Duration::from_millis(200), ..options(&etcd, "") };
    let store = EtcdStore::open(&options).expect("the address is one");
    put(&store, "/a/1", "v").await;
    etcd.pause();
    let unanswered = store.commit(Transaction::new().put("/a/1", "w")).await;
    let error = unanswered.expect_err("it is asleep");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert_eq!(store.get("/a/1").await.expect_err("it is asleep").kind(), ErrorKind::Unavailable);
    etcd.wake();
    let empty = TxnRequest::default();
    store.endpoints().read(&TXN, &empty).await.expect("it answers again");
}

#[tokio::test]
async fn what_is_more_than_this_store_is_not_removed() {
    let Some(etcd) = Etcd::start() else { return };
    let refused = open(&etcd).commit(Transaction::new().delete_prefix("")).await;
    assert_eq!(refused, Err(StoreError::EmptyKey));
}

/// Clusters that use equal names for some objects share an etcd without affecting each other.
#[tokio::test]
async fn relocated_keys_of_two_clusters_are_apart() {
    let Some(etcd) = Etcd::start() else { return };
    let cluster = |prefix: &str| {
        let relocation =
            Relocation { keys: "/shenyu/".to_owned(), place: format!("{prefix}/own/shenyu/") };
        let options = EtcdOptions { relocation: Some(relocation), ..options(&etcd, "") };
        EtcdStore::open(&options).expect("the address is one")
    };
    let (one, two) = (cluster("/one"), cluster("/two"));
    let begin = one.revision().await.expect("it answers");
    let mut objects = one.watch("/shenyu/", begin);
    let mut others = one.watch("/one/", begin);
    put(&two, "/shenyu/rule/1", "two").await;
    put(&one, "/shenyu/rule/1", "one").await;
    put(&one, "/one/routes/1", "route").await;
    let names = |listing: tollhouse_store::Listing| -> Vec<String> {
        let text = |entry: &tollhouse_store::Entry| {
            format!("{} {}", entry.key, String::from_utf8_lossy(&entry.value))
        };
        listing.entries.iter().map(text).collect()
    };
    assert_eq!(names(one.list("/shenyu/").await.expect("a list")), ["/shenyu/rule/1 one"]);
    assert_eq!(names(two.list("/shenyu/").await.expect("a list")), ["/shenyu/rule/1 two"]);
    assert_eq!(names(one.list("/one/").await.expect("a list")), ["/one/routes/1 route"]);
    let page = one.list_page("/shenyu/", "/shenyu/", 5).await.expect("a page");
    assert_eq!(names(page), ["/shenyu/rule/1 one"]);
    assert_eq!(next_key(&mut objects).await, "/shenyu/rule/1");
    assert_eq!(next_key(&mut others).await, "/one/routes/1");
    let outside = open(&etcd).list("/one/own/shenyu/").await.expect("a list");
    assert_eq!(names(outside), ["/one/own/shenyu/rule/1 one"]);
}
