//! Task that keeps certificates valid (the keeper). It finds the certificates that are due for an
//! order or a renewal, starts attempts to obtain them, and stores the results.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollhouse_model::encryption::{Keyring, Opened};
use tollhouse_stdx::Random;
use tollhouse_store::{Entry, LeaseId, Revision, Store, StoreError, Transaction};
use tollhouse_telemetry::Metrics;

use crate::attempt::Attempt;
use crate::certificate::{self, Facts};
use crate::challenge::{self, ChallengeResponder};
use crate::clock::Clock;
use crate::failure::{Code, Failure, Scope, from_protocol};
use crate::records::{ACCOUNT_PLACE, CertificateRecord, HoldRecord, ORDER_PLACE, to_json};
use crate::schedule::{self, NoWindow, WindowAnswer};
use crate::settings::{LETS_ENCRYPT, LETS_ENCRYPT_STAGING, Settings};
use crate::shared::{Shared, is_of_store};
use crate::transport::Transport;
use crate::{account, keys, lease, listing};

/// Maximum number of concurrent attempts: low enough not to burden the authority, and high enough
/// that a slow attempt does not delay the others.
const AT_ONCE_MAX: usize = 4;

/// Maximum time between two checks for due certificates. The time until the next due one is not
/// reliable, because the wall clock may be set.
const LOOK_LEAST_OFTEN: Duration = Duration::from_secs(3600);

/// Shortest time between two checks, so that a bug does not lead to a busy loop.
const LOOK_MOST_OFTEN: Duration = Duration::from_secs(1);

/// Time after a failure of the store or the loss of the lease until the keeper tries to get the
/// lease again.
const STORE_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Dependencies of the task that orders and renews certificates.
pub struct Parts {
    pub settings: Settings,
    /// Store for the account, orders and certificates.
    pub store: Arc<dyn Store>,
    /// Keyring for secrets in the store.
    pub keyring: Arc<Keyring>,
    /// Prefix of the keys of objects, such as `/apisix`.
    pub prefix: String,
    /// Id of this node; unique in the cluster.
    pub node: String,
    /// Whether a stored account is replaced if no key of the keyring opens it.
    pub allows_lost_keys: bool,
    /// HTTP client for requests to the authority.
    pub transport: Arc<dyn Transport>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
}

/// Keeper of one node, which orders and renews certificates.
pub struct Renewer {
    shared: Arc<Shared>,
}

/// Result of processing one certificate.
struct AttemptResult {
    host: String,
    record: CertificateRecord,
    result: Result<(), Failure>,
}

impl Renewer {
    /// Creates a keeper. It does nothing until [`Self::run`].
    pub fn new(parts: Parts) -> Self {
        let Parts { settings, store, keyring, prefix, node, .. } = parts;
        let Parts { allows_lost_keys, transport, clock, metrics, .. } = parts;
        let shared = Shared {
            settings,
            store,
            keyring,
            transport,
            clock,
            metrics,
            prefix,
            node,
            allows_lost_keys,
            seen: Arc::new(watch::Sender::new(Revision::ZERO)),
            trouble: Mutex::default(),
            random: Mutex::new(Random::from_process_entropy()),
            account_gate: Arc::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns a view of the state of all certificates.
    pub fn listing(&self) -> listing::Listing {
        listing::Listing::new(Arc::clone(&self.shared))
    }

    /// Runs until `stop` changes or its sender is dropped. Answers pending challenges on every
    /// node, and orders certificates on the node that holds the lease.
    pub async fn run(self, answers: Arc<dyn ChallengeResponder>, mut stop: watch::Receiver<()>) {
        let shared = self.shared;
        let store = Arc::clone(&shared.store);
        let follower = challenge::follow(store, Arc::clone(&answers), Arc::clone(&shared.seen));
        let mut held = None;
        tokio::select! {
            _ = stop.changed() => {}
            () = follower => {}
            () = order_for_ever(&shared, &mut held) => {}
        }
        answers.replace(&[]);
        // The lease is revoked, so that other nodes need not wait for its expiry. An error is
        // ignored, because a store that has failed expires the lease anyway.
        if let Some(lease) = held {
            let _ = shared.store.revoke(lease).await;
        }
    }
}

/// Orders certificates whenever this node holds the lease. `held` contains the lease while the node
/// holds it, so that the caller can revoke it.
async fn order_for_ever(shared: &Arc<Shared>, held: &mut Option<LeaseId>) {
    advise(&shared.settings);
    loop {
        let error = match lease::take(shared.store.as_ref(), &shared.node).await {
            Ok(lease) => {
                *held = Some(lease);
                let lost = tokio::select! {
                    lost = lease::hold(shared.store.as_ref(), lease) => lost,
                    failure = keep(shared, lease) => failure,
                };
                *held = None;
                // Revoking an ended lease succeeds.
                let _ = shared.store.revoke(lease).await;
                lost
            }
            Err(error) => error,
        };
        match error {
            StoreError::Closed => return,
            // Another node holds the lease now.
            StoreError::Fenced { .. } => {}
            error => shared.set_trouble(Some(&Failure::from(error))),
        }
        tokio::time::sleep(STORE_AGAIN_AFTER).await;
    }
}

/// Logs advice to try new configurations with Let's Encrypt's staging directory, which has generous
/// limits, if the production directory is configured.
fn advise(settings: &Settings) {
    if settings.directory == LETS_ENCRYPT {
        tracing::info!(
            staging = LETS_ENCRYPT_STAGING,
            "certificates are ordered from the directory in production, which has limits; try a new \
             configuration with the one for staging first"
        );
    }
}

/// State of the keeper while this node holds the lease.
struct Tenure {
    shared: Arc<Shared>,
    lease: LeaseId,
    records: HashMap<String, CertificateRecord>,
    /// Properties of the certificates in service, with the store revision of each; `None` for an
    /// unusable one.
    served: HashMap<String, (Revision, Option<Facts>)>,
    hold: HoldRecord,
    turns: JoinSet<AttemptResult>,
    under_way: HashSet<String>,
}

/// Orders and renews certificates until the store fails.
async fn keep(shared: &Arc<Shared>, lease: LeaseId) -> StoreError {
    let mut tenure = Tenure {
        shared: Arc::clone(shared),
        lease,
        records: HashMap::new(),
        served: HashMap::new(),
        hold: HoldRecord::default(),
        turns: JoinSet::new(),
        under_way: HashSet::new(),
    };
    let folder = keys::object(&shared.prefix, "");
    let revision = match tenure.load().await {
        Ok(revision) => revision,
        Err(error) => return error,
    };
    let mut objects = shared.store.watch(&folder, revision);
    shared.set_trouble(None);
    loop {
        if let Err(error) = tenure.look().await {
            return error;
        }
        let wait = tenure.start_due();
        tokio::select! {
            Some(turn) = tenure.turns.join_next(), if !tenure.turns.is_empty() => {
                if let Err(error) = tenure.note(turn).await {
                    return error;
                }
            }
            // A certificate may be deleted or replaced by an operator.
            event = objects.next() => if let tollhouse_store::WatchEvent::Lost(_) = event {
                match shared.store.revision().await {
                    Ok(revision) => objects = shared.store.watch(&folder, revision),
                    Err(error) => return error,
                }
            },
            () = tokio::time::sleep(wait) => {}
        }
    }
}

impl Tenure {
    /// Loads the records that earlier holders of the lease have stored.
    async fn load(&mut self) -> Result<Revision, StoreError> {
        let listing = self.shared.store.list(keys::STATES).await?;
        let read = |value: &[u8]| serde_json::from_slice::<CertificateRecord>(value).ok();
        let mut known: HashMap<String, CertificateRecord> = listing
            .entries
            .iter()
            .filter_map(|entry| read(&entry.value).map(|record| (record.host.clone(), record)))
            .collect();
        for host in &self.shared.settings.hosts {
            let new = || CertificateRecord { host: host.clone(), ..CertificateRecord::default() };
            self.records.insert(host.clone(), known.remove(host).unwrap_or_else(new));
        }
        let hold = self.shared.store.get(&keys::hold(&self.shared.settings.directory)).await?;
        let hold = hold.and_then(|entry| serde_json::from_slice(&entry.value).ok());
        self.hold = hold.unwrap_or_default();
        reseal(&self.shared, self.lease).await?;
        // Records of names that are no longer configured are removed; their certificates stay until
        // deleted.
        let mut gone = Transaction::new().while_held(self.lease);
        for host in known.keys() {
            let id = keys::certificate_id(host);
            gone = gone.delete(format!("{}{id}", keys::STATES));
            gone = gone.delete(format!("{}{id}", keys::ORDERS));
        }
        if !gone.operations.is_empty() {
            self.shared.store.commit(gone).await?;
        }
        Ok(listing.revision)
    }

    /// Reads changed certificates of the store, and updates `served` and the metrics.
    async fn look(&mut self) -> Result<(), StoreError> {
        let (shared, now_s) = (&self.shared, self.shared.clock.now_s());
        let listing = shared.store.list(&keys::objects_folder(&shared.prefix)).await?;
        let entries: HashMap<&str, &Entry> =
            listing.entries.iter().map(|entry| (&*entry.key, entry)).collect();
        for host in &shared.settings.hosts {
            let key = keys::object(&shared.prefix, &keys::certificate_id(host));
            let Some(entry) = entries.get(key.as_str()) else {
                self.served.remove(host);
                continue;
            };
            let known = self.served.get(host).is_some_and(|(at, _)| *at == entry.mod_revision);
            // Parsing a certificate and its key takes a hundred microseconds, so it is done once
            // per revision.
            if !known {
                let facts = certificate::read_facts(&entry.value, &shared.keyring, host, now_s);
                self.served.insert(host.clone(), (entry.mod_revision, facts));
            }
        }
        for (_, facts) in self.served.values_mut() {
            *facts = facts.take().filter(|facts| facts.not_after_s >= now_s);
        }
        let served = || self.served.values().filter_map(|(_, facts)| facts.as_ref());
        let process = shared.metrics.process();
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        process.acme_certificates.set(gauge(served().count()));
        let failing = self.records.values().filter(|record| record.last_error.is_some());
        process.acme_certificates_failing.set(gauge(failing.count()));
        let soonest_s = served().map(|facts| facts.not_after_s).min();
        let left_s = soonest_s.map_or(0, |soonest_s| soonest_s.saturating_sub(now_s));
        process.acme_expiry.set(i64::try_from(left_s).unwrap_or(i64::MAX));
        Ok(())
    }

    /// Starts the attempts that are due, and returns the time until the next one is due.
    fn start_due(&mut self) -> Duration {
        let now_s = self.shared.clock.now_s();
        let mut next_s = now_s + LOOK_LEAST_OFTEN.as_secs();
        for host in &self.shared.settings.hosts {
            if self.under_way.contains(host) {
                continue;
            }
            let Some(record) = self.records.get(host) else { continue };
            let facts = self.served.get(host).and_then(|(_, facts)| facts.as_ref());
            let due_s = schedule::due(record, facts).first_s().max(self.hold.until_s);
            if due_s > now_s {
                next_s = next_s.min(due_s);
            } else if self.turns.len() < AT_ONCE_MAX {
                self.under_way.insert(host.clone());
                let (shared, lease) = (Arc::clone(&self.shared), self.lease);
                let (record, facts) = (record.clone(), facts.cloned());
                self.turns.spawn(take_turn(shared, lease, record, facts));
            }
        }
        Duration::from_secs(next_s.saturating_sub(now_s)).max(LOOK_MOST_OFTEN)
    }

    /// Records the result of a finished attempt.
    async fn note(
        &mut self,
        turn: Result<AttemptResult, tokio::task::JoinError>,
    ) -> Result<(), StoreError> {
        let now_s = self.shared.clock.now_s();
        let mut random = self.shared.random();
        let AttemptResult { host, mut record, result } = match turn {
            Ok(turn) => turn,
            Err(error) => {
                if error.is_panic() {
                    // It is unknown which certificate's task panicked, so that all are processed
                    // again after a wait.
                    schedule::note_hold(&mut self.hold, None, now_s, &mut random);
                    self.turns.abort_all();
                    self.under_way.clear();
                }
                return Ok(());
            }
        };
        self.under_way.remove(&host);
        let mut transaction = Transaction::new().while_held(self.lease);
        match &result {
            Ok(()) if self.hold != HoldRecord::default() => {
                self.hold = HoldRecord::default();
                transaction = transaction.delete(keys::hold(&self.shared.settings.directory));
            }
            Ok(()) => {}
            Err(failure) => {
                schedule::note_failure(&mut record, failure, now_s, &mut random);
                if failure.scope == Scope::Authority {
                    schedule::note_hold(&mut self.hold, failure.wait, now_s, &mut random);
                    let key = keys::hold(&self.shared.settings.directory);
                    transaction = transaction.put(key, to_json(&self.hold));
                    // Other attempts in progress would ask the authority too early; they are
                    // resumed after the wait.
                    self.turns.abort_all();
                    self.under_way.clear();
                }
                if is_of_store(failure) {
                    self.shared.set_trouble(Some(failure));
                }
                let next_s = record.next_attempt_s.max(self.hold.until_s);
                report(&host, failure, next_s.saturating_sub(now_s));
                self.shared.metrics.process().acme_failures.increment();
            }
        }
        if result.is_ok() {
            self.shared.set_trouble(None);
        }
        let key = format!("{}{}", keys::STATES, keys::certificate_id(&host));
        transaction = transaction.put(key, to_json(&record));
        self.records.insert(host, record);
        match self.shared.store.commit(transaction).await {
            Ok(_) => Ok(()),
            Err(error @ (StoreError::Fenced { .. } | StoreError::Closed)) => Err(error),
            // The result is kept in memory, and stored with the next result.
            Err(error) => {
                self.shared.set_trouble(Some(&Failure::from(error)));
                Ok(())
            }
        }
    }
}

/// Seals values again that were sealed with an older key, so that this key may be removed from the
/// keyring after one start with both keys.
async fn reseal(shared: &Shared, lease: LeaseId) -> Result<(), StoreError> {
    let sealed =
        [(keys::ACCOUNTS, "credentials", ACCOUNT_PLACE), (keys::ORDERS, "key", ORDER_PLACE)];
    let mut transaction = Transaction::new().while_held(lease);
    for (prefix, field, place) in sealed {
        for entry in shared.store.list(prefix).await?.entries {
            let Ok(mut record) = serde_json::from_slice::<Value>(&entry.value) else { continue };
            let Some(text) = record.get(field).and_then(Value::as_str) else { continue };
            if let Opened::Stale(plain) = shared.keyring.open(text, place) {
                record[field] = shared.keyring.seal(&plain, place).into();
                transaction = transaction.put(entry.key, record.to_string());
            }
        }
    }
    if !transaction.operations.is_empty() {
        shared.store.commit(transaction).await?;
    }
    Ok(())
}

fn report(host: &str, failure: &Failure, next_attempt_in_s: u64) {
    let (code, detail, remedy) = (failure.code.name(), &failure.detail, failure.code.remedy());
    tracing::warn!(host, code, detail, remedy, next_attempt_in_s, "no certificate yet");
}

/// Processes one certificate. Asks the authority for the renewal window, and orders a new
/// certificate, each only if it is due.
async fn take_turn(
    shared: Arc<Shared>,
    lease: LeaseId,
    mut record: CertificateRecord,
    facts: Option<Facts>,
) -> AttemptResult {
    let result = run_turn(&shared, lease, &mut record, facts).await;
    AttemptResult { host: record.host.clone(), record, result }
}

async fn run_turn(
    shared: &Arc<Shared>,
    lease: LeaseId,
    record: &mut CertificateRecord,
    facts: Option<Facts>,
) -> Result<(), Failure> {
    let now_s = shared.clock.now_s();
    if let Some(facts) = &facts
        && schedule::due(record, Some(facts)).ask_at_s.is_some_and(|at_s| at_s <= now_s)
    {
        ask_for_window(shared, lease, record, facts).await?;
    }
    if schedule::due(record, facts.as_ref()).order_at_s > now_s {
        return Ok(());
    }
    // If issued certificates keep being deleted, repeated orders would exhaust the authority's
    // weekly limit for the name.
    if let Some(free_s) = schedule::issued_too_often(record, now_s) {
        let count = schedule::ISSUED_MAX;
        let reason = format!("{count} certificates were issued for {} within a week", record.host);
        let mut failure = Failure::new(Code::IssuedTooOften, reason);
        failure.wait = Some(Duration::from_secs(free_s - now_s));
        return Err(failure);
    }
    let window_s = facts.as_ref().and_then(|it| schedule::renewal_of(record, it)?.window_s);
    // An authority without renewal windows may not support `replaces` either, and would refuse the
    // order.
    let replaces = facts.and_then(|facts| facts.renewal_id).filter(|_| window_s.is_some());
    let host = record.host.clone();
    let attempt = Attempt { shared, lease, host: &host, replaces };
    let issued = attempt.run(record).await;
    if issued.as_ref().is_err_and(Failure::lost_account) {
        account::forget(shared, lease).await?;
    }
    issued.map(drop)
}

/// Asks the authority for the renewal window (RFC 9773). Without a window, the renewal is planned
/// by the certificate's lifetime.
async fn ask_for_window(
    shared: &Arc<Shared>,
    lease: LeaseId,
    record: &mut CertificateRecord,
    facts: &Facts,
) -> Result<(), Failure> {
    let mut random = shared.random();
    let now_s = shared.clock.now_s();
    let Some(renewal_id) = &facts.renewal_id else {
        schedule::plan_by_life(record, facts, NoWindow { wait: None, now_s }, &mut random);
        return Ok(());
    };
    let (account, remarks) = account::open(shared, lease).await?;
    let answer = account.renewal_info(renewal_id).await;
    let wait = remarks.last().wait;
    let window_s = answer.as_ref().ok().and_then(|(info, _)| {
        let window = &info.suggested_window;
        let start_s = u64::try_from(window.start.unix_timestamp()).ok()?;
        let end_s = u64::try_from(window.end.unix_timestamp()).ok()?;
        // A window that ends before it begins is invalid (RFC 9773 §4.2).
        (start_s < end_s).then_some((start_s, end_s))
    });
    match (window_s, answer) {
        (Some(window_s), _) => {
            let answer = WindowAnswer { window_s, wait, now_s };
            schedule::plan_by_window(record, facts, answer, &mut random);
        }
        (None, Err(instant_acme::Error::Unsupported(_)) | Ok(_)) => {
            schedule::plan_by_life(record, facts, NoWindow { wait, now_s }, &mut random);
        }
        (None, Err(error)) => {
            let failure = from_protocol(error, Code::AnswerMalformed);
            if failure.scope == Scope::Authority {
                return Err(failure);
            }
            tracing::debug!(host = record.host, %failure, "no window for a renewal");
            schedule::plan_by_life(record, facts, NoWindow { wait, now_s }, &mut random);
        }
    }
    Ok(())
}
