//! Nodes of the attacked routes: an HTTP/2 node that counts resets like common servers, one that
//! accepts connections without responding, and one that answers datagrams. They run in this
//! process.

use super::frames::{
    self, ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Head, PING, RST_STREAM, SETTINGS,
};
use anyhow::Result;
use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of stream resets within [`RESETS_WINDOW`] at which the node closes a connection: the
/// default of a widespread server.
const RESETS_MAX: u32 = 200;
const RESETS_WINDOW: Duration = Duration::from_secs(30);
/// Error code ENHANCE_YOUR_CALM (RFC 9113, section 7).
const CALM: u32 = 0xb;
/// Maximum number of connections of the silent node; beyond it, the oldest ones are closed.
const SILENT_MAX: usize = 8192;

/// Nodes behind the gateway, each with a different behaviour.
pub(super) struct Nodes {
    pub(super) counting_port: u16,
    pub(super) silent_port: u16,
    pub(super) udp_port: u16,
    accepted: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Nodes {
    pub(super) fn start() -> Result<Self> {
        let accepted = Arc::new(AtomicU64::new(0));
        let counting = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let nodes = Self {
            counting_port: counting.local_addr()?.port(),
            silent_port: silent.local_addr()?.port(),
            udp_port: udp.local_addr()?.port(),
            accepted: Arc::clone(&accepted),
            is_over: Arc::default(),
        };
        let is_over = Arc::clone(&nodes.is_over);
        let count = Arc::clone(&accepted);
        std::thread::spawn(move || {
            for stream in counting.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || answer(stream));
            }
        });
        std::thread::spawn(move || hold(&silent, &accepted, &is_over));
        std::thread::spawn(move || echo(&udp));
        Ok(nodes)
    }

    /// Returns the number of connections that the HTTP/2 node and the silent node have accepted.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Nodes {
    /// Ends the silent node, because its open connections would use up the file descriptors of
    /// later rounds.
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The connection wakes the node's thread. An error is ignored, because it means that the
        // node does not listen any more.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.silent_port));
    }
}

fn hold(listener: &TcpListener, accepted: &AtomicU64, is_over: &AtomicBool) {
    let mut connections = std::collections::VecDeque::new();
    for stream in listener.incoming().flatten() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        accepted.fetch_add(1, Ordering::Relaxed);
        if connections.len() >= SILENT_MAX {
            connections.pop_front();
        }
        connections.push_back(stream);
    }
}

fn echo(socket: &UdpSocket) {
    let mut datagram = [0; 2048];
    while let Ok((bytes, from)) = socket.recv_from(&mut datagram) {
        // Ignored, because the client may be gone.
        let _ = socket.send_to(&datagram[..bytes], from);
    }
}

/// Answers every complete HTTP/2 request until the connection ends or has [`RESETS_MAX`] resets
/// within the window.
fn answer(stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    let mut preface = [0; frames::PREFACE.len()];
    reader.read_exact(&mut preface)?;
    let mut out = Vec::new();
    Head::new(SETTINGS, 0, 0).write(&[], &mut out);
    writer.write_all(&out)?;
    let mut payload = Vec::new();
    let (mut resets, mut window_began) = (0, Instant::now());
    loop {
        let head = frames::read(&mut reader, &mut payload)?;
        out.clear();
        let ends = head.flags & END_STREAM != 0;
        match head.kind {
            SETTINGS if head.flags & ACK == 0 => Head::new(SETTINGS, ACK, 0).write(&[], &mut out),
            PING if head.flags & ACK == 0 => Head::new(PING, ACK, 0).write(&payload, &mut out),
            HEADERS | DATA if ends => {
                Head::new(HEADERS, END_HEADERS, head.stream)
                    .write(&frames::answer_block(2), &mut out);
                Head::new(DATA, END_STREAM, head.stream).write(b"ok", &mut out);
            }
            RST_STREAM => {
                if window_began.elapsed() > RESETS_WINDOW {
                    (resets, window_began) = (0, Instant::now());
                }
                resets += 1;
                if resets > RESETS_MAX {
                    let reason = [head.stream.to_be_bytes(), CALM.to_be_bytes()].concat();
                    Head::new(GOAWAY, 0, 0).write(&reason, &mut out);
                    return writer.write_all(&out);
                }
            }
            _ => {}
        }
        if !out.is_empty() {
            writer.write_all(&out)?;
        }
    }
}
