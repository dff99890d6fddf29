//! Messages from the bytes of an input. Words and plain bytes form a small code, so that a mutation
//! changes the meaning of a message more often than it breaks it.

use super::gateway::speaks_http2;
use super::http2::spelling::{Attack, NodeFrame};
use super::leaving::Leaving;

/// Content of one input.
#[derive(Debug, Default)]
pub struct Script {
    /// Number of the configuration that is published.
    pub configuration: usize,
    /// Bytes that an HTTP/1.1 client sends, by piece.
    pub pieces: Vec<Vec<u8>>,
    /// Way in which an HTTP/1.1 client ends.
    pub leaving: Leaving,
    /// Frames that an HTTP/2 client sends.
    pub attack: Option<Attack>,
    /// Answers of the node in their order; later requests are answered with `200`.
    pub answers: Vec<Answer>,
}

/// Answer of the node to one request.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub bytes: Vec<u8>,
    /// Frames from a node with HTTP/2.
    pub frames: Vec<NodeFrame>,
    /// Share of a well-formed answer, in 256ths, that is held back until the client is idle.
    pub held_back: u8,
    /// Whether the node answers after the head of the request.
    pub is_early: bool,
    /// Whether the connection closes after the answer.
    pub closes: bool,
}

/// End of a piece of the client's bytes, or of an answer.
const NEXT: u8 = 0xff;
/// End of the client's bytes, before the answers.
const NODE: u8 = 0xfe;
/// The first of the bytes that represent words.
const WORDS: u8 = 0x80;

/// Limit for the length of a script; longer ones find nothing more.
const BYTES_MAX: usize = 4096;

const CLIENT_WORDS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /a/b?q=1 HTTP/1.1\r\nHost: a\r\n",
    b"HEAD /a HTTP/1.1\r\nHost: a\r\n",
    b"POST /p HTTP/1.1\r\nHost: a\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n",
    b"TRACE / HTTP/1.1\r\nHost: a\r\n",
    b"GET http://h/x HTTP/1.1\r\nHost: a\r\n",
    b"GET /",
    b"POST /",
    b"HEAD /",
    b"PUT /",
    b"?q=",
    b"&h=",
    b" HTTP/1.1\r\n",
    b" HTTP/1.0\r\n",
    b"Host: a\r\n",
    b"Host: ",
    b"\r\n",
    b"\r\n\r\n",
    b"%0d%0a",
    b"%20HTTP/1.1%0d%0aHost:%20x%0d%0a%0d%0aGET%20/two%20HTTP/1.1%0d%0aHost:%20y%0d%0a%0d%0a",
    b"%3F",
    b"%20",
    b"%00",
    b"%2F",
    b"%2e%2e/",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: ",
    b"chunked",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"0\r\n",
    b"00000005\r\nhello\r\n",
    b"5;a=b\r\nhello\r\n",
    b"100000005\r\nhello\r\n",
    b"hello",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Connection: ",
    b"Upgrade: websocket\r\n",
    b"Upgrade: h2c\r\n",
    b"HTTP2-Settings: AAMAAABk\r\n",
    b"Connection: Upgrade\r\n",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n",
    b"Expect: 100-continue\r\n",
    b"TE: trailers\r\n",
    b"Trailer: x-a\r\n",
    b"X-Consumer-Username: root\r\n",
    b"X_Consumer_Username: root\r\n",
    b"X.Consumer_Groups: root\r\n",
    b"X-Mark: forged\r\n",
    b"Content-Type: application/json\r\n",
    b"Content-Type: application/x-www-form-urlencoded\r\n",
    b"Accept-Encoding: gzip, br\r\n",
    b"Cache-Control: no-cache\r\n",
    b"Authorization: Basic Zm9vOmJhcg==\r\n",
    b"apikey: key-one\r\n",
    b"Cookie: a=b\r\n",
    b"Range: bytes=0-1\r\n",
    b"X-H: ",
    b"{\"a\":1}",
    b"a=1&b=2",
];

const NODE_WORDS: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.1 204 No Content\r\n",
    b"HTTP/1.1 304 Not Modified\r\n",
    b"HTTP/1.1 206 Partial Content\r\n",
    b"HTTP/1.1 404 Not Found\r\n",
    b"HTTP/1.1 500 Oh\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
    b"HTTP/1.1 ",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 40\r\n",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"\r\n",
    b"hello",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"0\r\nX-T: 1\r\n\r\n",
    b"0\r\nContent-Length: 3\r\n\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Trailer: X-T\r\n",
    b"Cache-Control: max-age=60\r\n",
    b"Cache-Control: private\r\n",
    b"Content-Type: text/html\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Vary: Accept-Encoding\r\n",
    b"Set-Cookie: a=b\r\n",
    b"Location: /x\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged",
    b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi--------",
];

impl Script {
    /// Reads an input: the configuration, the client's protocol, its pieces, and the node's
    /// answers.
    pub fn decode(input: &[u8], configurations: usize) -> Option<Self> {
        let [first, protocol, rest @ ..] = input else { return None };
        let configuration = usize::from(*first) % configurations;
        if rest.len() > BYTES_MAX {
            return None;
        }
        let mut halves = rest.splitn(2, |byte| *byte == NODE);
        let client = halves.next().unwrap_or_default();
        let node = halves.next().unwrap_or_default();
        let leaving = match protocol & 1 {
            0 => Leaving::decode(*protocol, client.first().copied().unwrap_or_default()),
            _ => Leaving::Stays,
        };
        let codes = client.split(|byte| *byte == NEXT);
        let (pieces, attack) = match protocol & 1 {
            0 => (codes.map(|piece| spell(piece, WORDS, CLIENT_WORDS)).collect(), None),
            _ => (Vec::new(), Some(Attack::spell(&codes.collect::<Vec<_>>()))),
        };
        if attack.is_none() && pieces.iter().all(Vec::is_empty) {
            return None;
        }
        let answers = match node {
            [] => Vec::new(),
            _ => {
                let codes = node.split(|byte| *byte == NEXT);
                codes.map(|code| Answer::decode(code, speaks_http2(configuration))).collect()
            }
        };
        Some(Self { configuration, pieces, leaving, attack, answers })
    }

    /// Returns all bytes that the client sends.
    pub fn sent(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

impl Answer {
    fn decode(code: &[u8], is_http2: bool) -> Self {
        let Some((&manner, words)) = code.split_first() else { return Self::default() };
        Self {
            bytes: if is_http2 { Vec::new() } else { spell(words, WORDS, NODE_WORDS) },
            frames: if is_http2 { NodeFrame::spell(words) } else { Vec::new() },
            held_back: if manner & 1 == 0 { 0 } else { manner },
            is_early: manner & 2 != 0,
            closes: manner & 4 != 0,
        }
    }
}

/// Replaces each byte from `first` on with a word; other bytes remain unchanged.
pub fn spell(code: &[u8], first: u8, words: &[&[u8]]) -> Vec<u8> {
    let mut spelt = Vec::new();
    for &byte in code {
        match byte.checked_sub(first) {
            None => spelt.push(byte),
            Some(index) => match words.get(usize::from(index)) {
                Some(word) => spelt.extend_from_slice(word),
                // Bytes without a word remain, so that inputs can contain bytes outside ASCII.
                None => spelt.push(byte),
            },
        }
    }
    spelt
}
