//! Measures how fast routes and consumers are written through the Admin API over loopback.
//!
//! `load [OBJECTS] [CLIENTS] [DIRECTORY]`: number of routes and of consumers, number of concurrent
//! clients, and directory of the store. Without a directory the store is in memory. Server and
//! clients each have a thread; the figure includes both.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollhouse_admin::{AdminApi, KeyCheck, Options, Parts, serve};
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::Services;
use tollhouse_store::Location;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let objects: usize = arguments.next().map_or(Ok(10_000), |text| text.parse())?;
    let clients: usize = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let directory = arguments.next().map(PathBuf::from);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || run_server(listener, directory));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let route = |number: usize| {
            let body = format!(
                r#"{{"uri":"/route/{number}","host":"h{number}.example.com","upstream":{{"type":"roundrobin","nodes":{{"127.0.0.1:1980":1}}}},"plugins":{{"key-auth":{{}}}}}}"#
            );
            (format!("routes/{number}"), body)
        };
        let consumer = |number: usize| {
            let body = format!(
                r#"{{"username":"user{number}","plugins":{{"key-auth":{{"key":"key-of-user-{number}"}}}}}}"#
            );
            ("consumers".to_owned(), body)
        };
        load(address, "routes", objects, clients, route).await?;
        load(address, "consumers", objects, clients, consumer).await
    })?;
    println!("resident {} MiB", resident_kib()? / 1024);
    if server.is_finished() {
        return Err("the server ended early".into());
    }
    Ok(())
}

fn run_server(listener: std::net::TcpListener, directory: Option<PathBuf>) -> Result<(), Failure> {
    let location = directory.map_or(Location::Memory, Location::Directory);
    let store = tollhouse_store::open(&location)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let parts = Parts {
            store,
            in_service: None,
            catalogue: Arc::new(tollhouse_plugins::catalogue()),
            services: Arc::new(Services::new("APISIX/3.18.0")),
            keyring: Arc::new(Keyring::generate()?),
            registry: None,
            certificates: None,
            staples: None,
            console: None,
            shenyu: None,
            audit: None,
            tracer: None,
            options: Options { key_check: KeyCheck::Off, ..Options::default() },
        };
        let api = AdminApi::new(parts);
        serve(TcpListener::from_std(listener)?, api, None, usize::MAX, std::future::pending())
            .await;
        Ok(())
    })
}

async fn load(
    address: SocketAddr,
    what: &str,
    objects: usize,
    clients: usize,
    make: impl Fn(usize) -> (String, String) + Copy + Send + 'static,
) -> Result<(), Failure> {
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|_| tokio::spawn(client(address, Arc::clone(&next), objects, make)))
        .collect();
    for task in tasks {
        task.await??;
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{objects} {what} in {seconds:.1} s: {:.0} writes/s", objects as f64 / seconds);
    Ok(())
}

async fn client(
    address: SocketAddr,
    next: Arc<AtomicUsize>,
    objects: usize,
    make: impl Fn(usize) -> (String, String),
) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= objects {
            return Ok(());
        }
        let (path, body) = make(number);
        let head = format!(
            "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: admin\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await?;
        let mut received = 0;
        // Answers end with a line feed after the closing brace.
        while !buffer[..received].ends_with(b"}\n") {
            let count = stream.read(&mut buffer[received..]).await?;
            received += count;
            if count == 0 {
                return Err("the server closed the connection".into());
            }
        }
        if !buffer.starts_with(b"HTTP/1.1 201") {
            return Err(String::from_utf8_lossy(&buffer[..received]).into());
        }
    }
}

/// Memory of the process, from the kernel.
fn resident_kib() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).ok_or("no figure")?.parse()?)
}
