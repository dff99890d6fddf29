//! What clients of three nodes of a registry were told, put in order: they register, deregister and read at once,
//! while a node is killed and the database stands still. Nothing that was answered is lost, nothing comes back that
//! has gone, and no node goes back behind what it has shown.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tollhouse_testkit::history::{Ending, History, Sight};
use tollhouse_testkit::message::Side;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::wire::Wire;
use tollhouse_testkit::{Database, Gateway, GatewayBuilder, Message, RedisServer, ReservedPort};

use crate::registry_shared::on;
use crate::support::{Over, gateway, registry_request};

const NODES: usize = 3;
const CLIENTS: u64 = 4;
const INSTANCES: usize = 4;
const SERVICE: &str = "history";

/// Writes that have to be answered before the next thing happens.
const WRITES: u64 = 40;

/// Between two things that cost nothing to ask for.
const PAUSE: Duration = Duration::from_millis(2);

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unanswered {
    /// Nobody listens: nothing can have come of it.
    Refused,
    /// Something may have come of it.
    Lost,
}

/// A client's connection to a node, opened anew where it breaks.
struct Caller {
    address: SocketAddr,
    wire: Option<Wire>,
}

impl Caller {
    fn ask(&mut self, call: &str, body: &Value) -> Result<Value, Unanswered> {
        let wire = match &mut self.wire {
            Some(wire) => wire,
            none => {
                let stream = TcpStream::connect(self.address).map_err(|_| Unanswered::Refused)?;
                none.insert(Wire::new(stream).map_err(|_| Unanswered::Refused)?)
            }
        };
        let sent = wire.send(registry_request(call, body).as_bytes());
        let answer = sent.and_then(|()| Message::read(wire, Side::Answer));
        let Ok(Some(answer)) = answer else {
            self.wire = None;
            return Err(Unanswered::Lost);
        };
        if answer.field("connection") == Some("close") {
            self.wire = None;
        }
        Ok(serde_json::from_slice(&answer.body).expect("the answer is JSON"))
    }

    /// Asks for a change.
    fn change(&mut self, call: &str, instance: &Value) -> Ending {
        match self.ask(call, instance) {
            Ok(answer) => match answer["code"].as_u64() {
                Some(200_000) => Ending::Done,
                // The store does not answer; what it has been told it may still do.
                Some(500_000..) => Ending::Unknown,
                _ => panic!("{call} {instance} was answered with {answer}"),
            },
            Err(Unanswered::Refused) => Ending::Refused,
            Err(Unanswered::Lost) => Ending::Unknown,
        }
    }

    /// Under which port an instance is shown.
    fn port(&mut self, instance: usize) -> Option<Option<u64>> {
        let service = json!({ "name": SERVICE, "namespace": "default" });
        let answer =
            self.ask("Discover", &json!({ "type": "INSTANCE", "service": service })).ok()?;
        assert_eq!(answer["code"], 200_000, "{answer}");
        let id = id(instance);
        let instances = answer["instances"].as_array().map_or(&[][..], Vec::as_slice);
        let found = instances.iter().find(|it| it["id"] == *id);
        Some(found.map(|it| it["port"].as_u64().expect("a port")))
    }
}

fn id(instance: usize) -> String {
    format!("i{instance}")
}

fn described(id: &str, port: u64) -> Value {
    json!({ "id": id, "service": SERVICE, "namespace": "default", "host": "10.0.0.1", "port": port })
}

/// What the clients share.
struct Clients {
    nodes: Vec<SocketAddr>,
    history: History,
    /// No two registrations say the same.
    next_port: AtomicU64,
    /// What was answered, by the node that did, and what was not.
    done: [AtomicU64; NODES],
    shown: AtomicU64,
    unknown: AtomicU64,
    is_over: AtomicBool,
}

impl Clients {
    fn new(nodes: Vec<SocketAddr>) -> Self {
        Self {
            nodes,
            history: History::default(),
            next_port: AtomicU64::new(1),
            done: Default::default(),
            shown: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    fn callers(&self) -> Vec<Caller> {
        self.nodes.iter().map(|address| Caller { address: *address, wire: None }).collect()
    }

    /// Changes one instance at one node and looks at another at another, until it is over.
    fn run(&self, seed: u64) {
        let (mut random, mut callers) = (seed, self.callers());
        let mut below = |count: usize| {
            // Numbers that differ are enough (Knuth's).
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % count
        };
        while !self.is_over.load(Ordering::Relaxed) {
            let (instance, node) = (below(INSTANCES), below(NODES));
            self.write(&mut callers[node], instance, node, below(3) > 0);
            let (instance, node) = (below(INSTANCES), below(NODES));
            self.read(&mut callers[node], instance, node, Sight::OfItsNode);
        }
    }

    fn write(&self, caller: &mut Caller, instance: usize, node: usize, is_there: bool) {
        let port = self.next_port.fetch_add(1, Ordering::Relaxed);
        let (call, value) = match is_there {
            true => ("RegisterInstance", Some(port)),
            false => ("DeregisterInstance", None),
        };
        let ask = || caller.change(call, &described(&id(instance), port));
        match self.history.write(instance, node, value, ask) {
            Ending::Done => self.done[node].fetch_add(1, Ordering::Relaxed),
            Ending::Unknown => self.unknown.fetch_add(1, Ordering::Relaxed),
            // A node that is away refuses as fast as it is asked.
            Ending::Refused => {
                std::thread::park_timeout(PAUSE);
                0
            }
        };
    }

    /// Looks at one instance after the other, at one node after the other, until it is over.
    fn look(&self) {
        let mut callers = self.callers();
        for turn in 0_usize.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let (instance, node) = (turn / NODES % INSTANCES, turn % NODES);
            self.read(&mut callers[node], instance, node, Sight::OfItsNode);
            std::thread::park_timeout(PAUSE);
        }
    }

    fn read(&self, caller: &mut Caller, instance: usize, node: usize, sight: Sight) -> bool {
        let found = self.history.read(instance, node, sight, || caller.port(instance));
        self.shown.fetch_add(u64::from(found.is_some()), Ordering::Relaxed);
        found.is_some()
    }

    fn all_done(&self) -> u64 {
        self.done.iter().map(|done| done.load(Ordering::Relaxed)).sum()
    }

    fn wait_writes(&self, when: &str) {
        let wanted = self.all_done() + WRITES;
        wait_for(&format!("writes {when}"), || (self.all_done() >= wanted).then_some(()));
    }

    fn wait_more(&self, what: &str, counter: &AtomicU64, more: u64) {
        let wanted = counter.load(Ordering::Relaxed) + more;
        wait_for(what, || (counter.load(Ordering::Relaxed) >= wanted).then_some(()));
    }

    /// With all of it over: a mark that each node has set reaches all, so that they have taken in whatever came before;
    /// what they show then is what is.
    fn read_in_the_end(&self) {
        let mut callers = self.callers();
        for (node, caller) in callers.iter_mut().enumerate() {
            let mark = described(&format!("mark-{node}"), 1);
            wait_for("a mark to be taken", || {
                (caller.change("RegisterInstance", &mark) == Ending::Done).then_some(())
            });
        }
        let service = json!({ "name": SERVICE, "namespace": "default" });
        let question = json!({ "type": "INSTANCE", "service": service });
        let revisions = wait_for("all nodes to have all marks at one revision", || {
            let answers: Vec<Value> = callers
                .iter_mut()
                .map(|it| it.ask("Discover", &question))
                .collect::<Result<_, _>>()
                .ok()?;
            let is_marked = |answer: &Value| {
                let instances = answer["instances"].as_array().map_or(&[][..], Vec::as_slice);
                let marks =
                    instances.iter().filter_map(|it| it["id"].as_str()?.strip_prefix("mark-"));
                marks.count() == NODES
            };
            let revision = |answer: &Value| answer["service"]["revision"].clone();
            let is_same = answers.iter().all(|it| revision(it) == revision(&answers[0]));
            (is_same && answers.iter().all(is_marked)).then(|| revision(&answers[0]))
        });
        assert!(revisions.as_str().is_some_and(|revision| !revision.is_empty()));
        for (node, caller) in callers.iter_mut().enumerate() {
            for instance in 0..INSTANCES {
                assert!(
                    self.read(caller, instance, node, Sight::Everywhere),
                    "node {node} answers"
                );
            }
        }
    }
}

/// A node at an address that it keeps.
fn node(scheme: &str, engines: (&Database, &RedisServer), address: SocketAddr) -> GatewayBuilder {
    again(scheme, engines, address, gateway().resources(&json!({})))
}

fn again(
    scheme: &str,
    (database, redis): (&Database, &RedisServer),
    address: SocketAddr,
    node: GatewayBuilder,
) -> GatewayBuilder {
    on(scheme, database, node)
        .set("registry.store.redis", &format!("redis://127.0.0.1:{}", redis.port))
        .set("listen.registry_http", &address.to_string())
}

fn check(scheme: &str, mut database: Database) {
    let Some(redis) = RedisServer::start(&[]) else { return };
    let ports = [(); NODES].map(|()| ReservedPort::new());
    let addresses: Vec<SocketAddr> = ports.iter().map(ReservedPort::address).collect();
    let mut nodes: Vec<Option<Gateway>> = addresses
        .iter()
        .map(|address| Some(node(scheme, (&database, &redis), *address).start()))
        .collect();
    let clients = Clients::new(addresses.clone());
    // The service is there before anybody looks.
    clients.callers()[0].change("RegisterInstance", &described("anchor", 1));
    let is_known = |caller: &mut Caller| {
        caller
            .ask(
                "Discover",
                &json!({
                    "type": "INSTANCE", "service": { "name": SERVICE, "namespace": "default" },
                }),
            )
            .is_ok_and(|answer| answer["code"] == 200_000)
    };
    for caller in &mut clients.callers() {
        wait_for("the service", || is_known(caller).then_some(()));
    }
    std::thread::scope(|scope| {
        let over = Over(&clients.is_over);
        for seed in 0..CLIENTS {
            let clients = &clients;
            scope.spawn(move || clients.run(seed));
        }
        scope.spawn(|| clients.look());
        clients.wait_writes("while all is well");
        database.pause();
        clients.wait_more("a write that nobody answers for", &clients.unknown, 1);
        clients.wait_more("reads without a database", &clients.shown, 30);
        let killed = nodes[0].take().expect("it runs").kill();
        database.wake();
        clients.wait_writes("at the two that are left");
        nodes[0] = Some(again(scheme, (&database, &redis), addresses[0], killed).start());
        clients.wait_more("writes at the one that is back", &clients.done[0], 10);
        database.kill();
        database.run();
        clients.wait_writes("after the database was killed");
        drop(over);
    });
    clients.read_in_the_end();
    let disorder = clients.history.check().err();
    assert!(
        disorder.is_none(),
        "{scheme}: {}",
        disorder.map_or(String::new(), |it| it.to_string())
    );
}

#[test]
fn whatever_clients_of_a_mariadb_were_told_has_one_order() {
    let Some(database) = Database::mariadb() else { return };
    check("mysql", database);
}

#[test]
fn whatever_clients_of_a_postgresql_were_told_has_one_order() {
    let Some(database) = Database::postgres() else { return };
    check("postgresql", database);
}
