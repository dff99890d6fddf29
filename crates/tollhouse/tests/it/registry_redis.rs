//! The Redis that carries heartbeats between nodes stands still, is emptied, is restarted with nothing, fails over:
//! whoever beats stays healthy, whoever does not expires, and the nodes say what is wrong.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Database, Gateway, RawClient, RedisServer};

use crate::registry_shared::{address, node};
use crate::support::{Over, discover, registry_request};

const SERVICE: &str = "beating";

/// The interval of those that beat all the time, in seconds, and of those that fall silent.
const STEADY_TTL: u64 = 2;
const SILENT_TTL: u64 = 1;

/// How long the steady may be silent.
const STEADY_EXPIRY: Duration = Duration::from_secs(3 * STEADY_TTL);

/// Between two rounds of beats.
const PAUSE: Duration = Duration::from_millis(50);

fn beating(id: &str, ttl: u64) -> Value {
    json!({
        "id": id, "service": SERVICE, "namespace": "default", "host": "10.0.0.1", "port": 80,
        "enable_health_check": true, "health_check": {"type": 1, "heartbeat": {"ttl": ttl}},
    })
}

/// Asks a node; it has to do what it is asked.
fn ask(address: SocketAddr, call: &str, id: &str, ttl: u64) {
    let answer = RawClient::connect(address).ask(registry_request(call, &beating(id, ttl)));
    assert_eq!(answer.status(), 200, "{call} of {id}: {}", answer.text());
}

fn is_healthy(address: SocketAddr, id: &str) -> bool {
    let answer = discover(address, SERVICE);
    let instances = answer["instances"].as_array().map_or(&[][..], Vec::as_slice);
    let found =
        instances.iter().find(|it| it["id"] == id).unwrap_or_else(|| panic!("no {id}: {answer}"));
    found["healthy"].as_bool().expect("it says so")
}

/// Two nodes with a Redis between them.
struct Pair {
    _database: Database,
    nodes: [Gateway; 2],
    addresses: [SocketAddr; 2],
    registered: Instant,
}

impl Pair {
    /// Of nodes that find their Redis as these settings say.
    fn start(settings: &[(&str, String)]) -> Option<Self> {
        let database = Database::mariadb()?;
        let nodes = [(); 2].map(|()| {
            let node = node("mysql", &database);
            settings.iter().fold(node, |node, (key, value)| node.set(key, value)).start()
        });
        let addresses = nodes.each_ref().map(address);
        let registered = Instant::now();
        for (id, ttl) in [("steady", STEADY_TTL), ("silent", SILENT_TTL)] {
            ask(addresses[0], "RegisterInstance", id, ttl);
        }
        wait_for("both to have both", || {
            let counts = addresses
                .map(|address| discover(address, SERVICE)["instances"].as_array().map(Vec::len));
            (counts == [Some(2); 2]).then_some(())
        });
        Some(Self { _database: database, nodes, addresses, registered })
    }

    fn on(redis: &RedisServer) -> Option<Self> {
        Self::start(&[("registry.store.redis", format!("redis://127.0.0.1:{}", redis.port))])
    }

    /// Has one instance beat at both nodes in turn while something is done to the Redis. Nobody may take it for
    /// silent unless it was, by a clock that says at least how long it was.
    fn while_steady_beats(&self, act: impl FnOnce(&Self)) {
        self.while_steady_beats_at(&[0, 1], act);
    }

    /// The same at some of the nodes, which alone are asked.
    fn while_steady_beats_at(&self, places: &[usize], act: impl FnOnce(&Self)) {
        let addresses: Vec<SocketAddr> =
            places.iter().map(|place| self.addresses[*place]).collect();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut longest = Duration::ZERO;
                let mut heard = self.registered;
                for turn in 0_usize.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let asked = Instant::now();
                    let asked_one = addresses[turn % addresses.len()];
                    ask(asked_one, "Heartbeat", "steady", STEADY_TTL);
                    longest = longest.max(heard.elapsed());
                    heard = asked;
                    for address in addresses.iter().copied() {
                        let was_silent = longest >= STEADY_EXPIRY;
                        assert!(
                            is_healthy(address, "steady") || was_silent,
                            "it beat every {longest:?}"
                        );
                    }
                    std::thread::park_timeout(PAUSE);
                }
            });
            let over = Over(&is_over);
            act(self);
            drop(over);
        });
    }

    /// Lets the other instance be heard of at one node and then fall silent: both nodes find so.
    fn silent_expires(&self, when: &str) {
        wait_for(&format!("it to be heard of {when}"), || {
            ask(self.addresses[0], "Heartbeat", "silent", SILENT_TTL);
            self.addresses.iter().all(|address| is_healthy(*address, "silent")).then_some(())
        });
        wait_for(&format!("the silent to expire {when}"), || {
            self.addresses.iter().all(|address| !is_healthy(*address, "silent")).then_some(())
        });
    }

    /// Waits until both nodes say that their Redis does, or does not, carry beats.
    fn wait_down(&self, is_down: bool) {
        for node in &self.nodes {
            wait_for(&format!("tollhouse_registry_redis_down to be {is_down}"), || {
                ((node.metric("tollhouse_registry_redis_down") > 0.0) == is_down).then_some(())
            });
        }
    }

    /// Waits for what both nodes have to have logged.
    fn wait_logged(&self, text: &str) {
        for node in &self.nodes {
            wait_for(text, || node.output().text().contains(text).then_some(()));
        }
    }
}

#[test]
fn a_redis_that_stands_still_takes_nobodys_health_and_keeps_nobody_alive() {
    let Some(redis) = RedisServer::start(&[]) else { return };
    let Some(pair) = Pair::on(&redis) else { return };
    pair.while_steady_beats(|pair| {
        pair.silent_expires("with a Redis");
        redis.pause();
        pair.wait_down(true);
        pair.wait_logged("heartbeats go over the database");
        // Eight intervals and more.
        for turn in ["first", "second"] {
            pair.silent_expires(&format!("without a Redis, the {turn} time"));
        }
        redis.wake();
        pair.wait_down(false);
        pair.wait_logged("heartbeats go over Redis again");
        pair.silent_expires("with a Redis again");
    });
}

#[test]
fn a_redis_that_was_emptied_is_noticed_and_takes_nobodys_health() {
    let Some(redis) = RedisServer::start(&[]) else { return };
    let Some(pair) = Pair::on(&redis) else { return };
    let rounds = || {
        let keys = redis.ask(&["keys", "*beats:*"]);
        keys.lines().map(|key| redis.ask(&["xinfo", "stream", key])).collect::<String>()
    };
    pair.while_steady_beats(|pair| {
        let [first, second] = &pair.nodes;
        pair.silent_expires("at first");
        // Rounds that the first sends while the second stands still are gone before that can read them. It misses them
        // once it has read one before.
        let another_round = || {
            let before = rounds();
            wait_for("another round", || (rounds() != before).then_some(()));
        };
        wait_for("the loss to be noticed", || {
            second.pause();
            another_round();
            redis.ask(&["flushall"]);
            second.wake();
            // Time for both to send and to read: what the second has not read before it cannot miss the next time.
            (0..4).for_each(|_| another_round());
            (second.metric("tollhouse_registry_round_losses_total") > 0.0).then_some(())
        });
        let text = "rounds of heartbeats are missing";
        wait_for(text, || second.output().text().contains(text).then_some(()));
        assert_eq!(first.metric("tollhouse_registry_redis_down"), 0.0);
        pair.silent_expires("after it was emptied");
    });
}

#[test]
fn a_redis_that_comes_back_with_nothing_takes_nobodys_health() {
    let Some(redis) = RedisServer::start(&[]) else { return };
    let Some(pair) = Pair::on(&redis) else { return };
    let redis = Mutex::new(redis);
    pair.while_steady_beats(|pair| {
        let mut redis = redis.lock().expect("nobody else has it");
        redis.kill();
        pair.wait_down(true);
        pair.silent_expires("without a Redis");
        redis.run();
        pair.wait_down(false);
        pair.silent_expires("with a new one");
    });
}

#[test]
fn a_redis_that_fails_over_takes_nobodys_health() {
    let Some(mut master) = RedisServer::start(&[]) else { return };
    let port = master.port.to_string();
    let Some(replica) = RedisServer::start(&["--replicaof", "127.0.0.1", &port]) else { return };
    let Some(sentinel) = RedisServer::sentinel(master.port) else { return };
    let prompt = ["sentinel", "set", "counters", "down-after-milliseconds", "500"];
    assert!(sentinel.ask(&prompt).starts_with("OK"));
    let settings = [
        ("registry.store.redis", format!("redis://127.0.0.1:{}", sentinel.port)),
        ("registry.store.redis_master", "counters".to_owned()),
    ];
    let Some(pair) = Pair::start(&settings) else { return };
    let known = replica.port.to_string();
    sentinel.wait_until(&["sentinel", "replicas", "counters"], |answer| answer.contains(&known));
    pair.while_steady_beats(|pair| {
        pair.silent_expires("at the first master");
        master.kill();
        pair.wait_down(true);
        replica.wait_until(&["role"], |answer| answer.starts_with("master"));
        pair.wait_down(false);
        assert!(replica.ask(&["keys", "*beats:*"]).contains("beats:"), "rounds go over it");
        pair.silent_expires("at the next one");
    });
}

/// How many nodes this one counts.
fn members(node: &Gateway) -> f64 {
    node.metric("tollhouse_registry_members")
}

#[test]
fn a_node_that_is_suspended_and_counted_out_takes_nobodys_health_and_joins_again() {
    let Some(pair) = Pair::start(&[]) else { return };
    pair.while_steady_beats_at(&[1], |pair| {
        pair.nodes[0].pause();
        wait_for("it to be counted out", || (members(&pair.nodes[1]) < 1.5).then_some(()));
        pair.nodes[0].wake();
        wait_for("it to join again", || {
            pair.nodes.iter().all(|node| members(node) > 1.5).then_some(())
        });
        // It has not taken itself for the one who knows.
        assert!(is_healthy(pair.addresses[0], "steady"));
    });
    pair.while_steady_beats(|pair| pair.silent_expires("after it has joined again"));
}

/// The streams that a master of a cluster holds.
fn streams(master: &RedisServer) -> Vec<String> {
    let keys = master.ask(&["keys", "*beats:*"]);
    keys.lines().filter(|key| !key.is_empty()).map(str::to_owned).collect()
}

#[test]
fn slots_that_move_between_the_masters_of_a_cluster_cost_nobody_their_health() {
    let Some(cluster) = RedisServer::cluster() else { return };
    let urls: Vec<_> =
        cluster.iter().map(|server| format!("redis://127.0.0.1:{}", server.port)).collect();
    let Some(pair) = Pair::start(&[("registry.store.redis", urls.join(","))]) else { return };
    pair.while_steady_beats(|pair| {
        wait_for("both to send", || {
            (cluster.iter().map(|master| streams(master).len()).sum::<usize>() >= 2).then_some(())
        });
        // Each has been everywhere once.
        for _ in 0..cluster.len() {
            for (place, master) in cluster.iter().enumerate() {
                for stream in streams(master) {
                    master.give_slot(&stream, &cluster[(place + 1) % cluster.len()]);
                }
            }
        }
        pair.silent_expires("after all slots have moved");
        for node in &pair.nodes {
            assert!(node.metric("tollhouse_registry_redis_down") < 1.0);
        }
    });
}
