//! Case of writes through the Admin API: writes per second to the durable store, their memory and
//! disk use, the time until they take effect, and the start time with all objects.
//!
//! The gateway uses both cores with one worker each, as in production; the clients share one of
//! them. Its data folder is on a disk, because durable writes cost nothing in memory.

mod client;
mod visible;

use super::budget::{self, Figure};
use super::case::{BODY_BYTES, Case};
use super::client::{Connection, get_request, probe};
use super::gateway::{self, consumer_name, key_line, route_json, route_path};
use super::measure::{median, wait_ms};
use super::origin;
use super::plan::{Core, Plan};
use super::report::CaseResult;
use crate::shell;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tollhouse_testbed::{Bootstrap, Listen, Program, free_port};
use visible::Ports;

pub(super) use client::{Object, Writer, put_all};
pub(super) use visible::{connections, wait_for_all, waits};

const OBJECTS: usize = 100_000;
const QUICK_OBJECTS: usize = 2_000;
/// Number of single writes, each sent after the previous one has taken effect.
const SINGLE_WRITES: usize = 500;
const QUICK_SINGLE_WRITES: usize = 50;
const WORKERS: usize = 2;
/// Path of the route that requires a key.
const GUARDED_PATH: &str = "/guarded";
const GUARDED_ID: &str = "guarded";
/// Maximum time to wait until the last write takes effect.
const SERVES_MAX: Duration = Duration::from_secs(120);
/// Number of writes, each flushed to disk, that measure the speed of the disk before the case.
const DISK_WRITES: usize = 50;

pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let mut result = CaseResult::new(Case::Admin, Vec::new(), Vec::new());
    let origin = origin::start(plan, BODY_BYTES)?;
    let data = shell::folder_on_disk()?;
    result.figures.push(disk_figure(data.path())?);
    let count = if plan.is_quick { QUICK_OBJECTS } else { OBJECTS };
    let gateway = Gateway::start(plan, data, origin.port)?;
    gateway.ready()?;
    load(&gateway, plan, count, &mut result.figures)?;
    result.figures.extend(restart(gateway, plan, count)?);
    Ok(result)
}

/// Writes routes and consumers to a running gateway, and measures single writes, memory and disk
/// use before and after.
fn load(gateway: &Gateway, plan: &Plan, count: usize, figures: &mut Vec<Figure>) -> Result<()> {
    let singles = if plan.is_quick { QUICK_SINGLE_WRITES } else { SINGLE_WRITES };
    figures.extend(gateway.single_writes("an empty store", count, singles)?);
    figures.extend(gateway.footprint("before")?);
    figures.extend(gateway.write_routes(count)?);
    figures.extend(gateway.footprint(&format!("with {count} routes"))?);
    figures.extend(gateway.write_consumers(count)?);
    let full = format!("{count} routes and consumers");
    figures.extend(gateway.footprint(&format!("with {full}"))?);
    figures.extend(gateway.single_writes(&full, count + singles, singles)?);
    Ok(())
}

/// Running gateway with its store in `data`, and its ports.
struct Gateway {
    program: Program,
    data: TempDir,
    ports: Ports,
}

impl Gateway {
    fn start(plan: &Plan, data: TempDir, origin_port: u16) -> Result<Self> {
        let ports = Ports { admin: free_port()?, data: free_port()?, origin: origin_port };
        let listen = Listen { admin: ports.admin, ..gateway::listen(ports.data)? };
        let bootstrap = Bootstrap {
            data: Some(data.path()),
            has_resources: false,
            workers: WORKERS,
            listen,
            settings: &format!("admin: {{ key: {} }}\n", gateway::ADMIN_KEY),
            ..Bootstrap::default()
        };
        Ok(Self { program: plan.gateway(Core::Both, &bootstrap, "")?, data, ports })
    }

    /// Waits until the Admin API answers.
    fn ready(&self) -> Result<()> {
        let request = probe("/apisix/admin/routes", &client::key_line());
        self.program.wait_until_it_answers(self.ports.admin, &request)?;
        Ok(())
    }

    fn write_routes(&self, count: usize) -> Result<[Figure; 2]> {
        let route = |number: usize| {
            let text = route_json(self.ports.origin, number);
            let value = serde_json::from_str(&text).unwrap_or(Value::Null);
            Object { path: format!("routes/{number}"), value }
        };
        let took = client::put_all(self.ports.admin, count, route)?;
        let last = get_request(&route_path(count - 1), "");
        Ok([written("routes", count, took), self.serves("route", &last, Instant::now())?])
    }

    fn write_consumers(&self, count: usize) -> Result<[Figure; 2]> {
        let nodes = json!({ format!("127.0.0.1:{}", self.ports.origin): 1 });
        let guarded = json!({
            "uri": GUARDED_PATH,
            "plugins": { "key-auth": {} },
            "upstream": { "type": "roundrobin", "nodes": nodes },
        });
        client::Writer::open(self.ports.admin)?.put(&format!("routes/{GUARDED_ID}"), &guarded)?;
        let consumer = |number: usize| {
            let path = format!("consumers/{}", consumer_name(number));
            Object { path, value: gateway::consumer(number) }
        };
        let took = client::put_all(self.ports.admin, count, consumer)?;
        let last = get_request(GUARDED_PATH, &key_line(count - 1));
        Ok([written("consumers", count, took), self.serves("consumer", &last, Instant::now())?])
    }

    /// Measures the time from the last Admin API response until a request that needs the last
    /// object succeeds.
    fn serves(&self, what: &str, request: &str, since: Instant) -> Result<Figure> {
        let mut connection = Connection::open(self.ports.data)?;
        wait_ms(&format!("the last {what} serves"), SERVES_MAX, || {
            Ok(connection.exchange(request.as_bytes())? == 200)
        })?;
        let milliseconds = since.elapsed().as_secs_f64() * 1e3;
        Ok(Figure::free(format!("last answer until the last {what} serves, ms"), milliseconds))
    }

    fn single_writes(&self, store: &str, first: usize, count: usize) -> Result<[Figure; 3]> {
        let delays = visible::delays_ms(self.ports, first, count)
            .with_context(|| format!("single writes with {store}"))?;
        Ok(waits("answer until every core serves", delays, store, budget::WRITE_VISIBLE_MS))
    }

    /// Returns memory and disk use in MiB.
    fn footprint(&self, when: &str) -> Result<[Figure; 2]> {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let memory = mebibytes(self.program.memory_bytes()?);
        let disk = mebibytes(folder_bytes(self.data.path())?);
        Ok([
            Figure::free(format!("memory {when}, MiB"), memory),
            Figure::free(format!("data folder {when}, MiB"), disk),
        ])
    }
}

fn written(what: &str, count: usize, took: Duration) -> Figure {
    let title = format!("{what} written a second by {} clients, {count} of them", client::CLIENTS);
    Figure::with_budget(title, count as f64 / took.as_secs_f64(), budget::ADMIN_WRITES_PER_SECOND)
}

/// Stops the gateway, and starts another one with the same store. The memory of the new gateway is
/// what the objects need; the old gateway's additional memory is left over from the writes.
fn restart(gateway: Gateway, plan: &Plan, count: usize) -> Result<[Figure; 2]> {
    let Gateway { program, data, ports } = gateway;
    program.stop();
    let again = Gateway::start(plan, data, ports.origin)?;
    let last = probe(&route_path(count - 1), "");
    let took = again.program.wait_until_it_answers(again.ports.data, &last)?;
    let title = format!("start with {count} routes and consumers to first answer, ms");
    let memory = again.program.memory_bytes()? as f64 / f64::from(1 << 20);
    Ok([
        Figure::free(title, took.as_secs_f64() * 1e3),
        Figure::free("memory after that start, MiB", memory),
    ])
}

fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let metadata = entry?.metadata()?;
        if metadata.is_file() {
            sum += metadata.len();
        }
    }
    Ok(sum)
}

/// Returns a figure with the median time of a flushed write to the disk of a folder.
pub(super) fn disk_figure(folder: &Path) -> Result<Figure> {
    Ok(Figure::free("one forced write to this disk, µs", disk_write_us(folder)?))
}

/// Returns the median duration of small writes that are each flushed to disk.
fn disk_write_us(folder: &Path) -> Result<f64> {
    let path = folder.join("disk-probe");
    let mut file = std::fs::File::create(&path)?;
    let mut times = Vec::with_capacity(DISK_WRITES);
    for _ in 0..DISK_WRITES {
        let start = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data().context("forcing a write to the disk")?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    std::fs::remove_file(&path)?;
    Ok(median(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_folder_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), [0; 100]).unwrap();
        std::fs::write(folder.path().join("b"), [0; 23]).unwrap();
        std::fs::create_dir(folder.path().join("c")).unwrap();
        assert_eq!(folder_bytes(folder.path()).unwrap(), 123);
        assert!(disk_write_us(folder.path()).unwrap() > 0.0);
        assert_eq!(folder_bytes(folder.path()).unwrap(), 123, "the probe leaves nothing behind");
    }

    #[test]
    fn writes_a_second_are_judged() {
        assert_eq!(written("routes", 1000, Duration::from_secs(1)).verdict(), "missed");
        assert_eq!(written("routes", 3000, Duration::from_secs(1)).verdict(), "met");
    }
}
