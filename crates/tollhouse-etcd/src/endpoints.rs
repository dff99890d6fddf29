//! Members of an etcd cluster, and the choice of the member in use.
//!
//! All requests go to one member, and to the next one if that fails: reads at once, changes only if
//! they were not sent. Distributing requests over all members would send a share of them to a dead
//! one.

use crate::failure::Failure;
use crate::member::{Member, Method};
use crate::options::{EtcdOptions, Identity, Tls};
use crate::outages::Outages;
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tollhouse_net::tls::Trust;
use tollhouse_store::StoreError;
use tonic::transport::{ClientTlsConfig, Endpoint};

/// Interval between pings on an idle connection. gRPC servers disconnect clients that ping more
/// often than every five seconds.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// Timeout for a ping. Together with the interval, a stopped member is detected within fifteen
/// seconds.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for opening a connection; a member whose packets are dropped delays one request by this
/// time.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(800);

pub(crate) struct Endpoints {
    members: Vec<Member>,
    /// Index of the member in use.
    current: AtomicUsize,
    timeout: Duration,
    place: Box<str>,
    pub(crate) outages: Outages,
}

impl Endpoints {
    /// Creates the members without connecting.
    ///
    /// # Errors
    ///
    /// If no address is given, or an address, certificate or key is invalid.
    pub(crate) fn new(options: &EtcdOptions) -> Result<Self, StoreError> {
        let place: Box<str> = format!("etcd at {}", options.endpoints.join(", ")).into();
        let unusable = |reason: String| StoreError::Unreachable { place: place.clone(), reason };
        if options.endpoints.is_empty() {
            return Err(unusable("no address is given".to_owned()));
        }
        let member = |url: &String| {
            let channel = endpoint(url, options.tls.as_ref()).map_err(unusable)?;
            Ok(Member::new(channel.connect_lazy(), options.user.as_ref()))
        };
        Ok(Self {
            members: options.endpoints.iter().map(member).collect::<Result<_, StoreError>>()?,
            current: AtomicUsize::new(0),
            timeout: options.timeout,
            place: place.clone(),
            outages: Outages::new(),
        })
    }

    /// Returns the addresses of the etcd cluster, for messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the member in use, with its index.
    pub(crate) fn current(&self) -> (usize, &Member) {
        let number = self.current.load(Ordering::Acquire) % self.members.len();
        (number, &self.members[number])
    }

    /// Switches to the next member, unless another request has already done so.
    pub(crate) fn leave(&self, member: usize) {
        let next = (member + 1) % self.members.len();
        let _ = self.current.compare_exchange(member, next, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Sends a request that is safe to repeat: to each member once, until one answers.
    pub(crate) async fn read<A, B>(&self, method: &Method<A, B>, request: &A) -> Result<B, Failure>
    where
        A: Message + Clone + Default + 'static,
        B: Message + Default + 'static,
    {
        self.ask_each(method, request, |_| true).await
    }

    /// Sends a change: to another member only if it was not sent to the one before.
    pub(crate) async fn write<A, B>(&self, method: &Method<A, B>, request: &A) -> Result<B, Failure>
    where
        A: Message + Clone + Default + 'static,
        B: Message + Default + 'static,
    {
        self.ask_each(method, request, |failure| matches!(failure, Failure::Unsent(_))).await
    }

    async fn ask_each<A, B>(
        &self,
        method: &Method<A, B>,
        request: &A,
        may_repeat: impl Fn(&Failure) -> bool,
    ) -> Result<B, Failure>
    where
        A: Message + Clone + Default + 'static,
        B: Message + Default + 'static,
    {
        let mut last = Failure::timed_out();
        for _ in 0..self.members.len() {
            let (number, member) = self.current();
            let outcome = tokio::time::timeout(self.timeout, member.call(method, request)).await;
            let failure = match outcome {
                Ok(Ok(answer)) => {
                    self.outages.end();
                    return Ok(answer);
                }
                Ok(Err(status)) => Failure::from(status),
                Err(_) => Failure::timed_out(),
            };
            if let Failure::Declined { .. } = failure {
                return Err(failure);
            }
            self.leave(number);
            let is_over = !may_repeat(&failure);
            last = failure;
            if is_over {
                break;
            }
        }
        self.outages.begin(last.reason());
        Err(last)
    }
}

fn endpoint(url: &str, tls: Option<&Tls>) -> Result<Endpoint, String> {
    let endpoint = Endpoint::from_shared(url.to_owned())
        .map_err(|error| causes(&error))?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true);
    if !url.starts_with("https://") {
        return Ok(endpoint);
    }
    let none = Tls::default();
    let Tls { authorities, identity } = tls.unwrap_or(&none);
    let trust = match authorities {
        Some(pem) => Trust::Authorities(std::str::from_utf8(pem).map_err(|error| causes(&error))?),
        None => Trust::System,
    };
    let verifier = trust.verifier().map_err(|error| causes(&error))?;
    let config = match identity {
        Some(Identity { certificate, key }) => {
            ClientTlsConfig::new().identity(tonic::transport::Identity::from_pem(certificate, key))
        }
        None => ClientTlsConfig::new(),
    };
    let endpoint = endpoint.tls_config_with_verifier(config, Arc::new(verifier));
    endpoint.map_err(|error| causes(&error))
}

/// Formats an error with its causes, which tonic's own message omits.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(below) = cause {
        text = format!("{text}: {below}");
        cause = below.source();
    }
    text
}
