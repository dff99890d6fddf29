//! Following an admin of ShenYu's, as the bootstrap file describes it: off unless asked for.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tollhouse_admin::Mode;
use tollhouse_config::bootstrap::Secret;
use tollhouse_shenyu_admin::{Following, follow};

use crate::context::ControlContext;
use crate::feed::AdminAccess;
use crate::secrets::shenyu_store::ShenyuStore;

/// The port of ShenYu's gateway, for one that has no plain HTTP.
const GATEWAY_PORT: u16 = 9195;

/// What users of ShenYu's admin begin with.
const FIRST_PASSWORD: &str = "123456";

/// A follower; it ends when this is dropped.
#[derive(Debug)]
pub struct RunningFollower(JoinHandle<()>);

impl Drop for RunningFollower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RunningFollower {
    /// Whether it still follows.
    pub fn is_alive(&self) -> bool {
        !self.0.is_finished()
    }
}

/// Starts it; `None` where it is not asked for, or there is nothing to write to at the time.
pub fn start(cx: &ControlContext, access: &AdminAccess) -> Option<RunningFollower> {
    let shenyu = &cx.bootstrap.shenyu;
    if shenyu.follow.addresses.is_empty() || !matches!(access.mode, Mode::Store) {
        return None;
    }
    let password = shenyu.follow.password.as_ref();
    let following = Following {
        addresses: shenyu.follow.addresses.clone(),
        authorities: shenyu.follow.ca.clone(),
        namespace: shenyu.namespace.clone(),
        user: shenyu.follow.user.clone(),
        password: password.map_or(FIRST_PASSWORD, Secret::expose).to_owned(),
        token: shenyu.follow.token.as_ref().map(|token| token.expose().to_owned()),
        origin: shenyu.follow.origin.clone(),
        port: cx.bootstrap.listen.http.first().map_or(GATEWAY_PORT, SocketAddr::port),
    };
    let store = Arc::new(ShenyuStore::new(Arc::clone(&access.store), &access.keyring));
    Some(RunningFollower(tokio::spawn(follow(store, following))))
}
