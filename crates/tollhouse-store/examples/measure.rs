//! Measures durable writes: the rate with parallel clients, and the duration of one flush.
//!
//! `cargo run --release -p tollhouse-store --example measure -- [DIRECTORY] [CLIENTS] [WRITES]`
//! writes entries of the size of a route to a new store in that directory, which should be on the
//! disk to be measured, and prints one line per figure.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollhouse_store::{Location, Revision, Store, Transaction, open};

/// Size of a route with an inline upstream and two plugins, in bytes.
const VALUE_BYTES: usize = 600;
/// Number of flushes from which the median is taken.
const FLUSHES: u32 = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let parent = words.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let clients: usize = words.next().map_or(Ok(16), |word| word.parse())?;
    let writes: usize = words.next().map_or(Ok(20_000), |word| word.parse())?;
    let directory = tempfile::tempdir_in(parent)?;
    println!("one flush of 4 KiB: {:?}", flush_cost(directory.path())?);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(measure(directory.path(), 1, writes / clients.max(1)))?;
    runtime.block_on(measure(directory.path(), clients, writes))
}

/// Median time to append a page to a file and flush it to disk.
fn flush_cost(directory: &Path) -> std::io::Result<Duration> {
    let mut file = File::create(directory.join("flush"))?;
    let mut costs = Vec::new();
    for _ in 0..FLUSHES {
        file.write_all(&[1; 4096])?;
        let start = Instant::now();
        file.sync_data()?;
        costs.push(start.elapsed());
    }
    costs.sort_unstable();
    Ok(costs[costs.len() / 2])
}

async fn measure(directory: &Path, clients: usize, writes: usize) -> Result<(), Box<dyn Error>> {
    let location = Location::Directory(directory.join(format!("clients-{clients}")));
    let store = open(&location)?;
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..clients {
        tasks.spawn(write(Arc::clone(&store), client, writes / clients));
    }
    let mut latencies = Vec::with_capacity(writes);
    while let Some(done) = tasks.join_next().await {
        latencies.extend(done??);
    }
    let elapsed = start.elapsed();
    latencies.sort_unstable();
    let per_second = latencies.len() as f64 / elapsed.as_secs_f64();
    let at = |share: usize| latencies[(latencies.len() * share / 1000).min(latencies.len() - 1)];
    println!(
        "{clients} clients: {per_second:.0} writes/s, median {:?}, 99 % {:?}, 99.9 % {:?}",
        at(500),
        at(990),
        at(999)
    );
    let start = Instant::now();
    let count = store.list("").await?.entries.len();
    println!("list of {count}: {:?}", start.elapsed());
    assert_eq!(store.revision().await?, Revision(u64::try_from(count)?));
    drop(store);
    let start = Instant::now();
    drop(open(&location)?);
    println!("open and close: {:?}", start.elapsed());
    Ok(())
}

async fn write(
    store: Arc<dyn Store>,
    client: usize,
    writes: usize,
) -> Result<Vec<Duration>, tollhouse_store::StoreError> {
    let mut latencies = Vec::with_capacity(writes);
    for number in 0..writes {
        // Spread over the key space, as generated identifiers are.
        let spread = (number * 2_654_435_761 + client) % 0xFFFF_FFFF;
        let key = format!("/apisix/routes/{spread:08x}-{client}-{number}");
        let start = Instant::now();
        store.commit(Transaction::new().put(key, vec![b'x'; VALUE_BYTES])).await?;
        latencies.push(start.elapsed());
    }
    Ok(latencies)
}
