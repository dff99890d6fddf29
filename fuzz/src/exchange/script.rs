//! From the bytes of an input to what is sent: a small code of words and plain bytes, so that a mutation
//! changes the meaning of a message more often than it breaks it.

use super::gateway::speaks_http2;
use super::http2::spelling::{Attack, NodeFrame};
use super::leaving::Leaving;

/// What one input plays.
#[derive(Debug, Default)]
pub struct Script {
    /// Which configuration is published.
    pub configuration: usize,
    /// What the client sends, a piece at a time, where it speaks HTTP/1.1.
    pub pieces: Vec<Vec<u8>>,
    /// How it ends, where it speaks HTTP/1.1.
    pub leaving: Leaving,
    /// What it sends where it speaks HTTP/2.
    pub attack: Option<Attack>,
    /// What the node answers, one after another; it answers `200` when they are used up.
    pub answers: Vec<Answer>,
}

/// What the node does with one request.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The frames, from a node that speaks HTTP/2.
    pub frames: Vec<NodeFrame>,
    /// How much of a well-formed answer is held back until the client's side has been quiet, in 256ths.
    pub held_back: u8,
    /// Whether the head of the request is enough to be answered.
    pub is_early: bool,
    /// Whether the connection closes behind it.
    pub closes: bool,
}

/// Ends a piece of the client's bytes, or an answer.
const NEXT: u8 = 0xff;
/// Ends what the client sends; answers follow.
const NODE: u8 = 0xfe;
/// The first of the bytes that stand for words.
const WORDS: u8 = 0x80;

/// Longest script that is played: more bytes find nothing that fewer do not.
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
    /// Reads an input: the configuration, the client's protocol, its pieces, the node's answers.
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

    /// All that the client sends.
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

/// Plain bytes stand for themselves, the others for words.
pub fn spell(code: &[u8], first: u8, words: &[&[u8]]) -> Vec<u8> {
    let mut spelt = Vec::new();
    for &byte in code {
        match byte.checked_sub(first) {
            None => spelt.push(byte),
            Some(index) => match words.get(usize::from(index)) {
                Some(word) => spelt.extend_from_slice(word),
                // Bytes beyond the words reach what lies outside of ASCII.
                None => spelt.push(byte),
            },
        }
    }
    spelt
}
