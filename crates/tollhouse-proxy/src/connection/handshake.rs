//! The handshake of a client's TLS: bounded in time and in what the client may say before anything is known of it,
//! and in number from the client's whole first message on; silent connections are counted apart (`silence.rs`).

use std::cell::OnceCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;

use rustls_pki_types::CertificateDer;
use tollhouse_model::certificate::CertificateView;
use tollhouse_net::server_tls::stream::{HandshakeError, Refusal};
use tollhouse_net::server_tls::{ClientVerifier, Hello, HostTerms, ServerTls};
use tollhouse_telemetry::{ConnectionRefusal, HandshakeFailure};

use super::carrier::Carrier;
use super::silence::Silence;
use crate::snapshot::certificates::{Certificates, TlsHost};
use crate::worker::Worker;

/// What is known of a client that has ended its handshake. Streams of HTTP/2 share that of their
/// connection, whose session none of them reaches.
#[derive(Debug)]
pub struct TlsPeer {
    /// The name that decided, lower-cased; empty where none was asked for, and none stands for that.
    pub name: Box<str>,
    /// Whether the client has asked for it.
    pub is_named: bool,
    /// What stood for the name then: the certificates that the client has seen one of.
    pub host: Arc<TlsHost>,
    /// The version, as `TLSv1.3`.
    pub protocol: &'static str,
    /// The cipher suite, by OpenSSL's name for it.
    pub cipher: &'static str,
    /// What was agreed on by ALPN; empty is nothing.
    pub application_protocol: &'static str,
    /// Whether it came back with a ticket.
    pub is_resumed: bool,
    /// What it has shown, its own certificate first.
    pub certificates: Box<[CertificateDer<'static>]>,
    /// What its certificate was checked by, and what came of that; nothing where none was asked for.
    pub checked: Option<Checked>,
    /// Subject and serial number of its certificate, taken out of it when the log first asks.
    subject_and_serial: OnceCell<(String, String)>,
}

/// What became of a client's certificate.
#[derive(Debug)]
pub struct Checked {
    /// Who has checked it.
    pub by: Arc<ClientVerifier>,
    /// Whether it is good.
    pub verdict: Result<(), HandshakeFailure>,
}

impl TlsPeer {
    fn new(name: Box<str>, host: Arc<TlsHost>, tls: &ServerTls) -> Self {
        let certificates: Box<[_]> = tls.client_certificates().into();
        let checked = host.clients.as_ref().map(|terms| {
            let by = Arc::clone(&terms.verifier);
            Checked { verdict: by.verify(&certificates), by }
        });
        Self {
            name,
            is_named: tls.server_name().is_some(),
            host,
            protocol: tls.protocol().unwrap_or_default(),
            cipher: tls.cipher().unwrap_or_default(),
            application_protocol: match tls.application_protocol() {
                Some(b"h2") => "h2",
                Some(b"http/1.1") => "http/1.1",
                _ => "",
            },
            is_resumed: tls.is_resumed(),
            certificates,
            checked,
            subject_and_serial: OnceCell::new(),
        }
    }

    /// The name that the client has asked for; empty is none.
    pub fn server_name(&self) -> &str {
        if self.is_named { &self.name } else { "" }
    }

    /// Whose certificate the client has shown, and its number; empty without one.
    pub fn subject_and_serial(&self) -> (&str, &str) {
        let Some(certificate) = self.certificates.first() else { return ("", "") };
        let (subject, serial) = self.subject_and_serial.get_or_init(|| {
            let view = CertificateView::parse(certificate);
            view.map(|view| (view.subject(), view.serial())).unwrap_or_default()
        });
        (subject, serial)
    }

    /// What became of the client's certificate, in nginx's words: `NONE` without one, `SUCCESS`, or
    /// `FAILED:` with the reason.
    pub fn verdict(&self) -> &'static str {
        let Some(checked) = &self.checked else { return "NONE" };
        match checked.verdict {
            Ok(()) => "SUCCESS",
            Err(HandshakeFailure::ClientCertificateMissing) => "NONE",
            Err(HandshakeFailure::ClientCertificateExpired) => "FAILED:certificate has expired",
            Err(HandshakeFailure::ClientCertificateUntrusted) => {
                "FAILED:unable to get local issuer certificate"
            }
            Err(HandshakeFailure::ClientCertificateTooDeep) => "FAILED:certificate chain too long",
            Err(_) => "FAILED:certificate rejected",
        }
    }
}

/// What came of a handshake.
#[derive(Debug)]
pub enum Shaken {
    /// What follows may come.
    Open(TlsPeer),
    /// It came to nothing.
    Failed,
    /// The client speaks plain HTTP, it seems, and can be told.
    PlainHttp,
}

/// What follows behind a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carries {
    /// Requests of HTTP, whose versions are agreed on by ALPN.
    Requests,
    /// Whatever client and node speak.
    Bytes,
}

/// Goes through the handshake that `client` begins on `stream`.
pub(crate) async fn run(
    worker: &Worker,
    stream: &mut Carrier,
    client: SocketAddr,
    carries: Carries,
) -> Shaken {
    let limits = &worker.settings.limits;
    let task = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
    let mut silence = Some(Silence::begin(worker, client.ip(), task));
    let mut under_way = None;
    let timer = worker.wheel.timer();
    let time_ms = u64::try_from(limits.handshake_time.as_millis()).unwrap_or(u64::MAX);
    timer.arm(worker.clock.refresh().saturating_add(time_ms));
    let mut chosen = None;
    let outcome = poll_fn(|context| {
        timer.set_waker(context.waker());
        let late = timer.expired(worker.clock.now_ms());
        let Some(tls) = stream.server_tls_mut() else { return Poll::Ready(Ok(())) };
        let mut choose = |hello: &Hello<'_>| {
            silence = None;
            under_way = Some(UnderWay::begin(worker).ok_or(Refusal::Limit)?);
            choose(worker, hello, carries, &mut chosen).ok_or(Refusal::UnknownName)
        };
        match tls.poll_handshake(context, limits.client_hello_bytes, &mut choose) {
            // A handshake that ends with the last bytes in time is none that is late.
            Poll::Pending if late => {
                let cause = "limits.handshake_time is over";
                Poll::Ready(Err(HandshakeError::new(HandshakeFailure::Timeout, cause)))
            }
            Poll::Pending if silence.as_ref().is_some_and(Silence::is_displaced) => {
                let cause = "it was silent, and newer connections took its place";
                Poll::Ready(Err(HandshakeError::new(HandshakeFailure::Silent, cause)))
            }
            polled => polled,
        }
    })
    .await;
    match (outcome, chosen, stream.server_tls()) {
        (Ok(()), Some((name, host)), Some(tls)) => {
            worker.metrics.downstream_tls_handshakes.increment();
            if tls.is_resumed() {
                worker.metrics.downstream_tls_handshakes_resumed.increment();
            }
            Shaken::Open(TlsPeer::new(name, host, tls))
        }
        // An authority has looked at its challenge, and asks for nothing else.
        (Ok(()), _, _) => Shaken::Failed,
        (Err(error), _, _) => {
            fail(worker, client, &error);
            match error.failure {
                HandshakeFailure::NoTls => Shaken::PlainHttp,
                _ => Shaken::Failed,
            }
        }
    }
}

/// The terms of the host that a client means, which is remembered in `chosen`.
fn choose(
    worker: &Worker,
    hello: &Hello<'_>,
    carries: Carries,
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
    Some(match carries {
        Carries::Requests => host.terms.clone(),
        Carries::Bytes => host.terms.without_protocols(),
    })
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
fn fail(worker: &Worker, client: SocketAddr, error: &HandshakeError) {
    worker.metrics.downstream_tls_handshakes_failed.increment(error.failure);
    worker.metrics.downstream_connections_refused.increment(ConnectionRefusal::TlsHandshake);
    worker.failures.report_handshake(client, error);
}

/// Counts a handshake as under way until it is dropped, however it ends.
struct UnderWay<'w>(&'w Worker);

impl<'w> UnderWay<'w> {
    /// Counts one more, unless as many as allowed are under way.
    fn begin(worker: &'w Worker) -> Option<Self> {
        let open = &worker.metrics.downstream_tls_handshakes_open;
        open.increment();
        let begun = Self(worker);
        (open.value() <= worker.settings.limits.handshakes_per_worker).then_some(begun)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.metrics.downstream_tls_handshakes_open.decrement();
    }
}
