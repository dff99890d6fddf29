//! List of the ACME certificates with their states, for operators and tools.

use std::sync::{Arc, PoisonError};

use serde::Serialize;
use tollhouse_store::StoreError;

use crate::keys;
use crate::records::{CertificateRecord, HoldRecord, LastError};
use crate::schedule;
use crate::shared::Shared;

/// State of a certificate, as listed for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The certificate is in service, and not due for renewal.
    Valid,
    /// The certificate is in service, and a renewal is in progress.
    Renewing,
    /// The certificate is in service, but the last renewal attempt has failed.
    RenewalFailing,
    /// The certificate is missing; an order is in progress.
    Ordering,
    /// The certificate is missing; the last attempt has failed.
    Failing,
}

/// Certificate with its state, as listed for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CertificateView {
    /// Id of the `ssls` object.
    pub id: String,
    pub names: Vec<String>,
    pub state: State,
    /// Issuer of the certificate in service.
    pub issuer: Option<String>,
    /// Last second of validity of the certificate in service, in Unix time.
    pub not_after: Option<u64>,
    /// Time of the next attempt or renewal, in Unix time.
    pub next_attempt: Option<u64>,
    /// Renewal window suggested by the authority, in Unix time.
    pub suggested_window: Option<(u64, u64)>,
    /// Error of the most recent attempt, if it failed.
    pub last_error: Option<ErrorView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorView {
    pub code: &'static str,
    pub detail: String,
    pub remedy: &'static str,
    /// Time of the failure, in Unix time.
    pub at: u64,
}

impl From<LastError> for ErrorView {
    fn from(error: LastError) -> Self {
        let LastError { code, detail, at_s } = error;
        Self { code: code.name(), detail, remedy: code.remedy(), at: at_s }
    }
}

/// Reader of the state of all certificates. Cheap to clone. Works on every node, because the state
/// is in the store.
#[derive(Clone)]
pub struct Listing {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Listing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Listing")
    }
}

impl Listing {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub fn directory(&self) -> &str {
        &self.shared.settings.directory
    }

    /// Lists all configured certificates, in the order of the configuration.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list(&self) -> Result<Vec<CertificateView>, StoreError> {
        let shared = &self.shared;
        let hold = shared.store.get(&keys::hold(&shared.settings.directory)).await?;
        let hold: Option<HoldRecord> =
            hold.and_then(|entry| serde_json::from_slice(&entry.value).ok());
        let hold_s = hold.unwrap_or_default().until_s;
        let mut views = Vec::with_capacity(shared.settings.hosts.len());
        for host in &shared.settings.hosts {
            views.push(self.view(host, hold_s).await?);
        }
        Ok(views)
    }

    async fn view(&self, host: &str, hold_s: u64) -> Result<CertificateView, StoreError> {
        let shared = &self.shared;
        let id = keys::certificate_id(host);
        let entry = shared.store.get(&format!("{}{id}", keys::STATES)).await?;
        let record: Option<CertificateRecord> =
            entry.and_then(|entry| serde_json::from_slice(&entry.value).ok());
        let record = record.unwrap_or_default();
        let facts = shared.served(host).await.unwrap_or_default();
        let due_s = schedule::due(&record, facts.as_ref()).order_at_s;
        let now_s = shared.clock.now_s();
        // A problem that blocks all hosts is more informative than the last error of this one.
        let trouble = shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let last_error = trouble.or(record.last_error.clone()).map(ErrorView::from);
        let state = match (&facts, &last_error) {
            (Some(_), Some(_)) => State::RenewalFailing,
            (Some(_), None) if due_s <= now_s => State::Renewing,
            (Some(_), None) => State::Valid,
            (None, Some(_)) => State::Failing,
            (None, None) => State::Ordering,
        };
        Ok(CertificateView {
            id,
            names: vec![host.to_owned()],
            state,
            suggested_window: facts
                .as_ref()
                .and_then(|facts| schedule::renewal_of(&record, facts)?.window_s),
            not_after: facts.as_ref().map(|facts| facts.not_after_s),
            issuer: facts.map(|facts| facts.issuer),
            next_attempt: Some(due_s.max(hold_s)).filter(|at_s| *at_s > 0),
            last_error,
        })
    }
}
