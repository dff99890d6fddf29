//! Many seeds of random clients on random nodes, while nodes are killed, started, cut off, and lose
//! answers and places, against a simple model.

use tollhouse_stdx::Random;
use tollhouse_testkit::history::{Ending, History, Sight};

use super::*;

/// Range of seeds; the environment variable `SEEDS` overrides it, such as `SEEDS=50..51`.
const SEEDS: std::ops::Range<u64> = 0..120;
const STEPS: u32 = 80;
const TTL: Duration = Duration::from_secs(1);

/// Knowledge of a client about its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The registration was answered.
    Registered,
    /// The removal was answered.
    Gone,
    /// The outcome of the last request is unknown.
    Unknown,
}

#[derive(Debug)]
struct Client {
    known: Known,
    /// Whether the client sends a heartbeat every interval, to a node that answers.
    is_steady: bool,
    /// Time when the last heartbeat, or the registration, was answered by a node that still runs.
    heard_ms: u64,
}

struct Simulation {
    random: Random,
    bench: Bench,
    nodes: Vec<Option<Node>>,
    clients: Vec<Client>,
    /// Time when the last node was killed or cut off.
    trouble_ms: u64,
    now_ms: u64,
    /// History of each instance, by the ports that it was registered with.
    history: History,
    next_port: u32,
    looks: usize,
}

impl Simulation {
    async fn new(seed: u64) -> Self {
        let server = (seed % 2 == 1).then(Arc::<Server>::default);
        // The clocks of every other pair of seeds are wrong by minutes.
        let skew = if seed % 4 < 2 { Duration::ZERO } else { 20 * 60 * SECOND };
        let bench = Bench { server, skew, ..Bench::seeded(seed) };
        let mut nodes = Vec::new();
        for name in ["a", "b", "c"] {
            nodes.push(Some(bench.start(name).await));
        }
        let client = || Client { known: Known::Gone, is_steady: false, heard_ms: 0 };
        let clients = (0..12).map(|_| client()).collect();
        let random = Random::seeded(seed);
        let history = History::default();
        Self {
            random,
            bench,
            nodes,
            clients,
            trouble_ms: 0,
            now_ms: 0,
            history,
            next_port: 1,
            looks: 0,
        }
    }

    fn any(&mut self, count: usize) -> usize {
        self.random.below(u32::try_from(count).expect("a few")) as usize
    }

    /// Returns the index of a running node.
    fn any_place(&mut self) -> usize {
        let living: Vec<usize> =
            (0..self.nodes.len()).filter(|place| self.nodes[*place].is_some()).collect();
        living[self.any(living.len())]
    }

    /// Returns a running node.
    fn any_node(&mut self) -> &Node {
        let place = self.any_place();
        self.nodes[place].as_ref().expect("it lives")
    }

    /// Sends a command about an instance to a node. Returns whether the node answered with success.
    async fn change(&mut self, number: usize, port: Option<u32>, command: Command) -> bool {
        let place = self.any_place();
        let node = self.nodes[place].as_ref().expect("it lives");
        let called = self.history.call();
        let is_done = node.registry.submit(command).await.is_ok();
        let ending = if is_done { Ending::Done } else { Ending::Unknown };
        self.history.end_write((number, place), port.map(u64::from), called, ending);
        is_done
    }

    /// Checks all instances at the next node in turn: its view may be late, but must not go back.
    fn look(&mut self) {
        self.looks += 1;
        let place = self.looks % self.nodes.len();
        let Some(node) = &self.nodes[place] else { return };
        let state = node.registry.state();
        for number in 0..self.clients.len() {
            let port = state.instance(&format!("i{number}")).map(|instance| instance.port.into());
            self.history.read(number, place, Sight::OfItsNode, || Some(port));
        }
    }

    async fn step(&mut self) {
        match self.random.below(21) {
            0..=6 => self.register().await,
            7..=8 => self.deregister().await,
            9..=10 => self.fall_silent(),
            11..=12 => self.delete_service().await,
            13 => self.kill().await,
            14 => self.start().await,
            15 => self.cut(),
            16 => self.lose_answers(),
            17 => self.upset_server(),
            18 => self.any_node().faults.is_lost.store(true, Ordering::Relaxed),
            _ => {
                let time = 100 * (1 + self.random.below(15));
                self.pass(Duration::from_millis(time.into())).await;
            }
        }
    }

    async fn register(&mut self) {
        let number = self.any(self.clients.len());
        let service = format!("svc{}", number % 3);
        let port = self.next_port;
        self.next_port += 1;
        let one = NewInstance {
            service: service.as_str().into(),
            port: Some(port),
            ..new(&format!("i{number}"), Some(1))
        };
        let register = Command::Register(Box::new(one));
        let is_done = self.change(number, Some(port), register).await;
        let client = &mut self.clients[number];
        client.known = if is_done { Known::Registered } else { Known::Unknown };
        client.is_steady = is_done;
        client.heard_ms = self.now_ms;
    }

    async fn deregister(&mut self) {
        let number = self.any(self.clients.len());
        let id = format!("i{number}");
        let is_done = self.change(number, None, Command::Deregister(id.as_str().into())).await;
        let client = &mut self.clients[number];
        client.known = if is_done { Known::Gone } else { Known::Unknown };
        client.is_steady = false;
    }

    fn fall_silent(&mut self) {
        let number = self.any(self.clients.len());
        self.clients[number].is_steady = false;
    }

    async fn delete_service(&mut self) {
        let key = ServiceKey::new("ns", &format!("svc{}", self.any(3)));
        // Refused while it has instances, on whichever node they registered.
        let _ = self.any_node().registry.submit(Command::DeleteService(key)).await;
    }

    async fn kill(&mut self) {
        if self.nodes.iter().flatten().count() < 2 {
            return;
        }
        let place = self.any(self.nodes.len());
        if let Some(node) = self.nodes[place].take() {
            if self.random.below(2) == 0 {
                self.mend(&node);
                node.stop().await;
            } else {
                node.kill();
                self.trouble_ms = self.now_ms;
            }
        }
    }

    fn mend(&self, node: &Node) {
        node.faults.is_cut.store(false, Ordering::Relaxed);
        node.faults.lose_answers.store(0, Ordering::Relaxed);
    }

    async fn start(&mut self) {
        if let Some(place) = self.nodes.iter().position(Option::is_none) {
            self.nodes[place] = Some(self.bench.start(["a", "b", "c"][place]).await);
        }
    }

    fn cut(&mut self) {
        let now_ms = self.now_ms;
        let node = self.any_node();
        let was_cut = node.faults.is_cut.fetch_xor(true, Ordering::Relaxed);
        let _ = was_cut;
        self.trouble_ms = now_ms;
    }

    fn upset_server(&mut self) {
        let how = self.random.below(3);
        match &self.bench.server {
            Some(server) if how == 0 => server.lose(),
            Some(server) => server.is_away.store(how == 1, Ordering::Relaxed),
            None => {}
        }
    }

    fn lose_answers(&mut self) {
        let how = self.random.below(3);
        self.any_node().faults.lose_answers.store(how, Ordering::Relaxed);
    }

    /// Lets time pass. Steady clients send two heartbeats per interval.
    async fn pass(&mut self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(TTL / 2);
            for number in 0..self.clients.len() {
                if self.clients[number].is_steady {
                    let id = format!("i{number}");
                    self.any_node().registry.heartbeat(&id);
                    self.clients[number].heard_ms = self.now_ms;
                }
            }
            self.bench.pass(step).await;
            self.now_ms += u64::try_from(step.as_millis()).expect("short");
            left -= step;
            self.check_the_steady();
        }
    }

    /// Checks that no instance expires whose heartbeats arrive, whatever happens to nodes and
    /// store.
    fn check_the_steady(&self) {
        for (number, client) in self.clients.iter().enumerate() {
            if client.known != Known::Registered || !client.is_steady {
                continue;
            }
            for node in self.nodes.iter().flatten() {
                let state = node.registry.state();
                if let Some(instance) = state.instance(&format!("i{number}")) {
                    assert!(
                        instance.healthy,
                        "i{number} beats all the time, at {} ms",
                        self.now_ms
                    );
                }
            }
        }
    }

    /// Checks the state after everything has worked again for long enough: all nodes agree with
    /// each other and with all answers, and only silent instances are unhealthy.
    async fn check(&mut self, seed: u64) {
        for node in self.nodes.iter().flatten() {
            self.mend(node);
        }
        self.pass(MEMBER_LEASE + 3 * expiry(TTL) + 5 * SECOND).await;
        let nodes: Vec<&Node> = self.nodes.iter().flatten().collect();
        for node in &nodes[1..] {
            assert_eq!(digest(nodes[0]), digest(node), "seed {seed}");
        }
        let state = nodes[0].registry.state();
        for (number, client) in self.clients.iter().enumerate() {
            let instance = state.instance(&format!("i{number}"));
            match client.known {
                Known::Registered => {
                    let instance =
                        instance.unwrap_or_else(|| panic!("seed {seed}: i{number} is lost"));
                    assert_eq!(instance.healthy, client.is_steady, "seed {seed}: i{number}");
                }
                Known::Gone => assert!(instance.is_none(), "seed {seed}: i{number} is gone"),
                Known::Unknown => {}
            }
        }
        let disorder = self.history.check().err();
        assert!(
            disorder.is_none(),
            "seed {seed}: {}",
            disorder.map_or(String::new(), |it| it.to_string())
        );
        for instance in state.instances() {
            assert!(state.service(instance.service.borrowed()).is_some(), "seed {seed}");
        }
        assert_eq!(nodes[0].registry.members().expect("others").len(), nodes.len(), "seed {seed}");
    }
}

fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("SEEDS").ok();
    let given = given.as_deref().and_then(|range| range.split_once(".."));
    given.map_or(SEEDS, |(from, to)| from.parse().expect("a number")..to.parse().expect("a number"))
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_to_nodes_nothing_answered_is_lost_and_nobody_alive_expires() {
    for seed in seeds() {
        let mut simulation = Simulation::new(seed).await;
        for _ in 0..STEPS {
            simulation.step().await;
            simulation.look();
        }
        simulation.check(seed).await;
        for node in simulation.nodes.into_iter().flatten() {
            node.kill();
        }
    }
}
