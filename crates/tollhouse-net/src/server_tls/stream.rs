//! A TLS stream that a client has opened: the handshake and the bytes after it, polled by the task
//! that owns it.
//!
//! What is read goes through a buffer that all streams of a thread share, and what is written leaves
//! at once in one call, however many records it takes: a stream that idles holds its session and
//! what the session layer keeps for the start of the next record, 4 KiB.

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

/// Ciphertext read at a time: two whole records, so that a fast sender costs half the calls.
const READ_BYTES: usize = 32 * 1024;

/// Plaintext that may wait in a session before no more ciphertext is given to it: one record. The
/// session layer refuses more beyond that.
const PLAINTEXT_WAITING_MAX: usize = 16 * 1024;

/// Plaintext whose ciphertext may wait in a session for a client that does not read.
const HELD_BYTES_MAX: usize = 64 * 1024;

/// What a TLS connection begins with: the record of a handshake (RFC 8446 §5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// Bytes of a connection up to the version that a client speaks: head of the record, head of the message, version.
const HELLO_HEAD_BYTES: usize = 11;

thread_local! {
    static READ_ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// A client's stream.
#[derive(Debug)]
pub struct ServerTls {
    tcp: Arc<TcpStream>,
    session: Session,
    /// What was read and has not been given to the session: before its first message all of it, later
    /// ciphertext whose turn comes once the plaintext before it has been fetched; empty but for fast
    /// senders.
    waiting: Vec<u8>,
    has_said_end: bool,
}

enum Session {
    /// The client's first message is on its way.
    Hello { acceptor: Acceptor, received: usize, head: HelloHead },
    /// The handshake goes on, or has ended.
    Open(ServerConnection),
    /// The client does not speak TLS: bytes pass as they are, for an answer that says so.
    Plain,
}

/// First bytes of a connection.
#[derive(Default)]
struct HelloHead([u8; HELLO_HEAD_BYTES]);

impl HelloHead {
    /// Takes in bytes that arrived behind the first `received`.
    fn take(&mut self, received: usize, bytes: &[u8]) {
        for (place, byte) in self.0.iter_mut().skip(received).zip(bytes) {
            *place = *byte;
        }
    }

    /// Bytes of the whole message, as its head says; 0 where the first record does not hold that head.
    fn message_bytes(&self) -> usize {
        let [_, _, _, high, low, _, length @ .., _, _] = self.0;
        match u16::from_be_bytes([high, low]) {
            0..4 => 0,
            _ => 4 + length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
        }
    }

    /// Refuses a message that announces too many bytes. A client that has sent nonsense may not read the alert; nothing
    /// depends on it.
    fn refuse_length(&self, socket: &mut Socket<'_, '_>) -> HandshakeError {
        let _ = socket.write(&alert::record(AlertDescription::IllegalParameter));
        let cause = format!("it announces {} bytes", self.message_bytes());
        HandshakeError::new(HandshakeFailure::HelloTooLong, cause)
    }

    /// Refuses a message that the session layer cannot take, with its alert or a better one.
    fn refuse(
        &self,
        error: &rustls::Error,
        mut alert: AcceptedAlert,
        socket: &mut Socket<'_, '_>,
    ) -> HandshakeError {
        // As above.
        let failure = if self.is_older_than_tls_1_2() {
            let _ = socket.write(&alert::record(AlertDescription::ProtocolVersion));
            HandshakeFailure::Version
        } else {
            let _ = alert.write(socket);
            failure_of(error)
        };
        HandshakeError::new(failure, error.to_string())
    }

    /// Whether the client speaks TLS 1.1 or older (RFC 8446 §4.1.2).
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

/// What a client says first, as far as it decides who answers.
#[derive(Debug, Clone, Copy)]
pub struct Hello<'a> {
    /// The name that it asks for (SNI), lower-cased, without an ending dot.
    pub server_name: Option<&'a str>,
    /// The only application protocol that it offers.
    pub only_protocol: Option<&'a [u8]>,
}

/// Why the terms of a host are not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No host has that name.
    UnknownName,
    /// As many handshakes as allowed are under way.
    Limit,
}

/// How a handshake came to nothing.
#[derive(Debug)]
pub struct HandshakeError {
    /// Its stable word.
    pub failure: HandshakeFailure,
    /// What the session layer or the system says.
    pub cause: String,
}

impl HandshakeError {
    /// With what the session layer or the system says.
    pub fn new(failure: HandshakeFailure, cause: impl Into<String>) -> Self {
        Self { failure, cause: cause.into() }
    }

    fn gone(cause: &io::Error) -> Self {
        Self::new(HandshakeFailure::ClientGone, cause.to_string())
    }
}

impl ServerTls {
    /// A connection just accepted.
    pub fn new(tcp: impl Into<Arc<TcpStream>>) -> Self {
        let (acceptor, head) = (Acceptor::default(), HelloHead::default());
        let session = Session::Hello { acceptor, received: 0, head };
        Self { tcp: tcp.into(), session, waiting: Vec::new(), has_said_end: false }
    }

    /// The same where something of what the client says has been read already.
    pub fn behind(tcp: Arc<TcpStream>, received: Vec<u8>) -> Self {
        Self { waiting: received, ..Self::new(tcp) }
    }

    /// Goes on with the handshake. `choose` is asked once, with the client's whole first message, for the terms of
    /// the host that it means; an unknown name is refused with the alert `unrecognized_name`. That message may be `hello_bytes_max` long, with everything that came along.
    ///
    /// # Errors
    /// The handshake has come to nothing. An alert has been sent where one could be.
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
                    // What is to be sent goes first: the client may be waiting for it, and says nothing until then.
                    let (wants_write, goes_on) = (session.wants_write(), session.is_handshaking());
                    if wants_write {
                        let sent = ready!(self.poll_send(context));
                        sent.map_err(|error| HandshakeError::gone(&error))?;
                    } else if !goes_on {
                        return Poll::Ready(Ok(()));
                    } else if !ready!(self.poll_receive(context)).map_err(handshake_error)? {
                        let cause = "it closed the connection";
                        let error = HandshakeError::new(HandshakeFailure::ClientGone, cause);
                        return Poll::Ready(Err(error));
                    }
                }
                Session::Plain => {
                    let error = HandshakeError::new(HandshakeFailure::NoTls, "its first byte");
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    /// Reads until the client's first message is whole.
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
                    let cause = "it closed the connection";
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
                    let cause = format!("more than {bytes_max} bytes, and not at its end");
                    let error = HandshakeError::new(HandshakeFailure::HelloTooLong, cause);
                    return Poll::Ready(Err(error));
                }
            }
        })
    }

    /// Begins the session on the terms of the host that the client means.
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
                let cause = "as many as limits.handshakes_per_worker allows are under way";
                return Err(HandshakeError::new(HandshakeFailure::Limit, cause));
            }
            Err(Refusal::UnknownName) => {
                // As above.
                let _ = socket.write(&alert::record(AlertDescription::UnrecognisedName));
                let cause = match name {
                    Some(name) => format!("it asks for {name:?}"),
                    None => "it names no host".to_owned(),
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
                // A client that is gone does not want to know.
                let _ = match alert::instead(&error, None) {
                    Some(own) => socket.write(&own),
                    None => alert.write(&mut socket),
                };
                Err(HandshakeError::new(failure_of(&error), error.to_string()))
            }
        }
    }

    /// Takes in what the client has sent; `false` at the end of its stream.
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
            // What comes behind the client's farewell is nothing.
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

    /// Tells the client why the handshake, or the session, ends. A client that is gone does not want to know.
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

    /// Sends what the session holds.
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

    /// As [`Stream::poll_read`](crate::Stream::poll_read).
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match &mut self.session {
                Session::Open(session) => match session.reader().read(buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    // Without a farewell: whether that cuts a message off, its framing says.
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                        return Poll::Ready(Ok(0));
                    }
                    read => return Poll::Ready(read),
                },
                Session::Plain => return receive(&self.tcp, context, buffer),
                Session::Hello { .. } => return Poll::Ready(Ok(0)),
            }
            ready!(self.poll_receive(context))?;
            // Answers of the protocol itself, to an update of keys for instance; one that finds no
            // room goes out with whatever is written next.
            if let Poll::Ready(sent) = self.poll_send(context) {
                sent?;
            }
        }
    }

    /// As [`Stream::poll_write`](crate::Stream::poll_write). What is taken is on its way, though
    /// perhaps not all of it has left: [`Self::poll_flush`] waits for that.
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // What was taken before goes first, so that a slow client has no more than one buffer.
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

    /// Says the farewell, which tells an end from a stream that was cut, and ends our direction.
    pub(crate) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.say_end();
        ready!(self.poll_send(context))?;
        Poll::Ready(shut_down(&self.tcp))
    }

    /// Says the farewell if there is room for it now.
    pub(crate) fn try_say_end(&mut self, context: &mut Context<'_>) {
        self.say_end();
        // Whoever does not read does not learn of it.
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

    /// Whether what passes is encrypted: not where the client has turned out not to speak TLS.
    pub fn is_encrypted(&self) -> bool {
        !matches!(self.session, Session::Plain)
    }

    /// The version, as web servers write it: `TLSv1.3`.
    pub fn protocol(&self) -> Option<&'static str> {
        match self.session()?.protocol_version()? {
            ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
            ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
            _ => None,
        }
    }

    /// The cipher suite under the name that OpenSSL gives it: `ECDHE-RSA-AES128-GCM-SHA256`.
    pub fn cipher(&self) -> Option<&'static str> {
        cipher_name(self.session()?.negotiated_cipher_suite()?.suite())
    }

    /// The name that the client has asked for.
    pub fn server_name(&self) -> Option<&str> {
        self.session()?.server_name()
    }

    /// The application protocol agreed on.
    pub fn application_protocol(&self) -> Option<&[u8]> {
        self.session()?.alpn_protocol()
    }

    /// Whether the client came back with a ticket.
    pub fn is_resumed(&self) -> bool {
        let kind = self.session().and_then(|session| session.handshake_kind());
        kind == Some(rustls::HandshakeKind::Resumed)
    }

    /// What the client has shown, its own certificate first; empty when it has shown none.
    pub fn client_certificates(&self) -> &[CertificateDer<'static>] {
        self.session().and_then(|session| session.peer_certificates()).unwrap_or_default()
    }
}

/// Lower-cased, without the dot that may end it.
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

/// The socket as the session layer writes to it: at once, or not at all.
struct Socket<'a, 'c> {
    tcp: &'a TcpStream,
    context: &'a mut Context<'c>,
}

impl Write for Socket<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        now(send(self.tcp, self.context, bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // A plain send costs the kernel less than a vector of one.
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
