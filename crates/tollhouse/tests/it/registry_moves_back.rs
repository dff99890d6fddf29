//! A registry that goes back into the database of a Polaris, from which it came.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use tollhouse_testkit::program::{Ran, run};
use tollhouse_testkit::{Database, Gateway, RawClient};

use crate::registry_moves::{POLARIS, command, exported, folder, registry, with_registry};
use crate::support::{json_request, registry_request};

fn url(polaris: &Database) -> String {
    format!("mysql://tollhouse@{}/polaris_server", polaris.address())
}

fn import(folder: &Path, polaris: &Database) -> Ran {
    let url = url(polaris);
    run(&mut command(folder, &["import", "polaris", "--database", &url, "--yes"]))
}

fn export(folder: &Path, polaris: &Database, more: &[&str]) -> Ran {
    let url = url(polaris);
    let words = ["export", "polaris", "--database", &url];
    run(&mut command(folder, &[&words[..], more].concat()))
}

/// The tables of a Polaris with a few instances.
fn tables() -> String {
    POLARIS.replace("seq_1_to_800", "seq_1_to_20")
}

/// Whether a condition on the database's tables holds: the engine's own arithmetic fails where it does not.
pub(crate) fn check(polaris: &Database, condition: &str) {
    polaris.run_sql(&format!(
        "USE polaris_server; SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO';\n\
         CREATE TEMPORARY TABLE checked (it INT NOT NULL);\n\
         INSERT INTO checked SELECT 1 / ({condition});"
    ));
}

/// Sends a message to the registry's HTTP, which takes it.
fn send(registry: SocketAddr, path: &str, body: &Value) {
    let answer = RawClient::connect(registry).ask(json_request(path, body));
    let answer: Value = serde_json::from_slice(&answer.body).expect("the answer is JSON");
    assert_eq!(answer["code"], 200_000, "{path}: {answer}");
}

/// What whoever has moved here does before they go back: every kind of object once more, and some go.
fn change(gateway: &Gateway) {
    let registry = registry(gateway);
    let of = |service: &str| json!({"service": service, "namespace": "prod"});
    let instance = json!({"service": "fresh", "namespace": "prod", "host": "10.7.0.1", "port": 80,
        "version": "2.0", "weight": 7, "metadata": {"colour": "blue – ä", "'; DROP": "--"},
        "healthCheck": {"type": 1, "heartbeat": {"ttl": 9}}});
    let request = registry_request("RegisterInstance", &instance);
    assert_eq!(RawClient::connect(registry).ask(request).status(), 200);
    let gone = json!({"id": "i0001"});
    let request = registry_request("DeregisterInstance", &gone);
    assert_eq!(RawClient::connect(registry).ask(request).status(), 200);
    let old = json!([{"name": "old", "namespace": "prod", "owners": "me;you",
        "metadata": {"age": "2"}, "comment": "is back"}]);
    send(registry, "/naming/v1/services", &old);
    let alias = json!({"service": "fresh", "namespace": "prod", "alias": "neu",
        "alias_namespace": "prod", "owners": "me"});
    send(registry, "/naming/v1/service/alias", &alias);
    let any = |name: &str, mut fields: Value| {
        fields["@type"] = json!(format!("type.googleapis.com/v1.{name}"));
        fields
    };
    let by_rule = any(
        "RuleRoutingConfig",
        json!({"rules": [{"name": "r",
        "sources": [of("*")], "destinations": [of("fresh")]}]}),
    );
    let nearby = any("NearbyRoutingConfig", of("fresh"));
    for (policy, config) in [("RulePolicy", by_rule), ("NearbyPolicy", nearby)] {
        let rule = json!([{"name": policy, "namespace": "prod", "enable": policy == "RulePolicy",
            "routing_policy": policy, "routing_config": config, "priority": 3}]);
        send(registry, "/naming/v2/routings", &rule);
    }
    let limit = json!([{"service": "fresh", "namespace": "prod", "name": "r", "labels":
        {"zone": {"type": "EXACT", "value": "a"}}, "amounts": [{"maxAmount": 5,
        "validDuration": "1s"}]}]);
    send(registry, "/naming/v1/ratelimits", &limit);
    let matcher = json!({"source": of("*"), "destination": of("fresh")});
    let breaker =
        json!([{"name": "r", "level": "SERVICE", "enable": true, "ruleMatcher": matcher}]);
    send(registry, "/naming/v1/circuitbreaker/rules", &breaker);
    let detector = json!([{"name": "r", "targetService": of("fresh"), "interval": 30}]);
    send(registry, "/naming/v1/faultdetectors", &detector);
    let lanes = json!([{"name": "r", "destinations": [of("fresh")], "rules": [{"name": "blue",
        "default_label_value": "blue", "enable": true}]}]);
    send(registry, "/naming/v1/lane/groups", &lanes);
}

/// What a registry holds, but for times and revisions, of which each has its own.
fn held(folder: &Path) -> Vec<Value> {
    let mut entries = exported(&mut command(folder, &["export", "registry"]));
    for entry in &mut entries {
        let fields = entry["value"].as_object_mut().expect("an object");
        for name in ["revision", "created_at", "modified_at", "enabled_at"] {
            fields.remove(name);
        }
        // One message has more than one encoding; that the rules are the same is seen by a second export.
        fields.remove("body");
    }
    entries
}

#[test]
fn what_came_from_a_polaris_goes_back_changed_and_comes_again_as_it_is() {
    let Some(polaris) = Database::mariadb() else { return };
    polaris.run_sql(&tables());
    // Long ago: so it is seen which rows an export gives a time of its own.
    polaris.run_sql("USE polaris_server; UPDATE instance SET mtime = '2024-01-01'; UPDATE service SET mtime = '2024-01-01';");
    let (here, there) = (folder(), folder());
    import(here.path(), &polaris);
    let untouched = export(here.path(), &polaris, &["--dry-run"]);
    assert_eq!(untouched.status.code(), Some(0), "{}", untouched.text);
    assert!(untouched.text.contains("instance: 0 new, 0 changed, 21 there"), "{}", untouched.text);
    let gateway = with_registry(here.path());
    change(&gateway);

    let planned = export(here.path(), &polaris, &["--dry-run"]);
    for expected in [
        "instance: 1 new, 0 changed, 20 there already",
        "service: 2 new, 0 changed, 1 there already",
        "alias: 1 new",
        "only in the database, left as they are; --prune deletes them: 1 instance",
        "nothing was written: --dry-run",
    ] {
        assert!(planned.text.contains(expected), "{expected}: {}", planned.text);
    }
    check(&polaris, "NOT EXISTS (SELECT 1 FROM service WHERE name = 'fresh')");
    let written = export(here.path(), &polaris, &["--yes", "--prune"]);
    assert_eq!(written.status.code(), Some(0), "{}", written.text);
    assert!(written.text.contains("11 objects written to the Polaris in"), "{}", written.text);
    for condition in [
        "(SELECT flag = 1 AND mtime > '2025-01-01' FROM instance WHERE id = 'i0001')",
        "(SELECT COUNT(*) = 23 FROM instance WHERE mtime = '2024-01-01')",
        "(SELECT COUNT(*) = 1 FROM service WHERE name = 'old' AND flag = 0 AND mtime > '2025-01-01' AND token <> '')",
        "(SELECT COUNT(*) = 2 FROM owner_service_map WHERE service = 'old')",
        "(SELECT COUNT(*) = 1 FROM service WHERE name = 'neu' AND reference <> '' AND token <> '')",
        "(SELECT type = 1 AND ttl = 9 FROM health_check h JOIN instance i ON i.id = h.id WHERE host = '10.7.0.1')",
        "(SELECT r.last_revision = c.revision FROM ratelimit_config c JOIN ratelimit_revision r ON r.service_id = \
         c.service_id WHERE c.name = 'r')",
        "(SELECT etime < '1981-01-01' AND enable = 0 FROM routing_config_v2 WHERE policy = 'NearbyPolicy')",
        "(SELECT dst_service = 'fresh' AND level = 1 FROM circuitbreaker_rule_v2)",
        "(SELECT COUNT(*) = 1 FROM lane_rule WHERE group_name = 'r' AND flag = 0 AND id <> '')",
    ] {
        check(&polaris, condition);
    }
    let again = export(here.path(), &polaris, &["--yes", "--prune"]);
    assert!(!again.text.contains("objects written"), "{}", again.text);

    import(there.path(), &polaris);
    assert_eq!(held(there.path()), held(here.path()));
    let other_way = export(there.path(), &polaris, &["--dry-run", "--prune"]);
    assert!(!other_way.text.contains("only in the database"), "{}", other_way.text);
    for line in other_way.text.lines().filter(|line| line.contains(" new, ")) {
        assert!(line.contains(" 0 new, 0 changed, "), "{}", other_way.text);
    }
}

#[test]
fn what_was_changed_in_a_polaris_later_stays_unless_it_is_to_be_overwritten() {
    let Some(polaris) = Database::mariadb() else { return };
    polaris.run_sql(&tables());
    let here = folder();
    import(here.path(), &polaris);
    polaris.run_sql(
        "USE polaris_server; UPDATE service SET comment = 'theirs', mtime = mtime + INTERVAL 1 HOUR WHERE name = \
         'orders'; UPDATE instance SET health_status = 0, mtime = mtime + INTERVAL 1 HOUR WHERE id = 'i0002';",
    );
    let kept = export(here.path(), &polaris, &["--yes"]);
    assert_eq!(kept.status.code(), Some(1), "{}", kept.text);
    let reason = "service prod/orders: it was changed in the database 3600 s later than here";
    assert!(kept.text.contains(reason), "{}", kept.text);
    assert!(kept.text.contains("instance: 0 new, 1 changed"), "{}", kept.text);
    check(&polaris, "(SELECT comment = 'theirs' FROM service WHERE name = 'orders')");
    check(&polaris, "(SELECT health_status = 1 FROM instance WHERE id = 'i0002')");
    let replaced = export(here.path(), &polaris, &["--yes", "--overwrite"]);
    assert!(replaced.text.contains("1 object written"), "{}", replaced.text);
    check(&polaris, "(SELECT comment = 'takes them' FROM service WHERE name = 'orders')");
}

#[test]
fn nothing_is_written_to_what_is_no_polaris_or_when_a_statement_fails() {
    let Some(polaris) = Database::mariadb() else { return };
    let here = folder();
    polaris.run_sql("CREATE DATABASE polaris_server");
    let refused = export(here.path(), &polaris, &["--yes"]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.text);
    assert!(refused.text.contains("is not a database of Polaris"), "{}", refused.text);
    polaris.run_sql(&tables().replacen(
        "CREATE DATABASE",
        "DROP DATABASE polaris_server; CREATE DATABASE",
        1,
    ));
    import(here.path(), &polaris);
    let gateway = with_registry(here.path());
    change(&gateway);
    // The last table that is written to refuses.
    polaris.run_sql(
        "USE polaris_server; CREATE TRIGGER refuses BEFORE INSERT ON lane_rule FOR EACH ROW SIGNAL SQLSTATE '45000' SET \
         MESSAGE_TEXT = 'not today'",
    );
    let failed = export(here.path(), &polaris, &["--yes"]);
    assert_eq!(failed.status.code(), Some(1), "{}", failed.text);
    assert!(
        failed.text.contains("nothing was written") && failed.text.contains("not today"),
        "{}",
        failed.text
    );
    check(&polaris, "NOT EXISTS (SELECT 1 FROM service WHERE name = 'fresh')");
    check(&polaris, "(SELECT flag = 1 FROM service WHERE name = 'old')");
}
