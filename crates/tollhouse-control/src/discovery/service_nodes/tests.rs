//! The source over a registry that is played: what reaches upstreams, when, and what is told.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tollhouse_model::Upstream;
use tollhouse_net::resolve::{Lookup, Question, ResolveError, Resolver, ResolverSettings, Source};

use super::report::SourceState;
use super::*;
use crate::discovery::Detail;

/// Services by name: their revision and the ports of their instances, unhealthy ones negative.
#[derive(Default)]
struct Played {
    services: Mutex<HashMap<String, (u128, Vec<i32>)>>,
    /// Services asked for, in order, and whether their instances were shown.
    asked: Mutex<Vec<(String, bool)>>,
    version: watch::Sender<u64>,
}

impl Played {
    fn set(&self, service: &str, revision: u128, ports: &[i32]) {
        self.services.lock().unwrap().insert(service.to_owned(), (revision, ports.to_vec()));
        self.version.send_modify(|version| *version += 1);
    }

    fn remove(&self, service: &str) {
        self.services.lock().unwrap().remove(service);
        self.version.send_modify(|version| *version += 1);
    }

    fn take_asked(&self) -> Vec<(String, bool)> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl ServiceSource for Played {
    fn read(
        &self,
        service: &Discovery,
        known: Option<u128>,
        show: &mut dyn FnMut(&InstanceFacts<'_>),
    ) -> ServiceLookup {
        let services = self.services.lock().unwrap();
        let found = services.get(&service.to_string());
        let is_shown = found.is_some_and(|(revision, _)| known != Some(*revision));
        self.asked.lock().unwrap().push((service.to_string(), is_shown));
        let Some((revision, ports)) = found else { return ServiceLookup::Missing };
        if !is_shown {
            return ServiceLookup::Unchanged;
        }
        for port in ports {
            show(&InstanceFacts {
                host: "127.0.0.1",
                port: port.unsigned_abs(),
                weight: 100,
                is_healthy: *port > 0,
                is_isolated: false,
                version: "",
                has_pair: &|_, _| false,
                age: Duration::ZERO,
            });
        }
        ServiceLookup::Visited { revision: *revision, protect_threshold: 0.0 }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}

struct NoNames;

impl Source for NoNames {
    fn lookup<'a>(&'a self, _: &'a Question) -> Lookup<'a> {
        Box::pin(async { Err(ResolveError::Denied) })
    }
}

fn state(key: &str, conf: Value) -> Arc<UpstreamState> {
    next(key, conf, None)
}

fn next(key: &str, conf: Value, previous: Option<&Arc<UpstreamState>>) -> Arc<UpstreamState> {
    let settings = ResolverSettings::default();
    let resolver = Resolver::with_source(Arc::new(NoNames), settings, Handle::current());
    let (conf, problems) = Upstream::parse(None, &conf, "");
    assert_eq!(problems.to_string(), "");
    UpstreamState::build(&conf.expect("it is good"), key, previous, &resolver)
}

fn named(service: &str) -> Value {
    json!({"discovery_type": "registry", "service_name": service})
}

fn ports(state: &UpstreamState) -> Vec<u16> {
    let mut ports = Vec::new();
    state.each_node(|node| ports.push(node.port()));
    ports
}

fn source(played: &Arc<Played>) -> ServiceNodes {
    let source = ServiceNodes::default();
    source.connect(Arc::<Played>::clone(played));
    source
}

#[tokio::test]
async fn a_new_upstream_has_its_nodes_before_it_serves() {
    let played = Arc::new(Played::default());
    played.set("prod/orders", 7, &[1, 2, -3]);
    played.set("default/orders", 8, &[4]);
    played.set("prod/nobody", 9, &[5]);
    let source = source(&played);
    let (prod, other) = (state("routes/1", named("prod/orders")), state("u/2", named("orders")));
    let listed = state("u/3", json!({"nodes": {"127.0.0.1:9": 1}}));
    [&prod, &other, &listed].into_iter().for_each(|it| source.follow_upstream(it));
    assert_eq!((ports(&prod), ports(&other), ports(&listed)), (vec![1, 2], vec![4], vec![9]));
    let shown = |service: &str| (service.to_owned(), true);
    assert_eq!(played.take_asked(), [shown("prod/orders"), shown("default/orders")]);
    // The next snapshot brings nothing new, and asks nothing.
    [&prod, &other].into_iter().for_each(|it| source.follow_upstream(it));
    assert_eq!(played.take_asked(), []);
}

#[tokio::test]
async fn changes_are_read_where_they_are_and_nowhere_else() {
    let played = Arc::new(Played::default());
    played.set("default/a", 1, &[1]);
    played.set("default/b", 1, &[2]);
    let source = source(&played);
    let (a, b) = (state("routes/a", named("a")), state("routes/b", named("b")));
    [&a, &b].into_iter().for_each(|it| source.follow_upstream(it));
    played.take_asked();
    played.set("default/b", 2, &[2, 3]);
    source.look();
    assert_eq!((ports(&a), ports(&b)), (vec![1], vec![2, 3]));
    let asked = played.take_asked();
    assert_eq!(asked, [("default/a".to_owned(), false), ("default/b".to_owned(), true)]);
    played.remove("default/a");
    source.look();
    assert_eq!(ports(&a), [0; 0]);
    played.set("default/a", 1, &[4]);
    source.look();
    assert_eq!(ports(&a), [4]);
}

#[tokio::test]
async fn an_upstream_that_names_another_service_leaves_the_first_one() {
    let played = Arc::new(Played::default());
    played.set("default/a", 1, &[1]);
    played.set("default/b", 1, &[2]);
    let source = source(&played);
    let before = state("routes/1", named("a"));
    source.follow_upstream(&before);
    let after = next("routes/1", named("b"), Some(&before));
    source.follow_upstream(&after);
    assert_eq!((ports(&before), ports(&after)), (vec![1], vec![2]));
    played.set("default/a", 2, &[9]);
    source.look();
    assert_eq!(ports(&before), [1]);
    source.leave("routes/1");
    played.take_asked();
    source.look();
    assert_eq!(played.take_asked(), []);
}

#[tokio::test(start_paused = true)]
async fn the_task_follows_the_registry_until_it_ends() {
    let played = Arc::new(Played::default());
    let source = Arc::new(source(&played));
    let orders = state("routes/1", named("orders"));
    source.follow_upstream(&orders);
    let running = tokio::spawn({
        let source = Arc::clone(&source);
        async move { source.run().await }
    });
    for (revision, expected) in [(1, &[1][..]), (2, &[1, 2]), (3, &[]), (4, &[3])] {
        let told: Vec<i32> = expected.iter().map(|port: &u16| i32::from(*port)).collect();
        played.set("default/orders", revision, &told);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(ports(&orders), expected, "{revision}");
    }
    running.abort();
}

#[tokio::test]
async fn every_upstream_tells_how_it_stands_and_why() {
    let played = Arc::new(Played::default());
    played.set("default/good", 0xab, &[1, -2]);
    played.set("default/ill", 1, &[-1, -2]);
    played.set("default/none", 1, &[]);
    played.set("default/old", 1, &[1]);
    let source = source(&played);
    let mut picky = named("old");
    picky["discovery_args"] = json!({"version": "2"});
    let confs = [
        ("1", named("good")),
        ("2", named("ill")),
        ("3", named("none")),
        ("4", named("gone")),
        ("5", picky),
    ];
    confs.into_iter().for_each(|(key, conf)| source.follow_upstream(&state(key, conf)));
    let told = source.report(Detail::Nodes);
    let rows: Vec<(&str, SourceState, usize, Option<&str>)> = told
        .iter()
        .map(|it| (it.service.as_str(), it.state, it.node_count, it.reason.as_deref()))
        .collect();
    let filtered = "none of its 1 instances has the metadata and version asked for";
    assert_eq!(
        rows,
        [
            ("default/good", SourceState::Serving, 1, None),
            (
                "default/ill",
                SourceState::Protected,
                2,
                Some("none of 2 instances is healthy: all of them serve")
            ),
            ("default/none", SourceState::Empty, 0, Some("the service has no instance")),
            (
                "default/gone",
                SourceState::Missing,
                0,
                Some("the registry has no service default/gone")
            ),
            ("default/old", SourceState::Empty, 0, Some(filtered)),
        ]
    );
    let good = serde_json::to_value(&told[0]).expect("JSON");
    assert_eq!(good["revision"], "000000000000000000000000000000ab");
    assert_eq!(
        good["nodes"],
        json!([{"host": "127.0.0.1", "port": 1, "weight": 100, "weight_percent": 100}])
    );
    assert_eq!(
        (&good["instances"]["total"], &good["instances"]["unhealthy"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(good["state"], "serving");
    let short = serde_json::to_value(&source.report(Detail::Counts)[0]).expect("JSON");
    assert_eq!(short.get("nodes"), None);
}

#[tokio::test(start_paused = true)]
async fn a_registry_may_come_late_and_be_replaced() {
    let source = Arc::new(ServiceNodes::default());
    let orders = state("routes/1", named("orders"));
    source.follow_upstream(&orders);
    let told = source.report(Detail::Counts);
    assert_eq!((told[0].state, told[0].node_count), (SourceState::Off, 0));
    let running = tokio::spawn({
        let source = Arc::clone(&source);
        async move { source.run().await }
    });
    let (first, second) = (Arc::new(Played::default()), Arc::new(Played::default()));
    first.set("default/orders", 1, &[1]);
    source.connect(Arc::<Played>::clone(&first));
    assert_eq!(ports(&orders), [1]);
    // The same revision of another registry is another one.
    second.set("default/orders", 1, &[2]);
    source.connect(Arc::<Played>::clone(&second));
    assert_eq!(ports(&orders), [2]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    first.set("default/orders", 2, &[3]);
    second.set("default/orders", 2, &[4]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(ports(&orders), [4]);
    running.abort();
}
