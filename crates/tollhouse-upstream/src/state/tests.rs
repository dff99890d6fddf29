//! Tests of whole upstreams: picks, reports, names and changes.

use std::collections::BTreeMap;

use tokio::runtime::Handle;
use tollhouse_model::upstream::{
    Balance, DiscoverySource, HashOn, HttpVersion, Node, PassiveCheck, Policy, Scheme, Thresholds,
};
use tollhouse_net::resolve::{
    Answer, Lookup, Question, Record, ResolveError, ResolverSettings, Source,
};

use super::*;
use crate::change::UpstreamChange;
use crate::health::simulation::checks;
use crate::warm_up::WarmUps;

/// Names and what they resolve to; an empty list is a name that does not exist.
struct Table(Vec<(String, Vec<Record>)>);

impl Source for Table {
    fn lookup<'a>(&'a self, question: &'a Question) -> Lookup<'a> {
        let (Question::Host(name) | Question::Service(name)) = question;
        let found = self.0.iter().find(|entry| entry.0 == *name).map(|entry| entry.1.clone());
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let records = found.ok_or(ResolveError::Denied)?;
            Ok(Answer { records, time_to_live: Duration::from_secs(10) })
        })
    }
}

pub(crate) fn resolver(names: &[(&str, &[&str])]) -> Arc<Resolver> {
    let plain = |address: &&str| Record::plain(address.parse().unwrap());
    let entry = |(name, addresses): &(&str, &[&str])| {
        (name.to_string(), addresses.iter().map(plain).collect())
    };
    let source = Arc::new(Table(names.iter().map(entry).collect()));
    Resolver::with_source(source, ResolverSettings::default(), Handle::current())
}

/// Returns an upstream of these nodes, with the schema's defaults for everything else.
pub(crate) fn upstream(nodes: &[(&str, u32)]) -> Upstream {
    let node = |(text, weight): &(&str, u32)| {
        let (host, port) = text.rsplit_once(':').unwrap();
        let host = host.trim_matches(['[', ']']).to_owned();
        Node { host, port: port.parse().unwrap(), socket: None, weight: *weight, priority: 0 }
    };
    Upstream {
        id: None,
        nodes: nodes.iter().map(node).collect(),
        discovery: None,
        balance: Policy::RoundRobin.into(),
        warm_up: None,
        scheme: Scheme::Http,
        http_version: HttpVersion::default(),
        retries: None,
        retry_timeout: None,
        timeout: None,
        pass_host: PassHost::Pass,
        proxy_protocol: None,
        keepalive_pool: None,
        tls: None,
        node_trust: NodeTrust::default(),
        checks: None,
        name: None,
        desc: None,
        labels: BTreeMap::new(),
    }
}

fn request(when_unresolved: WhenUnresolved) -> PickRequest<'static> {
    PickRequest { hash_key: None, random: 0, now_ms: 0, when_unresolved }
}

fn pick<'a>(state: &'a UpstreamState, tried: &Tried) -> Pick<'a> {
    state.pick(&request(WhenUnresolved::Skip), tried)
}

fn text(pick: Pick<'_>) -> String {
    match pick {
        Pick::Node(picked) => picked.address().to_string(),
        Pick::NoNodes => "no nodes".into(),
        Pick::AllTried => "all tried".into(),
        Pick::Unresolved => "unresolved".into(),
    }
}

/// Picks a node and drops the pick at once.
pub(crate) fn ask(state: &UpstreamState) {
    pick(state, &Tried::new());
}

/// Returns the hosts of `count` picks.
pub(crate) fn hosts(state: &UpstreamState, count: usize) -> Vec<String> {
    let ip = |_| match pick(state, &Tried::new()) {
        Pick::Node(picked) => picked.address().ip().expect("an IP address").to_string(),
        other => text(other),
    };
    (0..count).map(ip).collect()
}

/// Returns the hosts that one request picks if all attempts fail.
fn attempts(state: &UpstreamState) -> Vec<String> {
    let mut tried = Tried::new();
    let mut seen = Vec::new();
    loop {
        let pick = pick(state, &tried);
        if let Pick::Node(picked) = &pick {
            tried.insert(picked);
            state.report(picked, Outcome::Failed, 0);
            seen.push(picked.address().ip().expect("an IP address").to_string());
        } else {
            seen.push(text(pick));
            return seen;
        }
    }
}

fn build(conf: &Upstream) -> Arc<UpstreamState> {
    UpstreamState::build(conf, "routes/1", None, &resolver(&[]))
}

fn passive(conf: Upstream) -> Upstream {
    let thresholds = Thresholds {
        healthy_statuses: vec![200],
        successes: 2,
        unhealthy_statuses: vec![500],
        http_failures: 2,
        tcp_failures: 1,
        timeouts: 1,
    };
    let passive = Some(PassiveCheck { kind: CheckKind::Http, thresholds });
    Upstream { checks: Some(Checks { passive, ..checks() }), ..conf }
}

#[tokio::test]
async fn equal_weights_alternate_from_the_first_node() {
    let state = build(&upstream(&[("10.0.0.1:80", 1), ("10.0.0.2:80", 1)]));
    assert_eq!(hosts(&state, 4), ["10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2"]);
}

#[tokio::test]
async fn a_round_is_exact_over_several_threads() {
    let state = build(&upstream(&[("10.0.0.1:80", 3), ("10.0.0.2:80", 1)]));
    let one = || hosts(&state, 400);
    let all: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(one)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.iter().filter(|host| *host == "10.0.0.1").count(), 900);
}

#[tokio::test]
async fn a_single_node_is_picked_again_and_again_but_not_with_weight_zero() {
    let single = build(&passive(upstream(&[("10.0.0.1:80", 1)])));
    let mut tried = Tried::new();
    for _ in 0..5 {
        let Pick::Node(picked) = pick(&single, &tried) else { panic!("no node") };
        tried.insert(&picked);
        single.report(&picked, Outcome::TimedOut, 0);
    }
    assert!(!single.node_set().unwrap().nodes()[0].health().status.serves());
    for conf in [upstream(&[]), upstream(&[("10.0.0.1:80", 0)])] {
        assert_eq!(text(pick(&build(&conf), &Tried::new())), "no nodes");
    }
}

#[tokio::test]
async fn a_request_tries_every_node_once_and_lower_priorities_last() {
    let mut conf = upstream(&[("10.0.0.1:80", 1), ("10.0.0.2:80", 1), ("10.0.0.3:80", 1)]);
    conf.nodes[0].priority = -1;
    for balance in [
        Policy::RoundRobin.into(),
        Balance { policy: Policy::ConsistentHash, hash_on: Some(HashOn::Consumer) },
        Policy::LeastConnections.into(),
        Policy::Ewma.into(),
    ] {
        conf.balance = balance;
        let mut seen = attempts(&build(&conf));
        assert_eq!(seen[2..], ["10.0.0.1", "all tried"], "{:?}", conf.balance);
        seen[..2].sort_unstable();
        assert_eq!(seen[..2], ["10.0.0.2", "10.0.0.3"], "{:?}", conf.balance);
    }
}

#[tokio::test]
async fn lower_priorities_serve_when_the_higher_ones_are_unhealthy() {
    let mut conf = passive(upstream(&[("10.0.0.1:80", 1), ("10.0.0.2:80", 1)]));
    conf.nodes[1].priority = -1;
    let state = build(&conf);
    let Pick::Node(first) = pick(&state, &Tried::new()) else { panic!("no node") };
    assert_eq!(first.node().host(), "10.0.0.1");
    state.report(&first, Outcome::Failed, 0);
    assert_eq!(hosts(&state, 3), ["10.0.0.2"; 3]);
    let Pick::Node(second) = pick(&state, &Tried::new()) else { panic!("no node") };
    state.report(&second, Outcome::TimedOut, 0);
    // No node is healthy, so health is ignored.
    assert_eq!(hosts(&state, 2), ["10.0.0.1"; 2]);
}

#[tokio::test]
async fn passive_reports_count_by_their_thresholds() {
    let answered = |status| Outcome::Answered { status, response_time: Duration::ZERO };
    for (outcomes, serves) in [
        (&[answered(500)][..], true),
        (&[answered(500), answered(500)], false),
        (&[answered(500), answered(200), answered(500)], true),
        (&[answered(404); 9], true),
        (&[Outcome::Failed], false),
        (&[Outcome::TimedOut], false),
        (&[Outcome::TimedOut, answered(200), answered(200)], true),
    ] {
        let state = build(&passive(upstream(&[("10.0.0.1:80", 1), ("10.0.0.2:80", 1)])));
        let Pick::Node(picked) = pick(&state, &Tried::new()) else { panic!("no node") };
        outcomes.iter().for_each(|outcome| state.report(&picked, *outcome, 0));
        assert_eq!(picked.node().health().status.serves(), serves, "{outcomes:?}");
        let expected = if serves { 2 } else { 0 };
        let hosts = hosts(&state, 4);
        assert_eq!(hosts.iter().filter(|h| *h == "10.0.0.1").count(), expected, "{outcomes:?}");
    }
}

#[tokio::test]
async fn a_change_of_an_unrelated_field_shares_everything() {
    let conf = passive(upstream(&[("10.0.0.1:80", 1), ("10.0.0.2:80", 1), ("10.0.0.3:80", 1)]));
    let before = build(&conf);
    assert_eq!(hosts(&before, 1), ["10.0.0.1"]);
    let Pick::Node(second) = pick(&before, &Tried::new()) else { panic!("no node") };
    before.report(&second, Outcome::Failed, 0);

    let changed = Upstream { name: Some("new".into()), retries: Some(9), ..conf.clone() };
    let resolver = resolver(&[]);
    let after = UpstreamState::build(&changed, "routes/1", Some(&before), &resolver);
    assert!(Arc::ptr_eq(&before.node_set().unwrap(), &after.node_set().unwrap()));
    assert!(!hosts(&after, 6).contains(&"10.0.0.2".to_owned()));

    // A change of the nodes keeps the health of remaining nodes, also if it is reported through the
    // old state.
    let mut fewer = conf;
    fewer.nodes.remove(0);
    let fewer = UpstreamState::build(&fewer, "routes/1", Some(&after), &resolver);
    assert_eq!(hosts(&fewer, 2), ["10.0.0.3"; 2]);
    let answered = Outcome::Answered { status: 200, response_time: Duration::ZERO };
    (0..2).for_each(|_| before.report(&second, answered, 0));
    let mut both = hosts(&fewer, 2);
    both.sort_unstable();
    assert_eq!(both, ["10.0.0.2", "10.0.0.3"]);
}

#[tokio::test]
async fn least_connections_counts_while_a_pick_lives_and_across_changes() {
    let mut conf = upstream(&[("10.0.0.1:80", 1), ("10.0.0.2:80", 1)]);
    conf.balance = Policy::LeastConnections.into();
    let state = build(&conf);
    let Pick::Node(held) = pick(&state, &Tried::new()) else { panic!("no node") };
    assert_eq!(held.node().host(), "10.0.0.1");
    assert_eq!(hosts(&state, 3), ["10.0.0.2"; 3]);
    conf.nodes.push(upstream(&[("10.0.0.3:80", 1)]).nodes.remove(0));
    let after = UpstreamState::build(&conf, "routes/1", Some(&state), &resolver(&[]));
    assert_eq!(after.node_set().unwrap().nodes()[0].active_requests(), 1);
    assert_eq!(hosts(&after, 2), ["10.0.0.2"; 2]);
    drop(held);
    assert_eq!(hosts(&after, 1), ["10.0.0.1"]);
}

#[tokio::test]
async fn ewma_prefers_the_faster_node() {
    let mut conf = upstream(&[("10.0.0.1:80", 1), ("10.0.0.2:80", 1)]);
    conf.balance = Policy::Ewma.into();
    let state = build(&conf);
    for random in [0, u64::MAX] {
        let request = PickRequest { random, ..request(WhenUnresolved::Skip) };
        let Pick::Node(picked) = state.pick(&request, &Tried::new()) else { panic!("no node") };
        let slow = picked.node().host() == "10.0.0.1";
        let response_time = Duration::from_millis(if slow { 900 } else { 10 });
        state.report(&picked, Outcome::Answered { status: 200, response_time }, 0);
    }
    assert_eq!(hosts(&state, 5), ["10.0.0.2"; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_waited_for_or_passed_over() {
    let resolver = resolver(&[("a.example", &["10.0.0.7"])]);
    let conf = upstream(&[("a.example:81", 1), ("10.0.0.2:80", 1)]);
    let state = UpstreamState::build(&conf, "routes/1", None, &resolver);
    assert!(!state.is_ready());
    let waiting = request(WhenUnresolved::Wait);
    assert_eq!(text(state.pick(&waiting, &Tried::new())), "unresolved");
    assert_eq!(text(pick(&state, &Tried::new())), "10.0.0.2:80");
    assert!(!state.ready(Duration::from_millis(1)).await);
    assert!(state.ready(Duration::from_secs(1)).await);
    assert!(state.is_ready());
    let mut both = hosts(&state, 2);
    both.sort_unstable();
    assert_eq!(both, ["10.0.0.2", "10.0.0.7"]);
}

#[tokio::test(start_paused = true)]
async fn names_without_an_address_leave_no_node() {
    let resolver = resolver(&[]);
    for nodes in [&[("a.example:80", 1)][..], &[("a.example:80", 1), ("b.example:80", 1)]] {
        let state = UpstreamState::build(&upstream(nodes), "routes/1", None, &resolver);
        assert!(state.ready(Duration::from_secs(10)).await);
        assert_eq!(text(state.pick(&request(WhenUnresolved::Wait), &Tried::new())), "no nodes");
    }
}

#[tokio::test(start_paused = true)]
async fn all_addresses_of_a_name_are_used() {
    let resolver = resolver(&[("a.example", &["10.0.0.1", "10.0.0.2"])]);
    let state = UpstreamState::build(&upstream(&[("a.example:80", 1)]), "r", None, &resolver);
    state.ready(Duration::from_secs(1)).await;
    for (random, expected) in [(0, "10.0.0.1:80"), (u64::MAX, "10.0.0.2:80")] {
        let request = PickRequest { random, ..request(WhenUnresolved::Wait) };
        assert_eq!(text(state.pick(&request, &Tried::new())), expected);
    }
}

fn discovered(source: DiscoverySource, service: &str) -> Upstream {
    Upstream { discovery: Some(Discovery::new(source, "", service)), ..upstream(&[]) }
}

fn registered(service: &str) -> Upstream {
    discovered(DiscoverySource::Registry, service)
}

/// Returns nodes as the registry publishes them, each with its age in seconds.
fn published(nodes: &[(&str, u32, u64)]) -> Vec<PublishedNode> {
    let one = |(address, weight, age_s): &(&str, u32, u64)| PublishedNode {
        node: upstream(&[(address, *weight)]).nodes.remove(0),
        age: Some(Duration::from_secs(*age_s)),
    };
    nodes.iter().map(one).collect()
}

fn warm(conf: Upstream, window_s: u64) -> Upstream {
    let warm_up = WarmUp {
        window: Duration::from_secs(window_s),
        minimum_weight_percent: 10,
        aggression: 1.0,
        interval: Duration::from_secs(1),
        startup_grace: Duration::ZERO,
    };
    Upstream { warm_up: Some(warm_up), ..conf }
}

/// Returns how many of a hundred picks choose the node.
fn hits(state: &UpstreamState, host: &str) -> usize {
    hosts(state, 100).iter().filter(|hit| *hit == host).count()
}

#[tokio::test(start_paused = true)]
async fn requests_await_the_first_nodes_of_dns_and_refuse_without_those_of_the_registry() {
    let state = build(&discovered(DiscoverySource::Dns, "web.example"));
    assert_eq!(text(state.pick(&request(WhenUnresolved::Wait), &Tried::new())), "unresolved");
    assert!(!state.ready(Duration::from_secs(1)).await);
    state.publish_nodes(Vec::new());
    assert!(state.ready(Duration::from_secs(1)).await);
    assert_eq!(text(state.pick(&request(WhenUnresolved::Wait), &Tried::new())), "no nodes");
    let state = build(&registered("web"));
    assert_eq!(text(state.pick(&request(WhenUnresolved::Wait), &Tried::new())), "no nodes");
}

#[tokio::test]
async fn published_nodes_replace_the_last_ones_and_keep_what_is_known() {
    let conf = passive(registered("web"));
    let state = build(&conf);
    assert_eq!(text(state.pick(&request(WhenUnresolved::Wait), &Tried::new())), "no nodes");
    let nodes = upstream(&[("10.0.0.1:80", 1), ("10.0.0.2:80", 1)]).nodes;
    state.publish_nodes(nodes.iter().cloned().map(PublishedNode::from).collect());
    let Pick::Node(held) = pick(&state, &Tried::new()) else { panic!("no node") };
    state.report(&held, Outcome::Failed, 0);
    let mut more = nodes;
    more.push(upstream(&[("10.0.0.3:80", 1)]).nodes.remove(0));
    state.publish_nodes(more.into_iter().map(PublishedNode::from).collect());
    // A pick stays valid after its set was replaced.
    assert_eq!(held.node().host(), "10.0.0.1");
    assert!(!hosts(&state, 6).contains(&"10.0.0.1".to_owned()));
    assert!(hosts(&state, 6).contains(&"10.0.0.3".to_owned()));

    // A change of the policy keeps the nodes of the service.
    let ewma = Upstream { balance: Policy::Ewma.into(), ..conf };
    let after = UpstreamState::build(&ewma, "routes/1", Some(&state), &resolver(&[]));
    assert_eq!(after.node_count(), 3);
    assert!(!hosts(&after, 6).contains(&"10.0.0.1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn names_are_given_up_with_their_upstream() {
    let resolver = resolver(&[("a.example", &["10.0.0.1"])]);
    let state = UpstreamState::build(&upstream(&[("a.example:80", 1)]), "a", None, &resolver);
    assert_eq!(resolver.names_in_use(), 1);
    drop(state);
    assert_eq!(resolver.names_in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_fresh_node_of_the_registry_gets_its_share_step_by_step() {
    tokio::time::advance(Duration::from_secs(1_000)).await;
    let (steps, start) = (WarmUps::new(), Instant::now());
    let state = build(&warm(registered("web"), 10));
    steps.change_upstreams(&[UpstreamChange::to(&state)]);
    state.publish_nodes(published(&[("10.0.0.1:80", 100, 900), ("10.0.0.2:80", 100, 900)]));
    assert_eq!(hits(&state, "10.0.0.2"), 50);
    // The node was registered long ago but serves only now, as after a period of bad health.
    let three = published(&[
        ("10.0.0.1:80", 100, 900),
        ("10.0.0.2:80", 100, 900),
        ("10.0.0.3:80", 100, 900),
    ]);
    state.publish_nodes(three.clone());
    for (at_s, expected) in [(0, 4..=6), (5, 19..=21), (9, 30..=32), (10, 33..=34)] {
        steps.step(start + Duration::from_secs(at_s));
        let found = hits(&state, "10.0.0.3");
        assert!(expected.contains(&found), "{found} after {at_s} s");
        // Publishing the same nodes again changes nothing.
        state.publish_nodes(three.clone());
    }
}

#[tokio::test(start_paused = true)]
async fn first_nodes_of_the_registry_are_as_old_as_it_says() {
    tokio::time::advance(Duration::from_secs(1_000)).await;
    let state = build(&warm(registered("web"), 100));
    state.publish_nodes(published(&[("10.0.0.1:80", 90, 900), ("10.0.0.2:80", 90, 10)]));
    let found = hits(&state, "10.0.0.2");
    assert!((8..=10).contains(&found), "{found}");
    // The node was registered again at the same address.
    state.publish_nodes(published(&[("10.0.0.1:80", 90, 0), ("10.0.0.2:80", 90, 10)]));
    let found = hits(&state, "10.0.0.2");
    assert!((49..=51).contains(&found), "{found}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_added_to_a_list_starts_slowly_and_the_others_do_not() {
    let (steps, resolver) = (WarmUps::new(), resolver(&[]));
    let conf = warm(upstream(&[("10.0.0.1:80", 10)]), 10);
    let before = UpstreamState::build(&conf, "routes/1", None, &resolver);
    steps.change_upstreams(&[UpstreamChange::to(&before)]);
    let conf = warm(upstream(&[("10.0.0.1:80", 10), ("10.0.0.2:80", 10)]), 10);
    let after = UpstreamState::build(&conf, "routes/1", Some(&before), &resolver);
    steps.change_upstreams(&[UpstreamChange::to(&after)]);
    let start = Instant::now();
    for (at_s, expected) in [(0, 9..=10), (4, 28..=29), (20, 50..=50), (30, 50..=50)] {
        steps.step(start + Duration::from_secs(at_s));
        let found = hits(&after, "10.0.0.2");
        assert!(expected.contains(&found), "{found} after {at_s} s");
    }
    // An unrelated change does not restart slow start.
    let conf = Upstream { name: Some("new".into()), ..conf };
    let renamed = UpstreamState::build(&conf, "routes/1", Some(&after), &resolver);
    assert_eq!(hits(&renamed, "10.0.0.2"), 50);
}

#[tokio::test(start_paused = true)]
async fn the_task_steps_by_itself_and_sleeps_without_upstreams() {
    let steps = Arc::new(WarmUps::new());
    let running = tokio::spawn({
        let steps = Arc::clone(&steps);
        async move { steps.run().await }
    });
    tokio::time::advance(Duration::from_secs(3_600)).await;
    let state = build(&warm(registered("web"), 10));
    steps.change_upstreams(&[UpstreamChange::to(&state)]);
    state.publish_nodes(published(&[("10.0.0.1:80", 1, 900)]));
    state.publish_nodes(published(&[("10.0.0.1:80", 100, 900), ("10.0.0.2:80", 100, 0)]));
    let share = |state: &UpstreamState| {
        let mut shares = Vec::new();
        state.each_node(|node| shares.push(node.share_percent()));
        shares
    };
    assert_eq!(share(&state), [100, 10]);
    tokio::time::sleep(Duration::from_millis(5_150)).await;
    let half = share(&state)[1];
    assert!((45..=55).contains(&half), "{half}");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(share(&state), [100, 100]);
    running.abort();
}

#[tokio::test]
async fn ten_thousand_nodes_of_any_weight_share_by_weight() {
    let state = build(&registered("web"));
    let address = |index: u32| format!("10.0.{}.{}:80", index / 250, index % 250 + 1);
    let node = |index: u32| PublishedNode {
        node: upstream(&[(&address(index), if index == 0 { 65_535 } else { 100 })]).nodes.remove(0),
        age: None,
    };
    state.publish_nodes((0..10_000).map(node).collect());
    assert_eq!(state.node_count(), 10_000);
    let picks = hosts(&state, 20_000);
    // The expected share is 65,535 of 1,065,435.
    let heavy = picks.iter().filter(|host| *host == "10.0.0.1").count();
    assert!((1_200..=1_260).contains(&heavy), "{heavy}");
}
