//! Start and lifetime of the Admin API, from the bootstrap file.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollhouse_admin::{
    AdminApi, AdminKey, AuditSink, ConsoleSource, Cors, Encryption, KeyCheck, Mode, Options, Parts,
    Role, ServerToken, Sessions, StapleSource, StreamMode,
};
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::{KeyRole, Secret};
use tollhouse_model::encryption::Keyring;
use tollhouse_net::local_name::HostNames;
use tollhouse_web::until_stopped;

use crate::certificate_ends::CertificateEnds;
use crate::certificates::RunningCertificates;
use crate::console::shenyu;
use crate::context::ControlContext;
use crate::feed::AdminAccess;
use crate::introspection::listeners;
use crate::log_in;
use crate::process::handover::Predecessor;
use crate::registry::RunningRegistry;
use crate::shenyu_admin;
use crate::staples::Staples;

/// A running Admin API; dropping it stops the server.
#[derive(Debug)]
pub struct RunningAdmin {
    pub address: SocketAddr,
    pub is_tls: bool,
    task: JoinHandle<()>,
    _stop: watch::Sender<bool>,
}

impl RunningAdmin {
    /// Whether the server task is still running.
    pub fn is_alive(&self) -> bool {
        !self.task.is_finished()
    }
}

/// Returns the options of the Admin API from the bootstrap file.
fn options(bootstrap: &Bootstrap, key: &Secret, mode: Mode) -> Options {
    let admin = &bootstrap.admin;
    let named = |name: &str, key: &Secret, role| AdminKey {
        name: name.to_owned(),
        key: key.expose().to_owned(),
        role,
    };
    let mut keys = vec![named("admin", key, Role::Admin)];
    keys.extend(admin.viewer_key.iter().map(|key| named("viewer", key, Role::Viewer)));
    keys.extend(admin.keys.iter().map(|one| {
        let role = match one.role {
            KeyRole::Admin => Role::Admin,
            KeyRole::Operator => Role::Operator,
            KeyRole::Viewer => Role::Viewer,
        };
        named(&one.name, &one.key, role)
    }));
    Options {
        key_prefix: admin.prefix.trim_end_matches('/').to_owned(),
        keys,
        key_check: if admin.key_required { KeyCheck::Required } else { KeyCheck::Off },
        hosts: HostNames::new(&bootstrap.listen.hosts),
        allow: admin.allow.clone(),
        cors: if admin.cors { Cors::On } else { Cors::Off },
        server_token: ServerToken(crate::plugins::apisix_token(bootstrap).to_owned()),
        stream_mode: if bootstrap.stream_routes { StreamMode::On } else { StreamMode::Off },
        mode,
        ..Options::default()
    }
}

/// Parts of the process that the Admin API shows and changes.
pub struct AdminSources<'a> {
    pub access: AdminAccess,
    pub registry: Option<&'a RunningRegistry>,
    pub certificates: Option<&'a RunningCertificates>,
    pub console: Arc<dyn ConsoleSource>,
}

/// Starts the Admin API; returns `None` if it has no listener.
///
/// # Errors
/// If the address is in use, or the certificate is invalid.
pub async fn start(
    cx: &ControlContext,
    sources: AdminSources<'_>,
    predecessor: Predecessor,
) -> anyhow::Result<Option<RunningAdmin>> {
    let Some(address) = cx.bootstrap.listen.admin.first().copied() else { return Ok(None) };
    let tls = listeners::admin_tls(&cx.bootstrap.admin.tls)?;
    let people = sources.registry.map(|registry| registry.handle.clone());
    let mut parts = parts(cx, sources);
    parts.options.people = people;
    let encryption = if tls.is_some() { Encryption::Tls } else { Encryption::Off };
    let secret = session_secret(&parts.keyring, &parts.options.mode)?;
    parts.options.sessions = Some(Sessions::new(&secret, encryption));
    parts.options.log_in = log_in::from_bootstrap(&cx.bootstrap)?.map(Arc::new);
    let api = AdminApi::new(parts);
    let listener = listeners::bind(address, predecessor)
        .await
        .with_context(|| listeners::in_use("listen.admin", address))?;
    let address = listener.local_addr()?;
    let (stop, stopped) = watch::channel(false);
    let is_tls = tls.is_some();
    let connections_max = cx.descriptors.admin;
    let stopped = until_stopped(stopped);
    let serving = tollhouse_admin::serve(listener, api, tls, connections_max, stopped);
    let task = tokio::spawn(serving);
    Ok(Some(RunningAdmin { address, is_tls, task, _stop: stop }))
}

/// Random bytes added to a session secret that must not outlive the process.
const SECRET_BYTES: usize = 32;

/// Returns the secret that signs session cookies. With a store, the secret depends on the keyring
/// alone: sign-ins survive a restart and pass to a successor, because the store remembers
/// sign-outs. Without a store, random bytes end all sessions with the process; otherwise a sign-out
/// would be forgotten at the next start.
fn session_secret(keyring: &Keyring, mode: &Mode) -> anyhow::Result<Vec<u8>> {
    let mut secret = keyring.expose().collect::<Vec<&str>>().join("\n").into_bytes();
    match mode {
        Mode::Store | Mode::Away(_) => {}
        Mode::ReadOnly(_) | Mode::Standalone(_) => {
            let mut random = [0; SECRET_BYTES];
            aws_lc_rs::rand::fill(&mut random)
                .context("the system's random number generator is unavailable")?;
            secret.extend(random);
        }
    }
    Ok(secret)
}

/// The state of certificates and OCSP staples, for the Admin API.
struct BoardOfStaples(Arc<Staples>, Arc<CertificateEnds>);

impl StapleSource for BoardOfStaples {
    fn list(&self) -> serde_json::Value {
        serde_json::json!(self.0.report())
    }

    fn ends(&self) -> serde_json::Value {
        self.1.to_json()
    }
}

fn parts(cx: &ControlContext, sources: AdminSources<'_>) -> Parts {
    let AdminSources { access, registry, certificates, console } = sources;
    let AdminAccess { store, keyring, key, mode, in_service, .. } = access;
    Parts {
        store,
        in_service,
        catalogue: Arc::clone(&cx.plugins.catalogue),
        services: Arc::clone(&cx.plugins.services),
        keyring,
        registry: registry.map(RunningRegistry::admin_part),
        certificates: certificates.map(RunningCertificates::source),
        staples: Some(Arc::new(BoardOfStaples(
            Arc::clone(&cx.serving.drivers.staples),
            Arc::clone(cx.metrics_page.certificates()),
        ))),
        console: Some(console),
        shenyu: shenyu_admin::is_asked_for(&cx.bootstrap)
            .then(|| shenyu::source(&cx.shenyu.access)),
        audit: Some(Arc::clone(&cx.audit) as Arc<dyn AuditSink>),
        tracer: cx.spans.tracer(),
        options: options(&cx.bootstrap, &key, mode),
    }
}
