//! A service that a conf names and that requests depend on, such as a policy server.

use std::time::Duration;

use super::{Call, ClientError, HttpClient, Reply, Reuse, Target, TargetError};

/// What a conf says of it.
#[derive(Debug)]
pub(crate) struct ServiceConf<'c> {
    pub uri: &'c str,
    pub timeout_ms: u64,
    pub ssl_verify: bool,
    pub keepalive: bool,
    pub keepalive_timeout_ms: u64,
    pub keepalive_pool: u64,
}

/// Milliseconds that an answer is waited for, where a conf does not say.
pub(crate) fn default_timeout() -> u64 {
    3_000
}

/// Milliseconds that an idle connection is kept, where a conf does not say.
pub(crate) fn default_keepalive_timeout() -> u64 {
    60_000
}

/// Idle connections that each core keeps, where a conf does not say.
pub(crate) fn default_keepalive_pool() -> u64 {
    5
}

/// The service, ready to be asked.
#[derive(Debug)]
pub(crate) struct Service {
    /// An address that cannot be understood is an error of each request, not of the conf: so the
    /// service may be named by a placeholder that is filled in later.
    target: Result<Target, TargetError>,
    client: HttpClient,
}

impl Service {
    pub fn new(conf: &ServiceConf<'_>) -> Self {
        let idle = Duration::from_millis(conf.keepalive_timeout_ms);
        let connections_max = usize::try_from(conf.keepalive_pool).unwrap_or(usize::MAX);
        let reuse =
            if conf.keepalive { Reuse::For { idle, connections_max } } else { Reuse::Never };
        let timeout = Duration::from_millis(conf.timeout_ms);
        let mut client = HttpClient::new(timeout, conf.ssl_verify.into(), reuse);
        let target = Target::parse(conf.uri);
        if let Ok(target) = &target {
            client = client.prepared_for(target);
        }
        Self { target, client }
    }

    /// Asks it for what `call` says, at the path that the conf names.
    ///
    /// # Errors
    /// When there is no answer within the time, or the conf's address is none.
    pub async fn ask(&self, call: Call) -> Result<Reply, ClientError> {
        let refused = |error: &TargetError| ClientError::Request(error.to_string());
        let target = self.target.as_ref().map_err(refused)?;
        let call = Call { path: target.path.clone().into_bytes(), ..call };
        self.client.send(target, call).await
    }
}
