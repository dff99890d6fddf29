//! Clients that leave: in the middle of a head, a body or an answer, or between requests, properly
//! or by a reset. Their requests and connections must end, and the next client must be served.

use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use super::client;
use super::gateway::Gateway;

/// Time that a request may outlive its client and its node's timeouts; only a fault makes it live
/// so long.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Way in which the client of a play ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leaving {
    /// Sends everything, closes its sending side and reads to the end.
    #[default]
    Stays,
    /// Sends everything, then resets the connection.
    Resets,
    /// Sends the first part, in 256ths, closes its sending side and continues reading.
    HalfCloses(u8),
    /// Sends the first part, in 256ths, then resets the connection.
    ResetsBehind(u8),
    /// Sends everything, reads the first bytes of the answer, then resets the connection.
    ResetsAmidAnswer,
}

impl Leaving {
    /// Chooses by the unused bits of a script's second byte, and by the third byte.
    pub fn decode(manner: u8, share: u8) -> Self {
        match manner >> 1 & 7 {
            1 => Self::Resets,
            2 => Self::HalfCloses(share),
            3 => Self::ResetsBehind(share),
            4 => Self::ResetsAmidAnswer,
            _ => Self::Stays,
        }
    }

    /// Returns how many of `bytes` are sent.
    pub fn said(self, bytes: usize) -> usize {
        match self {
            Self::Stays | Self::Resets | Self::ResetsAmidAnswer => bytes,
            Self::HalfCloses(share) | Self::ResetsBehind(share) => bytes * usize::from(share) / 256,
        }
    }

    /// Resets the connection if the client leaves by a reset; returns `false` if the client
    /// continues.
    pub fn reset(self, stream: &mut TcpStream) -> bool {
        match self {
            Self::Stays | Self::HalfCloses(_) => return false,
            Self::ResetsAmidAnswer => {
                // Reads the first bytes of the answer, or times out.
                let _ = stream.read(&mut [0; 16]);
            }
            Self::Resets | Self::ResetsBehind(_) => {}
        }
        let _ = set_socket_linger(&*stream, Some(Duration::ZERO));
        true
    }
}

/// Lists the requests and connections that remain of a play under `configuration` after all clients
/// have left; `open_before` connections were open before it. Call this after the node has closed
/// its connections.
pub fn remains(gateway: &Gateway, configuration: &str, open_before: i64) -> Vec<String> {
    let begin = Instant::now();
    let mut seen = gateway.downstream();
    while seen.requests_open != 0 || seen.open > open_before {
        if begin.elapsed() > PATIENCE {
            return vec![format!(
                "left behind: {} requests, {} connections",
                seen.requests_open, seen.open
            )];
        }
        std::thread::sleep(LOOK_INTERVAL);
        seen = gateway.downstream();
    }
    let next = client::ask_one(gateway.address());
    let text = String::from_utf8_lossy(&next.bytes);
    match text.get(9..12) {
        // Other plugins answer 503 if their own service fails.
        Some("503") if configuration.contains("limit-conn") => {
            vec!["a place is not free again".to_owned()]
        }
        Some(_) => Vec::new(),
        None => vec![format!("the next client is left without an answer: {text:?}")],
    }
}
