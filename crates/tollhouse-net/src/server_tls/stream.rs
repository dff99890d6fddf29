//! TLS stream opened by a client: the handshake and the data after it, polled by the task that owns
//! the stream.
//!
//! All streams of a thread share one read buffer, and written data is sent at once in a single
//! call, even if it takes several records. An idle stream therefore holds only its session and 4
//! KiB that the session layer keeps for the next record.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::server::{Accepted, AcceptedAlert, Acceptor};
use rustls::{AlertDescription, ProtocolVersion, ServerConnection};
use rustls_pki_types::CertificateDer;
use tokio::net::TcpStream;
use tollhouse_telemetry::HandshakeFailure;

use super::HostTerms;
use super::alert;
use super::failure::failure_of;
use crate::stream::{receive, send, send_parts, shut_down};

/// Ciphertext read per call: two full records, which halves the calls for a fast sender.
const READ_BYTES: usize = 32 * 1024;

/// Plaintext that may wait in a session before more ciphertext is passed to it: one record. The
/// session layer refuses more.
const PLAINTEXT_WAITING_MAX: usize = 16 * 1024;

/// Ciphertext in bytes that a session may hold for a client that does not read.
const HELD_BYTES_MAX: usize = 64 * 1024;

/// Content type of a handshake record, the first byte of a TLS connection (RFC 8446 §5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// First bytes of a connection up to the client's version: record header, message header, version.
const HELLO_HEAD_BYTES: usize = 11;

thread_local! {
    static READ_ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// TLS stream of a client's connection to the gateway.
#[derive(Debug)]
pub struct ServerTls {
    tcp: Arc<TcpStream>,
    session: Session,
    /// Bytes read but not passed to the session: everything before the end of the ClientHello,
    /// later ciphertext that must wait until earlier plaintext is fetched. Empty except for fast
    /// senders.
    waiting: Vec<u8>,
    has_said_end: bool,
}

enum Session {
    /// The ClientHello is incomplete.
    Hello { acceptor: Acceptor, received: usize, head: HelloHead },
    /// The handshake continues or has ended.
    Open(ServerConnection),
    /// The client does not speak TLS: bytes are passed unencrypted, for an error response.
    Plain,
}

/// First `HELLO_HEAD_BYTES` bytes of a connection.
#[derive(Default)]
struct HelloHead([u8; HELLO_HEAD_BYTES]);

impl HelloHead {
    /// Stores bytes that arrived after the first `received`.
    fn take(&mut self, received: usize, bytes: &[u8]) {
        for (place, byte) in self.0.iter_mut().skip(received).zip(bytes) {
            *place = *byte;
        }
    }

    /// Returns the length of the whole message from its header; 0 if the first record does not
    /// contain the header.
    fn message_bytes(&self) -> usize {
        let [_, _, _, high, low, _, length @ .., _, _] = self.0;
        match u16::from_be_bytes([high, low]) {
            0..4 => 0,
            _ => 4 + length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
        }
    }

    /// Refuses a message whose announced length exceeds the limit. Errors of sending the alert are
    /// ignored, because the client may not read it.
    fn refuse_length(&self, socket: &mut Socket<'_, '_>) -> HandshakeError {
        let _ = socket.write(&alert::record(AlertDescription::IllegalParameter));
        let cause = format!("announced length of {} bytes", self.message_bytes());
        HandshakeError::new(HandshakeFailure::HelloTooLong, cause)
    }

    /// Refuses a message that the session layer cannot process, with its alert or a more precise
    /// one.
    fn refuse(
        &self,
        error: &rustls::Error,
        mut alert: AcceptedAlert,
        socket: &mut Socket<'_, '_>,
    ) -> HandshakeError {
        // Errors of sending the alert are ignored.
        let failure = if self.is_older_than_tls_1_2() {
            let _ = socket.write(&alert::record(AlertDescription::ProtocolVersion));
            HandshakeFailure::Version
        } else {
            let _ = alert.write(socket);
            failure_of(error)
        };
        HandshakeError::new(failure, error.to_string())
    }

    /// Whether the client offers only TLS 1.1 or older (RFC 8446 §4.1.2).
    fn is_older_than_tls_1_2(&self) -> bool {
        let [.., major, minor] = self.0;
        (1..0x0303).contains(&u16::from_be_bytes([major, minor]))
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Session::Hello { .. } => "Hello",
            Session::Open(_) => "Open",
            Session::Plain => "Plain",
        })
    }
}

/// Properties of a ClientHello that select the host.
#[derive(Debug, Clone, Copy)]
pub struct Hello<'a> {
    /// Server name (SNI) in lower case, without a final dot.
    pub server_name: Option<&'a str>,
    /// The ALPN protocol, if the client offers exactly one.
    pub only_protocol: Option<&'a [u8]>,
}

/// Why no terms are given for a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No host has the server name.
    UnknownName,
    /// The limit of concurrent handshakes is reached.
    Limit,
}

#[derive(Debug)]
pub struct HandshakeError {
    /// Class of the failure; its name in logs and metrics does not change between releases.
    pub failure: HandshakeFailure,
    /// Message of the session layer or the operating system.
    pub cause: String,
}

impl HandshakeError {
    pub fn new(failure: HandshakeFailure, cause: impl Into<String>) -> Self {
        Self { failure, cause: cause.into() }
    }

    fn gone(cause: &io::Error) -> Self {
        Self::new(HandshakeFailure::ClientGone, cause.to_string())
    }
}

impl ServerTls {
    /// Wraps an accepted connection, whose handshake has not begun.
    pub fn new(tcp: impl Into<Arc<TcpStream>>) -> Self {
        let (acceptor, head) = (Acceptor::default(), HelloHead::default());
        let session = Session::Hello { acceptor, received: 0, head };
        Self { tcp: tcp.into(), session, waiting: Vec::new(), has_said_end: false }
    }

    /// Wraps a connection of which bytes were read already.
    pub fn behind(tcp: Arc<TcpStream>, received: Vec<u8>) -> Self {
        Self { waiting: received, ..Self::new(tcp) }
    }

    /// Continues the handshake. `choose` is called once, with the complete ClientHello, for the
    /// terms of the requested host; an unknown name is refused with the alert `unrecognized_name`.
    /// The ClientHello may have `hello_bytes_max` bytes, including everything received with it.
    ///
    /// # Errors
    /// If the handshake fails. An alert has been sent if possible.
    pub fn poll_handshake(
        &mut self,
        context: &mut Context<'_>,
        hello_bytes_max: usize,
        choose: &mut dyn FnMut(&Hello<'_>) -> Result<HostTerms, Refusal>,
    ) -> Poll<Result<(), HandshakeError>> {
        loop {
            match &mut self.session {
                Session::Hello { .. } => {
                    let accepted = ready!(self.poll_hello(context, hello_bytes_max))?;
                    self.accept(context, accepted, choose)?;
                }
                Session::Open(session) => {
                    // Pending output is sent first, because the client may be waiting for it.
                    let (wants_write, goes_on) = (session.wants_write(), session.is_handshaking());
                    if wants_write {
                        let sent = ready!(self.poll_send(context));
                        sent.map_err(|error| HandshakeError::gone(&error))?;
                    } else if !goes_on {
                        return Poll::Ready(Ok(()));
                    } else if !ready!(self.poll_receive(context)).map_err(handshake_error)? {
                        let cause = "the client closed the connection";
                        let error = HandshakeError::new(HandshakeFailure::ClientGone, cause);
                        return Poll::Ready(Err(error));
                    }
                }
                Session::Plain => {
                    let error = HandshakeError::new(HandshakeFailure::NoTls, "not TLS");
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    /// Reads until the ClientHello is complete.
    fn poll_hello(
        &mut self,
        context: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Accepted, HandshakeError>> {
        READ_ROOM.with_borrow_mut(|room| {
            loop {
                let received_before = std::mem::take(&mut self.waiting);
                let mut read = 0;
                if received_before.is_empty() {
                    read = ready!(receive(&self.tcp, context, room))
                        .map_err(|error| HandshakeError::gone(&error))?;
                }
                let mut bytes = match received_before.as_slice() {
                    [] => &room[..read],
                    before => before,
                };
                let Session::Hello { acceptor, received, head } = &mut self.session else {
                    let error = HandshakeError::new(HandshakeFailure::Broken, "out of turn");
                    return Poll::Ready(Err(error));
                };
                let Some(first) = bytes.first() else {
                    let cause = "the client closed the connection";
                    let error = HandshakeError::new(HandshakeFailure::ClientGone, cause);
                    return Poll::Ready(Err(error));
                };
                if *received == 0 && *first != HANDSHAKE_RECORD {
                    let cause = format!("its first byte is {first:#04x}");
                    self.session = Session::Plain;
                    let error = HandshakeError::new(HandshakeFailure::NoTls, cause);
                    return Poll::Ready(Err(error));
                }
                head.take(*received, bytes);
                *received += bytes.len();
                if *received >= HELLO_HEAD_BYTES && head.message_bytes() > bytes_max {
                    let mut socket = Socket { tcp: &self.tcp, context };
                    return Poll::Ready(Err(head.refuse_length(&mut socket)));
                }
                let is_too_long = *received > bytes_max;
                while !bytes.is_empty() {
                    let taken = acceptor.read_tls(&mut bytes);
                    let accepted = match taken {
                        Ok(_) => acceptor.accept(),
                        Err(error) => {
                            let failure = HandshakeFailure::HelloTooLong;
                            let error = HandshakeError::new(failure, error.to_string());
                            return Poll::Ready(Err(error));
                        }
                    };
                    match accepted {
                        Ok(None) => {}
                        Ok(Some(accepted)) => {
                            self.waiting = bytes.to_vec();
                            return Poll::Ready(Ok(accepted));
                        }
                        Err((error, alert)) => {
                            let mut socket = Socket { tcp: &self.tcp, context };
                            let error = head.refuse(&error, alert, &mut socket);
                            return Poll::Ready(Err(error));
                        }
                    }
                }
                if is_too_long {
                    let cause = format!("longer than {bytes_max} bytes");
                    let error = HandshakeError::new(HandshakeFailure::HelloTooLong, cause);
                    return Poll::Ready(Err(error));
                }
            }
        })
    }

    /// Starts the session with the terms of the requested host.
    fn accept(
        &mut self,
        context: &mut Context<'_>,
        accepted: Accepted,
        choose: &mut dyn FnMut(&Hello<'_>) -> Result<HostTerms, Refusal>,
    ) -> Result<(), HandshakeError> {
        let hello = accepted.client_hello();
        let name = hello.server_name().map(plain_name);
        let only_protocol = hello.alpn().and_then(|mut offered| {
            let first = offered.next();
            first.filter(|_| offered.next().is_none())
        });
        let terms = choose(&Hello { server_name: name.as_deref(), only_protocol });
        let mut socket = Socket { tcp: &self.tcp, context };
        let terms = match terms {
            Ok(terms) => terms,
            Err(Refusal::Limit) => {
                let cause = "limits.handshakes_per_worker is reached";
                return Err(HandshakeError::new(HandshakeFailure::Limit, cause));
            }
            Err(Refusal::UnknownName) => {
                // Errors of sending the alert are ignored.
                let _ = socket.write(&alert::record(AlertDescription::UnrecognisedName));
                let cause = match name {
                    Some(name) => format!("unknown server name {name:?}"),
                    None => "the client sent no server name".to_owned(),
                };
                return Err(HandshakeError::new(HandshakeFailure::NoCertificate, cause));
            }
        };
        match accepted.into_connection(terms.config) {
            Ok(mut session) => {
                session.set_buffer_limit(Some(HELD_BYTES_MAX));
                let processed = session.process_new_packets().map(drop);
                self.session = Session::Open(session);
                processed.map_err(|error| {
                    self.send_alert(context, &error);
                    HandshakeError::new(failure_of(&error), error.to_string())
                })
            }
            Err((error, mut alert)) => {
                // Errors of sending the alert are ignored.
                let _ = match alert::instead(&error, None) {
                    Some(own) => socket.write(&own),
                    None => alert.write(&mut socket),
                };
                Err(HandshakeError::new(failure_of(&error), error.to_string()))
            }
        }
    }

    /// Reads bytes of the client into the session; `false` at the end of its stream.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if !self.waiting.is_empty() {
            let waiting = std::mem::take(&mut self.waiting);
            return Poll::Ready(self.feed(context, &waiting).map(|()| true));
        }
        READ_ROOM.with_borrow_mut(|room| {
            let read = ready!(receive(&self.tcp, context, room))?;
            if read == 0 {
                if let Session::Open(session) = &mut self.session {
                    session.read_tls(&mut io::empty())?;
                }
                return Poll::Ready(Ok(false));
            }
            Poll::Ready(self.feed(context, &room[..read]).map(|()| true))
        })
    }

    fn feed(&mut self, context: &mut Context<'_>, mut bytes: &[u8]) -> io::Result<()> {
        let Session::Open(session) = &mut self.session else { return Ok(()) };
        while !bytes.is_empty() {
            // Bytes after the client's close_notify are ignored.
            if session.read_tls(&mut bytes)? == 0 {
                return Ok(());
            }
            match session.process_new_packets() {
                Ok(state) if state.plaintext_bytes_to_read() >= PLAINTEXT_WAITING_MAX => {
                    self.waiting = bytes.to_vec();
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) => {
                    self.send_alert(context, &error);
                    return Err(io::Error::new(ErrorKind::InvalidData, error));
                }
            }
        }
        Ok(())
    }

    /// Sends the alert for a failed handshake or session; errors are ignored.
    fn send_alert(&mut self, context: &mut Context<'_>, error: &rustls::Error) {
        if let Session::Open(session) = &mut self.session
            && let Some(own) = alert::instead(error, session.protocol_version())
        {
            while session.wants_write() && session.write_tls(&mut io::sink()).is_ok() {}
            let _ = Socket { tcp: &self.tcp, context }.write(&own);
            return;
        }
        let _ = self.poll_send(context);
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Session::Open(session) = &mut self.session else { return Poll::Ready(Ok(())) };
        while session.wants_write() {
            match session.write_tls(&mut Socket { tcp: &self.tcp, context }) {
                Ok(0) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads decrypted bytes, as [`Stream::poll_read`](crate::Stream::poll_read) does.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match &mut self.session {
                Session::Open(session) => match session.reader().read(buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    // The stream ended without close_notify; the framing of the message tells
                    // whether it is truncated.
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                        return Poll::Ready(Ok(0));
                    }
                    read => return Poll::Ready(read),
                },
                Session::Plain => return receive(&self.tcp, context, buffer),
                Session::Hello { .. } => return Poll::Ready(Ok(0)),
            }
            ready!(self.poll_receive(context))?;
            // Replies of the TLS protocol, for example to a key update. If they cannot be sent now,
            // they leave with the next write.
            if let Poll::Ready(sent) = self.poll_send(context) {
                sent?;
            }
        }
    }

    /// Like [`Stream::poll_write`](crate::Stream::poll_write). Accepted bytes may not have left
    /// yet; [`Self::poll_flush`] waits for that.
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // Earlier bytes are sent first, so that a slow client has at most one buffer.
        ready!(self.poll_send(context))?;
        let taken = match &mut self.session {
            Session::Open(session) => session.writer().write_vectored(parts)?,
            Session::Plain => return send_parts(&self.tcp, context, parts),
            Session::Hello { .. } => return Poll::Ready(Err(ErrorKind::NotConnected.into())),
        };
        if let Poll::Ready(sent) = self.poll_send(context) {
            sent?;
        }
        Poll::Ready(Ok(taken))
    }

    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(context)
    }

    /// Sends close_notify, which distinguishes an orderly end from a truncation, and shuts down the
    /// write direction.
    pub(crate) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.say_end();
        ready!(self.poll_send(context))?;
        Poll::Ready(shut_down(&self.tcp))
    }

    /// Sends close_notify if that is possible without waiting.
    pub(crate) fn try_say_end(&mut self, context: &mut Context<'_>) {
        self.say_end();
        // A client that does not read misses it, which is harmless.
        let _ = self.poll_send(context);
    }

    fn say_end(&mut self) {
        if let Session::Open(session) = &mut self.session
            && !std::mem::replace(&mut self.has_said_end, true)
        {
            session.send_close_notify();
        }
    }

    pub(crate) fn tcp(&self) -> &Arc<TcpStream> {
        &self.tcp
    }

    fn session(&self) -> Option<&ServerConnection> {
        match &self.session {
            Session::Open(session) => Some(session),
            Session::Hello { .. } | Session::Plain => None,
        }
    }

    /// Whether the stream is encrypted; `false` if the client turned out not to speak TLS.
    pub fn is_encrypted(&self) -> bool {
        !matches!(self.session, Session::Plain)
    }

    /// Returns the TLS version as nginx writes it: `TLSv1.3`.
    pub fn protocol(&self) -> Option<&'static str> {
        match self.session()?.protocol_version()? {
            ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
            ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
            _ => None,
        }
    }

    /// Returns the cipher suite by its OpenSSL name: `ECDHE-RSA-AES128-GCM-SHA256`.
    pub fn cipher(&self) -> Option<&'static str> {
        cipher_name(self.session()?.negotiated_cipher_suite()?.suite())
    }

    /// Returns the server name (SNI) sent by the client.
    pub fn server_name(&self) -> Option<&str> {
        self.session()?.server_name()
    }

    pub fn application_protocol(&self) -> Option<&[u8]> {
        self.session()?.alpn_protocol()
    }

    /// Whether the client resumed a session with a ticket.
    pub fn is_resumed(&self) -> bool {
        let kind = self.session().and_then(|session| session.handshake_kind());
        kind == Some(rustls::HandshakeKind::Resumed)
    }

    /// Returns the client certificate chain, leaf first; empty if none was sent.
    pub fn client_certificates(&self) -> &[CertificateDer<'static>] {
        self.session().and_then(|session| session.peer_certificates()).unwrap_or_default()
    }
}

/// Returns the name used in lower case, without a final dot.
fn plain_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn handshake_error(error: io::Error) -> HandshakeError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let failure = inner.map_or(HandshakeFailure::ClientGone, failure_of);
    HandshakeError::new(failure, error.to_string())
}

fn cipher_name(suite: rustls::CipherSuite) -> Option<&'static str> {
    use rustls::CipherSuite as Suite;
    Some(match suite {
        Suite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        Suite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        Suite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        Suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        Suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        Suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        Suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        other => return other.as_str(),
    })
}

/// The socket for the session layer; writes never wait.
struct Socket<'a, 'c> {
    tcp: &'a TcpStream,
    context: &'a mut Context<'c>,
}

impl Write for Socket<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        now(send(self.tcp, self.context, bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // A plain send costs the kernel less than a vectored one.
        match parts {
            [part] => self.write(part),
            _ => now(send_parts(self.tcp, self.context, parts)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn now(written: Poll<io::Result<usize>>) -> io::Result<usize> {
    match written {
        Poll::Ready(written) => written,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}
