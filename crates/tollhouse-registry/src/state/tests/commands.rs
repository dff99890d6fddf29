//! One command at a time, and what it leaves.

use bytes::Bytes;

use super::*;
use crate::command::{InstanceChange, NamespaceChange, NewContract, NewRule, ServiceChange};
use crate::instance::Metadata;
use crate::refusal::Noun;

fn key(name: &str) -> ServiceKey {
    ServiceKey::new("ns", name)
}

fn alias(name: &str, target: &str) -> Alias {
    Alias {
        id: String::new(),
        key: key(name),
        target: key(target),
        comment: String::new(),
        owners: String::new(),
        metadata: Metadata::new(),
        created_at: 0,
        modified_at: 0,
        revision: Revision::default(),
    }
}

fn rule(id: &str, targets: &[(&str, &str)], priority: u32) -> NewRule {
    NewRule {
        kind: RuleKind::Routing,
        id: id.into(),
        name: id.into(),
        namespace: "ns".into(),
        targets: targets.iter().map(|(namespace, name)| ServiceKey::new(namespace, name)).collect(),
        priority,
        enabled: true,
        body: Bytes::from_static(b"body"),
    }
}

#[test]
fn registering_again_replaces_all_but_isolation() {
    let mut bench = Bench::new();
    let first = bench.register(NewInstance {
        isolated: Some(true),
        weight: Some(7),
        metadata: [("a".into(), "1".into())].into(),
        ..instance("i", "s")
    });
    assert_eq!((first.isolated, first.weight, first.metadata.len()), (true, 7, 1));
    let second = bench.register(instance("i", "s"));
    assert_eq!((second.isolated, second.weight, second.metadata.len()), (true, 100, 0));
    assert_ne!(first.revision, second.revision);
    let third = bench.register(NewInstance { isolated: Some(false), ..instance("i", "s") });
    assert!(!third.isolated);
    let view = bench.state.service(key("s").borrowed()).expect("created");
    assert_eq!(view.counts, Counts { total: 1, healthy: 1, isolated: 0 });
}

#[test]
fn an_id_that_moves_to_another_service_leaves_the_first() {
    let mut bench = Bench::new();
    for id in ["a", "b", "c"] {
        bench.register(instance(id, "old"));
    }
    bench.register(instance("a", "new"));
    let ids = |name| {
        let view = bench.state.service(key(name).borrowed()).expect("created");
        let mut ids: Vec<_> = view.instances().map(|instance| instance.id.to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!((ids("old"), ids("new")), (vec!["b".to_owned(), "c".into()], vec!["a".to_owned()]));
}

#[test]
fn defaults_and_blanks_are_settled_on_registration() {
    let mut bench = Bench::new();
    let new = NewInstance {
        host: "  10.0.0.1 ".into(),
        ttl_seconds: Some(100),
        healthy: Some(false),
        ..instance("i", "s")
    };
    let known = bench.register(new);
    assert_eq!((&*known.host, known.weight, known.ttl_seconds), ("10.0.0.1", 100, Some(5)));
    assert!(!known.healthy && !known.isolated);
    assert_eq!(known.created_at, START_MS / 1_000);
}

#[test]
fn a_view_is_at_its_revision_again_when_an_instance_comes_and_goes() {
    let mut bench = Bench::new();
    bench.register(instance("a", "s"));
    let revision =
        |bench: &Bench| bench.state.service(key("s").borrowed()).expect("there").revision;
    let before = revision(&bench);
    bench.register(instance("b", "s"));
    assert_ne!(revision(&bench), before);
    bench.apply(Command::Deregister("b".into())).expect("good");
    assert_eq!(revision(&bench), before);
    bench.apply(Command::Deregister("a".into())).expect("good");
    let empty = revision(&bench);
    assert_ne!(empty, Revision::default());
    assert_eq!(revision(&bench), empty);
}

#[test]
fn deregistering_what_is_not_there_is_no_error_and_writes_nothing() {
    let mut bench = Bench::new();
    let outcome = bench.apply(Command::Deregister("x".into()));
    assert!(matches!(outcome, Ok(Outcome::Deregistered(None))));
    assert!(bench.durable.is_empty());
}

#[test]
fn an_unchanged_update_is_told_so() {
    let mut bench = Bench::new();
    bench.register(instance("i", "s"));
    let heavy = || InstanceChange { weight: Some(50), ..InstanceChange::default() };
    let update = |what| Command::UpdateInstance("i".into(), Box::new(what));
    assert!(bench.apply(update(heavy())).is_ok());
    assert_eq!(bench.apply(update(heavy())).err(), Some(Refusal::NoChange));
    let heavier = InstanceChange { weight: Some(65_536), ..InstanceChange::default() };
    assert_eq!(bench.apply(update(heavier)).err(), Some(Refusal::Parameter("weight")));
    let missing = Command::UpdateInstance("x".into(), Box::default());
    assert_eq!(bench.apply(missing).err(), Some(Refusal::NotFound(Noun::Instance)));
}

#[test]
fn what_others_depend_on_stays() {
    let mut bench = Bench::new();
    bench.register(instance("i", "s"));
    bench.apply(Command::CreateAlias(Box::new(alias("other", "s")))).expect("good");
    let delete_service = || Command::DeleteService(key("s"));
    let in_use = |noun| Some(Refusal::InUse(noun));
    assert_eq!(bench.apply(delete_service()).err(), in_use(Noun::Instance));
    bench.apply(Command::Deregister("i".into())).expect("good");
    assert_eq!(bench.apply(delete_service()).err(), in_use(Noun::Alias));
    let delete_namespace = || Command::DeleteNamespace("ns".into());
    assert_eq!(bench.apply(delete_namespace()).err(), in_use(Noun::Service));
    bench.apply(Command::DeleteAlias(key("other"))).expect("good");
    bench.apply(delete_service()).expect("good");
    bench.apply(delete_namespace()).expect("good");
    assert_eq!(bench.apply(delete_namespace()).err(), Some(Refusal::NotFound(Noun::Namespace)));
    let built_in = Command::DeleteNamespace("default".into());
    assert_eq!(bench.apply(built_in).err(), Some(Refusal::BuiltIn));
    assert!(bench.durable.is_empty());
}

#[test]
fn an_alias_leads_to_its_service_and_takes_no_instances() {
    let mut bench = Bench::new();
    let to_nothing = Command::CreateAlias(Box::new(alias("other", "s")));
    assert_eq!(bench.apply(to_nothing).err(), Some(Refusal::NotFound(Noun::Service)));
    bench.register(instance("i", "s"));
    bench.apply(Command::CreateAlias(Box::new(alias("other", "s")))).expect("good");
    let resolved = bench.state.resolve(key("other").borrowed()).expect("leads somewhere");
    assert_eq!((&*resolved.view.service.key.name, resolved.alias.is_some()), ("s", true));
    let onto = Command::Register(Box::new(instance("j", "other")));
    assert_eq!(bench.apply(onto).err(), Some(Refusal::IsAlias));
    let of_alias = Command::CreateAlias(Box::new(alias("third", "other")));
    assert_eq!(bench.apply(of_alias).err(), Some(Refusal::IsAlias));
    let of_service = Command::CreateAlias(Box::new(alias("s", "s")));
    assert_eq!(bench.apply(of_service).err(), Some(Refusal::Exists));
}

#[test]
fn services_and_namespaces_are_created_once_and_changed() {
    let mut bench = Bench::new();
    let create = || Command::CreateService(key("s"), Box::default());
    bench.apply(create()).expect("good");
    assert_eq!(bench.apply(create()).err(), Some(Refusal::Exists));
    let revision = |bench: &Bench| bench.state.namespace("ns").expect("there").services_revision;
    let before = revision(&bench);
    let metadata = Some([("a".into(), "b".into())].into());
    let what = || ServiceChange { metadata: metadata.clone(), ..ServiceChange::default() };
    bench.apply(Command::UpdateService(key("s"), Box::new(what()))).expect("good");
    assert_ne!(revision(&bench), before);
    let again = bench.apply(Command::UpdateService(key("s"), Box::new(what())));
    assert_eq!(again.err(), Some(Refusal::NoChange));
    let create = || Command::CreateNamespace("ns".into(), NamespaceChange::default());
    assert_eq!(bench.apply(create()).err(), Some(Refusal::Exists));
    let bad = Command::CreateNamespace("n s".into(), NamespaceChange::default());
    assert_eq!(bench.apply(bad).err(), Some(Refusal::NamespaceName));
}

#[test]
fn a_service_gets_its_rules_those_of_its_namespace_and_those_for_all() {
    let mut bench = Bench::new();
    let rules = [
        rule("one", &[("ns", "s"), ("ns", "t")], 2),
        rule("all", &[("*", "*")], 1),
        rule("namespace", &[("ns", "*"), ("ns", "s")], 3),
        rule("other", &[("ns", "u")], 0),
    ];
    for rule in rules {
        bench.apply(Command::CreateRule(Box::new(rule))).expect("good");
    }
    let ids = |state: &State, name: &str| -> Vec<String> {
        let set = state.rules_for(RuleKind::Routing, key(name).borrowed());
        set.rules.iter().map(|rule| rule.id.to_string()).collect()
    };
    assert_eq!(ids(&bench.state, "s"), ["all", "one", "namespace"]);
    assert_eq!(ids(&bench.state, "t"), ["all", "one", "namespace"]);
    let before = bench.state.rules_for(RuleKind::Routing, key("s").borrowed()).revision;
    bench.apply(Command::UpdateRule(Box::new(rule("one", &[("ns", "t")], 2)))).expect("good");
    assert_eq!(ids(&bench.state, "s"), ["all", "namespace"]);
    assert_ne!(bench.state.rules_for(RuleKind::Routing, key("s").borrowed()).revision, before);
    bench.apply(Command::DeleteRule(RuleKind::Routing, "all".into())).expect("good");
    assert_eq!(ids(&bench.state, "s"), ["namespace"]);
    assert_eq!(ids(&bench.restarted(), "s"), ["namespace"]);
    let none = bench.state.rules_for(RuleKind::RateLimit, key("s").borrowed());
    assert!(none.rules.is_empty());
}

#[test]
fn a_contract_reported_again_is_the_same() {
    let mut bench = Bench::new();
    let new = NewContract {
        id: "c".into(),
        service: key("s"),
        kind: "".into(),
        protocol: "http".into(),
        version: "1".into(),
        body: Bytes::from_static(b"x"),
    };
    let put = || Command::PutContract(Box::new(new.clone()));
    bench.apply(put()).expect("good");
    let before = bench.state.contract("c").expect("kept").revision;
    bench.now_ms += 60_000;
    bench.apply(put()).expect("good");
    assert_eq!(bench.state.contract("c").expect("kept").revision, before);
}

#[test]
fn unknown_fields_and_places_survive_a_restart() {
    let mut bench = Bench::new();
    let place = crate::instance::Location { region: "r".into(), ..Default::default() };
    bench.register(NewInstance {
        unknown: Bytes::from_static(&[0xfa, 0x01, 0x00]),
        location: Some(place.clone()),
        ..instance("i", "s")
    });
    let state = bench.restarted();
    let kept = state.instance("i").expect("kept");
    assert_eq!(kept.unknown, Bytes::from_static(&[0xfa, 0x01, 0x00]));
    assert_eq!(kept.location, Some(place));
    let (before, after) =
        (bench.state.service(key("s").borrowed()), state.service(key("s").borrowed()));
    assert_eq!(before.map(|view| view.revision), after.map(|view| view.revision));
}
