//! Measures the loss of data when nodes die. One of three registry nodes is killed every ten
//! seconds, while clients register instances and send heartbeats at the nodes that run.

use super::nodes::{Engines, Node};
use crate::budget::{self, Figure};
use crate::plan::Plan;
use crate::registry::{Caller, NAMESPACE};
use crate::shell;
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const KILLING: Duration = Duration::from_secs(600);
const QUICK_KILLING: Duration = Duration::from_secs(25);
/// Interval between two kills. [`DOWN`] is the time until the killed node is started again.
const KILL_INTERVAL: Duration = Duration::from_secs(10);
const DOWN: Duration = Duration::from_secs(4);
/// Number of instances that send heartbeats once a second. They expire after six seconds without
/// one.
const STEADY: usize = 40;
const STEADY_TTL: u64 = 2;
pub(super) const STEADY_SERVICE: &str = "steady";
/// Maximum time to wait for an expected state.
pub(super) const SETTLED_MAX: Duration = Duration::from_secs(30);

/// Client of three nodes that, like the SDKs, calls the next node if one does not answer.
struct Clients {
    ports: Vec<u16>,
    callers: Vec<Option<Caller>>,
    turn: usize,
}

/// Observations of the client that sends heartbeats.
#[derive(Default)]
struct Beats {
    rounds: u64,
    /// Longest time between two answered rounds of heartbeats.
    longest: Duration,
    false_expiries: u64,
}

/// Kills nodes while clients use them, and counts the losses.
pub(super) fn run(plan: &Plan) -> Result<Vec<Figure>> {
    let engines = Engines::start()?;
    let nodes = (0..3).map(|_| Node::start_registry(plan, &engines, &json!({})));
    let mut nodes = nodes.collect::<Result<Vec<_>>>()?;
    let time = if plan.is_quick { QUICK_KILLING } else { KILLING };
    let ports: Vec<u16> = nodes.iter().map(|node| node.ports.registry_http).collect();
    let mut clients = Clients::new(&ports);
    for number in 0..STEADY {
        clients.call("RegisterInstance", &steady(number))?;
    }
    let is_over = AtomicBool::new(false);
    let (kills, registered, beats) = std::thread::scope(|scope| -> Result<_> {
        let beating = scope.spawn(|| beat(&ports, &is_over));
        let registering = scope.spawn(|| register(&ports, &is_over));
        let kills = kill(plan, &mut nodes, time);
        is_over.store(true, Ordering::Relaxed);
        let beats =
            beating.join().map_err(|_| anyhow!("the client with heartbeats panicked"))??;
        let registered =
            registering.join().map_err(|_| anyhow!("the client that registers panicked"))??;
        Ok((kills?, registered, beats))
    })?;
    let lost = lost(&ports, registered)?;
    let title = |what: &str| format!("three nodes, {kills} killed in {} s: {what}", time.as_secs());
    Ok(vec![
        Figure::free(title("registrations acknowledged"), registered as f64),
        Figure::with_budget(title("of these lost"), lost as f64, budget::NOTHING_LOST),
        Figure::free(title("rounds of heartbeats"), beats.rounds as f64),
        Figure::free(title("longest time between two, ms"), beats.longest.as_secs_f64() * 1e3),
        Figure::with_budget(
            title("instances that beat and were shown as unhealthy"),
            beats.false_expiries as f64,
            budget::NOTHING_LOST,
        ),
    ])
}

/// Kills one node after the other, starts each again, and returns the number of kills.
fn kill(plan: &Plan, nodes: &mut [Node], time: Duration) -> Result<u32> {
    let (start, mut kills) = (Instant::now(), 0);
    while start.elapsed() + KILL_INTERVAL <= time {
        let place = kills as usize % nodes.len();
        shell::pause((KILL_INTERVAL * (kills + 1)).saturating_sub(start.elapsed() + DOWN));
        nodes[place].kill();
        shell::pause(DOWN);
        nodes[place].start(plan)?;
        kills += 1;
    }
    Ok(kills)
}

/// Registers one instance after the other until `is_over` is set. Returns the number of
/// acknowledged registrations.
fn register(ports: &[u16], is_over: &AtomicBool) -> Result<u64> {
    let mut clients = Clients::new(ports);
    let mut registered = 0;
    while !is_over.load(Ordering::Relaxed) {
        let instance = json!({
            "id": format!("kept-{registered}"), "service": format!("kept-{}", registered % 50),
            "namespace": NAMESPACE, "host": "10.0.0.1", "port": 80,
        });
        clients.call("RegisterInstance", &instance)?;
        registered += 1;
    }
    Ok(registered)
}

/// Sends heartbeats for the steady instances once a second, each to the next node, and counts the
/// instances that a node shows as unhealthy.
fn beat(ports: &[u16], is_over: &AtomicBool) -> Result<Beats> {
    let mut clients = Clients::new(ports);
    let mut beats = Beats::default();
    let mut answered = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let round = Instant::now();
        for number in 0..STEADY {
            clients.call("Heartbeat", &steady(number))?;
        }
        beats.longest = beats.longest.max(answered.elapsed());
        answered = Instant::now();
        beats.rounds += 1;
        let service = json!({ "name": STEADY_SERVICE, "namespace": NAMESPACE });
        let answer =
            clients.call("Discover", &json!({ "type": "INSTANCE", "service": service }))?;
        let instances = answer["instances"].as_array().map_or(&[][..], Vec::as_slice);
        let unhealthy = instances.iter().filter(|instance| instance["healthy"] == json!(false));
        beats.false_expiries += unhealthy.count() as u64;
        shell::pause(Duration::from_secs(1).saturating_sub(round.elapsed()));
    }
    Ok(beats)
}

/// Returns the number of acknowledged registrations that are missing on at least one node in the
/// end.
fn lost(ports: &[u16], registered: u64) -> Result<u64> {
    let start = Instant::now();
    loop {
        let mut fewest = u64::MAX;
        for port in ports {
            let mut caller = Caller::open(*port)?;
            let counts = (0..50).map(|part| caller.instance_count(&format!("kept-{part}")));
            fewest = fewest.min(counts.sum::<Result<usize>>()? as u64);
        }
        if fewest >= registered || start.elapsed() > SETTLED_MAX {
            return Ok(registered.saturating_sub(fewest));
        }
    }
}

impl Clients {
    fn new(ports: &[u16]) -> Self {
        let callers = ports.iter().map(|_| None).collect();
        Self { ports: ports.to_vec(), callers, turn: 0 }
    }

    /// Calls the next node, and the following ones if the call fails.
    fn call(&mut self, method: &str, message: &Value) -> Result<Value> {
        let start = Instant::now();
        loop {
            self.turn = (self.turn + 1) % self.ports.len();
            match self.call_at(self.turn, method, message) {
                Ok(answer) => return Ok(answer),
                Err(error) if start.elapsed() > SETTLED_MAX => return Err(error),
                Err(_) => self.callers[self.turn] = None,
            }
        }
    }

    fn call_at(&mut self, place: usize, method: &str, message: &Value) -> Result<Value> {
        let caller = match &mut self.callers[place] {
            Some(caller) => caller,
            none => none.insert(Caller::open(self.ports[place])?),
        };
        caller.call(method, message)
    }
}

/// Returns the registration of the instance with this number, which sends heartbeats.
pub(super) fn steady(number: usize) -> Value {
    json!({
        "id": format!("steady-{number}"), "service": STEADY_SERVICE, "namespace": NAMESPACE,
        "host": "10.0.0.3", "port": 1_000 + number, "enable_health_check": true,
        "health_check": { "type": 1, "heartbeat": { "ttl": STEADY_TTL } },
    })
}
