//! A core that has warmed up serves proxied requests without touching the heap.
//!
//! The process counts what one thread allocates, the worker's; client and origin are threads with
//! blocking sockets. A failure shows where the first allocations came from. One test only: the
//! count belongs to the process.

#![expect(unsafe_code, reason = "an allocator that counts can be installed in no other way")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use support::{Gateway, connect, read_head, snapshot};
use tollhouse_proxy::SnapshotCell;

/// Requests of each kind before counting: buffers, pools and tables have then grown.
const WARM_UP_REQUESTS: usize = 50;

/// Requests of each kind that are counted.
const COUNTED_REQUESTS: usize = 200;

/// How often a kind is counted before its allocations are a failure. What a core does beside
/// requests, once a second, may find the only connection to the node in use and free its pool's
/// room, which the next request then allocates anew; what a request costs shows in every round.
const ROUNDS_MAX: usize = 5;

/// Allocations whose origin a failure shows.
const TRACES_MAX: usize = 3;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static TRACES: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether allocations of this thread are counted. Const and without a destructor, so that
    /// the allocator may ask at any time.
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, with a look at who asks.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is handed to `System` with the caller's arguments as they are, and its result
// is returned as it is; what is done beside that does not touch the memory in question.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract, which is that of `System`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: the caller keeps the contract, which is that of `System`.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract, which is that of `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Counts an allocation of the worker's thread and remembers where the first ones came from.
fn note(size: usize) {
    if !COUNTS.load(Ordering::Relaxed) || !IS_COUNTED.get() {
        return;
    }
    let earlier = ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    if earlier < TRACES_MAX {
        // Taking a trace allocates, which must not lead back here.
        IS_COUNTED.set(false);
        let trace = format!("{size} bytes:\n{}", Backtrace::force_capture());
        TRACES.lock().expect("nobody panics inside").push(trace);
        IS_COUNTED.set(true);
    }
}

/// One kind of request: what the client sends, and the answer's body as the client sees it.
struct Case {
    name: &'static str,
    request: String,
    body: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let browser = "User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: */*\r\n\
        Accept-Encoding: gzip, br\r\nCookie: session=0123456789abcdef\r\nX-Request-Id: 42\r\n";
    vec![
        Case {
            name: "a plain GET",
            request: "GET /length HTTP/1.1\r\nHost: a.example\r\n\r\n".into(),
            body: length_body(),
        },
        Case {
            name: "a GET with a query, a port and a browser's header lines",
            request: format!("GET /length?a=b&c HTTP/1.1\r\nHost: A.example:80\r\n{browser}\r\n"),
            body: length_body(),
        },
        Case {
            name: "a GET through proxies that report the client",
            request: "GET /length HTTP/1.1\r\nHost: a.example\r\nX-Real-IP: 9.9.9.9\r\n\
                X-Forwarded-For: 9.9.9.9, 10.0.0.1\r\n\r\n"
                .into(),
            body: length_body(),
        },
        Case {
            name: "a POST with a body",
            request: "POST /length HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello"
                .into(),
            body: length_body(),
        },
        Case {
            name: "an answer in chunks",
            request: "GET /chunked HTTP/1.1\r\nHost: a.example\r\n\r\n".into(),
            body: CHUNKED_BODY.to_vec(),
        },
    ]
}

fn length_body() -> Vec<u8> {
    vec![b'x'; 2048]
}

const CHUNKED_BODY: &[u8] = b"5\r\nhello\r\n0\r\n\r\n";

#[test]
fn a_warm_core_serves_without_allocating() {
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let origin_address = origin.local_addr().expect("an address");
    let origin = std::thread::spawn(move || serve_one_connection(&origin));
    let node = origin_address.to_string();
    let route = json!({"uri": "/*", "upstream": {"type": "roundrobin", "nodes": {node: 1}}});
    let snapshots = Arc::new(SnapshotCell::new(snapshot(route)));
    let gateway = Gateway::start(&snapshots, || IS_COUNTED.set(true));
    let mut client = connect(&gateway);

    let cases = cases();
    let mut requests = 0;
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for case in &cases {
        let mut fewest = usize::MAX;
        for _ in 0..ROUNDS_MAX {
            fewest = fewest.min(count(&mut client, case));
            requests += WARM_UP_REQUESTS + COUNTED_REQUESTS;
            if fewest == 0 {
                break;
            }
        }
        counts.push((case.name, fewest));
    }
    drop(client);
    gateway.stop();

    let traces = TRACES.lock().expect("nobody panics inside").join("\n\n");
    assert!(counts.iter().all(|(_, count)| *count == 0), "{counts:#?}\n{traces}");
    // All of them over one connection: the pool was at work.
    let served = origin.join().expect("the origin is well");
    assert_eq!(served, requests);
}

/// Allocations of the worker over the counted requests of `case`.
fn count(client: &mut TcpStream, case: &Case) -> usize {
    let mut answer = Vec::new();
    for _ in 0..WARM_UP_REQUESTS {
        ask(client, case, &mut answer);
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    COUNTS.store(true, Ordering::Relaxed);
    for _ in 0..COUNTED_REQUESTS {
        ask(client, case, &mut answer);
    }
    COUNTS.store(false, Ordering::Relaxed);
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

fn ask(client: &mut TcpStream, case: &Case, answer: &mut Vec<u8>) {
    client.write_all(case.request.as_bytes()).expect("the worker reads");
    read_head(client, answer).expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(answer));
    let head_bytes = answer.len();
    answer.resize(head_bytes + case.body.len(), 0);
    client.read_exact(&mut answer[head_bytes..]).expect("a whole answer");
    assert_eq!(answer[head_bytes..], case.body);
}

/// An origin for a single connection; how many requests came over it.
fn serve_one_connection(listener: &TcpListener) -> usize {
    let (mut stream, _) = listener.accept().expect("a connection");
    let by_length =
        [&b"HTTP/1.1 200 OK\r\nContent-Length: 2048\r\n\r\n"[..], &length_body()].concat();
    let by_chunks =
        [&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"[..], CHUNKED_BODY].concat();
    let mut head = Vec::new();
    let mut requests = 0;
    while read_head(&mut stream, &mut head).is_some() {
        if head.starts_with(b"POST") {
            stream.read_exact(&mut [0; 5]).expect("the body");
        }
        requests += 1;
        let is_chunked = head.starts_with(b"GET /chunked");
        let answer = if is_chunked { &by_chunks } else { &by_length };
        stream.write_all(answer).expect("the worker reads");
    }
    requests
}
