//! Whole exchanges: what a client sends × what a node answers × what plugins are configured to do.
//!
//! One worker of the data plane runs for the life of the process; `gateway` publishes the configuration
//! that an input chooses. `script` turns the input into bytes, `node` plays the origin and reads what
//! reaches it, `client` sends and reads the answers, `oracle` says what must hold.
//!
//! What must hold: every byte on a connection to a node belongs to one request that our strict parser
//! and a second one read alike, and that carries the mark which only the gateway can write; nothing
//! follows it before it is answered; a client reads as many answers as it sent requests; and whoever
//! comes next, on whichever connection, gets the answer that was made for him; of two users who ask for the same page
//! behind a cache, none reads the other's (`owners`). Both sides speak HTTP/1.1
//! or HTTP/2 (`http2`), as the input says; streams name themselves in heads and bodies, so that what crosses
//! from one to another is seen. What protects a path protects it in every spelling (`paths`).

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
    /// What mirrors and auth services are; it reads as strictly, and asks for no mark.
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

/// How the preface of HTTP/2 begins (RFC 9113 §3.4): what no request of HTTP/1.1 does.
const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Reads as much of `input` as belongs to a chunked body; the number of bytes.
fn read_chunks(decoder: &mut ChunkedDecoder, input: &[u8]) -> Result<usize, ChunkError> {
    read_body_chunks(decoder, input, &mut Vec::new())
}

/// The same, adding what the chunks hold to `body`.
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
/// When anything that must hold does not.
pub fn play(input: &[u8]) {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    let stage = STAGE.get_or_init(Stage::new);
    let Some(script) = Script::decode(input, stage.gateway.configurations()) else { return };
    if input.windows(http2::spelling::SECRET.len()).any(|bytes| bytes == http2::spelling::SECRET) {
        return;
    }
    // A client of HTTP/1.1 that begins with this line speaks HTTP/2 on any listener, if badly, and is read otherwise.
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
    // A place that a fault took would be missed by whoever comes next; looking costs time, so only then.
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
