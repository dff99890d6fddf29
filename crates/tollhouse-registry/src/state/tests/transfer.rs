//! Transferred objects: stored unchanged and only once, and refused if a client could not have
//! registered them.

use std::sync::Arc;

use super::{Bench, START_MS};
use crate::command::{Command, NewInstance, NewRule, Outcome};
use crate::key::{ServiceKey, ServiceRef};
use crate::limits::STATE_BYTES_MAX;
use crate::refusal::{Noun, Refusal};
use crate::revision::Revision;
use crate::rule::RuleKind;
use crate::state::Rehearsal;
use crate::transfer::{Effect, ForeignEntry, Object};

type IsExpected = fn(&ForeignEntry) -> bool;

/// Returns a registry with one object of each kind.
fn filled() -> Bench {
    let mut bench = Bench::new();
    let service = ServiceKey::new("ns", "svc");
    let apply = |bench: &mut Bench, command| bench.apply(command).expect("it is sound");
    apply(&mut bench, Command::CreateService(service.clone(), Box::default()));
    apply(&mut bench, Command::Register(Box::new(instance("i", "10.0.0.1"))));
    let alias = crate::alias::Alias {
        id: String::new(),
        key: ServiceKey::new("ns", "further"),
        target: service.clone(),
        comment: "c".into(),
        owners: String::new(),
        metadata: Default::default(),
        created_at: 0,
        modified_at: 0,
        revision: Revision::default(),
    };
    apply(&mut bench, Command::CreateAlias(Box::new(alias)));
    let rule = NewRule {
        kind: RuleKind::Routing,
        id: "r".into(),
        name: "rule".into(),
        namespace: "ns".into(),
        targets: vec![service],
        priority: 1,
        enabled: true,
        body: bytes::Bytes::from_static(b"body"),
    };
    apply(&mut bench, Command::CreateRule(Box::new(rule)));
    bench
}

fn instance(id: &str, host: &str) -> NewInstance {
    NewInstance {
        id: id.into(),
        service: "svc".into(),
        namespace: "ns".into(),
        host: host.into(),
        port: Some(80),
        ttl_seconds: Some(5),
        ..NewInstance::default()
    }
}

/// Returns all stored objects, in the order in which they must be put.
fn objects(bench: &Bench) -> Vec<Object> {
    let parts = crate::transfer::KEY_PREFIXES.into_iter();
    let entries =
        parts.flat_map(|part| bench.durable.iter().filter(move |(key, _)| key.starts_with(part)));
    entries.map(|(key, value)| Object::from_entry(key, value).expect("it is ours")).collect()
}

fn put(bench: &mut Bench, object: Object) -> Result<Effect, Refusal> {
    match bench.apply(Command::Put(object)) {
        Ok(Outcome::Put(effect)) => Ok(effect),
        Ok(other) => panic!("another outcome: {other:?}"),
        Err(refusal) => Err(refusal),
    }
}

#[test]
fn what_is_put_is_what_was_there_and_putting_it_again_changes_nothing() {
    let (source, mut target) = (filled(), Bench::new());
    for object in objects(&source) {
        let is_new = !matches!(&object, Object::Namespace(it) if it.is_built_in());
        let expected = if is_new { Effect::Created } else { Effect::Changed };
        assert_eq!(put(&mut target, object), Ok(expected));
    }
    assert_eq!(target.durable, source.durable);
    for object in objects(&source) {
        assert_eq!(put(&mut target, object), Err(Refusal::NoChange));
    }
    assert_eq!(target.durable, source.durable);
}

#[test]
fn what_differs_replaces_and_no_revision_stands_for_two_contents() {
    let mut bench = filled();
    for object in objects(&bench) {
        if let Object::Service(mut service) = object {
            let before = service.revision;
            service.details.comment = "another".into();
            assert_eq!(put(&mut bench, Object::Service(service)), Ok(Effect::Changed));
            let key = ServiceRef { namespace: "ns", name: "svc" };
            let service = Arc::clone(&bench.state.service(key).expect("it stays").service);
            assert_eq!(service.details.comment, "another");
            assert_ne!(service.revision, before);
        }
    }
}

#[test]
fn who_beats_here_keeps_the_health_that_is_known_here() {
    let mut bench = filled();
    let stored = objects(&bench).into_iter().find_map(|object| match object {
        Object::Instance(stored) => Some(stored),
        _ => None,
    });
    let mut stored = stored.expect("there is one");
    stored.healthy = false;
    stored.modified_at += 100;
    assert_eq!(put(&mut bench, Object::Instance(stored.clone())), Err(Refusal::NoChange));
    stored.isolated = true;
    assert_eq!(put(&mut bench, Object::Instance(stored)), Ok(Effect::Changed));
    let known = bench.state.instance("i").expect("it stays");
    assert!(known.healthy && known.isolated);
    assert_eq!(known.modified_at, START_MS / 1_000);
}

#[test]
fn what_nobody_could_register_is_refused_and_leaves_nothing() {
    let source = filled();
    let mut target = Bench::new();
    for object in objects(&source) {
        let (object, expected) = match object {
            Object::Namespace(mut it) => {
                it.name = "with blanks in it".into();
                (Object::Namespace(it), Refusal::NamespaceName)
            }
            Object::Service(mut it) => {
                it.key.name = "#".into();
                (Object::Service(it), Refusal::ServiceName)
            }
            Object::Alias(it) => (Object::Alias(it), Refusal::NotFound(Noun::Service)),
            Object::Instance(mut it) => {
                it.host = " ".into();
                (Object::Instance(it), Refusal::Host)
            }
            Object::Rule(mut it) => {
                it.targets.push(ServiceKey::new("", "x"));
                (Object::Rule(it), Refusal::NamespaceName)
            }
            Object::Contract(_) | Object::Config(_) | Object::Identity(_) => {
                panic!("none is among them")
            }
        };
        assert_eq!(put(&mut target, object), Err(expected));
    }
    assert!(target.durable.is_empty());
}

#[test]
fn a_rehearsal_tells_what_would_change_and_changes_nothing() {
    let source = filled();
    let mut rehearsal = Rehearsal::from_state(&Bench::new().state);
    for object in objects(&source) {
        let is_instance = matches!(object, Object::Instance(_));
        let told = rehearsal.put(object.clone());
        assert!(told.is_ok(), "{told:?}");
        if is_instance {
            assert_eq!(rehearsal.put(object), Ok(Effect::Unchanged));
        }
    }
    let entries = source.durable.iter().map(|(key, value)| tollhouse_store::Entry {
        key: key.clone(),
        value: value.clone(),
        create_revision: tollhouse_store::Revision(1),
        mod_revision: tollhouse_store::Revision(1),
        expires_at_ms: None,
    });
    let entries: Vec<_> = entries.collect();
    let mut again = Rehearsal::from_entries(&entries, STATE_BYTES_MAX);
    for object in objects(&source) {
        assert_eq!(again.put(object), Ok(Effect::Unchanged));
    }
}

#[test]
fn an_entry_is_read_by_its_key() {
    let source = filled();
    for (key, value) in &source.durable {
        let object = Object::from_entry(key, value).expect("it is ours");
        let (own, written) = object.to_entry().expect("it fits");
        assert_eq!((own.as_str(), written.as_slice()), (&**key, &value[..]));
    }
    let namespace = br#"{"name":"other"}"#;
    let table: [(&str, &[u8], IsExpected); 3] = [
        ("/members/1", b"{}", |it| *it == ForeignEntry::Key),
        ("/namespaces/ns", namespace, |it| matches!(it, ForeignEntry::Value(_))),
        ("/instances/i", b"\xff", |it| matches!(it, ForeignEntry::Value(_))),
    ];
    for (key, value, is_expected) in table {
        let foreign = Object::from_entry(key, value).expect_err("it is none");
        assert!(is_expected(&foreign), "{key}: {foreign:?}");
    }
    let (key, value) =
        source.durable.iter().find(|(key, _)| key.starts_with("/instances/")).expect("one");
    let foreign = Object::from_entry(&format!("{key}x"), value).expect_err("it is another's");
    assert_eq!(foreign, ForeignEntry::OtherKey(key.to_string()));
}
