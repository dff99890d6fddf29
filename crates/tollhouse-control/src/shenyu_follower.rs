//! Start and lifetime of a follower that copies objects from an admin of Apache ShenYu. It is off
//! by default.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tollhouse_admin::Mode;
use tollhouse_config::Bootstrap;
use tollhouse_config::bootstrap::Secret;
use tollhouse_shenyu_admin::{Following, follow};

use crate::feed::AdminAccess;
use crate::secrets::shenyu_store::shenyu_store;

/// Port of ShenYu's gateway; reported to the admin if this gateway has no HTTP listener.
const GATEWAY_PORT: u16 = 9195;

/// Default password of ShenYu's admin.
const FIRST_PASSWORD: &str = "123456";

/// A running follower; dropping it stops it.
#[derive(Debug)]
pub struct RunningFollower(JoinHandle<()>);

impl Drop for RunningFollower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RunningFollower {
    /// Whether the task is still running.
    pub fn is_alive(&self) -> bool {
        !self.0.is_finished()
    }
}

/// Starts the follower; returns `None` if it is off, or the store takes no writes at the moment.
pub fn start(bootstrap: &Bootstrap, access: &AdminAccess) -> Option<RunningFollower> {
    let shenyu = &bootstrap.shenyu;
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
        port: bootstrap.listen.http.first().map_or(GATEWAY_PORT, SocketAddr::port),
    };
    let store = Arc::new(shenyu_store(Arc::clone(&access.store), &access.keyring));
    Some(RunningFollower(tokio::spawn(follow(store, following))))
}
