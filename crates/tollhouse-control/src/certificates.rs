//! ACME certificates: a part of the process that obtains and renews them, and that may fail without
//! stopping the gateway.
//!
//! They are kept in the store of the configuration. If the configuration comes from a file or from
//! documents, the store in the data folder is opened for them, and its certificates go into service
//! beside the other objects.

mod own_store;

use std::sync::Arc;

use anyhow::Context;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollhouse_acme::{
    ChallengeKind, ChallengeResponder, ExternalAccount, HttpsTransport, Listing, PendingChallenge,
    Renewer, Settings, SystemClock,
};
use tollhouse_admin::{CertificateSource, Certificates};
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::{Acme, AcmeChallenge};
use tollhouse_model::secret::SecretText;
use tollhouse_net::server_tls::HostTerms;
use tollhouse_proxy::SnapshotCell;

use self::own_store::OwnStore;
use crate::context::ControlContext;
use crate::feed::{Event, Feed};
use crate::process::handover::Predecessor;

/// The running ACME client; it runs until [`RunningCertificates::stop`].
pub struct RunningCertificates {
    stop: watch::Sender<()>,
    keeper: JoinHandle<()>,
    listing: Listing,
    own: Option<OwnStore>,
}

/// Whether the bootstrap file names an ACME directory.
pub fn are_asked_for(bootstrap: &Bootstrap) -> bool {
    bootstrap.acme.directory.is_some()
}

/// Starts the ACME client. If the certificates have their own store, also returns its current
/// contents.
///
/// # Errors
/// If the store or its keyring cannot be opened, or the trusted CA certificates cannot be loaded.
pub async fn start(
    cx: &ControlContext,
    feed: &Feed,
    snapshots: &Arc<SnapshotCell>,
    predecessor: Predecessor,
) -> anyhow::Result<(RunningCertificates, Option<Event>)> {
    let acme = &cx.bootstrap.acme;
    let settings = settings(acme).context("acme.directory is not set")?;
    let transport = HttpsTransport::new(acme.ca.as_deref());
    let transport = transport.map_err(|error| anyhow::anyhow!("acme.ca: {error}"))?;
    // A feed from a file has no store, but accounts and keys must survive a restart.
    let (store, keyring, own) = match feed.stored() {
        Some((store, keyring)) => (store, keyring, None),
        None => {
            let (own, first) = OwnStore::open(cx, predecessor).await?;
            (Arc::clone(&own.store), Arc::clone(&own.keyring), Some((own, first)))
        }
    };
    let keeper = Renewer::new(tollhouse_acme::Parts {
        settings,
        store,
        keyring,
        prefix: cx.store_prefix().to_owned(),
        node: cx.identity.id.clone(),
        allows_lost_keys: cx.bootstrap.encryption.allow_lost_keys,
        transport: Arc::new(transport),
        clock: Arc::new(SystemClock),
        metrics: Arc::clone(&cx.metrics),
    });
    let (stop, stopped) = watch::channel(());
    let listing = keeper.listing();
    let answers = Arc::new(DataPlane(Arc::clone(snapshots)));
    let keeper = tokio::spawn(keeper.run(answers, stopped));
    let (own, first) = own.unzip();
    Ok((RunningCertificates { stop, keeper, listing, own }, first))
}

impl RunningCertificates {
    /// Returns the state of the certificates, for the Admin API.
    pub fn source(&self) -> Arc<dyn CertificateSource> {
        Arc::new(Source(self.listing.clone()))
    }

    /// Whether the ACME client is still running.
    pub fn is_alive(&self) -> bool {
        !self.keeper.is_finished()
    }

    /// Waits for a change in the certificates' own store; waits forever without one. Cancel safe.
    pub async fn next(&mut self) -> Event {
        match &mut self.own {
            Some(own) => own.next().await,
            None => std::future::pending().await,
        }
    }

    /// Stops the client and closes its store. The next client resumes pending orders.
    pub async fn stop(self) {
        drop(self.stop);
        // A panic of the task has already been reported.
        let _ = self.keeper.await;
        if let Some(own) = self.own {
            own.close().await;
        }
    }
}

/// State of the certificates, for the Admin API.
struct Source(Listing);

impl CertificateSource for Source {
    fn directory(&self) -> &str {
        self.0.directory()
    }

    fn list(&self) -> Certificates<'_> {
        Box::pin(async {
            let list = self.0.list().await.map_err(|error| error.to_string())?;
            serde_json::to_value(list).map_err(|error| error.to_string())
        })
    }
}

/// The workers, which answer the authority's challenges.
struct DataPlane(Arc<SnapshotCell>);

impl ChallengeResponder for DataPlane {
    fn replace(&self, pending: &[PendingChallenge]) {
        let http = pending.iter().filter(|it| it.kind == ChallengeKind::Http01);
        let http = http.map(|it| (it.token.clone(), it.key_authorization.clone()));
        self.0.challenges().replace_http(http);
        let tls = pending.iter().filter(|it| it.kind == ChallengeKind::TlsAlpn01);
        self.0.challenges().replace_tls(tls.filter_map(terms));
    }
}

/// Returns the TLS terms for a `tls-alpn-01` challenge. If the certificate cannot be generated, the
/// challenge stays unanswered and the authority reports it.
fn terms(pending: &PendingChallenge) -> Option<(String, HostTerms)> {
    let made = tollhouse_acme::challenge_certificate(&pending.host, &pending.key_authorization);
    let (certificate, key) =
        made.inspect_err(|error| tracing::warn!(error, "a challenge cannot be answered")).ok()?;
    let terms = HostTerms::for_protocol(tollhouse_acme::ACME_TLS_ALPN, certificate, key.into());
    let terms = terms.inspect_err(|error| tracing::warn!(%error, "a challenge cannot be answered"));
    Some((pending.host.clone(), terms.ok()?))
}

/// Returns the ACME settings from the bootstrap file; `None` without a directory.
fn settings(acme: &Acme) -> Option<Settings> {
    let external_account = match (&acme.eab.key_id, &acme.eab.key) {
        (Some(id), Some(key)) => {
            Some(ExternalAccount { id: id.clone(), key: SecretText::new(key.expose()) })
        }
        _ => None,
    };
    Some(Settings {
        directory: acme.directory.clone()?,
        contact: acme.contact.clone(),
        agrees: acme.agree,
        external_account,
        hosts: acme.hosts.clone(),
        challenge: match acme.challenge {
            AcmeChallenge::Http01 => ChallengeKind::Http01,
            AcmeChallenge::TlsAlpn01 => ChallengeKind::TlsAlpn01,
        },
        profile: acme.profile.clone(),
    })
}
