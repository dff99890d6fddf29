//! Rows as Polaris writes them, and what they become.

use prost::Message;
use tollhouse_registry::config::{ConfigEventKind, ConfigObject};
use tollhouse_registry::identity::{IdentityObject, PolicyAction};
use tollhouse_registry::{Object, RuleKind};

use super::*;
use crate::rules::rule_message;
use crate::v1;

/// A row of a part, NULL where nothing is given.
fn row(part: &Part, given: &[(&str, &str)]) -> Row {
    of_names(&part.names(), given)
}

fn of_names(names: &[&'static str], given: &[(&str, &str)]) -> Row {
    let times = [("ctime", "1700000000.0000"), ("mtime", "1700000100")];
    let value = |name: &&str| {
        let found = given.iter().chain(&times).find(|(it, _)| it == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    for (name, _) in given {
        assert!(names.contains(name), "{name}");
    }
    Row::new(names, names.iter().map(value).collect())
}

const REVISION: &str = "00112233445566778899aabbccddeeff";

#[test]
fn a_service_is_read_with_its_metadata_and_what_may_be_missing() {
    let part = PARTS[1];
    let given = [
        ("id", "s1"),
        ("name", "orders"),
        ("namespace", "prod"),
        ("comment", "Bestellungen – ä"),
        ("token", "t"),
        ("owner", "o"),
        ("revision", REVISION),
        ("cmdb_mod2", "second"),
        ("export_to", r#"["*"]"#),
    ];
    let pairs = of_names(&part.details_names(), &[("id", "s1"), ("mkey", "k"), ("mvalue", "v")]);
    let Ok(Object::Service(service)) = part.read(&row(part, &given), &[pairs]) else {
        panic!("it is a service")
    };
    assert_eq!((service.key.to_string().as_str(), &*service.id), ("prod/orders", "s1"));
    assert_eq!(
        (service.details.comment.as_str(), &*service.details.owners),
        ("Bestellungen – ä", "o")
    );
    assert_eq!(service.details.cmdb_mod, ["", "second", ""]);
    assert_eq!(service.details.export_to, ["*"]);
    assert_eq!((&*service.metadata["k"], service.revision.to_string().as_str()), ("v", REVISION));
    assert_eq!((service.created_at, service.modified_at), (1_700_000_000, 1_700_000_100));
    let own = [("id", "s2"), ("name", "polaris.checker"), ("namespace", "Polaris")];
    assert_eq!(part.read(&row(part, &own), &[]).err(), Some(ImportRefusal::OwnServer));
}

#[test]
fn an_instance_has_its_health_check_its_place_and_the_labels_that_are_its_owners() {
    let part = PARTS[3];
    let given = [
        ("id", "i1"),
        ("service", "orders"),
        ("namespace", "prod"),
        ("host", "10.0.0.1"),
        ("port", "8080"),
        ("version", "1.0"),
        ("health_status", "0"),
        ("isolate", "1"),
        ("weight", "0"),
        ("enable_health_check", "1"),
        ("ttl", "90"),
        ("cmdb_zone", "z"),
        ("revision", "not 32 digits"),
    ];
    let names = part.details_names();
    let pair = |key, value| of_names(&names, &[("id", "i1"), ("mkey", key), ("mvalue", value)]);
    let pairs = [
        pair("internal-lastheartbeat", "1699999999"),
        pair("version", "1.0"),
        pair("zone", "mine"),
    ];
    let read = |given: &[(&str, &str)]| part.read(&row(part, given), &pairs);
    let Ok(Object::Instance(instance)) = read(&given) else { panic!("it is an instance") };
    assert_eq!((&*instance.host, instance.port, instance.weight), ("10.0.0.1", 8080, 0));
    assert_eq!((instance.healthy, instance.isolated, instance.ttl_seconds), (false, true, Some(5)));
    assert_eq!(instance.expired_after_beat, Some(1_699_999_999));
    assert_eq!(instance.location.as_ref().map(|it| &*it.zone), Some("z"));
    let labels: Vec<_> = instance.metadata.keys().map(|key| &**key).collect();
    assert_eq!(labels, ["zone"], "the version is a field, and that zone is another");
    let Ok(Object::Instance(again)) = read(&given) else { panic!("it is an instance") };
    assert_eq!(instance.revision, again.revision, "the same row has the same revision");
    assert_ne!(instance.revision, tollhouse_registry::Revision::default());
    let without = |name: &str| -> Vec<_> { given.into_iter().filter(|it| it.0 != name).collect() };
    assert_eq!(read(&without("service")).err(), Some(ImportRefusal::NoService));
    let mut far = without("port");
    far.push(("port", "70000"));
    let reason = "70000 is out of range".to_owned();
    assert_eq!(read(&far).err(), Some(ImportRefusal::Unreadable { column: "port", reason }));
    let Ok(Object::Instance(unchecked)) = read(&without("enable_health_check")) else { panic!() };
    assert_eq!((unchecked.ttl_seconds, unchecked.expired_after_beat), (None, None));
}

/// The rule of a row, and the message that clients get of it.
fn rule(
    part: &Part,
    given: &[(&str, &str)],
    details: &[Row],
) -> (tollhouse_registry::Rule, Vec<u8>) {
    match part.read(&row(part, given), details) {
        Ok(Object::Rule(rule)) => {
            let message = rule_message(&rule).to_vec();
            (*rule, message)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn routing_of_both_generations_is_read() {
    let bounds = r#"[{"sources":[{"service":{"value":"*"},"namespace":{"value":"*"}}],"destinations":
        [{"service":{"value":"orders"},"namespace":{"value":"prod"},"metadata":{"v":{"value":
        {"value":"1"}}},"priority":{"value":0},"weight":{"value":100}}]}]"#;
    let given = [("id", "s1"), ("service", "orders"), ("namespace", "prod"), ("in_bounds", bounds)];
    let (first, message) = rule(PARTS[4], &given, &[]);
    let routing = v1::Routing::decode(&message[..]).expect("a message");
    assert_eq!((first.kind, routing.inbounds.len()), (RuleKind::RoutingV1, 1));
    assert_eq!(routing.inbounds[0].destinations[0].weight, Some(100));

    let config = r#"{"sources":[{"service":"a","namespace":"prod"}],"destinations":
        [{"service":"b","namespace":"prod","weight":1}],"rules":[]}"#;
    let given = [
        ("id", "r1"),
        ("name", "by rule"),
        ("policy", "RulePolicy"),
        ("enable", "1"),
        ("config", config),
        ("priority", "2"),
        ("revision", REVISION),
        ("etime", "1700000050"),
    ];
    let (second, message) = rule(PARTS[5], &given, &[]);
    let read = v1::RouteRule::decode(&message[..]).expect("a message");
    assert_eq!((&*read.id, &*read.revision, read.priority), ("r1", REVISION, 2));
    assert!(read.enable && read.routing_config.is_some());
    let targets: Vec<_> = second.targets.iter().map(ToString::to_string).collect();
    assert_eq!(
        (targets, second.enabled_at),
        (vec!["prod/a".into(), "prod/b".into()], 1_700_000_050)
    );
    let given = [("id", "r1"), ("policy", "AnotherPolicy")];
    assert!(PARTS[5].read(&row(PARTS[5], &given), &[]).is_err());
}

#[test]
fn limits_breakers_and_detectors_are_read_with_what_stands_in_columns() {
    let text = r#"{"amounts":[{"maxAmount":{"value":9},"validDuration":{"seconds":1}}]}"#;
    let given = [
        ("id", "l1"),
        ("name", "limit"),
        ("disable", "1"),
        ("service", "orders"),
        ("namespace", "prod"),
        ("method", "/pay"),
        ("labels", r#"{"zone":{"value":{"value":"a"}}}"#),
        ("priority", "1"),
        ("rule", text),
        ("etime", "315532801"),
    ];
    let (limit, message) = rule(PARTS[6], &given, &[]);
    let read = v1::Rule::decode(&message[..]).expect("a message");
    assert_eq!(
        (read.name.as_deref(), read.disable, read.priority),
        (Some("limit"), Some(true), Some(1))
    );
    assert_eq!(read.method.and_then(|it| it.value).as_deref(), Some("/pay"));
    assert_eq!((read.labels.len(), limit.enabled, limit.enabled_at), (1, false, 0));

    let config = r#"{"rule_matcher":{"source":{"service":"*","namespace":"*"},"destination":
        {"service":"orders","namespace":"prod"}},"trigger_condition":[{"trigger_type":1}]}"#;
    let given =
        [("id", "c1"), ("name", "breaker"), ("enable", "1"), ("level", "1"), ("config", config)];
    let (breaker, message) = rule(PARTS[7], &given, &[]);
    let read = v1::CircuitBreakerRule::decode(&message[..]).expect("a message");
    assert_eq!((read.level, read.trigger_condition.len(), breaker.enabled), (1, 1, true));

    let config =
        r#"{"target_service":{"service":"orders","namespace":"prod"},"interval":30,"protocol":1}"#;
    let given = [("id", "f1"), ("name", "detector"), ("config", config)];
    let (_, message) = rule(PARTS[8], &given, &[]);
    let read = v1::FaultDetectRule::decode(&message[..]).expect("a message");
    assert_eq!((read.interval, read.protocol), (30, 1));
    let broken = [("id", "f1"), ("name", "detector"), ("config", "{")];
    let left_out = PARTS[8].read(&row(PARTS[8], &broken), &[]).expect_err("it is no JSON");
    assert!(left_out.to_string().starts_with("its config cannot be read"), "{left_out}");
}

#[test]
fn a_rate_limit_of_polaris_1_17_and_later_names_its_service_in_the_rule() {
    // As its Go writes it: `service_id` is empty, so that the join finds no service.
    let text = r#"{"service":{"value":"svc0"},"namespace":{"value":"prod"},"type":1,"amounts":[{"maxAmount":{"value":10},
        "validDuration":{"seconds":1}}],"action":{"value":"REJECT"},"disable":{},"regex_combine":{"value":true},
        "method":{"value":{"value":"/pay"}},"arguments":[{"type":1,"key":"k","value":{"value":{"value":"v"}}}]}"#;
    let given = [("id", "l1"), ("name", "limit"), ("method", "/pay"), ("rule", text)];
    let (limit, message) = rule(PARTS[6], &given, &[]);
    let read = v1::Rule::decode(&message[..]).expect("a message");
    assert_eq!((read.service.as_deref(), read.namespace.as_deref()), (Some("svc0"), Some("prod")));
    assert_eq!((read.amounts.len(), read.arguments.len(), limit.enabled), (1, 1, true));
    let targets: Vec<_> = limit.targets.iter().map(ToString::to_string).collect();
    assert_eq!(targets, ["prod/svc0"]);
    let nameless = [("id", "l1"), ("name", "limit"), ("rule", "{}")];
    let left_out = PARTS[6].read(&row(PARTS[6], &nameless), &[]).err();
    assert_eq!(left_out, Some(ImportRefusal::NoService));
}

#[test]
fn a_lane_group_has_its_lanes() {
    let part = PARTS[9];
    let text = r#"{"destinations":[{"service":"orders","namespace":"prod"}]}"#;
    let lane = [
        ("id", "l1"),
        ("name", "blue"),
        ("group_name", "g"),
        ("rule", r#"{"default_label_value":"blue"}"#),
        ("priority", "3"),
        ("enable", "1"),
    ];
    let lanes = [of_names(&part.details_names(), &lane)];
    let given = [("id", "g1"), ("name", "g"), ("rule", text), ("description", "d")];
    let group_row = row(part, &given);
    assert_eq!(part.details(&group_row, &lanes).len(), 1);
    let (_, message) = rule(part, &given, &lanes);
    let group = v1::LaneGroup::decode(&message[..]).expect("a message");
    assert_eq!((&*group.description, group.rules.len()), ("d", 1));
    let lane = &group.rules[0];
    assert_eq!((&*lane.group_name, lane.priority, lane.enable), ("g", 3, true));
    assert_eq!(lane.default_label_value, "blue");
}

#[test]
fn queries_name_what_is_there_and_no_content_breaks_out_of_them() {
    let mut known = Columns::default();
    for (table, column) in [("service", "id"), ("service", "export_to"), ("service_metadata", "id")]
    {
        known.add(table.to_owned(), column.to_owned());
    }
    let part = PARTS[1];
    let missing = part.missing(&known);
    assert!(missing.contains(&"service.name".to_owned()), "{missing:?}");
    assert!(!missing.contains(&"service.platform_id".to_owned()), "it came later");
    let sql = part.query(&known, Some("'; DROP"), 7);
    assert!(sql.contains("s.export_to") && !sql.contains("s.platform_id"), "{sql}");
    assert!(sql.ends_with("ORDER BY s.id LIMIT 7") && !sql.contains("DROP"), "{sql}");
    let sql = part.details_query(&known, &[row(part, &[("id", "')--")])]).expect("it has metadata");
    assert!(sql.contains("d.id IN (_utf8mb4 x'27292d2d')"), "{sql}");
    assert_eq!(part.details_query(&known, &[]), None);
    let lanes = PARTS[9];
    assert!(!lanes.is_there(&known) && part.is_there(&known));
}

/// Reads a row of the part with this name.
fn imported(name: &str, given: &[(&str, &str)]) -> Result<Object, ImportRefusal> {
    let part = PARTS.into_iter().find(|part| part.name == name).expect("a part");
    part.read(&row(part, given), &[])
}

fn config(name: &str, given: &[(&str, &str)]) -> ConfigObject {
    match imported(name, given) {
        Ok(Object::Config(object)) => *object,
        other => panic!("{other:?}"),
    }
}

const FILE: [(&str, &str); 4] =
    [("id", "7"), ("namespace", "ns"), ("group", "g"), ("file_name", "app.yaml")];

#[test]
fn a_file_has_its_tags_and_its_releases_in_force() {
    let given = [&FILE[..], &[("content", "a: 1"), ("version", "3"), ("active", "12")]].concat();
    let given = [&given[..], &[("tags", r#"{"internal-datakey": "k"}"#)]].concat();
    let ConfigObject::File(file) = config("configuration files", &given) else { panic!() };
    assert_eq!((file.id, &*file.key.to_string(), file.version), (7, "ns/g/app.yaml", 3));
    assert_eq!((file.active, file.gray, &*file.tags["internal-datakey"]), (Some(12), None, "k"));
    assert_eq!(file.dates.modified_at, 1_700_000_100);
    let group = [("id", "1"), ("namespace", "ns"), ("name", "g"), ("metadata", "")];
    let ConfigObject::Group(group) = config("configuration groups", &group) else { panic!() };
    assert_eq!((group.id, &*group.key.to_string()), (1, "ns/g"));
}

#[test]
fn a_release_has_its_labels_only_if_it_is_gray() {
    let part = "releases of configuration files";
    let rule = r#"[{"key": "CLIENT_IP", "value": {"type": "IN", "value": "10.0.0.1"}}]"#;
    let given = [&FILE[..], &[("name", "r1"), ("md5", "m"), ("labels", rule)]].concat();
    let ConfigObject::Release(full) = config(part, &given) else { panic!() };
    assert!(full.labels.is_empty());
    let gray = [&given[..], &[("release_type", "gray"), ("tags", r#"[{"Key":"a","Value":"b"}]"#)]];
    let gray = gray.concat();
    let ConfigObject::Release(gray_release) = config(part, &gray) else { panic!() };
    assert_eq!((gray_release.labels.len(), &*gray_release.tags["a"]), (1, "b"));
    let without: Vec<_> = gray.into_iter().filter(|(name, _)| *name != "labels").collect();
    assert!(imported(part, &without).is_err(), "all clients would get it");
    let event = [&FILE[..], &[("type", "rollback"), ("version", "4")]].concat();
    let part = "history of configuration files";
    let ConfigObject::Event(event) = config(part, &event) else { panic!() };
    assert_eq!((event.kind, event.version), (ConfigEventKind::Rollback, 4));
}

#[test]
fn users_and_policies_keep_tokens_members_and_resources() {
    let user = [("id", "u1"), ("name", "alice"), ("owner", "o"), ("token", "t")];
    let user = [&user[..], &[("token_enable", "1"), ("metadata", "null")]].concat();
    let Ok(Object::Identity(object)) = imported("users", &user) else { panic!() };
    let IdentityObject::User(read) = *object else { panic!() };
    assert_eq!((&*read.token.text, read.token.is_enabled), ("t", true));
    let members = r#"[{"id": "u1", "kind": 1}, {"id": "g1", "kind": 2}]"#;
    let policy = [
        ("id", "p1"),
        ("name", "p"),
        ("action", "DENY"),
        ("members", members),
        ("resources", r#"[{"id": "*", "kind": 0}, {"id": "s1", "kind": 1}]"#),
        ("functions", r#"["Describe*"]"#),
        ("default", "1"),
    ];
    let Ok(Object::Identity(object)) = imported("policies", &policy) else { panic!() };
    let IdentityObject::Policy(read) = *object else { panic!() };
    assert_eq!((read.action, read.is_default), (PolicyAction::Deny, true));
    assert_eq!(
        (read.principals.len(), read.resources.len(), &*read.functions[0]),
        (2, 2, "Describe*")
    );
    for (name, value) in [
        ("action", "MAYBE"),
        ("resources", r#"[{"id": "x", "kind": 99}]"#),
        ("members", r#"[{"id": "x", "kind": 9}]"#),
    ] {
        let mut broken = policy;
        let place = broken.iter().position(|(it, _)| *it == name).expect("given");
        broken[place].1 = value;
        assert!(imported("policies", &broken).is_err(), "{name}");
    }
    let Ok(Object::Identity(role)) =
        imported("roles", &[("id", "r1"), ("name", "r"), ("members", members)])
    else {
        panic!()
    };
    let IdentityObject::Role(role) = *role else { panic!() };
    assert_eq!((role.users.len(), role.groups.len()), (1, 1));
}
