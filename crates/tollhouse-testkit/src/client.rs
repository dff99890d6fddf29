//! Test client that sends exactly the given bytes and reads whole responses.

use std::net::{SocketAddr, TcpStream};

use crate::message::{Message, Side};
use crate::wire::Wire;

/// Client connection over which a test writes and reads raw bytes.
#[derive(Debug)]
pub struct RawClient {
    pub wire: Wire,
}

impl RawClient {
    /// Connects to an address.
    ///
    /// # Panics
    ///
    /// If the connection is refused.
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).expect("a server listens at the address"))
    }

    /// Wraps an open connection.
    ///
    /// # Panics
    ///
    /// If the socket is broken.
    pub fn over(stream: TcpStream) -> Self {
        Self { wire: Wire::new(stream).expect("the socket takes its options") }
    }

    /// Over a connection to a Unix socket, in the type of one over TCP.
    ///
    /// # Panics
    /// When it does not stand.
    pub fn over_unix(stream: TcpStream) -> Self {
        Self { wire: Wire::without_options(stream).expect("the socket takes its time-outs") }
    }

    /// Sends bytes unchanged.
    ///
    /// # Panics
    ///
    /// If the peer does not accept them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.wire.send(bytes.as_ref()).expect("the bytes can be sent");
        self
    }

    /// Sends a GET for `target` with only a `Host` header, and reads the response.
    pub fn get(&mut self, target: &str) -> Message {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: gateway.test\r\n\r\n")).answer()
    }

    /// Sends bytes and reads the response.
    pub fn ask(&mut self, bytes: impl AsRef<[u8]>) -> Message {
        self.send(bytes).answer()
    }

    /// Reads the next response, which may be an interim one.
    ///
    /// # Panics
    ///
    /// If none arrives, or it is malformed.
    pub fn answer(&mut self) -> Message {
        self.read(Side::Answer)
    }

    /// Reads the response to a HEAD request.
    pub fn answer_to_head(&mut self) -> Message {
        self.read(Side::AnswerToHead)
    }

    /// Reads the head of a response and leaves its body unread.
    ///
    /// # Panics
    ///
    /// If none arrives.
    pub fn answer_head(&mut self) -> Message {
        let head = Message::read_head(&mut self.wire);
        head.unwrap_or_else(|error| panic!("no head: {error}")).expect("a head before the end")
    }

    fn read(&mut self, side: Side) -> Message {
        match Message::read(&mut self.wire, side) {
            Ok(Some(message)) => message,
            Ok(None) => panic!("the connection ended instead of an answer"),
            Err(error) => panic!(
                "no whole answer ({error}); left unread: {:?}",
                String::from_utf8_lossy(self.wire.pending())
            ),
        }
    }

    /// Reads as many bytes as are expected, and compares them.
    ///
    /// # Panics
    ///
    /// If other bytes arrive.
    pub fn expect(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let wanted = bytes.as_ref();
        let found = self.wire.take(wanted.len()).unwrap_or_else(|error| {
            panic!("{error}; got {:?}", String::from_utf8_lossy(self.wire.pending()))
        });
        let (found, wanted) = (String::from_utf8_lossy(&found), String::from_utf8_lossy(wanted));
        assert_eq!(found, wanted);
        self
    }

    /// Reads `count` bytes.
    ///
    /// # Panics
    ///
    /// If fewer arrive.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        self.wire.take(count).unwrap_or_else(|error| panic!("{count} bytes: {error}"))
    }

    /// Shuts down the sending direction.
    ///
    /// # Panics
    ///
    /// If the connection is closed.
    pub fn half_close(&mut self) -> &mut Self {
        self.wire.half_close().expect("the connection is still there");
        self
    }

    /// Reads everything until the connection ends.
    ///
    /// # Panics
    ///
    /// If it does not end cleanly.
    pub fn rest(&mut self) -> Vec<u8> {
        self.wire.take_all().unwrap_or_else(|error| panic!("no orderly end: {error}"))
    }

    /// Waits for the peer to close the connection without sending another byte.
    ///
    /// # Panics
    ///
    /// If bytes arrive, or the connection stays open.
    pub fn expect_end(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "more came: {:?}", String::from_utf8_lossy(&rest));
    }

    /// Returns the local port, by which origins and log lines distinguish clients.
    ///
    /// # Panics
    ///
    /// If the connection is closed.
    pub fn port(&self) -> u16 {
        self.wire.local_address().expect("the socket is bound").port()
    }
}
