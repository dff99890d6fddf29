//! Channel for ShenYu's local interface, from the workers to ShenYu's admin. Calls are answered
//! with 503 while no admin is running, because the store is unreachable or another process holds
//! it.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tollhouse_plugin::LocalFuture;
use tollhouse_shenyu_admin::{LocalRequest, ShenyuAdmin};
use tollhouse_shenyu_gateway::{LocalAnswer, LocalCall, LocalInterface};

use crate::console::shenyu::ShenyuAccess;

/// Limit of concurrent calls, because each may hold some megabytes. Further calls get 503.
const CALLS_MAX: usize = 32;

/// Connection between workers and the current admin, if there is one.
#[derive(Debug)]
pub struct LocalChannel {
    /// Runtime on which calls are handled.
    runtime: Handle,
    admin: RwLock<Option<ConnectedAdmin>>,
    permits: Arc<Semaphore>,
}

/// Admin that serves local calls, and the gateway's namespace.
#[derive(Clone)]
struct ConnectedAdmin {
    admin: ShenyuAdmin,
    namespace: Option<String>,
}

/// Channels to ShenYu's admin, which are closed while none is running. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ShenyuChannels {
    /// Channel from the data plane.
    pub local: Arc<LocalChannel>,
    /// Channel from the console.
    pub access: Arc<ShenyuAccess>,
}

impl ShenyuChannels {
    /// Creates channels without an admin. Calls will be handled on the current runtime.
    pub fn new() -> Self {
        Self { local: Arc::new(LocalChannel::new()), access: Arc::default() }
    }
}

impl std::fmt::Debug for ConnectedAdmin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ConnectedAdmin")
    }
}

impl LocalChannel {
    /// Creates a channel that is not connected yet. Calls will be handled on the current runtime.
    pub fn new() -> Self {
        let permits = Arc::new(Semaphore::new(CALLS_MAX));
        Self { runtime: Handle::current(), admin: RwLock::new(None), permits }
    }

    /// Connects the admin for objects of this namespace; ShenYu's default namespace if `None`.
    pub fn open(&self, admin: ShenyuAdmin, namespace: Option<String>) {
        let mut connected = self.admin.write().unwrap_or_else(PoisonError::into_inner);
        *connected = Some(ConnectedAdmin { admin, namespace });
    }

    pub fn shut(&self) {
        *self.admin.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn admin(&self) -> Option<ConnectedAdmin> {
        self.admin.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl LocalInterface for LocalChannel {
    fn call<'a>(&'a self, call: LocalCall) -> LocalFuture<'a, LocalAnswer> {
        let away = |reason: &str| LocalAnswer {
            status: 503,
            body: format!(r#"{{"code":503,"message":"{reason}"}}"#),
            warning: None,
        };
        Box::pin(async move {
            let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
                return away("too many calls at a time, please try again later");
            };
            let Some(ConnectedAdmin { admin, namespace }) = self.admin() else {
                return away("the store takes no writes at the moment");
            };
            let working = self.runtime.spawn(async move {
                let LocalCall { method, path, query, body } = call;
                let request = LocalRequest {
                    method: &method,
                    path: &path,
                    query: &query,
                    body: &body,
                    namespace: namespace.as_deref(),
                };
                let answer = admin.call_local(request).await;
                drop(permit);
                answer
            });
            working.await.unwrap_or_else(|_| away("the call has failed"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_door_with_nobody_behind_it_says_so() {
        let channel = LocalChannel::new();
        let call = || LocalCall {
            method: "GET".to_owned(),
            path: "/shenyu/cleanAll".to_owned(),
            query: String::new(),
            body: Vec::new(),
        };
        assert_eq!(channel.call(call()).await.status, 503);
        let permits = Arc::clone(&channel.permits);
        let _all = permits.try_acquire_many(32).expect("they are free");
        let LocalAnswer { status, body, .. } = channel.call(call()).await;
        assert!(status == 503 && body.contains("too many calls"), "{body}");
    }
}
