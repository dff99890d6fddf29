//! Start and lifetime of the ShenYu-compatible admin, from the bootstrap file. It is off by
//! default.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tollhouse_admin::Mode;
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::Secret;
use tollhouse_net::local_name::HostNames;
use tollhouse_shenyu_admin::{
    Aes, Beginning, Options, Probing, ProblemSource, ShenyuAdmin, hold, serve,
};
use tollhouse_store::InService;
use tollhouse_web::until_stopped;

use crate::configuration::Configuration;
use crate::context::ControlContext;
use crate::feed::AdminAccess;
use crate::introspection::listeners;
use crate::process::handover::Predecessor;
use crate::secrets::sealing_store::SealingStore;
use crate::secrets::shenyu_store::shenyu_store;
use crate::shenyu_local::ShenyuChannels;

/// Default password of ShenYu's admin; clients are configured with it.
const FIRST_PASSWORD: &str = "123456";

/// A running admin; dropping it stops it.
#[derive(Debug)]
pub struct RunningShenyuAdmin {
    /// Bound addresses; empty if the admin only serves the gateway's local interface.
    pub addresses: Vec<SocketAddr>,
    task: JoinHandle<()>,
    _stop: watch::Sender<bool>,
    channels: ShenyuChannels,
}

impl Drop for RunningShenyuAdmin {
    fn drop(&mut self) {
        self.channels.local.shut();
        self.channels.access.set(None);
    }
}

impl RunningShenyuAdmin {
    /// Whether the server task is still running.
    pub fn is_alive(&self) -> bool {
        !self.task.is_finished()
    }
}

/// Starts the admin; returns `None` if it is off, or the store takes no writes at the moment.
///
/// # Errors
/// If an address is in use, or the store cannot be read.
pub async fn start(
    cx: &ControlContext,
    access: AdminAccess,
    predecessor: Predecessor,
) -> anyhow::Result<Option<RunningShenyuAdmin>> {
    let asked = &cx.bootstrap.listen.shenyu;
    if !matches!(access.mode, Mode::Store) || !is_asked_for(&cx.bootstrap) {
        return Ok(None);
    }
    let store = Arc::new(shenyu_store(access.store, &access.keyring));
    let in_service = access.shenyu_in_service;
    // Local calls need no listener, only the store.
    if asked.is_empty() {
        return start_local(cx, store, in_service).await.map(Some);
    }
    // A non-loopback address is preferred for the warnings below.
    let address = asked.iter().find(|address| !address.ip().is_loopback()).unwrap_or(&asked[0]);
    let password = cx.bootstrap.shenyu.admin_password.as_ref();
    let first_password = password.map_or(FIRST_PASSWORD, |password| password.expose()).to_owned();
    if password.is_none() && !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "any client that reaches ShenYu's admin can log in with the password that ShenYu is shipped with, unless \
             it was changed: set shenyu.admin_password before the first start, or change it there"
        );
    }
    let sync_token = cx.bootstrap.shenyu.sync_token.as_ref();
    if sync_token.is_none() && !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "any client that reaches ShenYu's admin can follow it without a token, and so read secrets of \
             applications: set shenyu.sync_token if the gateways of ShenYu are 2.7.2 or newer"
        );
    }
    let sync_token = sync_token.map(|token| token.expose().to_owned());
    let shenyu = &cx.bootstrap.shenyu;
    let probing = if shenyu.probe_upstreams { Probing::Always } else { Probing::Never };
    let aes = aes(shenyu.aes_key.as_ref(), shenyu.aes_iv.as_ref())?;
    let hosts = HostNames::new(&cx.bootstrap.listen.hosts);
    let beginning = Beginning::Admin;
    let problems = Some(problems(cx));
    let options = Options {
        first_password,
        sync_token,
        probing,
        beginning,
        aes,
        hosts,
        in_service,
        problems,
    };
    let admin =
        ShenyuAdmin::open(store, options).await.context("ShenYu's admin cannot use the store")?;
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    for &address in asked {
        let listener = listeners::bind(address, predecessor)
            .await
            .with_context(|| listeners::in_use("listen.shenyu", address))?;
        addresses.push(listener.local_addr()?);
        listeners.push(listener);
    }
    let connections_max = cx.descriptors.shenyu;
    let channels = connect(cx, &admin);
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(serve_all(listeners, admin, connections_max, stopped));
    Ok(Some(RunningShenyuAdmin { addresses, task, _stop: stop, channels }))
}

/// Serves all listeners until they end.
async fn serve_all(
    listeners: Vec<TcpListener>,
    admin: ShenyuAdmin,
    connections_max: usize,
    stopped: watch::Receiver<bool>,
) {
    let mut serving = JoinSet::new();
    let mut next = Some(admin);
    for listener in listeners {
        let Some(admin) = next.take() else { break };
        // Only one instance probes upstream nodes, whatever the number of listeners.
        next = Some(admin.without_probing());
        serving.spawn(serve(listener, admin, connections_max, until_stopped(stopped.clone())));
    }
    drop(next);
    while serving.join_next().await.is_some() {}
}

/// Starts an admin for the gateway's local interface only.
async fn start_local(
    cx: &ControlContext,
    store: Arc<SealingStore>,
    in_service: Option<InService>,
) -> anyhow::Result<RunningShenyuAdmin> {
    let options = Options {
        first_password: String::new(),
        sync_token: None,
        probing: Probing::Never,
        beginning: Beginning::Nothing,
        aes: None,
        hosts: HostNames::default(),
        in_service,
        problems: Some(problems(cx)),
    };
    let admin = ShenyuAdmin::open(store, options).await;
    let admin = admin.context("shenyu.local_key_sha512 cannot use the store")?;
    let channels = connect(cx, &admin);
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(hold(admin, until_stopped(stopped)));
    Ok(RunningShenyuAdmin { addresses: Vec::new(), task, _stop: stop, channels })
}

/// Returns the problems of the configuration in service, for the answers to writes.
fn problems(cx: &ControlContext) -> Arc<dyn ProblemSource> {
    Arc::<Configuration>::clone(&cx.serving.configuration)
}

/// Connects the console, and the gateway's local interface if it is on, to the admin.
fn connect(cx: &ControlContext, admin: &ShenyuAdmin) -> ShenyuChannels {
    let shenyu = &cx.bootstrap.shenyu;
    if shenyu.local_key_sha512.is_some() {
        cx.shenyu.local.open(admin.clone(), shenyu.namespace.clone());
    }
    cx.shenyu.access.set(Some(admin.clone()));
    cx.shenyu.clone()
}

/// Whether the configuration turns ShenYu's admin or the local interface on.
pub fn is_asked_for(bootstrap: &Bootstrap) -> bool {
    !bootstrap.listen.shenyu.is_empty() || bootstrap.shenyu.local_key_sha512.is_some()
}

/// Returns the AES key and vector with which clients encrypt login passwords.
fn aes(key: Option<&Secret>, iv: Option<&Secret>) -> anyhow::Result<Option<Aes>> {
    let expose = |secret: &Secret| secret.expose().to_owned();
    match (key, iv) {
        (None, None) => Ok(None),
        (Some(key), Some(iv)) => {
            let aes = Aes::new(expose(key), expose(iv));
            aes.map(Some).context("shenyu.aes_key or shenyu.aes_iv cannot be used")
        }
        (Some(_), None) | (None, Some(_)) => {
            anyhow::bail!("shenyu.aes_key and shenyu.aes_iv go together: set both, or none")
        }
    }
}
