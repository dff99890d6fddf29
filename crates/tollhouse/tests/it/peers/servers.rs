//! The peers as they are asked: nginx and HAProxy as proxies with the settings people leave alone,
//! in front of an origin that says what reached it.

use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{self, Running};
use tollhouse_testkit::{ClosedPort, Message, Origin};

use super::corpus::escape;

/// Where the origin says what it saw.
pub(crate) const SEEN: &str = "x-seen";

/// A proxy of somebody else's.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    _running: Running,
    _folder: TempDir,
}

/// An origin that answers with the verdict that belongs to what reached it.
pub(crate) fn recorder() -> Origin {
    Origin::script(|connection| {
        while let Some(request) = connection.request_unremembered() {
            let seen = seen(&request);
            connection
                .send(format!("HTTP/1.1 200 OK\r\nX-Seen: {seen}\r\nContent-Length: 0\r\n\r\n"));
        }
    })
}

fn seen(request: &Message) -> String {
    let body = match (request.field("transfer-encoding"), request.body.len()) {
        (Some(_), _) => "chunked".to_owned(),
        (None, 0) => "none".to_owned(),
        (None, length) => length.to_string(),
    };
    let line = request.start_line.rsplit_once(' ').map_or("", |(line, _)| line);
    let (method, target) = line.split_once(' ').unwrap_or_default();
    let bytes = |text: &str| text.chars().filter_map(|c| u8::try_from(c).ok()).collect::<Vec<_>>();
    format!("accept {} {} {body}", escape(&bytes(method)), escape(&bytes(target)))
}

/// nginx in front of `origin`; `None`, with a message, where it is not installed.
pub(crate) fn nginx(origin: SocketAddr) -> Option<Peer> {
    let program = program::find("nginx")?;
    let (port, folder) = (ClosedPort::new(), tempfile::tempdir().expect("a temporary folder"));
    let here = folder.path().display();
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {here}/{name};"))
        .concat();
    let address = port.address();
    let text = format!(
        "daemon off; master_process off; pid {here}/pid; error_log stderr crit;
         events {{ worker_connections 1024; }}
         http {{
           access_log off; {paths}
           client_header_timeout 1s; client_body_timeout 1s; client_max_body_size 0;
           server {{
             listen {address} reuseport;
             location / {{
               proxy_pass http://{origin}; proxy_http_version 1.1;
               proxy_request_buffering off; proxy_set_header Connection \"\";
             }}
           }}
         }}"
    );
    let mut command = Command::new(program);
    command.args(["-p".as_ref(), folder.path(), "-e".as_ref(), "stderr".as_ref(), "-c".as_ref()]);
    command.arg(write(&folder, &text));
    Some(started(command, address, folder))
}

/// HAProxy in front of `origin`; `None`, with a message, where it is not installed.
pub(crate) fn haproxy(origin: SocketAddr) -> Option<Peer> {
    let program = program::find("haproxy")?;
    let (port, folder) = (ClosedPort::new(), tempfile::tempdir().expect("a temporary folder"));
    let address = port.address();
    let text = format!(
        "global
           maxconn 1024
         defaults
           mode http
           timeout connect 5s
           timeout client 1s
           timeout http-request 1s
           timeout server 5s
         frontend front
           bind {address}
           default_backend back
         backend back
           server origin {origin}
"
    );
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(write(&folder, &text));
    Some(started(command, address, folder))
}

fn write(folder: &TempDir, text: &str) -> std::path::PathBuf {
    let path = folder.path().join("config");
    std::fs::write(&path, text).expect("the folder takes files");
    path
}

fn started(mut command: Command, address: SocketAddr, folder: TempDir) -> Peer {
    let running = Running::start(&mut command);
    wait_for("the peer to listen", || std::net::TcpStream::connect(address).ok());
    Peer { address, _running: running, _folder: folder }
}

/// The version of an installed peer, as its corpus lines are labelled.
pub(crate) fn version(program: &str, flag: &str) -> String {
    let Some(path) = program::find(program) else { return String::new() };
    let text = program::run_well(Command::new(path).arg(flag));
    let number = |word: &str| {
        let word = word.rsplit('/').next().unwrap_or_default();
        word.starts_with(|first: char| first.is_ascii_digit()).then(|| {
            word.split(|c: char| !c.is_ascii_digit() && c != '.')
                .next()
                .unwrap_or_default()
                .to_owned()
        })
    };
    text.split_whitespace().find_map(number).unwrap_or_default()
}
