//! Rows as Polaris writes them become objects, and those become rows again.

use serde_json::json;

use tollhouse_registry::config::{ClientLabel, ConfigObject, LabelMatch};
use tollhouse_registry::identity::{IdentityObject, Policy, ResourceKind, ResourcePattern, User};

use super::super::record::Cell;
use super::*;

/// Everything that is read or written by name.
fn columns() -> Columns {
    let mut known = Columns::default();
    let config = "modify_time create_time create_by modify_by";
    for (table, names) in [
        ("config_file", "namespace group name content format comment"),
        ("config_file_tag", "namespace group file_name key value"),
        ("config_file_release", "active"),
        ("gray_resource", "name match_rule flag"),
        ("user", "password user_type"),
        ("user_group_relation", "group_id user_id"),
        ("auth_role_principal", "role_id principal_role"),
        ("auth_principal", "strategy_id principal_role"),
        ("auth_strategy_resource", "strategy_id res_type"),
        ("auth_strategy_function", "strategy_id"),
        ("auth_strategy_label", "strategy_id value compare_type"),
        ("auth_strategy", "revision"),
    ] {
        let names = names.split(' ').chain(config.split(' ').filter(|_| table.contains('_')));
        names.for_each(|name| known.add(table.to_owned(), name.to_owned()));
    }
    for part in PARTS {
        let details = part.details.iter().flat_map(|details| details.columns);
        for column in part.columns.iter().chain(details) {
            known.add(column.table.to_owned(), column.column.to_owned());
        }
    }
    for (table, names) in [
        ("service", "reference"),
        ("instance", "service_id"),
        ("ratelimit_config", "service_id"),
        ("ratelimit_revision", "service_id last_revision mtime"),
        (
            "circuitbreaker_rule_v2",
            "src_service src_namespace dst_service dst_namespace dst_method",
        ),
        ("fault_detect_rule", "dst_service dst_namespace dst_method"),
        ("owner_service_map", "id owner service namespace"),
        ("health_check", "id type"),
        ("lane_rule", "mtime etime"),
    ] {
        for name in names.split(' ') {
            known.add(table.to_owned(), name.to_owned());
        }
    }
    known
}

fn of_names(names: &[&'static str], given: &[(&str, &str)]) -> Row {
    let value =
        |name: &&str| given.iter().find(|(it, _)| it == name).map(|(_, value)| (*value).to_owned());
    Row::new(names, names.iter().map(value).collect())
}

const TIMES: [(&str, &str); 2] = [("ctime", "1700000000"), ("mtime", "1700000100")];
const REVISION: (&str, &str) = ("revision", "00112233445566778899aabbccddeeff");

fn row(part: &Part, given: &[(&str, &str)]) -> Row {
    of_names(&part.names(), &[&TIMES[..], &[REVISION], given].concat())
}

/// Columns with their values.
type Given = Vec<(&'static str, &'static str)>;

const OF_ORDERS: [(&str, &str); 2] = [("service", "orders"), ("namespace", "prod")];

/// A row of each kind, in the order of [`PARTS`].
fn rows() -> Vec<(Row, Vec<Row>)> {
    let given = registered().into_iter().chain(rules()).chain(config()).chain(identities());
    let rows = PARTS.iter().zip(given).map(|(part, (given, details))| {
        let names = part.details_names();
        let details: Vec<Row> = details.iter().map(|given| of_names(&names, given)).collect();
        (row(part, &given), details)
    });
    rows.collect()
}

fn registered() -> [(Given, Option<Given>); 4] {
    let namespace =
        vec![("name", "prod"), ("token", "t"), ("owner", "o"), ("export_to", r#"{"default":{}}"#)];
    let service = vec![
        ("id", "s1"),
        ("name", "orders"),
        ("namespace", "prod"),
        ("token", "t"),
        ("owner", "a,b;a"),
    ];
    let alias = vec![
        ("id", "s2"),
        ("name", "other"),
        ("namespace", "prod"),
        ("target_name", "orders"),
        ("target_namespace", "prod"),
    ];
    let instance = [
        &OF_ORDERS[..],
        &[("id", "i1"), ("host", "h"), ("port", "80"), ("weight", "100"), ("health_status", "1")],
        &[("enable_health_check", "1"), ("ttl", "5"), ("cmdb_zone", "z")],
    ];
    [
        (namespace, None),
        (service, Some(vec![("id", "s1"), ("mkey", "k"), ("mvalue", "v'")])),
        (alias, None),
        (instance.concat(), Some(vec![("id", "i1"), ("mkey", "k"), ("mvalue", "v")])),
    ]
}

const ROUTING: &str = r#"{"destinations":[{"namespace":"prod","service":"orders","weight":7}]}"#;
const LIMIT: &str = r#"{"amounts":[{"maxAmount":{"value":9},"validDuration":{"seconds":1}}],
    "method":{"value":{"value":"/pay"}},"labels":{"zone":{"value":{"value":"a"}}}}"#;
const BREAKER: &str = r#"{"rule_matcher":{"source":{"service":"*","namespace":"*"},"destination":
    {"service":"orders","namespace":"prod","method":{"value":{"value":"/pay"}}}},
    "trigger_condition":[{"trigger_type":1}]}"#;
const DETECTOR: &str =
    r#"{"target_service":{"service":"orders","namespace":"prod"},"interval":30}"#;
const LANES: &str = r#"{"destinations":[{"service":"orders","namespace":"prod"}],"entries":
    [{"type":"t","selector":{"type_url":"type.googleapis.com/v1.ServiceSelector",
    "value":"CgRwcm9kEgZvcmRlcnM="}}]}"#;
const BOUNDS: &str = r#"[{"destinations":[{"service":{"value":"orders"},"namespace":
    {"value":"prod"},"weight":{"value":100}}]}]"#;

fn rules() -> [(Given, Option<Given>); 6] {
    let first = [&OF_ORDERS[..], &[("id", "s1"), ("in_bounds", BOUNDS), ("out_bounds", "[]")]];
    let routing = vec![
        ("id", "r1"),
        ("name", "r"),
        ("policy", "RulePolicy"),
        ("enable", "1"),
        ("config", ROUTING),
        ("priority", "2"),
        ("description", "d"),
    ];
    let limit = [
        &OF_ORDERS[..],
        &[("id", "l1"), ("name", "l"), ("disable", "1"), ("method", "/pay"), ("priority", "3")],
        &[("labels", r#"{"zone":{"value":{"value":"a"}}}"#), ("rule", LIMIT)],
    ];
    let named = |id, name| vec![("id", id), ("name", name)];
    let breaker = [
        named("c1", "c"),
        vec![("namespace", "prod"), ("enable", "1"), ("level", "1"), ("config", BREAKER)],
        vec![("description", "d")],
    ];
    let detector = [named("f1", "f"), vec![("namespace", "prod"), ("config", DETECTOR)]];
    let lanes = [named("g1", "g"), vec![("rule", LANES), ("description", "d")]];
    let lane = [
        named("n1", "blue"),
        vec![("group_name", "g"), ("rule", r#"{"default_label_value":"blue"}"#)],
        vec![("priority", "3"), ("enable", "1"), REVISION],
    ];
    [
        (first.concat(), None),
        (routing, None),
        (limit.concat(), None),
        (breaker.concat(), None),
        (detector.concat(), None),
        (lanes.concat(), Some(lane.concat())),
    ]
}

const FILE: [(&str, &str); 3] = [("namespace", "prod"), ("group", "g"), ("file_name", "app")];

fn config() -> Vec<(Given, Option<Given>)> {
    let group =
        vec![("id", "1"), ("namespace", "prod"), ("name", "g"), ("metadata", r#"{"a":"b"}"#)];
    let file = [&FILE[..], &[("id", "2"), ("content", "a: 1"), ("active", "3"), ("version", "7")]];
    let file = [file.concat(), vec![("tags", r#"{"k":"v"}"#)]].concat();
    let release =
        [("id", "3"), ("name", "r1"), ("content", "a: 1"), ("md5", "m"), ("version", "7")];
    let event = [("id", "4"), ("name", "r1"), ("type", "normal"), ("version", "7"), ("md5", "m")];
    let template = vec![("id", "5"), ("name", "t"), ("content", "x")];
    let of_file = |more: &[(&'static str, &'static str)]| [&FILE[..], more].concat();
    let given = [group, file, of_file(&release), of_file(&event), template];
    given.into_iter().map(|given| (given, None)).collect()
}

fn identities() -> Vec<(Given, Option<Given>)> {
    let user = vec![("id", "u1"), ("name", "ann"), ("token", "t"), ("token_enable", "1")];
    let group = vec![("id", "g1"), ("name", "team"), ("owner", "u1"), ("members", r#"["u1"]"#)];
    let members = r#"[{"id": "u1", "kind": 1}, {"id": "g1", "kind": 2}]"#;
    let role = vec![("id", "o1"), ("name", "role"), ("owner", "u1"), ("members", members)];
    let policy = vec![
        ("id", "p1"),
        ("name", "policy"),
        ("owner", "u1"),
        ("action", "ALLOW"),
        ("members", members),
        ("resources", r#"[{"id": "*", "kind": 1}]"#),
        ("functions", r#"["Describe*", "CreateServices"]"#),
        ("labels", r#"[{"key": "k", "value": "v", "compare": "string_equal"}]"#),
    ];
    [user, group, role, policy].into_iter().map(|given| (given, None)).collect()
}

fn objects() -> Vec<Object> {
    let rows = rows();
    let read = PARTS.iter().zip(&rows).map(|(part, (row, details))| {
        part.read(row, details).unwrap_or_else(|error| panic!("{}: {error}", part.name))
    });
    read.collect()
}

/// A plan for a database with these rows.
fn plan(newer_rows: NewerRows) -> Plan {
    let mut plan = Plan::new(columns(), newer_rows);
    for (part, (row, details)) in PARTS.iter().zip(rows()) {
        plan.add_row(part, &row, &details).expect("it has a time");
    }
    plan
}

fn sql(plan: Plan) -> Vec<String> {
    plan.into_changes().statements.into_iter().map(|it| it.sql).collect()
}

#[test]
fn what_is_there_as_it_is_costs_nothing() {
    let mut plan = plan(NewerRows::Keep);
    objects().iter().for_each(|object| plan.expect(object));
    for object in objects() {
        let written =
            plan.put(&object).unwrap_or_else(|error| panic!("{}: {error}", object.name()));
        assert_eq!(written.effect, Effect::Unchanged, "{}", object.name());
        assert!(written.stays_behind.is_empty(), "{written:?}");
    }
    assert!(plan.only_there().is_empty());
    assert_eq!(sql(plan), Vec::<String>::new());
}

#[test]
fn rules_are_written_in_the_form_that_they_were_read_in() {
    let rows = rows();
    let mut plan = plan(NewerRows::Keep);
    for (place, object) in objects().iter().enumerate().skip(4).take(6) {
        let record = plan.record_of(object, None).expect("it can be written");
        for column in PARTS[place].columns.iter().filter(|it| it.table == record.table) {
            let (table, name) = (column.table, column.column);
            let Some((_, Cell::Text(text))) = record.cells.iter().find(|(it, _)| *it == name)
            else {
                continue;
            };
            let as_json = |text: &str| {
                let mut json = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
                // What has columns of its own lies in the text of some besides, as Polaris writes it.
                for name in ["name", "service", "namespace", "disable", "description"] {
                    json.as_object_mut().and_then(|it| it.shift_remove(name));
                }
                json
            };
            let was = rows[place].0.text(column.name);
            assert_eq!(as_json(text), as_json(was), "{table}.{name}");
        }
        plan.put(object).expect("it can be planned");
    }
}

#[test]
fn an_empty_database_gets_everything_and_deleted_rows_give_way() {
    let mut plan = Plan::new(columns(), NewerRows::Keep);
    objects().iter().for_each(|object| plan.expect(object));
    for object in objects() {
        let written =
            plan.put(&object).unwrap_or_else(|error| panic!("{}: {error}", object.name()));
        assert_eq!(written.effect, Effect::Created, "{}", object.name());
    }
    let sql = sql(plan).join("\n");
    for expected in [
        "DELETE FROM `service` WHERE flag <> 0 AND `name` = _utf8mb4 x'6f7264657273'",
        "INSERT INTO `owner_service_map` (`id`, `owner`, `service`, `namespace`) VALUES (_utf8mb4",
        "INSERT INTO `health_check` (`id`, `type`, `ttl`) VALUES (_utf8mb4 x'6931', 1, 5)",
        "INSERT INTO `ratelimit_revision`",
        "INSERT INTO `lane_rule`",
        "INSERT INTO `config_file_tag` (`namespace`, `group`, `file_name`, `key`, `value`) VALUES",
        "INSERT INTO `config_file_release`",
        "INSERT INTO `user_group_relation`",
        "INSERT INTO `auth_strategy_label`",
    ] {
        assert!(sql.contains(expected), "{expected}: {sql}");
    }
    assert_eq!(sql.matches("INSERT INTO `owner_service_map`").count(), 1, "an alias has no owner");
    let unconditional = sql.lines().any(|line| line.ends_with("flag <> 0"));
    assert!(!unconditional, "deleted rows give way by their names only: {sql}");
}

#[test]
fn what_was_changed_there_later_stays_unless_it_is_to_be_overwritten() {
    let Object::Service(mut service) = objects().swap_remove(1) else { panic!("it is a service") };
    service.details.comment = "another".to_owned();
    let newer = Object::Service(service.clone());
    let mut planned = plan(NewerRows::Keep);
    planned.put(&objects()[0]).expect("it is there");
    assert_eq!(planned.put(&newer).expect("it is newer").effect, Effect::Changed);
    let sql = sql(planned);
    assert!(sql[0].starts_with("UPDATE `service` SET `name` = "), "{sql:?}");
    let condition =
        " AND flag = 0 AND FLOOR(UNIX_TIMESTAMP(`mtime`)) = 1700000100 AND `revision` = ";
    assert!(sql[0].contains(condition), "{sql:?}");
    assert!(!sql[0].contains("`ctime`"), "what is there keeps its age: {sql:?}");

    service.modified_at -= 7;
    let older = Object::Service(service);
    assert_eq!(plan(NewerRows::Keep).put(&older).err(), Some(ExportRefusal::ChangedLater(7)));
    assert_eq!(plan(NewerRows::Overwrite).put(&older).expect("it may").effect, Effect::Changed);
}

#[test]
fn health_is_the_one_that_is_known_here_whoever_changed_it_last() {
    let Object::Instance(mut instance) = objects().swap_remove(3) else { panic!("it is one") };
    instance.healthy = false;
    instance.modified_at -= 7;
    let written = plan(NewerRows::Keep).put(&Object::Instance(instance.clone()));
    assert_eq!(written.expect("only its health differs").effect, Effect::Changed);
    instance.weight = 1;
    let refused = plan(NewerRows::Keep).put(&Object::Instance(instance)).err();
    assert_eq!(refused, Some(ExportRefusal::ChangedLater(7)));
}

#[test]
fn what_only_the_database_has_is_removed_when_asked_rules_first() {
    let mut planned = plan(NewerRows::Keep);
    let only_there = planned.only_there();
    // The history and templates have no mark, and the main account stays.
    assert_eq!(only_there.len(), PARTS.len() - 3);
    assert_eq!(only_there.last().map(|it| it.kind), Some("namespace"));
    only_there.iter().for_each(|it| planned.remove(it));
    let sql = sql(planned);
    let rows: Vec<_> = sql.iter().filter(|it| it.contains("SET flag = 1")).collect();
    assert_eq!(rows.len(), only_there.len() + 1, "a group's lanes go with it: {sql:?}");
    assert!(rows.iter().all(|it| it.contains("time` = CURRENT_TIMESTAMP")), "{sql:?}");
    assert!(sql.iter().any(|it| it.contains("`ratelimit_revision`")), "{sql:?}");
}

#[test]
fn rows_keep_their_ids_and_what_cannot_be_read_is_not_touched() {
    let mut planned = Plan::new(columns(), NewerRows::Overwrite);
    let service = PARTS[1];
    let other = [("id", "theirs"), ("name", "orders"), ("namespace", "prod")];
    planned.add_row(service, &row(service, &other), &[]).expect("it has a time");
    let broken = row(PARTS[5], &[("id", "r1"), ("policy", "Unheard")]);
    planned.add_row(PARTS[5], &broken, &[]).expect("it has a time");
    let objects = objects();
    assert_eq!(planned.put(&objects[1]).expect("it is there").effect, Effect::Changed);
    assert_eq!(planned.put(&objects[3]).expect("its service is there").effect, Effect::Created);
    let refused = planned.put(&objects[5]).expect_err("nobody can read it");
    assert!(matches!(refused, ExportRefusal::Unreadable(_)), "{refused}");
    let sql = sql(planned).join("\n");
    let theirs = "_utf8mb4 x'746865697273'";
    assert!(sql.contains(&format!("WHERE `id` = {theirs} AND flag = 0")), "{sql}");
    assert!(sql.contains(&format!("VALUES (_utf8mb4 x'6931', {theirs}, ")), "{sql}");
}

#[test]
fn what_a_database_has_no_room_for_is_named() {
    let objects = objects();
    let mut known = columns();
    let text = |text: &str| Some(text.to_owned());
    known.add_row(vec![text("service"), text("comment"), text("varchar"), text("3"), text("12")]);
    known.add_row(vec![text("instance"), text("weight"), text("smallint"), None, None]);
    let mut plan = Plan::new(known, NewerRows::Keep);
    let (Object::Service(mut service), Object::Instance(mut instance)) =
        (objects[1].clone(), objects[3].clone())
    else {
        panic!("they are")
    };
    plan.put(&objects[1]).expect("it fits");
    service.details.comment = "äöüß".to_owned();
    service.key = ServiceKey::new("prod", "second");
    let refused = plan.put(&Object::Service(service)).expect_err("it is too long").to_string();
    assert_eq!(refused, "its comment is longer than the 3 characters that the database takes");
    instance.weight = 40_000;
    let refused = plan.put(&Object::Instance(instance)).expect_err("it is too large").to_string();
    assert_eq!(refused, "its weight is 40000, and the database takes 32767 at most");

    let Object::Rule(mut lossless) = objects[5].clone() else { panic!("it is a rule") };
    lossless.kind = tollhouse_registry::RuleKind::Lossless;
    assert_eq!(plan.put(&Object::Rule(lossless)).err(), Some(ExportRefusal::NoPlace));
    let mut empty = Columns::default();
    empty.add("service".to_owned(), "id".to_owned());
    let refused = Plan::new(empty, NewerRows::Keep).put(&objects[5]).err();
    assert_eq!(refused, Some(ExportRefusal::NoTable("routing_config_v2")));
    let alone = Plan::new(columns(), NewerRows::Keep).put(&objects[3]).err();
    assert_eq!(alone, Some(ExportRefusal::NoService));
}

/// A release of the registry for the file of [`FILE`], which is in force.
fn published(id: u64, labels: Vec<ClientLabel>) -> [Object; 2] {
    let all = objects();
    let of = |place: usize| match &all[place] {
        Object::Config(object) => (**object).clone(),
        other => panic!("{other:?}"),
    };
    let (ConfigObject::File(mut file), ConfigObject::Release(mut release)) = (of(11), of(12))
    else {
        panic!("they are")
    };
    (release.id, release.name, release.labels) = (id, format!("r{id}").into(), labels);
    match release.is_gray() {
        true => file.gray = Some(id),
        false => file.active = Some(id),
    }
    let config = |object| Object::Config(Box::new(object));
    [config(ConfigObject::File(file)), config(ConfigObject::Release(release))]
}

#[test]
fn a_release_takes_the_place_of_the_one_in_force() {
    let mut planned = plan(NewerRows::Keep);
    let [file, release] = published(99, Vec::new());
    planned.expect(&file);
    assert_eq!(planned.put(&file).expect("it is there").effect, Effect::Unchanged);
    assert_eq!(planned.put(&release).expect("it is new").effect, Effect::Created);
    planned.only_there();
    let sql = sql(planned);
    let last = sql.last().expect("statements");
    let expected = "UPDATE `config_file_release` SET `active` = 0, `modify_time` = CURRENT_TIMESTAMP \
                    WHERE `id` = _utf8mb4 x'33' AND flag = 0 AND FLOOR(UNIX_TIMESTAMP(`modify_time`)) \
                    = 1700000100";
    assert!(last.starts_with(expected), "{sql:?}");
}

#[test]
fn a_gray_release_has_its_rule() {
    let label = ClientLabel::new("CLIENT_IP", LabelMatch::In, "10.0.0.1");
    let [file, release] = published(99, vec![label]);
    let mut planned = plan(NewerRows::Keep);
    planned.expect(&file);
    planned.put(&file).expect("it is there");
    planned.put(&release).expect("it is new");
    let found = planned.record_of(&release, None).expect("a record");
    let rule = found.belongings.iter().find(|it| it.table == "gray_resource").expect("a rule");
    let text = format!("{:?}", rule.rows);
    assert!(text.contains("config@prod@g@app") && text.contains("CLIENT_IP"), "{text}");
    let part = PARTS.into_iter().find(|it| it.table() == "config_file_release").expect("a part");
    let Ok(Object::Config(object)) = found.read_back(part, &columns()) else { panic!("a release") };
    let ConfigObject::Release(read) = *object else { panic!("a release") };
    assert_eq!((&*read.labels[0].key, read.labels[0].kind), ("CLIENT_IP", LabelMatch::In));
    let mut ended = Plan::new(columns(), NewerRows::Keep);
    let given = [&FILE[..], &[("id", "9"), ("name", "r99"), ("release_type", "gray")]].concat();
    ended.add_row(part, &row(part, &given), &[]).expect("it has a time");
    let refused = ended.put(&release).expect_err("a gray release without a rule");
    assert!(matches!(refused, ExportRefusal::Unreadable(_)), "not a new one: {refused}");
    let mut early = Columns::default();
    early.add("config_file_release".to_owned(), "id".to_owned());
    let refused = Plan::new(early, NewerRows::Keep).put(&release).err();
    assert_eq!(refused, Some(ExportRefusal::NoTable("gray_resource")), "not for all clients");
}

#[test]
fn policies_name_groups_and_services_by_the_numbers_of_the_database() {
    let mut objects = objects();
    let Object::Service(service) = &mut objects[1] else { panic!("a service") };
    service.id = "ours".to_owned();
    let Object::Config(group) = &mut objects[10] else { panic!("a group") };
    let ConfigObject::Group(group) = &mut **group else { panic!("a group") };
    group.id = 77;
    let Some(Object::Identity(policy)) = objects.last_mut() else { panic!("a policy") };
    let IdentityObject::Policy(policy) = &mut **policy else { panic!("a policy") };
    let named = |kind, text: &str| ResourcePattern { kind, text: text.into() };
    std::sync::Arc::make_mut(policy).resources = [
        named(ResourceKind::ConfigGroup, "77"),
        named(ResourceKind::Service, "ours"),
        named(ResourceKind::Service, "*"),
    ]
    .into();
    let mut planned = plan(NewerRows::Overwrite);
    objects.iter().for_each(|object| planned.expect(object));
    for object in &objects {
        planned.put(object).unwrap_or_else(|error| panic!("{}: {error}", object.name()));
    }
    let sql = sql(planned).join("\n");
    let rows = "INSERT INTO `auth_strategy_resource` (`strategy_id`, `res_type`, `res_id`) VALUES ";
    let rows = sql.lines().find_map(|line| line.strip_prefix(rows)).expect("rows");
    for (kind, id) in [("1, ", "2a"), ("1, ", "7331"), ("2, ", "31")] {
        assert!(rows.contains(&format!("{kind}_utf8mb4 x'{id}'")), "{kind}{id}: {rows}");
    }

    // A number that is another group's there would give a right to that one.
    let Some(Object::Identity(policy)) = objects.last_mut() else { panic!("a policy") };
    let IdentityObject::Policy(policy) = &mut **policy else { panic!("a policy") };
    std::sync::Arc::make_mut(policy).resources = [named(ResourceKind::ConfigGroup, "1")].into();
    let mut planned = plan(NewerRows::Overwrite);
    objects.iter().for_each(|object| planned.expect(object));
    let refused = planned.put(objects.last().expect("a policy")).expect_err("another group's");
    assert!(refused.to_string().contains("another there"), "{refused}");
}

#[test]
fn users_keep_ids_and_policies_are_written_whole_or_not_at_all() {
    let all = objects();
    let identity = |name: &str| {
        let found = all.iter().find(|it| it.name() == name && matches!(it, Object::Identity(_)));
        match found {
            Some(Object::Identity(object)) => (**object).clone(),
            other => panic!("{other:?}"),
        }
    };
    let object = |identity: IdentityObject| Object::Identity(Box::new(identity));
    let IdentityObject::User(ann) = identity("ann") else { panic!("a user") };
    let mut other = User::clone(&ann);
    other.head.id = "another id".into();
    let refused = plan(NewerRows::Keep).put(&object(other.clone().into())).expect_err("a name");
    assert!(refused.to_string().contains("another id there"), "{refused}");

    // The account of the bootstrap file is not a user: its objects get the only main account.
    (other.head.name, other.head.owner) = ("bob".into(), "polaris".into());
    let bob = object(other.into());
    let mut planned = plan(NewerRows::Keep);
    assert_eq!(planned.put(&bob).expect("it is new").effect, Effect::Created);
    let made = sql(planned).join("\n");
    assert!(made.contains("_utf8mb4 x'21'") && made.contains(", 50)"), "{made}");
    let refused = Plan::new(columns(), NewerRows::Keep).put(&bob).expect_err("no owner");
    assert_eq!(refused, ExportRefusal::NoOwner("polaris".to_owned()));

    let IdentityObject::Policy(policy) = identity("policy") else { panic!("a policy") };
    let mut changed = Policy::clone(&policy);
    changed.resources.insert(ResourcePattern { kind: ResourceKind::Gateway, text: "*".into() });
    let refused = plan(NewerRows::Overwrite).put(&object(changed.into())).err();
    assert_eq!(refused, Some(ExportRefusal::NamesGateway));
    let mut early = Columns::default();
    early.add("auth_strategy".to_owned(), "id".to_owned());
    let mut planned = Plan::new(early, NewerRows::Keep);
    planned.expect(&object(IdentityObject::User(ann)));
    let refused = planned.put(&object(IdentityObject::Policy(policy))).err();
    assert_eq!(refused, Some(ExportRefusal::NoTable("auth_strategy_function")));
}
