//! Users and their rights: who may do what with the configuration centre, and what the calls for
//! users, groups, roles and policies answer.

use super::*;
use crate::dialect::{CallReply, Undecodable};
use crate::v1::config_discover_request::ConfigDiscoverRequestType as Kind;
use bytes::Bytes;

const USERS: &str = "/core/v1/users";
const POLICIES: &str = "/core/v1/auth/strategies";

/// Outcome of a call, as the table shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Refused for the caller's token or rights.
    Refused,
    /// Answered without the file.
    Hidden,
    /// Answered, for whatever the call is worth.
    Done,
}

use Seen::{Done, Hidden, Refused};

/// Callers of the tables, in the order of their columns.
const CALLERS: [&str; 6] = ["none", "wrong", "viewer", "other", "owner", "admin"];

impl Server {
    /// Creates a user with a policy; returns the user's token.
    async fn user(&self, name: &str, functions: &[&str], resources: Value) -> String {
        let user = json!([{"name": name, "password": "pass word"}]);
        let created = self.post(USERS, &user).await;
        assert_eq!(created.code(), 200_000, "{}", created.text);
        let id = created.json()["responses"][0]["user"]["id"].clone();
        let policy = json!({
            "name": format!("policy-{name}"),
            "action": "ALLOW",
            "principals": {"users": [{"id": id}]},
            "resources": resources,
            "functions": functions,
        });
        let created = self.post("/core/v1/auth/strategy", &policy).await;
        assert_eq!(created.code(), 200_000, "{}", created.text);
        let id = id.as_str().expect("an id");
        let shown = self.get(&format!("/core/v1/user/token?id={id}")).await.json();
        shown["user"]["auth_token"].as_str().expect("a token").to_owned()
    }

    /// A server with a file, and the tokens of [`CALLERS`].
    async fn with_callers() -> (Self, [Option<String>; 6]) {
        let server = Self::start_with(Gate::Locked, Gate::Locked).await;
        for namespace in ["ns", "other"] {
            server.post("/naming/v1/namespaces", &json!([{"name": namespace}])).await;
        }
        server.restore().await;
        let all = json!([{"id": "*"}]);
        let all = json!({"namespaces": all, "services": all, "config_groups": all});
        let viewer = server.user("viewer", &["Describe*", "Discover*", "Watch*"], all).await;
        let within = |namespace: &str| {
            let inside = json!([{"id": format!("{namespace}/*")}]);
            json!({
                "namespaces": [{"id": namespace}],
                "services": inside,
                "config_groups": inside,
            })
        };
        let other = server.user("other", &["*"], within("other")).await;
        let owner = server.user("owner", &["*"], within("ns")).await;
        let admin = "secret".to_owned();
        let tokens = [None, Some("wrong".to_owned()), Some(viewer), Some(other), Some(owner)];
        let [none, wrong, viewer, other, owner] = tokens;
        (server, [none, wrong, viewer, other, owner, Some(admin)])
    }

    /// Writes and publishes the file, which calls of the tables change and delete.
    async fn restore(&self) {
        let file = json!({
            "namespace": "ns", "group": "group", "fileName": "app.yaml",
            "content": "a: 1", "format": "yaml", "releaseName": "first",
        });
        let written = self.post("/config/v1/configfiles/createandpub", &file).await;
        assert!([200_000, 200_002].contains(&written.code()), "{}", written.text);
    }

    async fn send_as(&self, token: Option<&str>, call: (&str, &str, &Value)) -> Answer {
        let (method, path, body) = call;
        let token = token.map(|token| format!("x-polaris-token: {token}\r\n"));
        let headers = format!("content-type: application/json\r\n{}", token.unwrap_or_default());
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, path, &headers, &body).await
    }
}

fn seen(answer: &Answer, is_read: bool) -> Seen {
    // Only callers who may read the files get an archive, which is not JSON.
    if answer.header("content-type") == Some("application/zip") {
        return Done;
    }
    match answer.code() {
        401_000..=401_999 | 403_000..=403_999 => Refused,
        _ if is_read && !answer.text.contains("app.yaml") => Hidden,
        _ => Done,
    }
}

/// A call of the table, and its outcome by caller.
type ConsoleCall = (&'static str, String, Value, [Seen; 6]);

/// Outcomes of calls that change the file.
const WRITE: [Seen; 6] = [Refused, Refused, Refused, Refused, Done, Done];

/// Outcomes of lists, of which a caller sees the files with a right to them.
const LIST: [Seen; 6] = [Refused, Refused, Done, Hidden, Done, Done];

/// Outcomes of calls that read the file.
const READ: [Seen; 6] = [Refused, Refused, Done, Refused, Done, Done];

/// Outcomes of calls that need a valid token only, and do not show the file.
const TOKEN_ONLY: [Seen; 6] = [Refused, Refused, Hidden, Hidden, Hidden, Hidden];

const GROUPS: &str = "/config/v1/configfilegroups";
const FILES: &str = "/config/v1/configfiles";
const TEMPLATES: &str = "/config/v1/configfiletemplates";

/// Calls for groups and working copies of files.
fn file_calls() -> Vec<ConsoleCall> {
    let file = json!({"namespace": "ns", "group": "group", "name": "app.yaml", "content": "a: 2"});
    let files = json!([{"namespace": "ns", "group": "group", "name": "app.yaml"}]);
    let group = json!({"namespace": "ns", "name": "group", "comment": "c"});
    let export = json!({"namespace": "ns", "groups": ["group"]});
    let in_group = "namespace=ns&group=group";
    let named = format!("{FILES}?{in_group}&name=app.yaml");
    let import = [Refused, Refused, Done, Done, Done, Done];
    vec![
        ("GET", format!("{GROUPS}?fileName=app.yaml"), Value::Null, TOKEN_ONLY),
        ("POST", GROUPS.into(), group.clone(), WRITE),
        ("PUT", GROUPS.into(), group, WRITE),
        ("DELETE", format!("{GROUPS}?{in_group}"), Value::Null, WRITE),
        ("GET", named.clone(), Value::Null, READ),
        ("POST", FILES.into(), file.clone(), WRITE),
        ("PUT", FILES.into(), file, WRITE),
        ("DELETE", named, Value::Null, WRITE),
        ("GET", format!("{FILES}/by-group?{in_group}"), Value::Null, LIST),
        ("GET", format!("{FILES}/search?name=*"), Value::Null, LIST),
        ("POST", format!("{FILES}/batchdelete"), files, WRITE),
        ("POST", format!("{FILES}/export"), export, WRITE),
        ("POST", format!("{FILES}/import?{in_group}"), Value::Null, import),
        ("GET", format!("{FILES}/encryptalgorithm"), Value::Null, TOKEN_ONLY),
    ]
}

/// Calls for releases and templates, and the clients' call over HTTP, whose gate is locked too.
fn release_calls() -> Vec<ConsoleCall> {
    let file = json!({"namespace": "ns", "group": "group", "fileName": "app.yaml"});
    let release =
        json!([{"namespace": "ns", "group": "group", "fileName": "app.yaml", "name": "first"}]);
    let template = json!({"name": "t", "content": "c"});
    let named = "namespace=ns&group=group&file_name=app.yaml";
    let client = "/config/v1/GetConfigFile?namespace=ns&group=group&fileName=app.yaml";
    let create_template = [Refused, Refused, Refused, Done, Done, Done];
    vec![
        ("GET", format!("{FILES}/release?{named}"), Value::Null, READ),
        ("POST", format!("{FILES}/release"), file.clone(), WRITE),
        ("GET", format!("{FILES}/release/versions?{named}"), Value::Null, LIST),
        ("GET", format!("{FILES}/releases?namespace=ns"), Value::Null, LIST),
        ("PUT", format!("{FILES}/releases/rollback"), release.clone(), WRITE),
        ("POST", format!("{FILES}/releases/delete"), release, WRITE),
        ("POST", format!("{FILES}/releases/stopbeta"), json!([file.clone()]), WRITE),
        ("POST", format!("{FILES}/createandpub"), file, WRITE),
        ("GET", format!("{FILES}/releasehistory?namespace=ns"), Value::Null, LIST),
        ("GET", TEMPLATES.into(), Value::Null, TOKEN_ONLY),
        ("POST", TEMPLATES.into(), template, create_template),
        ("GET", client.into(), Value::Null, READ),
    ]
}

#[tokio::test]
async fn each_console_call_of_the_configuration_centre_has_its_callers() {
    let (server, tokens) = Server::with_callers().await;
    for (method, path, body, expected) in file_calls().iter().chain(&release_calls()) {
        for ((caller, token), expected) in CALLERS.iter().zip(&tokens).zip(expected) {
            server.restore().await;
            let answer = server.send_as(token.as_deref(), (method, path, body)).await;
            let is_read = *method == "GET";
            assert_eq!(
                seen(&answer, is_read),
                *expected,
                "{method} {path} by {caller}: {}",
                answer.text
            );
        }
    }
}

/// Messages of the clients' calls about the file.
struct ClientMessages {
    file: Vec<u8>,
    /// The file as a client asks for it.
    wanted: Vec<u8>,
    release: Vec<u8>,
    publication: Vec<u8>,
    group: Vec<u8>,
    watch: Vec<u8>,
    /// Requests for the file, the names of files, and the groups.
    discover: [Vec<u8>; 3],
}

impl ClientMessages {
    fn new() -> Self {
        let some = |text: &str| Some(text.to_owned());
        let (namespace, group, file_name) = (some("ns"), some("group"), some("app.yaml"));
        let wanted = v1::ClientConfigFileInfo {
            namespace: namespace.clone(),
            group: group.clone(),
            file_name: file_name.clone(),
            ..v1::ClientConfigFileInfo::default()
        };
        let file = v1::ConfigFile {
            namespace: namespace.clone(),
            group: group.clone(),
            name: file_name.clone(),
            content: some("a: 3"),
            ..v1::ConfigFile::default()
        };
        let release = v1::ConfigFileRelease {
            namespace: namespace.clone(),
            group: group.clone(),
            file_name: file_name.clone(),
            ..v1::ConfigFileRelease::default()
        };
        let publication = v1::ConfigFilePublishInfo {
            namespace: namespace.clone(),
            group: group.clone(),
            file_name,
            content: some("a: 4"),
            ..v1::ConfigFilePublishInfo::default()
        };
        let group =
            v1::ConfigFileGroup { namespace, name: group, ..v1::ConfigFileGroup::default() };
        Self {
            file: file.encode_to_vec(),
            release: release.encode_to_vec(),
            publication: publication.encode_to_vec(),
            group: v1::ConfigFileGroupRequest {
                config_file_group: Some(group),
                ..v1::ConfigFileGroupRequest::default()
            }
            .encode_to_vec(),
            watch: v1::ClientWatchConfigFileRequest {
                watch_files: vec![wanted.clone()],
                ..v1::ClientWatchConfigFileRequest::default()
            }
            .encode_to_vec(),
            discover: [Kind::ConfigFile, Kind::ConfigFileNames, Kind::ConfigFileGroups]
                .map(|kind| discover_message(kind, &wanted)),
            wanted: wanted.encode_to_vec(),
        }
    }
}

fn discover_message(kind: Kind, wanted: &v1::ClientConfigFileInfo) -> Vec<u8> {
    v1::ConfigDiscoverRequest {
        r#type: kind.into(),
        config_file: Some(wanted.clone()),
        ..v1::ConfigDiscoverRequest::default()
    }
    .encode_to_vec()
}

/// Reply to a client's call, with the name of the call.
type NamedReply = (&'static str, Result<CallReply, Undecodable>);

async fn client_reads(
    dialect: &Dialect,
    caller: &Caller<'_>,
    messages: &ClientMessages,
) -> [NamedReply; 6] {
    let [file, names, groups] = &messages.discover;
    [
        ("GetConfigFile", dialect.get_config_file(caller, &messages.wanted)),
        ("GetConfigFileMetadataList", dialect.list_config_files(caller, &messages.group)),
        ("Discover file", dialect.discover_config(caller, file)),
        ("Discover names", dialect.discover_config(caller, names)),
        ("Discover groups", dialect.discover_config(caller, groups)),
        ("WatchConfigFiles", dialect.watch_config_files(caller, &messages.watch).await),
    ]
}

async fn client_writes(
    dialect: &Dialect,
    caller: &Caller<'_>,
    messages: &ClientMessages,
) -> [NamedReply; 4] {
    [
        ("CreateConfigFile", dialect.create_config_file(caller, &messages.file).await),
        ("UpdateConfigFile", dialect.update_config_file(caller, &messages.file).await),
        ("PublishConfigFile", dialect.publish_config_file(caller, &messages.release).await),
        (
            "UpsertAndPublishConfigFile",
            dialect.upsert_and_publish_config_file(caller, &messages.publication).await,
        ),
    ]
}

fn is_refused(reply: Result<CallReply, Undecodable>) -> bool {
    matches!(reply.expect("decodable").code.number(), 401_000..=401_999)
}

#[tokio::test]
async fn each_client_call_of_the_configuration_centre_has_its_callers() {
    let (server, tokens) = Server::with_callers().await;
    let dialect = &server.dialect;
    let messages = ClientMessages::new();
    let (reads, writes) =
        ([true, true, false, true, false, false], [true, true, true, true, false, false]);
    for ((caller_name, token), (is_read_refused, is_write_refused)) in
        CALLERS.iter().zip(&tokens).zip(reads.iter().zip(&writes))
    {
        let caller = Caller { token: token.as_deref(), ..Caller::default() };
        for (call, reply) in client_reads(dialect, &caller, &messages).await {
            assert_eq!(is_refused(reply), *is_read_refused, "{call} by {caller_name}");
        }
        for (call, reply) in client_writes(dialect, &caller, &messages).await {
            assert_eq!(is_refused(reply), *is_write_refused, "{call} by {caller_name}");
        }
    }
    let client = Caller { token: Some("client"), ..Caller::default() };
    let read = dialect.get_config_file(&client, &messages.wanted);
    assert!(!is_refused(read), "the clients' token");
    assert!(!is_refused(dialect.update_config_file(&client, &messages.file).await));
}

#[tokio::test]
async fn registrations_need_a_right_to_their_service() {
    let (server, tokens) = Server::with_callers().await;
    let message = |namespace: &str| {
        let message = v1::Instance {
            service: Some("svc".to_owned()),
            namespace: Some(namespace.to_owned()),
            host: Some("10.0.0.1".to_owned()),
            port: Some(80),
            ..v1::Instance::default()
        };
        Bytes::from(message.encode_to_vec())
    };
    let discover = v1::DiscoverRequest {
        r#type: 1,
        service: Some(v1::Service {
            name: Some("svc".to_owned()),
            namespace: Some("ns".to_owned()),
            ..v1::Service::default()
        }),
        ..v1::DiscoverRequest::default()
    }
    .encode_to_vec();
    let outcomes = |caller: &'static str| {
        let place = CALLERS.iter().position(|it| *it == caller).expect("a caller");
        let (server, token, discover) = (&server, tokens[place].as_deref(), &discover);
        let message = &message;
        async move {
            let caller = Caller { token, ..Caller::default() };
            let dialect = &server.dialect;
            let registered = dialect.register(&caller, message("ns")).await.expect("decodable");
            let found = dialect.discover(&caller, discover, crate::dialect::HealthFilter::Ignored);
            let beat = dialect.heartbeat(&caller, &message("ns")).expect("decodable");
            let left = dialect.deregister(&caller, message("ns")).await.expect("decodable");
            [registered, found.expect("decodable"), beat, left].map(|it| it.code.number())
        }
    };
    let ok = 200_000;
    assert_eq!(outcomes("owner").await, [ok, ok, ok, ok]);
    assert_eq!(outcomes("none").await, [401_001; 4]);
    // The instance has left, so that the last two calls touch nothing.
    assert_eq!(outcomes("other").await, [401_001, 401_001, ok, ok]);
    assert_eq!(outcomes("viewer").await[0], 401_001);
}

#[tokio::test]
async fn users_log_in_and_see_themselves() {
    let server = Server::start().await;
    let user = json!([{"name": "alice", "password": "pass word", "comment": "c"}]);
    let created = server.post(USERS, &user).await;
    let shown = created.json();
    assert!(!created.text.contains("pass word"), "{}", created.text);
    let id = shown["responses"][0]["user"]["id"].as_str().expect("an id").to_owned();
    assert_eq!(id.len(), 32);
    for (user, code) in [
        (json!({"name": "alice", "password": "pass word"}), 400_215),
        (json!({"name": "polaris", "password": "pass word"}), 400_215),
        (json!({"name": "a b", "password": "pass word"}), 400_101),
        (json!({"password": "pass word"}), 400_101),
        (json!({"name": "bob", "password": "short"}), 400_412),
        (json!({"name": "bob", "password": "pass word", "email": "x"}), 400_414),
        (json!({"name": "bob", "password": "pass word", "mobile": "x"}), 400_413),
    ] {
        assert_eq!(server.post(USERS, &json!([user])).await.code(), code, "{user}");
    }
    let login = async |name: &str, password: &str| {
        let body = json!({"name": name, "password": password});
        server.send_as(None, ("POST", "/core/v1/user/login", &body)).await
    };
    let answer = login("alice", "pass word").await.json();
    assert_eq!(answer["loginResponse"]["role"], "sub", "{answer}");
    assert_eq!(answer["loginResponse"]["user_id"], *id);
    let token = answer["loginResponse"]["token"].as_str().expect("a token").to_owned();
    let as_alice = async |method: &str, path: &str, body: Value| {
        server.send_as(Some(&token), (method, path, &body)).await
    };
    let list = as_alice("GET", USERS, Value::Null).await.json();
    assert_eq!(
        (&list["amount"], &list["users"][0]["name"]),
        (&json!(1), &json!("alice")),
        "{list}"
    );
    let all = server.get(USERS).await.json();
    assert_eq!(
        (&all["amount"], &all["users"][0]["user_type"]),
        (&json!(2), &json!("main")),
        "{all}"
    );
    assert_eq!(as_alice("POST", USERS, user.clone()).await.code(), 401_001);
    let own = format!("/core/v1/user/token?id={id}");
    assert_eq!(as_alice("GET", &own, Value::Null).await.code(), 200_000);
    let of_account = "/core/v1/user/token?id=polaris";
    assert_eq!(as_alice("GET", of_account, Value::Null).await.code(), 401_001);
    assert_eq!(server.get(of_account).await.json()["user"]["auth_token"], "secret");

    let change = |old: &str| json!({"id": id, "old_password": old, "new_password": "new secret"});
    let path = "/core/v1/user/password";
    assert_eq!(as_alice("PUT", path, change("wrong one")).await.code(), 401_001);
    let update = json!({"id": id, "comment": "changed"});
    assert_eq!(as_alice("PUT", "/core/v1/user", update.clone()).await.code(), 200_000);
    // Without a change too, as in Polaris: its console takes any other code for a failure.
    assert_eq!(as_alice("PUT", "/core/v1/user", update).await.code(), 200_000);

    let disable = json!({"id": id, "token_enable": false});
    let status = "/core/v1/user/token/status";
    assert_eq!(server.write("PUT", status, &disable).await.code(), 200_000);
    assert_eq!(as_alice("GET", USERS, Value::Null).await.code(), 401_003);
    let enable = json!({"id": id, "token_enable": true});
    assert_eq!(server.write("PUT", status, &enable).await.code(), 200_000);
    let renewed = server.write("PUT", "/core/v1/user/token/refresh", &json!({"id": id})).await;
    assert_ne!(renewed.json()["user"]["auth_token"], *token);
    assert_eq!(as_alice("GET", USERS, Value::Null).await.code(), 401_001, "the old token");
    let delete = format!("{USERS}/delete");
    assert_eq!(server.post(&delete, &json!([{"id": "polaris"}])).await.code(), 401_001);
    assert_eq!(server.post(&delete, &json!([{"id": id}])).await.code(), 200_000);
    assert_eq!(server.post(&delete, &json!([{"id": id}])).await.code(), 400_312);
}

#[tokio::test]
async fn a_policy_reaches_no_further_than_its_writer() {
    let server = Server::start().await;
    let within = json!({
        "namespaces": [{"id": "default"}],
        "services": [{"id": "default/*"}],
        "users": [{"id": "*"}],
        "auth_policies": [{"id": "*"}],
    });
    let functions = ["CreateAuthPolicy", "UpdateAuthPolicies", "Update*", "Describe*"];
    let token = server.user("lead", &functions, within).await;
    let create = |functions: Value, resources: Value| {
        let policy = json!({
            "name": format!("p{}", crate::access::random_digits::<4>()),
            "action": "ALLOW", "functions": functions, "resources": resources,
        });
        let (server, token) = (&server, &token);
        async move {
            let call = ("POST", "/core/v1/auth/strategy", &policy);
            server.send_as(Some(token), call).await.code()
        }
    };
    let inside = json!({"services": [{"id": "default/pay-*"}]});
    assert_eq!(create(json!(["UpdateServices"]), inside.clone()).await, 200_000);
    assert_eq!(create(json!(["Update*"]), inside.clone()).await, 200_000);
    for (functions, resources) in [
        (json!(["*"]), inside.clone()),
        (json!(["DeleteServices"]), inside.clone()),
        (json!(["UpdateServices"]), json!({"services": [{"id": "*"}]})),
        (json!(["UpdateServices"]), json!({"services": [{"id": "def*"}]})),
        (json!(["UpdateServices"]), json!({"config_groups": [{"id": "default/x"}]})),
    ] {
        assert_eq!(
            create(functions.clone(), resources.clone()).await,
            401_001,
            "{functions} {resources}"
        );
    }
    let own = server.get(&format!("{POLICIES}?name=policy-lead")).await.json();
    let id = &own["authStrategies"][0]["id"];
    let wider = json!([{"id": id, "action": "ALLOW", "functions": ["*"]}]);
    let refused = server.send_as(Some(&token), ("PUT", POLICIES, &wider)).await;
    assert_eq!(refused.code(), 401_001, "{}", refused.text);
}

#[tokio::test]
async fn groups_policies_and_roles_are_written_and_read() {
    let server = Server::start().await;
    server.user("alice", &["DescribeUsers"], json!({})).await;
    let list = server.get(&format!("{USERS}?name=alice")).await.json();
    let alice = list["users"][0]["id"].clone();
    let group = json!({"name": "team", "relation": {"users": [{"id": alice}]}});
    let created = server.post("/core/v1/usergroup", &group).await;
    let id = created.json()["userGroup"]["id"].as_str().expect("an id").to_owned();
    assert_eq!(server.post("/core/v1/usergroup", &group).await.code(), 400_216);
    let unknown = json!({"name": "x", "relation": {"users": [{"id": "x"}]}});
    assert_eq!(server.post("/core/v1/usergroup", &unknown).await.code(), 400_312);
    let groups = server.get("/core/v1/usergroups").await.json();
    assert_eq!((&groups["amount"], &groups["userGroups"][0]["user_count"]), (&json!(1), &json!(1)));
    let detail = server.get(&format!("/core/v1/usergroup/detail?id={id}")).await.json();
    assert_eq!(detail["userGroup"]["relation"]["users"][0]["name"], "alice", "{detail}");
    let update = json!([{"id": id, "remove_relations": {"users": [{"id": alice}]}}]);
    assert_eq!(server.write("PUT", "/core/v1/usergroups", &update).await.code(), 200_000);
    let token = server.get(&format!("/core/v1/usergroup/token?id={id}")).await.json();
    assert!(token["userGroup"]["auth_token"].is_string(), "{token}");

    let policy = json!({
        "name": "p", "action": "DENY", "principals": {"groups": [{"id": id}]},
        "resources": {"namespaces": [{"id": "default"}]}, "functions": ["Delete*"],
        "metadata": {"gateway-objects": "routes/team-*, upstreams/*"},
        "resource_labels": [{"key": "k", "value": "v", "compare_type": "string_equal"}],
    });
    let created = server.post("/core/v1/auth/strategy", &policy).await.json();
    let policy_id = created["authStrategy"]["id"].as_str().expect("an id").to_owned();
    for (change, code) in [
        (json!({"name": "q", "resources": {"namespaces": [{"id": "absent"}]}}), 400_305),
        (json!({"name": "q", "resources": {"services": [{"id": "absent"}]}}), 400_301),
        (json!({"name": "q", "principals": {"users": [{"id": "absent"}]}}), 400_312),
        (json!({"name": "q", "principals": {"groups": [{"id": "absent"}]}}), 400_314),
        (json!({"name": "p"}), 400_217),
        (json!({"name": "a b"}), 400_101),
    ] {
        assert_eq!(server.post("/core/v1/auth/strategy", &change).await.code(), code, "{change}");
    }
    let detail = server.get(&format!("/core/v1/auth/strategy/detail?id={policy_id}")).await.json();
    let shown = &detail["authStrategy"];
    assert_eq!(
        (&shown["action"], &shown["functions"]),
        (&json!("DENY"), &json!(["Delete*"])),
        "{detail}"
    );
    assert_eq!(shown["principals"]["groups"][0]["name"], "team");
    assert_eq!(shown["metadata"]["gateway-objects"], "routes/team-*, upstreams/*");
    let path = format!("{POLICIES}?default=true&principal_id={id}&principal_type=group");
    let defaults = server.get(&path).await.json();
    assert_eq!(defaults["authStrategies"][0]["name"], "(用户组) team的默认策略", "{defaults}");
    let default = &defaults["authStrategies"][0]["id"];
    let delete = format!("{POLICIES}/delete");
    assert_eq!(server.post(&delete, &json!([{"id": default}])).await.code(), 400_000);
    let add = json!([{"id": default, "add_principals": {"users": [{"id": alice}]}}]);
    assert_eq!(server.write("PUT", POLICIES, &add).await.code(), 400_508);
    assert_eq!(server.post(&delete, &json!([{"id": policy_id}])).await.code(), 200_000);

    let role = json!([{"id": "r", "name": "readers", "users": [{"id": alice}]}]);
    assert_eq!(server.post("/core/v1/roles", &role).await.code(), 200_000);
    let roles = server.get("/core/v1/roles").await.json();
    assert_eq!(roles["data"][0]["users"][0]["name"], "alice", "{roles}");
    assert_eq!(server.post("/core/v1/roles/delete", &json!([{"id": "r"}])).await.code(), 200_000);
    let groups = "/core/v1/usergroups/delete";
    assert_eq!(server.post(groups, &json!([{"id": id}])).await.code(), 200_000);
    assert_eq!(server.post(groups, &json!([{"id": id}])).await.code(), 400_314);
}

#[tokio::test]
async fn a_creator_owns_what_it_creates() {
    let server = Server::start().await;
    let token = server.user("maker", &["CreateNamespaces", "CreateServices"], json!({})).await;
    let as_maker = async |path: &str, body: Value| {
        server.send_as(Some(&token), ("POST", path, &body)).await.code()
    };
    let service = json!([{"name": "svc", "namespace": "mine"}]);
    assert_eq!(as_maker("/naming/v1/services", service.clone()).await, 401_001);
    assert_eq!(as_maker("/naming/v1/namespaces", json!([{"name": "mine"}])).await, 200_000);
    let list = server.get(&format!("{POLICIES}?default=true&show_detail=true")).await.json();
    let named = &list["authStrategies"][0]["resources"]["namespaces"][0]["id"];
    assert_eq!(*named, "mine", "{list}");
}

#[tokio::test]
async fn a_rehearsed_gate_lists_what_it_would_refuse() {
    let server = Server::start_with(Gate::Locked, Gate::Rehearsed).await;
    let register = server.client("RegisterInstance", &instance("svc", "10.0.0.1")).await;
    assert_eq!(register.code(), 200_000, "nothing is refused");
    let list = server.get("/core/v1/auth/rehearsal").await.json();
    let refused = &list["refused"][0];
    assert_eq!(
        (&refused["caller"], &refused["function"], &refused["code"]),
        (&json!("127.0.0.1"), &json!("RegisterInstance"), &json!(401_001)),
        "{list}"
    );
    assert_eq!(list["client"], "rehearsed");
    let of_stranger = server.send_as(None, ("GET", "/core/v1/auth/rehearsal", &Value::Null)).await;
    assert_eq!(of_stranger.code(), 401_001);
}
