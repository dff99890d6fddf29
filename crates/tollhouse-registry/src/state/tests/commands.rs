//! Single commands and their effects.

use bytes::Bytes;

use super::*;
use crate::command::{
    AliasChange, DetailsChange, InstanceChange, NamespaceChange, NewContract, NewRule,
    ServiceChange,
};
use crate::instance::Metadata;
use crate::limits::{EXPORTS_MAX, SERVICE_CHARS_MAX};
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
    assert_eq!(view.counts, Counts { total: 1, healthy: 1, unchecked: 1, isolated: 0 });
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
fn many_instances_change_together_or_not_at_all() {
    let mut bench = Bench::new();
    for id in ["a", "b", "c"] {
        bench.register(instance(id, "s"));
    }
    let off = || InstanceChange { isolated: Some(true), ..InstanceChange::default() };
    let update = |ids: &[&str], what: InstanceChange| {
        let ids = ids.iter().map(|id| (*id).into()).collect();
        Command::UpdateInstances(ids, Box::new(what))
    };
    let is_isolated = |bench: &Bench, id: &str| bench.state.instance(id).expect("there").isolated;
    let missing = bench.apply(update(&["a", "x"], off())).err();
    assert_eq!(missing, Some(Refusal::NotFound(Noun::Instance)));
    let heavy = InstanceChange { weight: Some(65_536), ..off() };
    assert_eq!(bench.apply(update(&["a"], heavy)).err(), Some(Refusal::Parameter("weight")));
    assert!(!is_isolated(&bench, "a"), "a refusal leaves all as they were");
    bench.apply(update(&["b"], off())).expect("good");
    let Ok(Outcome::Instances(changed)) = bench.apply(update(&["a", "b", "a"], off())) else {
        panic!("two are asked for, one of which is isolated already")
    };
    assert_eq!(changed.iter().map(|it| &*it.id).collect::<Vec<_>>(), ["a"]);
    assert!(is_isolated(&bench, "a") && is_isolated(&bench, "b") && !is_isolated(&bench, "c"));
    assert_eq!(bench.apply(update(&["a", "b"], off())).err(), Some(Refusal::NoChange));
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
fn aliases_stand_in_the_list_of_their_namespace() {
    let mut bench = Bench::new();
    bench.apply(Command::CreateService(key("s"), Box::default())).expect("good");
    for name in ["a", "b", "c", "d"] {
        bench.apply(Command::CreateAlias(Box::new(alias(name, "s")))).expect("good");
    }
    let listed = |bench: &Bench| {
        let view = bench.state.namespace("ns").expect("there");
        let mut names: Vec<String> =
            view.aliases.iter().map(|it| it.key.name.to_string()).collect();
        names.sort();
        let sum = view.aliases.iter().fold(Revision::default(), |sum, it| sum.with(it.revision));
        assert_eq!(view.names_revision(), view.services_revision.with(sum));
        assert_eq!(bench.state.names_revision(), bench.state.services_revision().with(sum));
        names.concat()
    };
    assert_eq!(listed(&bench), "abcd");
    let change = AliasChange { comment: Some("x".to_owned()), ..AliasChange::default() };
    bench.apply(Command::UpdateAlias(key("b"), Box::new(change))).expect("good");
    assert_eq!(listed(&bench), "abcd");
    // The last of the list moves into the place of each that goes.
    for (name, left) in [("a", "bcd"), ("d", "bc"), ("c", "b"), ("b", "")] {
        bench.apply(Command::DeleteAlias(key(name))).expect("good");
        assert_eq!(listed(&bench), left);
    }
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
fn names_of_rules_are_their_own_where_the_kind_has_it_so() {
    let mut bench = Bench::new();
    let named = |kind: RuleKind, id: &str, namespace: &str, name: &str| {
        let rule =
            NewRule { kind, namespace: namespace.into(), name: name.into(), ..rule(id, &[], 0) };
        Box::new(rule)
    };
    let table = [
        // Whether a second rule may have the name of the first: in the same namespace, and in
        // another one.
        (RuleKind::Routing, true, true),
        (RuleKind::RateLimit, true, true),
        (RuleKind::CircuitBreaker, false, true),
        (RuleKind::FaultDetector, false, true),
        (RuleKind::Lane, false, false),
    ];
    for (kind, in_its_own, in_another) in table {
        let may = |is_free: bool| if is_free { Ok(()) } else { Err(Refusal::NameTaken(kind)) };
        let mut create = |id: &str, namespace: &str, name: &str| {
            bench.apply(Command::CreateRule(named(kind, id, namespace, name))).map(drop)
        };
        create("1", "", "a").expect("the first");
        assert_eq!(create("2", "default", "a"), may(in_its_own), "{kind:?}");
        assert_eq!(create("3", "other", "a"), may(in_another), "{kind:?}");
        create("4", "default", "b").expect("another name");
        let mut update = |id: &str, name: &str| {
            bench.apply(Command::UpdateRule(named(kind, id, "default", name))).map(drop)
        };
        assert_eq!(update("4", "a"), may(in_its_own), "{kind:?}");
        assert_eq!(update("1", "c"), Ok(()), "{kind:?}");
        let again = if in_its_own { Err(Refusal::NoChange) } else { Ok(()) };
        assert_eq!(update("4", "a"), again, "{kind:?}: it was free again");
        let gone = ["1", "3", "4"].map(|id| bench.apply(Command::DeleteRule(kind, id.into())));
        assert!(gone[0].is_ok() && gone[2].is_ok(), "{kind:?}");
        bench.apply(Command::CreateRule(named(kind, "5", "other", "c"))).expect("it is free again");
    }
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
        over: None,
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

#[test]
fn a_contract_made_of_an_older_revision_is_refused() {
    let mut bench = Bench::new();
    let put =
        |over, body| Command::PutContract(Box::new(NewContract { over, ..contract("c", body) }));
    let absent = bench.apply(put(Some(Revision::default()), 1));
    assert_eq!(absent.err(), Some(Refusal::Conflict));
    bench.apply(put(None, 1)).expect("it replaces any");
    let first = bench.state.contract("c").expect("there").revision;
    bench.apply(put(Some(first), 2)).expect("it was made of this one");
    assert_eq!(bench.apply(put(Some(first), 3)).err(), Some(Refusal::Conflict));
    assert_eq!(bench.state.contract("c").expect("there").body.len(), 2);
}

fn contract(id: &str, body: usize) -> NewContract {
    NewContract {
        id: id.into(),
        service: key("s"),
        kind: "".into(),
        protocol: "http".into(),
        version: "1".into(),
        over: None,
        body: vec![0; body].into(),
    }
}

#[test]
fn every_text_has_its_bound() {
    let mut bench = Bench::new();
    bench.register(instance("i", "s"));
    let long = |chars: usize| "x".repeat(chars);
    let details = |details| {
        let what = ServiceChange { details, ..ServiceChange::default() };
        Command::UpdateService(key("s"), Box::new(what))
    };
    let exports =
        |names: Vec<String>| DetailsChange { export_to: Some(names), ..Default::default() };
    let contract = |change: fn(&mut NewContract, Box<str>)| {
        let mut new = contract("c", 1);
        change(&mut new, long(1_000).into());
        Command::PutContract(Box::new(new))
    };
    let cases = [
        (contract(|new, text| new.kind = text), Refusal::Parameter("type")),
        (contract(|new, text| new.protocol = text), Refusal::Parameter("protocol")),
        (contract(|new, text| new.version = text), Refusal::Parameter("version")),
        (contract(|new, text| new.id = text.into()), Refusal::Parameter("id")),
        (details(exports(vec![long(65)])), Refusal::Parameter("export_to")),
        (details(exports(vec![long(1); EXPORTS_MAX + 1])), Refusal::Parameter("export_to")),
        (
            details(DetailsChange { platform_id: Some(long(1_025)), ..Default::default() }),
            Refusal::Parameter("platform_id"),
        ),
        (
            Command::CreateRule(Box::new(NewRule {
                namespace: long(65).into(),
                ..rule("r", &[("ns", "s")], 0)
            })),
            Refusal::NamespaceName,
        ),
        (
            Command::UpdateNamespace(
                "ns".into(),
                NamespaceChange { export_to: Some(vec![long(65)]), ..Default::default() },
            ),
            Refusal::Parameter("export_to"),
        ),
    ];
    for (command, refusal) in cases {
        assert_eq!(bench.apply(command.clone()).err(), Some(refusal), "{command:?}");
    }
}

/// Control characters take six bytes each in the store.
#[test]
fn the_largest_instance_that_is_taken_can_be_kept() {
    let mut bench = Bench::new();
    let text = |chars: usize| "\u{1}".repeat(chars);
    // Hosts and ids hold no control characters.
    let name = |chars: usize| "\u{10ffff}".repeat(chars);
    let pair = |number: u8| (format!("{number:03}{}", text(125)).into(), text(4_096).into());
    bench.register(NewInstance {
        metadata: (0..64).map(pair).collect(),
        host: name(128).into(),
        unknown: vec![0xff; 4_096].into(),
        ..instance(&name(128), &"s".repeat(SERVICE_CHARS_MAX))
    });
    assert!(bench.durable.values().all(|value| value.len() <= 2 * 1024 * 1024));
    bench
        .apply(Command::PutContract(Box::new(contract("c", 1024 * 1024))))
        .expect("as large as allowed");
}

#[test]
fn memory_is_bounded_in_bytes_and_what_strangers_report_leaves_room_for_instances() {
    let mut bench = Bench::with_memory(1024 * 1024);
    let refused = (0..1_000).find_map(|number| {
        let new = contract(&number.to_string(), 4 * 1024);
        bench.apply(Command::PutContract(Box::new(new))).err()
    });
    assert_eq!(refused, Some(Refusal::OutOfMemory { what: "service contracts", max: 128 * 1024 }));
    let refused = (0..10_000).find_map(|number| {
        let new = instance(&number.to_string(), "s");
        bench.apply(Command::Register(Box::new(new))).err()
    });
    let what = "services and instances";
    assert_eq!(refused, Some(Refusal::OutOfMemory { what, max: 640 * 1024 }));
    assert!(bench.state.totals().instances.total > 500);
    bench.apply(Command::Deregister("0".into())).expect("what makes room is taken");
    bench.register(instance("0", "s"));
    bench.apply(Command::DeleteContract("0".into())).expect("there");
    assert!(bench.state.totals().held_bytes <= 1024 * 1024);
}

#[test]
fn changes_of_different_fields_all_last() {
    let mut bench = Bench::new();
    bench.register(instance("i", "s"));
    let with = |details| {
        let what = ServiceChange { details, ..ServiceChange::default() };
        Command::UpdateService(key("s"), Box::new(what))
    };
    let text = |text: &str| Some(text.to_owned());
    bench.apply(with(DetailsChange { owners: text("a"), ..Default::default() })).expect("good");
    bench.apply(with(DetailsChange { comment: text("b"), ..Default::default() })).expect("good");
    let details = &bench.state.service(key("s").borrowed()).expect("there").service.details;
    assert_eq!((&*details.owners, &*details.comment), ("a", "b"));
    bench.apply(Command::CreateAlias(Box::new(alias("other", "s")))).expect("good");
    let with = |what| Command::UpdateAlias(key("other"), Box::new(what));
    bench.apply(with(AliasChange { owners: text("a"), ..Default::default() })).expect("good");
    bench.apply(with(AliasChange { comment: text("b"), ..Default::default() })).expect("good");
    let changed = bench.state.alias(key("other").borrowed()).expect("there");
    assert_eq!((&*changed.owners, &*changed.comment), ("a", "b"));
    bench.apply(Command::CreateRule(Box::new(rule("r", &[("ns", "s")], 0)))).expect("good");
    let rewritten = NewRule { body: Bytes::from_static(b"new"), ..rule("r", &[("ns", "s")], 0) };
    bench.apply(Command::UpdateRule(Box::new(rewritten))).expect("good");
    bench.apply(Command::EnableRule(RuleKind::Routing, "r".into(), false)).expect("good");
    let kept = bench.state.rule(RuleKind::Routing, "r").expect("there");
    assert_eq!((kept.enabled, &*kept.body), (false, &b"new"[..]));
}

#[test]
fn an_alias_counts_for_its_service_until_it_leads_elsewhere() {
    let mut bench = Bench::new();
    for name in ["one", "two"] {
        bench.apply(Command::CreateService(key(name), Box::default())).expect("good");
    }
    for name in ["a", "b"] {
        bench.apply(Command::CreateAlias(Box::new(alias(name, "one")))).expect("good");
    }
    let delete = |bench: &mut Bench, name| bench.apply(Command::DeleteService(key(name))).err();
    bench.apply(Command::DeleteAlias(key("b"))).expect("good");
    assert_eq!(delete(&mut bench, "one"), Some(Refusal::InUse(Noun::Alias)));
    let what = AliasChange { target: Some(key("two")), ..Default::default() };
    bench.apply(Command::UpdateAlias(key("a"), Box::new(what))).expect("good");
    assert_eq!(delete(&mut bench, "one"), None);
    assert_eq!(delete(&mut bench, "two"), Some(Refusal::InUse(Noun::Alias)));
}

#[test]
fn a_service_whose_namespace_is_damaged_counts_all_the_same() {
    let mut bench = Bench::new();
    bench.register(instance("i", "s"));
    bench.durable.remove("/namespaces/ns");
    bench.state = bench.restarted();
    let view = bench.state.namespace("ns").expect("it is there again");
    assert_eq!((view.services.len(), view.counts.total), (1, 1));
    bench.apply(Command::Deregister("i".into())).expect("good");
    bench.apply(Command::DeleteService(key("s"))).expect("good");
    assert!(bench.state.namespace("ns").expect("there").services.is_empty());
}

#[test]
fn tokens_tell_nothing_about_revisions() {
    let (mut first, mut second) = (Bench::new(), Bench::new());
    let token = |bench: &mut Bench| {
        bench.register(instance("i", "s"));
        let view = bench.state.service(key("s").borrowed()).expect("created");
        (view.service.token.clone(), view.revision)
    };
    let (one, other) = (token(&mut first), token(&mut second));
    assert_eq!((one.0.len(), one.1), (32, other.1));
    assert_ne!(one.0, other.0);
}

#[test]
fn an_expired_instance_that_is_changed_comes_back_as_it_was() {
    let mut bench = Bench::new();
    bench.register(NewInstance { ttl_seconds: Some(5), ..instance("i", "s") });
    let now_ms = bench.now_ms;
    bench.state.expire("i", now_ms).expect("it was healthy");
    let heavy = InstanceChange { weight: Some(7), ..InstanceChange::default() };
    bench.apply(Command::UpdateInstance("i".into(), Box::new(heavy))).expect("good");
    let restarted = bench.restarted();
    let (before, after) = (bench.state.instance("i"), restarted.instance("i"));
    let (before, after) = (before.expect("there"), after.expect("kept"));
    assert_eq!((after.healthy, after.expired_after_beat), (false, Some(0)));
    assert_eq!(after.revision, before.revision);
}
