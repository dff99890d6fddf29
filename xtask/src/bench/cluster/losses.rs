//! What is lost: three nodes of a registry of which one is killed every ten seconds while clients register and beat
//! at whichever lives; then all of them without their database.

use super::nodes::{Engines, Node};
use crate::bench::Plan;
use crate::bench::budget::{self, Figure};
use crate::bench::cases::BODY_BYTES;
use crate::bench::client::Connection;
use crate::bench::origin;
use crate::bench::registry::{Caller, NAMESPACE};
use crate::shell;
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const KILLING: Duration = Duration::from_secs(600);
const QUICK_KILLING: Duration = Duration::from_secs(25);
/// How often one is killed, and after how long it is started again.
const KILL_INTERVAL: Duration = Duration::from_secs(10);
const DOWN: Duration = Duration::from_secs(4);
/// How long the database is away.
const AWAY: Duration = Duration::from_secs(60);
const QUICK_AWAY: Duration = Duration::from_secs(8);
/// Instances that beat once a second and may be silent for six.
const STEADY: usize = 40;
const STEADY_TTL: u64 = 2;
const STEADY_SERVICE: &str = "steady";
/// What has not come to be by then is not going to.
const SETTLED_MAX: Duration = Duration::from_secs(30);

/// Runs both.
pub(super) fn run(plan: &Plan) -> Result<Vec<Figure>> {
    let mut figures = kill_nodes(plan)?;
    figures.extend(stop_database(plan)?);
    Ok(figures)
}

/// The clients of three nodes.
struct Clients {
    nodes: Vec<Node>,
    callers: Vec<Option<Caller>>,
    turn: usize,
    registered: u64,
    refused: u64,
    false_expiries: u64,
}

fn kill_nodes(plan: &Plan) -> Result<Vec<Figure>> {
    let engines = Engines::start()?;
    let mut clients = Clients::start(plan, &engines)?;
    let time = if plan.is_quick { QUICK_KILLING } else { KILLING };
    let (start, mut kills) = (Instant::now(), 0);
    let (mut down, mut second): (Option<(usize, Duration)>, u64) = (None, 0);
    while start.elapsed() < time {
        clients.register()?;
        if start.elapsed().as_secs() > second {
            second = start.elapsed().as_secs();
            clients.beat_all()?;
            clients.look()?;
        }
        match down {
            Some((place, at)) if start.elapsed() > at => {
                clients.nodes[place].start(plan)?;
                down = None;
            }
            None if start.elapsed() > KILL_INTERVAL * (kills + 1) => {
                let place = kills as usize % clients.nodes.len();
                clients.nodes[place].kill();
                clients.callers[place] = None;
                down = Some((place, start.elapsed() + DOWN));
                kills += 1;
            }
            _ => {}
        }
    }
    if let Some((place, _)) = down {
        clients.nodes[place].start(plan)?;
    }
    let lost = clients.lost()?;
    let title = |what: &str| format!("three nodes, {kills} killed in {} s: {what}", time.as_secs());
    Ok(vec![
        Figure::free(title("registrations acknowledged"), clients.registered as f64),
        Figure::judged(title("of these lost"), lost as f64, budget::NOTHING_LOST),
        Figure::judged(
            title("instances that beat and were shown as unhealthy"),
            clients.false_expiries as f64,
            budget::NOTHING_LOST,
        ),
        Figure::free(title("calls that had to be made again"), clients.refused as f64),
    ])
}

impl Clients {
    fn start(plan: &Plan, engines: &Engines) -> Result<Self> {
        let nodes = (0..3).map(|_| Node::of_registry(plan, engines, &json!({})));
        let nodes = nodes.collect::<Result<Vec<_>>>()?;
        let callers = nodes.iter().map(|_| None).collect();
        let mut clients =
            Self { nodes, callers, turn: 0, registered: 0, refused: 0, false_expiries: 0 };
        for number in 0..STEADY {
            clients.call("RegisterInstance", &steady(number))?;
        }
        Ok(clients)
    }

    fn register(&mut self) -> Result<()> {
        let number = self.registered;
        let instance = json!({
            "id": format!("kept-{number}"), "service": format!("kept-{}", number % 50),
            "namespace": NAMESPACE, "host": "10.0.0.1", "port": 80,
        });
        self.call("RegisterInstance", &instance)?;
        self.registered += 1;
        Ok(())
    }

    fn beat_all(&mut self) -> Result<()> {
        (0..STEADY).try_for_each(|number| self.call("Heartbeat", &steady(number)).map(|_| ()))
    }

    /// Looks at one of the nodes whether anybody who beats is unhealthy there.
    fn look(&mut self) -> Result<()> {
        let service = json!({ "name": STEADY_SERVICE, "namespace": NAMESPACE });
        let question = json!({ "type": "INSTANCE", "service": service });
        let answer = self.call("Discover", &question)?;
        let instances = answer["instances"].as_array().map_or(&[][..], Vec::as_slice);
        let unhealthy = instances.iter().filter(|instance| instance["healthy"] == json!(false));
        self.false_expiries += unhealthy.count() as u64;
        Ok(())
    }

    /// Asks the next node that lives, and another one where that fails, as SDKs do.
    fn call(&mut self, method: &str, message: &Value) -> Result<Value> {
        let start = Instant::now();
        loop {
            self.turn = (self.turn + 1) % self.nodes.len();
            match self.call_at(self.turn, method, message) {
                Ok(answer) => return Ok(answer),
                Err(error) if start.elapsed() > SETTLED_MAX => return Err(error),
                Err(_) => {
                    self.callers[self.turn] = None;
                    self.refused += 1;
                }
            }
        }
    }

    fn call_at(&mut self, place: usize, method: &str, message: &Value) -> Result<Value> {
        let caller = match &mut self.callers[place] {
            Some(caller) => caller,
            none => none.insert(self.nodes[place].caller()?),
        };
        caller.call(method, message)
    }

    /// How many of the registrations are not on all nodes in the end.
    fn lost(&mut self) -> Result<u64> {
        let start = Instant::now();
        loop {
            let mut fewest = u64::MAX;
            for place in 0..self.nodes.len() {
                let mut caller = self.nodes[place].caller()?;
                let counts = (0..50).map(|part| caller.instance_count(&format!("kept-{part}")));
                fewest = fewest.min(counts.sum::<Result<usize>>()? as u64);
            }
            if fewest >= self.registered || start.elapsed() > SETTLED_MAX {
                return Ok(self.registered.saturating_sub(fewest));
            }
        }
    }
}

fn steady(number: usize) -> Value {
    json!({
        "id": format!("steady-{number}"), "service": STEADY_SERVICE, "namespace": NAMESPACE,
        "host": "10.0.0.3", "port": 1_000 + number, "enable_health_check": true,
        "health_check": { "type": 1, "heartbeat": { "ttl": STEADY_TTL } },
    })
}

fn stop_database(plan: &Plan) -> Result<Vec<Figure>> {
    let origin = origin::start(&plan.cores, BODY_BYTES)?;
    let mut engines = Engines::start()?;
    let upstream = json!({
        "type": "roundrobin", "nodes": { format!("127.0.0.1:{}", origin.port): 1 },
    });
    let resources = json!({ "routes": [{ "id": "all", "uri": "/*", "upstream": upstream }] });
    let node = Node::of_registry(plan, &engines, &resources)?;
    let mut caller = node.caller()?;
    caller.call("RegisterInstance", &steady(0))?;
    let mut client = Connection::open(node.ports.gateway)?;
    engines.database.kill();
    let time = if plan.is_quick { QUICK_AWAY } else { AWAY };
    let (start, mut requests, mut lost) = (Instant::now(), 0_u64, 0_u64);
    let (mut beats, mut unanswered) = (0_u64, 0_u64);
    while start.elapsed() < time {
        requests += 1;
        lost += u64::from(client.get("/")? != 200);
        if requests.is_multiple_of(50) {
            beats += 1;
            let is_known = caller.instance_count(STEADY_SERVICE)? == 1;
            let beat = caller.call("Heartbeat", &steady(0));
            unanswered += u64::from(!is_known || beat.is_err());
        }
        shell::pause(Duration::from_millis(1));
    }
    if caller.call("RegisterInstance", &steady(1)).is_ok() {
        bail!("a registration was acknowledged without a database");
    }
    engines.database.run();
    let back = Instant::now();
    while caller.call("RegisterInstance", &steady(1)).is_err() {
        if back.elapsed() > SETTLED_MAX {
            bail!("no registration after {SETTLED_MAX:?} with the database back");
        }
    }
    let title = |what: &str| format!("database away for {} s: {what}", time.as_secs());
    Ok(vec![
        Figure::free(title("requests to the gateway"), requests as f64),
        Figure::judged(title("of these lost"), lost as f64, budget::NOTHING_LOST),
        Figure::free(title("heartbeats and Discovers"), beats as f64),
        Figure::judged(title("of these unanswered"), unanswered as f64, budget::NOTHING_LOST),
        Figure::free(
            title("until a registration is taken again, ms"),
            back.elapsed().as_secs_f64() * 1e3,
        ),
    ])
}
