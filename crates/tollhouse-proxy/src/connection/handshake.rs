//! TLS handshakes of clients. Their time and the size of the ClientHello are bounded. Their number
//! is bounded from the complete ClientHello on; silent connections are counted separately
//! (`silence.rs`).

use std::cell::OnceCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;

use rustls_pki_types::CertificateDer;
use tollhouse_model::certificate::CertificateView;
use tollhouse_net::server_tls::stream::{HandshakeError, Refusal};
use tollhouse_net::server_tls::{ClientVerifier, Hello, HostTerms, ServerTls};
use tollhouse_stdx::duration::to_ms;
use tollhouse_telemetry::recent::ShortText;
use tollhouse_telemetry::{ConnectionRefusal, HandshakeFailure};

use super::carrier::Carrier;
use super::silence::Silence;
use crate::snapshot::certificates::{Certificates, TlsHost};
use crate::worker::Worker;

/// Facts about a client after its TLS handshake. HTTP/2 streams share those of their connection,
/// because they cannot reach its session.
#[derive(Debug)]
pub struct TlsPeer {
    /// Server name that selected the host, in lower case: the client's, or the fallback. Empty if
    /// neither is set.
    pub name: Box<str>,
    /// Whether the client sent a server name.
    pub is_named: bool,
    /// Host that served the name during the handshake, with the certificates that the client was
    /// offered.
    pub host: Arc<TlsHost>,
    /// TLS version as text, such as `TLSv1.3`.
    pub protocol: &'static str,
    /// Cipher suite, by its OpenSSL name.
    pub cipher: &'static str,
    /// Protocol agreed on by ALPN; empty if none.
    pub application_protocol: &'static str,
    /// Whether the client resumed a session with a ticket.
    pub is_resumed: bool,
    /// Client certificate chain, leaf first; empty if none was sent.
    pub certificates: Box<[CertificateDer<'static>]>,
    /// Verification of the client certificate; `None` if none was requested.
    pub checked: Option<Checked>,
    /// Subject and serial number of the client certificate, parsed on first use by the log.
    subject_and_serial: OnceCell<(String, String)>,
}

/// Verdict on a client certificate, and the verifier that gave it.
#[derive(Debug)]
pub struct Checked {
    pub by: Arc<ClientVerifier>,
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

    /// Returns the server name sent by the client; empty if none.
    pub fn server_name(&self) -> &str {
        if self.is_named { &self.name } else { "" }
    }

    /// Returns the subject and serial number of the client certificate; empty without one.
    pub fn subject_and_serial(&self) -> (&str, &str) {
        let Some(certificate) = self.certificates.first() else { return ("", "") };
        let (subject, serial) = self.subject_and_serial.get_or_init(|| {
            let view = CertificateView::parse(certificate);
            view.map(|view| (view.subject(), view.serial())).unwrap_or_default()
        });
        (subject, serial)
    }

    /// Returns the resumption as nginx writes it in `$ssl_session_reused`.
    pub fn resumption(&self) -> &'static str {
        if self.is_resumed { "r" } else { "." }
    }

    /// Returns the result of the verification as nginx writes it in `$ssl_client_verify`: `NONE`
    /// without a certificate, `SUCCESS`, or `FAILED:` with the reason.
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

#[derive(Debug)]
pub enum Shaken {
    Open(TlsPeer),
    /// The handshake failed, or only served an ACME challenge.
    Failed,
    /// The client seems to speak plain HTTP and can receive an error page.
    PlainHttp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carries {
    /// HTTP requests; their version is agreed on by ALPN.
    Requests,
    /// Bytes of any protocol, passed through to a node.
    Bytes,
}

/// Performs the server side of the TLS handshake on `stream`.
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
    let time_ms = to_ms(limits.handshake_time);
    timer.arm(worker.clock.refresh().saturating_add(time_ms));
    let mut chosen = None;
    // Kept for operators, if the handshake fails.
    let mut asked = ShortText::default();
    let outcome = poll_fn(|context| {
        timer.set_waker(context.waker());
        let late = timer.expired(worker.clock.now_ms());
        let Some(tls) = stream.server_tls_mut() else { return Poll::Ready(Ok(())) };
        let mut choose = |hello: &Hello<'_>| {
            silence = None;
            asked = ShortText::new(hello.server_name.unwrap_or_default().as_bytes());
            under_way = Some(UnderWay::begin(worker).ok_or(Refusal::Limit)?);
            choose(worker, hello, carries, &mut chosen).ok_or(Refusal::UnknownName)
        };
        match tls.poll_handshake(context, limits.client_hello_bytes, &mut choose) {
            // Checked after the poll, so that a handshake that completes at the deadline succeeds.
            Poll::Pending if late => {
                let cause = "limits.handshake_time has passed";
                Poll::Ready(Err(HandshakeError::new(HandshakeFailure::Timeout, cause)))
            }
            Poll::Pending if silence.as_ref().is_some_and(Silence::is_displaced) => {
                let cause = "silent connection, displaced by newer ones";
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
        // An authority has validated its ACME challenge and sends nothing else.
        (Ok(()), _, _) => Shaken::Failed,
        (Err(error), _, _) => {
            fail(worker, client, &error);
            let unix_ms = worker.clock.unix_ms();
            worker.metrics.failed_handshakes().note(error.failure, asked, unix_ms);
            match error.failure {
                HandshakeFailure::NoTls => Shaken::PlainHttp,
                _ => Shaken::Failed,
            }
        }
    }
}

/// Returns the TLS terms for the host that the client asks for. The name and host are stored in
/// `chosen`.
fn choose(
    worker: &Worker,
    hello: &Hello<'_>,
    carries: Carries,
    chosen: &mut Option<(Box<str>, Arc<TlsHost>)>,
) -> Option<HostTerms> {
    // `chosen` stays empty for a challenge, so that the connection closes after the handshake.
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

/// Returns the host for the client's server name or, without one, for the fallback name.
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

/// Counts a handshake as pending until the guard is dropped.
struct UnderWay<'w>(&'w Worker);

impl<'w> UnderWay<'w> {
    /// Counts one more handshake; returns `None` if `handshakes_per_worker` is exceeded.
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
