//! `tollhouse doctor` against real engines: sound ones, and each broken in some way.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tollhouse_testkit::program::run;
use tollhouse_testkit::{Database, Etcd, RedisServer};

/// What it finds with these keys of the configuration: its exit code and the findings.
fn examined(settings: &[(&str, &str)]) -> (Option<i32>, Vec<Value>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = run(&mut command(folder.path(), settings));
    let found: Value =
        serde_json::from_str(&ran.text).unwrap_or_else(|_| panic!("no JSON: {}", ran.text));
    (ran.status.code(), found.as_array().expect("a list").clone())
}

fn command(folder: &Path, settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
    command.args(["doctor", "--json", "--set"]).arg(format!("data_dir={}", folder.display()));
    for (key, value) in settings {
        command.args(["--set", &format!("{key}={value}")]);
    }
    command
}

/// A problem or warning that says this, with this remedy.
fn assert_found(settings: &[(&str, &str)], what: &str, remedy: &str) {
    let (code, found) = examined(settings);
    assert_eq!(code, Some(1), "{what}: {found:?}");
    let says = |finding: &Value, member: &str, text: &str| {
        finding[member].as_str().is_some_and(|said| said.contains(text))
    };
    let is_there = found
        .iter()
        .filter(|it| it["severity"] != "note")
        .any(|it| says(it, "what", what) && says(it, "remedy", remedy));
    assert!(is_there, "{what}: {found:?}");
}

fn assert_sound(settings: &[(&str, &str)]) {
    let (code, found) = examined(settings);
    assert!(found.iter().all(|it| it["severity"] == "note"), "{found:?}");
    assert_eq!(code, Some(0));
}

/// What is to be true of an examination with these keys.
type Check = dyn Fn(&[(&str, &str)]);

const KEYRING: (&str, &str) = ("encryption.keyring", "0123456789abcdef");

#[test]
fn etcds_are_examined_sound_full_foreign_and_away() {
    let Some(mut etcd) = Etcd::start_with_quota(1_000_000) else { return };
    let url = etcd.url();
    let settings = [("store.etcd.endpoints", url.as_str()), KEYRING];
    assert_sound(&settings);
    let other = "{\"keys\":[\"another\"]}";
    let Some(()) = etcd.control(&["put", "/apisix/tollhouse/keyring", other]) else { return };
    assert_found(&settings, "has none of the keys", "encryption.keyring");
    let Some(()) = etcd.control(&["del", "/apisix/tollhouse/keyring"]) else { return };
    let filling = "x".repeat(100_000);
    for number in 0..20 {
        let Some(ran) = etcd.try_control(&["put", &format!("/filling/{number}"), &filling]) else {
            return;
        };
        if !ran.status.success() {
            break;
        }
    }
    assert_found(&settings, "NOSPACE", "alarm disarm");
    let Some(second) = Etcd::start() else { return };
    let both = format!("{url},{}", second.url());
    let two = [("store.etcd.endpoints", both.as_str()), KEYRING];
    assert_found(&two, "belong to 2 clusters", "one cluster only");
    etcd.kill();
    assert_found(&settings, "does not answer", "store.etcd.endpoints");
}

#[test]
fn databases_are_examined_sound_foreign_newer_powerless_and_away() {
    for (scheme, database) in [("mysql", Database::mariadb()), ("postgresql", Database::postgres())]
    {
        let Some(mut database) = database else { continue };
        let url = format!("{scheme}://tollhouse@{}/tollhouse", database.address());
        let key = format!("registry.store.{scheme}");
        let tables = |tables| {
            [
                (key.as_str(), url.as_str()),
                ("registry.store.tls", "false"),
                ("registry.store.tables", tables),
            ]
        };
        assert_sound(&tables("none_"));
        database.run_sql(
            "CREATE TABLE foreign_objects (mine INT); CREATE TABLE newer_meta (id SMALLINT, format BIGINT); INSERT \
             INTO newer_meta VALUES (1, 99);",
        );
        assert_found(&tables("foreign_"), "is not of this program", "another prefix");
        assert_found(&tables("newer_"), "format 99, of a newer version", "run that version");
        if scheme == "postgresql" {
            database.run_sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE weak LOGIN;");
            let weak = url.replace("tollhouse@", "weak@");
            let settings = [(key.as_str(), weak.as_str()), ("registry.store.tls", "false")];
            assert_found(&settings, "lacks CREATE", "grant it");
        } else {
            database.run_sql("SET GLOBAL read_only = 1, GLOBAL max_allowed_packet = 1048576;");
            assert_found(&tables("none_"), "takes changes", "read_only off");
            assert_found(&tables("none_"), "takes packets of 1048576 bytes", "max_allowed_packet");
        }
        database.kill();
        assert_found(&tables("none_"), "cannot be used", "");
    }
}

#[test]
fn redises_are_examined_sound_forgetful_locked_and_away() {
    let Some(database) = Database::postgres() else { return };
    let url = format!("postgresql://tollhouse@{}/tollhouse", database.address());
    let with = |redis: &str| {
        let redis = redis.to_owned();
        let url = url.clone();
        move |check: &Check| {
            check(&[
                ("registry.store.postgresql", url.as_str()),
                ("registry.store.tls", "false"),
                ("registry.store.redis", redis.as_str()),
            ]);
        }
    };
    let Some(mut redis) = RedisServer::start(&[]) else { return };
    let plain = with(&format!("redis://127.0.0.1:{}", redis.port));
    plain(&assert_sound);
    redis.ask(&["CONFIG", "SET", "maxmemory", "100mb"]);
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    plain(&|settings| assert_found(settings, "allkeys-lru", "noeviction"));
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    plain(&|settings| assert_found(settings, "does not take what is written", "raise maxmemory"));
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    redis.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    plain(&|settings| assert_found(settings, "is a replica", "name its master"));
    redis.ask(&["REPLICAOF", "NO", "ONE"]);
    redis.ask(&["CONFIG", "SET", "requirepass", "secret"]);
    plain(&|settings| assert_found(settings, "does not answer", "password"));
    redis.kill();
    plain(&|settings| assert_found(settings, "does not answer", "registry.store.redis"));
}
