//! Records of changes by operators, and watches whose callers lose their rights.

use std::sync::Mutex;

use super::*;
use crate::dialect::{ChangeSink, Entrance, Operator, OperatorChange, TokenRead, TokenReads};

/// Sink that keeps everything.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Vec<OperatorChange>>);

impl ChangeSink for Kept {
    fn keep(&self, change: OperatorChange) {
        self.0.lock().expect("not poisoned").push(change);
    }
}

/// Sink that keeps all reads of tokens.
#[derive(Debug, Default)]
pub(super) struct Reads(Mutex<Vec<TokenRead>>);

impl TokenReads for Reads {
    fn keep(&self, read: TokenRead) {
        self.0.lock().expect("not poisoned").push(read);
    }
}

impl Server {
    /// Takes the records since the last call.
    fn records(&self) -> Vec<OperatorChange> {
        std::mem::take(&mut *self.changes.0.lock().expect("not poisoned"))
    }
}

#[tokio::test]
async fn writes_of_operators_are_recorded_by_name_without_secrets() {
    let server = Server::start().await;
    server.post("/naming/v1/namespaces", &json!([{"name": "ns"}])).await;
    let user = json!([{"name": "mary", "password": "pass word"}]);
    let created = server.post("/core/v1/users", &user).await.json();
    let id = created["responses"][0]["user"]["id"].as_str().expect("an id").to_owned();
    let file = json!({
        "namespace": "ns", "group": "group", "name": "app.yaml", "content": "a: 1",
        "format": "yaml", "encrypted": true,
    });
    server.post("/config/v1/configfiles", &file).await;
    let named = json!({"namespace": "ns", "group": "group", "fileName": "app.yaml"});
    server.post("/config/v1/configfiles/release", &named).await;
    server.write("PUT", "/core/v1/user/token/refresh", &json!({"id": id})).await;
    server.post("/core/v1/users/delete", &json!([{"id": id}])).await;
    let records = server.records();
    let shown: Vec<_> =
        records.iter().map(|it| (&*it.path, it.before.is_some(), it.after.is_some())).collect();
    assert_eq!(
        shown,
        [
            ("registry/namespaces/ns", false, true),
            ("registry/users/mary", false, true),
            ("registry/config-files/ns/group/app.yaml", false, true),
            ("registry/config-files/ns/group/app.yaml", true, true),
            ("registry/users/mary", true, true),
            ("registry/users/mary", true, false),
        ]
    );
    assert!(records.iter().all(|it| it.actor.as_deref() == Some("polaris")), "{records:?}");
    let published = records.iter().filter_map(|it| it.after.as_ref());
    assert!(published.into_iter().any(|it| it["release"]["version"] == 1), "{records:?}");
    let text = format!("{records:?}");
    for secret in ["a: 1", "datakey", "argon2", "pass word", "auth_token"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

#[tokio::test]
async fn refused_and_idle_writes_and_registrations_are_not_recorded() {
    let server = Server::start().await;
    server.post("/naming/v1/namespaces", &json!([{"name": "ns"}])).await;
    server.records();
    server.post("/naming/v1/namespaces", &json!([{"name": "ns"}])).await;
    server.post("/core/v1/users", &json!([{"name": "x", "password": ""}])).await;
    server.post("/naming/v1/instances", &json!([instance("svc", "10.0.0.1")])).await;
    assert_eq!(server.records(), []);
}

#[tokio::test]
async fn an_operator_of_another_door_is_named_and_may_do_everything() {
    let server = Server::start_with(Gate::Locked, Gate::Locked).await;
    let operator = Operator { account: Some("ops".into()), entrance: Entrance::Console };
    let caller = Caller { operator: Some(&operator), ..Caller::default() };
    let create = tollhouse_registry::Command::CreateNamespace("ns".into(), Default::default());
    let done = server.dialect.submit_for(crate::access::Door::Console, &caller, create).await;
    assert!(done.is_ok());
    let records = server.records();
    assert_eq!(records[0].actor.as_deref(), Some("ops"));
    assert_eq!(records[0].entrance, Entrance::Console);
}

#[tokio::test]
async fn a_locked_door_of_an_open_registry_asks_for_rights() {
    let server = Server::start_with(Gate::Open, Gate::Open).await;
    let access = Arc::new(server.dialect.access().locked());
    let locked = server.dialect.clone().with_access(access);
    for (dialect, is_admitted) in [(&server.dialect, true), (&locked, false)] {
        let admitted = dialect.admit_any(crate::access::Door::Console, &Caller::default());
        assert_eq!(admitted.is_ok(), is_admitted);
    }
}

#[tokio::test]
async fn a_watch_ends_when_its_caller_loses_the_right() {
    let server = Server::start_with(Gate::Locked, Gate::Locked).await;
    server.post("/naming/v1/namespaces", &json!([{"name": "ns"}])).await;
    let user = json!([{"name": "mary", "password": "pass word"}]);
    let created = server.post("/core/v1/users", &user).await.json();
    let id = created["responses"][0]["user"]["id"].as_str().expect("an id").to_owned();
    let policy = json!({
        "name": "readers", "action": "ALLOW", "principals": {"users": [{"id": id}]},
        "resources": {"config_groups": [{"id": "ns/*"}]}, "functions": ["*"],
    });
    let created = server.post("/core/v1/auth/strategy", &policy).await.json();
    let policy = created["authStrategy"]["id"].as_str().expect("an id").to_owned();
    let shown = server.get(&format!("/core/v1/user/token?id={id}")).await.json();
    let token = shown["user"]["auth_token"].as_str().expect("a token").to_owned();
    let message = v1::ClientWatchConfigFileRequest {
        client_ip: Some("10.0.0.7".to_owned()),
        watch_files: vec![v1::ClientConfigFileInfo {
            namespace: Some("ns".to_owned()),
            group: Some("group".to_owned()),
            file_name: Some("app.yaml".to_owned()),
            ..v1::ClientConfigFileInfo::default()
        }],
        ..v1::ClientWatchConfigFileRequest::default()
    };
    let (dialect, message) = (server.dialect.clone(), message.encode_to_vec());
    let watching = tokio::spawn(async move {
        let caller = Caller { token: Some(&token), ..Caller::default() };
        dialect.watch_config_files(&caller, &message).await.expect("decodable").code.number()
    });
    let path = "/config/v1/configfiles/watchers?namespace=ns&group=group&name=app.yaml";
    loop {
        let watchers = server.get(path).await.json();
        if watchers["total"] == 1 {
            assert_eq!(watchers["watchers"][0], json!({"client": "10.0.0.7", "version": 0}));
            break;
        }
        assert!(!watching.is_finished(), "the caller has the right");
        tokio::task::yield_now().await;
    }
    // Another change of rights leaves the watch as it is.
    server.post("/core/v1/users", &json!([{"name": "john", "password": "pass word"}])).await;
    assert_eq!(server.get(path).await.json()["total"], 1);
    server.post("/core/v1/auth/strategies/delete", &json!([{"id": policy}])).await;
    assert_eq!(watching.await.expect("no panic"), 401_001);
}

#[tokio::test]
async fn reads_of_tokens_are_noted_with_reader_and_owner() {
    let server = Server::start().await;
    server.post("/naming/v1/services", &json!([{"name": "svc", "namespace": "ns"}])).await;
    let user = json!([{"name": "mary", "password": "pass word"}]);
    let created = server.post("/core/v1/users", &user).await.json();
    let id = created["responses"][0]["user"]["id"].as_str().expect("an id").to_owned();
    let group = json!({"name": "team", "relation": {"users": [{"id": id}]}});
    let created = server.post("/core/v1/usergroup", &group).await.json();
    let group = created["userGroup"]["id"].as_str().expect("an id").to_owned();
    for path in [
        format!("/core/v1/user/token?id={id}"),
        "/core/v1/user/token?name=mary".to_owned(),
        "/core/v1/user/token?name=polaris".to_owned(),
        format!("/core/v1/usergroup/token?id={group}"),
        "/naming/v1/service/token?namespace=ns&name=svc".to_owned(),
        "/naming/v1/namespaces/token?name=ns".to_owned(),
    ] {
        assert_eq!(server.get(&path).await.status, 200, "{path}");
    }
    // Other reads, and reads that return no token, are not noted.
    assert_eq!(server.get("/core/v1/users").await.status, 200);
    assert_eq!(server.get("/core/v1/user/token?id=absent").await.status, 400);
    assert_eq!(
        server.send("GET", &format!("/core/v1/user/token?id={id}"), "", "").await.status,
        401
    );
    let reads = std::mem::take(&mut *server.token_reads.0.lock().expect("not poisoned"));
    let paths: Vec<&str> = reads.iter().map(|read| &*read.path).collect();
    let mary = "registry/users/mary";
    let expected = [
        mary,
        mary,
        "registry/users/polaris",
        "registry/user-groups/team",
        "registry/services/ns/svc",
        "registry/namespaces/ns",
    ];
    assert_eq!(paths, expected);
    let is_named = |read: &TokenRead| {
        read.actor.as_deref() == Some("polaris") && read.peer.is_some_and(|it| it.is_loopback())
    };
    assert!(reads.iter().all(is_named), "{reads:?}");
}
