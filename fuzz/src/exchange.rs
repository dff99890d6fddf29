//! Whole exchanges: requests of a client × answers of a node × configurations of plugins.
//!
//! One worker of the data plane runs for the life of the process; `gateway` publishes the
//! configuration that an input chooses. `script` turns the input into bytes, `node` plays the
//! origin and reads the requests that reach it, `client` sends requests and reads the answers, and
//! `oracle` checks the invariants.
//!
//! Invariants: every byte on a connection to a node belongs to one request that our strict parser
//! and a second parser read in the same way, and that contains the mark, which only the gateway can
//! write. Nothing follows a request before it is answered. A client reads as many answers as it
//! sent requests. Every later client, on any connection, gets the answer that was made for it. Two
//! users who request the same page behind a cache never read each other's (`owners`). Both sides
//! speak HTTP/1.1 or HTTP/2 (`http2`), as the input chooses; streams are named in heads and bodies,
//! so that data that passes from one to another is detected. The protection of a path applies to
//! each of its spellings (`paths`).

pub mod client;
pub mod gateway;
pub mod http2;
pub mod leaving;
pub mod node;
pub mod oracle;
pub mod owners;
pub mod paths;
pub mod script;

use std::sync::OnceLock;

use gateway::Gateway;
use leaving::Leaving;
use node::Node;
use oracle::Play;
use script::Script;
use tollhouse_http::{ChunkError, ChunkedDecoder};

/// The gateway and the two origins of this process.
pub struct Stage {
    gateway: Gateway,
    node: Node,
    /// Origin for mirrors and auth services, which reads as strictly but requires no mark.
    side: Node,
}

impl Stage {
    fn new() -> Self {
        let node = Node::start(Some(gateway::MARK));
        let side = Node::start(None);
        let gateway = Gateway::start(node.address(), side.address());
        Self { gateway, node, side }
    }
}

/// First line of the HTTP/2 preface (RFC 9113 §3.4), different from any HTTP/1.1 request's.
const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Reads the part of `input` that belongs to a chunked body, and returns the number of bytes.
fn read_chunks(decoder: &mut ChunkedDecoder, input: &[u8]) -> Result<usize, ChunkError> {
    read_body_chunks(decoder, input, &mut Vec::new())
}

/// Reads the part of `input` that belongs to a chunked body, appends the content of the chunks to
/// `body`, and returns the number of bytes.
fn read_body_chunks(
    decoder: &mut ChunkedDecoder,
    input: &[u8],
    body: &mut Vec<u8>,
) -> Result<usize, ChunkError> {
    let mut at = 0;
    while at < input.len() && !decoder.is_done() {
        let step = decoder.step(&input[at..])?;
        body.extend_from_slice(&input[at..][step.data]);
        at += step.consumed;
    }
    Ok(at)
}

/// Plays one input.
///
/// # Panics
/// If an invariant is violated.
pub fn play(input: &[u8]) {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    let stage = STAGE.get_or_init(Stage::new);
    let Some(script) = Script::decode(input, stage.gateway.configurations()) else { return };
    if input.windows(http2::spelling::SECRET.len()).any(|bytes| bytes == http2::spelling::SECRET) {
        return;
    }
    // An HTTP/1.1 client that begins with this line is read as an invalid HTTP/2 client on any
    // listener.
    if script.attack.is_none() && script.sent().starts_with(PREFACE_LINE) {
        return;
    }
    let name = stage.gateway.choose(script.configuration);
    let open_before = stage.gateway.downstream().open;
    stage.node.begin(&script);
    stage.side.begin(&Script::default());

    let heard = client::attack(stage.gateway.address(), &script);
    let victims = client::victims(stage.gateway.address(), &stage.node, &script);

    let draw = input.len();
    let owners = owners::ask(stage.gateway.address(), name, draw);

    let seen = stage.node.end();
    let beside = stage.side.end();
    let mut left = Vec::new();
    // A leaked place would affect the next client. The check takes time, so it only runs if the
    // client left.
    if script.leaving != Leaving::Stays {
        stage.node.begin(&Script::default());
        stage.side.begin(&Script::default());
        left = leaving::remains(&stage.gateway, name, open_before);
        stage.node.end();
        stage.side.end();
    }
    let play = Play {
        configuration: name,
        script: &script,
        heard: &heard,
        victims: &victims,
        seen: &seen,
        beside: &beside,
    };
    let mut findings = oracle::findings(&play);
    findings.extend(owners::findings(&owners));
    findings.append(&mut left);
    assert!(findings.is_empty(), "{}", oracle::report(&play, &findings));
}
