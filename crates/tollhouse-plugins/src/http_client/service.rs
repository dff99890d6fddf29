//! Service that a conf names and that requests depend on, such as a policy server.

use std::time::Duration;

use super::{Call, ClientError, HttpClient, Reply, Reuse, Target, TargetError};

/// Fields of a conf that locate an external service and bound its calls.
#[derive(Debug)]
pub(crate) struct ServiceConf<'c> {
    pub uri: &'c str,
    pub timeout_ms: u64,
    pub ssl_verify: bool,
    pub keepalive: bool,
    pub keepalive_timeout_ms: u64,
    pub keepalive_pool: u64,
}

/// Returns the default timeout for an answer, in milliseconds.
pub(crate) fn default_timeout() -> u64 {
    3_000
}

/// Returns the default lifetime of an idle connection, in milliseconds.
pub(crate) fn default_keepalive_timeout() -> u64 {
    60_000
}

/// Returns the default number of idle connections per core.
pub(crate) fn default_keepalive_pool() -> u64 {
    5
}

/// Client with the address of its service.
#[derive(Debug)]
pub(crate) struct Service {
    /// An invalid address is an error of each request and not of the conf, because the address may
    /// be a placeholder that is filled in later.
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

    /// Sends `call` to the path that the conf names.
    ///
    /// # Errors
    /// If the service does not answer in time, or the conf's address is invalid.
    pub async fn ask(&self, call: Call) -> Result<Reply, ClientError> {
        let refused = |error: &TargetError| ClientError::Request(error.to_string());
        let target = self.target.as_ref().map_err(refused)?;
        let call = Call { path: target.path.clone().into_bytes(), ..call };
        self.client.send(target, call).await
    }
}
