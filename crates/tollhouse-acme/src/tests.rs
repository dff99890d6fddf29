//! The keeper against a scripted authority, in virtual time.

mod directory;
mod faults;
mod issue;
mod nodes;
mod renewal;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollhouse_model::encryption::Keyring;
use tollhouse_store::{Location, Store};
use tollhouse_telemetry::Metrics;

use self::directory::Directory;
use crate::challenge::{ChallengeResponder, PendingChallenge};
use crate::clock::Clock;
use crate::keeper::{Parts, Renewer};
use crate::listing::{CertificateView, Listing};
use crate::settings::Settings;

/// Start of every test, in Unix time.
pub(crate) const BEGIN_S: u64 = 1_767_225_600;

/// Wall clock that advances with the virtual clock of the runtime.
#[derive(Clone)]
pub(crate) struct VirtualClock(Instant);

impl Clock for VirtualClock {
    fn now_s(&self) -> u64 {
        BEGIN_S + self.0.elapsed().as_secs()
    }
}

/// Responder that stores the pending challenges of a node.
#[derive(Default)]
pub(crate) struct TestResponder(Mutex<Vec<PendingChallenge>>);

impl ChallengeResponder for TestResponder {
    fn replace(&self, pending: &[PendingChallenge]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = pending.to_vec();
    }
}

impl TestResponder {
    pub(crate) fn pending(&self) -> Vec<PendingChallenge> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Test environment: one store, one authority, and any number of nodes.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) clock: VirtualClock,
    pub(crate) settings: Settings,
}

/// Running node.
pub(crate) struct Node {
    pub(crate) listing: Listing,
    pub(crate) answered: Arc<TestResponder>,
    stop: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl World {
    pub(crate) fn new(hosts: &[&str]) -> Self {
        let clock = VirtualClock(Instant::now());
        let settings = Settings {
            directory: directory::url("/dir"),
            contact: vec!["mailto:ops@example.org".to_owned()],
            agrees: true,
            external_account: None,
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            challenge: crate::ChallengeKind::Http01,
            profile: None,
        };
        Self {
            store: tollhouse_store::open(&Location::Memory).expect("memory"),
            keyring: Arc::new(Keyring::generate().expect("random numbers")),
            directory: Directory::new(clock.clone()),
            clock,
            settings,
        }
    }

    /// Starts a node. The authority verifies challenges at this node.
    pub(crate) fn node(&self, name: &str) -> Node {
        let keeper = Renewer::new(Parts {
            settings: self.settings.clone(),
            store: Arc::clone(&self.store),
            keyring: Arc::clone(&self.keyring),
            prefix: "/apisix".to_owned(),
            node: name.to_owned(),
            allows_lost_keys: false,
            transport: Arc::new(self.directory.transport()),
            clock: Arc::new(self.clock.clone()),
            metrics: Arc::new(Metrics::new()),
        });
        let (stop, stopped) = watch::channel(());
        let listing = keeper.listing();
        let answered = Arc::new(TestResponder::default());
        self.directory.visit(&answered);
        let answers = Arc::clone(&answered);
        let task = tokio::spawn(keeper.run(answers, stopped));
        Node { listing, answered, stop, task }
    }

    /// Returns the `ssls` object for a host, if it exists.
    pub(crate) async fn certificate(&self, host: &str) -> Option<serde_json::Value> {
        let key = format!("/apisix/ssls/acme-{host}");
        let entry = self.store.get(&key).await.expect("memory")?;
        serde_json::from_slice(&entry.value).expect("an object")
    }
}

impl Node {
    /// Stops the node gracefully.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.task.await.expect("no panic");
    }

    /// Ends the node at once, as `kill -9` does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Returns the state of the only certificate.
    pub(crate) async fn view(&self) -> CertificateView {
        self.listing.list().await.expect("memory").remove(0)
    }

    /// Waits until the state of the first certificate satisfies `is_so`.
    pub(crate) async fn until(&self, is_so: impl Fn(&CertificateView) -> bool) -> CertificateView {
        // Steps are short at first, so that brief states are seen; weeks then take a few hundred
        // steps.
        for step_s in (0..3_600).map(|_| 1).chain((0..2_000).map(|_| 600)) {
            let view = self.view().await;
            if is_so(&view) {
                return view;
            }
            pass_s(step_s).await;
        }
        panic!("it never came so: {:?}", self.view().await);
    }
}

/// Advances the virtual time by this number of seconds.
pub(crate) async fn pass_s(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
