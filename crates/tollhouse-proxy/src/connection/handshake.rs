//! The handshake of a client's TLS: bounded in number, in time and in what the client may say
//! before anything is known of it.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use tollhouse_net::server_tls::stream::HandshakeError;
use tollhouse_net::server_tls::{ClientVerifier, Hello, HostTerms};
use tollhouse_telemetry::{ConnectionRefusal, HandshakeFailure};

use super::client::Client;
use crate::snapshot::certificates::{Certificates, TlsHost};
use crate::worker::Worker;

/// What is known of a client that has ended its handshake.
#[derive(Debug)]
pub struct TlsPeer {
    /// The name that decided, lower-cased.
    pub name: Box<str>,
    /// What its certificate was checked by, and what came of that; nothing where none was asked for.
    pub checked: Option<Checked>,
}

/// What became of a client's certificate.
#[derive(Debug)]
pub struct Checked {
    /// Who has checked it.
    pub by: Arc<ClientVerifier>,
    /// Whether it is good.
    pub verdict: Result<(), HandshakeFailure>,
}

impl Checked {
    fn new(host: &TlsHost, client: &Client) -> Option<Self> {
        let terms = host.clients.as_ref()?;
        let by = Arc::clone(&terms.verifier);
        let shown = client.link.stream.server_tls()?.client_certificates();
        Some(Self { verdict: by.verify(shown), by })
    }
}

/// What came of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shaken {
    /// Requests may come.
    Open,
    /// It came to nothing.
    Failed,
    /// The client speaks plain HTTP, it seems, and can be told.
    PlainHttp,
}

/// Goes through the handshake; the client's timer is its deadline.
pub(crate) async fn run(worker: &Worker, client: &mut Client) -> Shaken {
    let limits = &worker.settings.limits;
    worker.metrics.downstream_tls_handshakes_open.increment();
    let _under_way = UnderWay(worker);
    if worker.metrics.downstream_tls_handshakes_open.value() > limits.handshakes_per_worker {
        let cause = "as many as limits.handshakes_per_worker allows are under way";
        fail(worker, client, &HandshakeError::new(HandshakeFailure::Limit, cause));
        return Shaken::Failed;
    }
    worker.clock.refresh();
    client.arm(worker, limits.handshake_time);
    let mut chosen = None;
    let outcome = poll_fn(|context| {
        let late = client.is_late(worker);
        let Some(tls) = client.link.stream.server_tls_mut() else { return Poll::Ready(Ok(())) };
        let mut choose = |hello: &Hello<'_>| choose(worker, hello, &mut chosen);
        match tls.poll_handshake(context, limits.client_hello_bytes, &mut choose) {
            Poll::Pending if late => {
                let cause = "limits.handshake_time is over";
                Poll::Ready(Err(HandshakeError::new(HandshakeFailure::Timeout, cause)))
            }
            polled => polled,
        }
    })
    .await;
    match (outcome, chosen) {
        (Ok(()), Some((name, host))) => {
            worker.metrics.downstream_tls_handshakes.increment();
            if client.link.stream.server_tls().is_some_and(|tls| tls.is_resumed()) {
                worker.metrics.downstream_tls_handshakes_resumed.increment();
            }
            let checked = Checked::new(&host, client);
            client.tls = Some(Rc::new(TlsPeer { name, checked }));
            Shaken::Open
        }
        (Ok(()), None) => Shaken::Failed,
        (Err(error), _) if error.failure == HandshakeFailure::NoTls => {
            fail(worker, client, &error);
            Shaken::PlainHttp
        }
        (Err(error), _) => {
            fail(worker, client, &error);
            Shaken::Failed
        }
    }
}

/// The terms of the host that a client means, which is remembered in `chosen`.
fn choose(
    worker: &Worker,
    hello: &Hello<'_>,
    chosen: &mut Option<(Box<str>, Arc<TlsHost>)>,
) -> Option<HostTerms> {
    // Nothing is chosen then: the connection is closed behind the handshake.
    if let Some(terms) = worker.snapshot.challenges().terms_for(hello) {
        return Some(terms);
    }
    let snapshot = worker.snapshot.take();
    let fallback = worker.settings.tls.fallback_sni.as_deref();
    let (name, host) = find(&snapshot.certificates, hello.server_name, fallback)?;
    *chosen = Some((name.into(), Arc::clone(host)));
    Some(host.terms.clone())
}

/// The host for the name that a client asks for, or else for the one that stands for its absence.
fn find<'c, 'n>(
    certificates: &'c Certificates,
    name: Option<&'n str>,
    fallback: Option<&'n str>,
) -> Option<(&'n str, &'c Arc<TlsHost>)> {
    match name.or(fallback) {
        Some(name) => certificates.find(name).map(|host| (name, host)),
        None => certificates.any().map(|host| ("", host)),
    }
}

#[cold]
fn fail(worker: &Worker, client: &Client, error: &HandshakeError) {
    worker.metrics.downstream_tls_handshakes_failed.increment(error.failure);
    worker.metrics.downstream_connections_refused.increment(ConnectionRefusal::TlsHandshake);
    worker.failures.report_handshake(client.peer.address, error);
}

/// Counts a handshake as under way until it is dropped, however it ends.
struct UnderWay<'w>(&'w Worker);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.metrics.downstream_tls_handshakes_open.decrement();
    }
}
