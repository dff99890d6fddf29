//! State shared by all parts of the task that orders certificates.

use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tollhouse_model::encryption::Keyring;
use tollhouse_stdx::Random;
use tollhouse_store::{LeaseId, Revision, Store, Transaction};
use tollhouse_telemetry::Metrics;

use crate::authority::{Authority, Remarks};
use crate::certificate::{self, Facts};
use crate::clock::Clock;
use crate::failure::{Code, Failure};
use crate::keys;
use crate::records::LastError;
use crate::settings::Settings;
use crate::transport::Transport;

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    /// Prefix of the keys of objects.
    pub(crate) prefix: String,
    /// Id of this node; unique in the cluster.
    pub(crate) node: String,
    /// Whether a stored account is replaced if no key of the keyring opens it.
    pub(crate) allows_lost_keys: bool,
    /// Revision up to which stored challenges are answered on this node.
    pub(crate) seen: Arc<watch::Sender<Revision>>,
    /// Error that prevents all orders at present and is not recorded in the store, such as a
    /// failure of the store.
    pub(crate) trouble: Mutex<Option<LastError>>,
    pub(crate) random: Mutex<Random>,
    /// Lock that is held while an account is created. It contains the time and the reason of the
    /// last refusal.
    pub(crate) account_gate: Arc<tokio::sync::Mutex<Option<(u64, Failure)>>>,
}

impl Shared {
    /// Creates an HTTP client for the ACME library. The returned [`Remarks`] receive header values
    /// of the responses.
    pub(crate) fn authority(&self) -> (Box<Authority>, Remarks) {
        let remarks = Remarks::default();
        let client = Authority {
            transport: Arc::clone(&self.transport),
            clock: Arc::clone(&self.clock),
            remarks: remarks.clone(),
        };
        (Box::new(client), remarks)
    }

    /// Returns a new random generator, seeded from the shared one.
    pub(crate) fn random(&self) -> Random {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        Random::seeded(random.next_u64())
    }

    /// Sets or clears the error that prevents all orders; each new error is logged once.
    pub(crate) fn set_trouble(&self, failure: Option<&Failure>) {
        let at_s = self.clock.now_s();
        let now = failure.map(|it| LastError { code: it.code, detail: it.detail.clone(), at_s });
        let mut before = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = match (&now, &*before) {
            (Some(now), Some(before)) => (now.code, &now.detail) != (before.code, &before.detail),
            (Some(_), None) => true,
            (None, _) => false,
        };
        if let (true, Some(failure)) = (is_new, failure) {
            let (code, detail) = (failure.code.name(), &failure.detail);
            let remedy = failure.code.remedy();
            tracing::error!(code, detail, remedy, "no certificates are ordered or renewed");
        }
        *before = now;
    }

    /// Reads a record of the store; a record that cannot be decoded counts as missing.
    pub(crate) async fn record<T: DeserializeOwned>(
        &self,
        key: &str,
    ) -> Result<Option<T>, Failure> {
        let entry = self.store.get(key).await?;
        let Some(entry) = entry else { return Ok(None) };
        let record = serde_json::from_slice(&entry.value);
        if let Err(error) = &record {
            tracing::warn!(key, %error, "a record in the store is damaged, and is recreated");
        }
        Ok(record.ok())
    }

    /// Commits a transaction on the condition that this node still holds the lease; returns the
    /// revision.
    pub(crate) async fn commit(
        &self,
        lease: LeaseId,
        transaction: Transaction,
    ) -> Result<Revision, Failure> {
        Ok(self.store.commit(transaction.while_held(lease)).await?.revision)
    }

    /// Returns the properties of the certificate in service for a name.
    pub(crate) async fn served(&self, host: &str) -> Result<Option<Facts>, Failure> {
        let key = keys::object(&self.prefix, &keys::certificate_id(host));
        let entry = self.store.get(&key).await?;
        let facts = entry.and_then(|entry| {
            certificate::read_facts(&entry.value, &self.keyring, host, self.clock.now_s())
        });
        Ok(facts)
    }

    /// Opens a sealed value of a record.
    pub(crate) fn open(&self, sealed: &str, place: &str) -> Result<String, Failure> {
        crate::records::open(&self.keyring, sealed, place)
    }
}

/// Whether the failure is one of the store or the keyring, and not of the certificate or the
/// authority.
pub(crate) fn is_of_store(failure: &Failure) -> bool {
    matches!(failure.code, Code::StoreFailed | Code::KeyUnopened)
}
