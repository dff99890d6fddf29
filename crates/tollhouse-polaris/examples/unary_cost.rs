//! Heartbeats over gRPC, answered by a registry in memory; the argument is their number. The cost
//! of a call in instructions is the slope between two runs of different length under `valgrind
//! --tool=callgrind`.
//!
//! The client is a template of bytes over a socket, because the cost of an HTTP/2 client is not
//! measured: calls differ only in the number of their stream.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};

use prost::Message;
use tokio::runtime::Builder;
use tollhouse_polaris::dialect::Dialect;
use tollhouse_polaris::grpc::{Options, polaris, serve};
use tollhouse_polaris::{Access, Account, Gate, v1};
use tollhouse_registry::{Keeper, Registry};
use tollhouse_store::Location;

/// Preface, settings that say nothing, and a window of the connection that lasts.
const HELLO: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x04\x08\0\0\0\0\0\x7f\0\0\0";
/// The answer to the server's settings.
const SETTINGS_ACK: &[u8] = b"\0\0\0\x04\x01\0\0\0\0";

const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const FRAME_HEADER_BYTES: usize = 9;

fn main() {
    let argument = std::env::args().nth(1);
    let count: u32 = argument.and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let mut client = Client::connect(start());
    let instance = v1::Instance {
        namespace: Some("default".to_owned()),
        service: Some("checkout".to_owned()),
        host: Some("10.0.0.1".to_owned()),
        port: Some(8_080),
        ..Default::default()
    };
    client.call("/v1.PolarisGRPC/RegisterInstance", &instance);
    for _ in 0..count {
        client.call("/v1.PolarisGRPC/Heartbeat", &instance);
    }
    println!("{count} calls, {} bytes", client.bytes);
}

/// Starts a registry in memory behind gRPC, each on a separate thread.
fn start() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback can be bound");
    let address = listener.local_addr().expect("bound");
    let registry = keep();
    std::thread::spawn(move || {
        let account = Account { name: "a".into(), password: "b".into(), token: "c".into() };
        let access = Access::new(Gate::Locked, Gate::Open, account, "client".to_owned());
        let services = polaris::services(Dialect::new(registry, Arc::new(access)));
        let runtime = Builder::new_current_thread().enable_all().build_local(Default::default());
        let (_stop, stopped) = tokio::sync::watch::channel(false);
        let serving = serve(vec![listener], services, Options::default(), stopped);
        runtime.expect("a runtime").block_on(serving).expect("served");
    });
    address
}

fn keep() -> Registry {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let store = tollhouse_store::open(&Location::Memory).expect("memory opens");
            let (keeper, registry) =
                Keeper::open(store, Default::default()).await.expect("readable");
            sender.send(registry).expect("the example waits");
            keeper.run(std::future::pending()).await;
        });
    });
    receiver.recv().expect("the keeper starts")
}

struct Client {
    socket: TcpStream,
    stream: u32,
    out: Vec<u8>,
    input: Vec<u8>,
    bytes: usize,
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let mut socket = TcpStream::connect(address).expect("the server listens");
        socket.set_nodelay(true).expect("a live socket");
        socket.write_all(&[HELLO, SETTINGS_ACK].concat()).expect("sent");
        Self { socket, stream: 1, out: Vec::new(), input: Vec::new(), bytes: 0 }
    }

    /// Makes a call, and reads all of its answer.
    fn call(&mut self, path: &str, message: &impl Message) {
        let message = message.encode_to_vec();
        self.out.clear();
        let fields = self.head(path);
        push_frame(&mut self.out, HEADERS, 4, self.stream, &[&fields]);
        let length = u32::try_from(message.len()).expect("short").to_be_bytes();
        push_frame(&mut self.out, 0, END_STREAM, self.stream, &[&[0], &length, &message]);
        self.socket.write_all(&self.out).expect("sent");
        while !self.take_frame() {}
        self.stream += 2;
    }

    /// The fields as a client sends them: the first time by name and value, then out of the table.
    fn head(&self, path: &str) -> Vec<u8> {
        let mut fields = vec![0x83, 0x86];
        // The path without a table, since two are called.
        push_text(&mut fields, &[0x04], path);
        if self.stream > 1 {
            fields.extend_from_slice(&[0xc2, 0xc1, 0xc0, 0xbf, 0xbe]);
            return fields;
        }
        push_text(&mut fields, &[0x41], "registry.example:8091");
        push_text(&mut fields, &[0x5f], "application/grpc");
        for (name, value) in
            [("te", "trailers"), ("user-agent", "grpc-go/1.80.0"), ("x-polaris-token", "")]
        {
            push_text(&mut fields, &[0x40], name);
            push_text(&mut fields, &[], value);
        }
        fields
    }

    /// Takes the next frame; whether it ends the answer.
    fn take_frame(&mut self) -> bool {
        self.fill(FRAME_HEADER_BYTES);
        let length = u32::from_be_bytes([0, self.input[0], self.input[1], self.input[2]]) as usize;
        let ends = self.input[3] == HEADERS && self.input[4] & END_STREAM != 0;
        self.fill(FRAME_HEADER_BYTES + length);
        self.input.drain(..FRAME_HEADER_BYTES + length);
        self.bytes += FRAME_HEADER_BYTES + length;
        ends
    }

    fn fill(&mut self, bytes: usize) {
        while self.input.len() < bytes {
            let mut more = [0; 4_096];
            let count = self.socket.read(&mut more).expect("it answers");
            assert_ne!(count, 0, "it goes on");
            self.input.extend_from_slice(&more[..count]);
        }
    }
}

fn push_text(out: &mut Vec<u8>, before: &[u8], text: &str) {
    out.extend_from_slice(before);
    out.push(u8::try_from(text.len()).expect("short"));
    out.extend_from_slice(text.as_bytes());
}

fn push_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let [_, length @ ..] = u32::try_from(length).expect("short").to_be_bytes();
    for part in [&length[..], &[kind, flags], &stream.to_be_bytes()].iter().chain(parts) {
        out.extend_from_slice(part);
    }
}
