//! A client that sends the bytes it is given and reads answers exactly.

use std::net::{SocketAddr, TcpStream};

use crate::message::{Message, Side};
use crate::wire::Wire;

/// A connection to a gateway.
#[derive(Debug)]
pub struct RawClient {
    /// The socket and what was read from it.
    pub wire: Wire,
}

impl RawClient {
    /// Connects.
    ///
    /// # Panics
    /// When nobody listens.
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).expect("somebody listens at the address"))
    }

    /// Over a connection that stands.
    ///
    /// # Panics
    /// When it does not.
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

    /// Sends bytes as they are.
    ///
    /// # Panics
    /// When the other side does not take them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.wire.send(bytes.as_ref()).expect("the bytes can be sent");
        self
    }

    /// Sends a GET for `target` without anything but `Host`.
    pub fn get(&mut self, target: &str) -> Message {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: gateway.test\r\n\r\n")).answer()
    }

    /// Sends bytes and reads the answer to them.
    pub fn ask(&mut self, bytes: impl AsRef<[u8]>) -> Message {
        self.send(bytes).answer()
    }

    /// Reads the next answer, interim ones included.
    ///
    /// # Panics
    /// When none comes, or it is malformed.
    pub fn answer(&mut self) -> Message {
        self.read(Side::Answer)
    }

    /// Reads the answer to HEAD.
    pub fn answer_to_head(&mut self) -> Message {
        self.read(Side::AnswerToHead)
    }

    /// Reads the head of an answer and leaves its body.
    ///
    /// # Panics
    /// When none comes.
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

    /// Reads exactly these bytes.
    ///
    /// # Panics
    /// When others come.
    pub fn expect(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let wanted = bytes.as_ref();
        let found = self.wire.take(wanted.len()).unwrap_or_else(|error| {
            panic!("{error}; got {:?}", String::from_utf8_lossy(self.wire.pending()))
        });
        let (found, wanted) = (String::from_utf8_lossy(&found), String::from_utf8_lossy(wanted));
        assert_eq!(found, wanted);
        self
    }

    /// Reads so many bytes.
    ///
    /// # Panics
    /// When fewer come.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        self.wire.take(count).unwrap_or_else(|error| panic!("{count} bytes: {error}"))
    }

    /// Ends our direction.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn half_close(&mut self) -> &mut Self {
        self.wire.half_close().expect("the connection is still there");
        self
    }

    /// Everything until the connection ends.
    ///
    /// # Panics
    /// When it does not end in order.
    pub fn rest(&mut self) -> Vec<u8> {
        self.wire.take_all().unwrap_or_else(|error| panic!("no orderly end: {error}"))
    }

    /// Waits for the other side to end the connection without a further byte.
    ///
    /// # Panics
    /// When bytes come, or no end.
    pub fn expect_end(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "more came: {:?}", String::from_utf8_lossy(&rest));
    }

    /// The port of our end, by which an origin or a log line tells clients apart.
    ///
    /// # Panics
    /// When the connection is gone.
    pub fn port(&self) -> u16 {
        self.wire.local_address().expect("the socket is bound").port()
    }
}
