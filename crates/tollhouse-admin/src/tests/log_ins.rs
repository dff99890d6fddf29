//! People who log in at an identity provider of the tests.

use std::sync::Mutex;
use std::time::Duration;

use hyper::header::{COOKIE, HOST};
use tollhouse_plugins::code_flow::{CodeFlow, CodeFlowSettings, REPLY_BYTES_MAX};
use tollhouse_registry::Command;
use tollhouse_registry::identity::{
    AccessRole, IdentityCommand, IdentityHead, IdentityObject, IdentityWrite, Policy, PolicyAction,
    Principal, ResourceKind, ResourcePattern, User, UserGroup,
};
use tollhouse_testkit::identity_provider::{Behaviour, CLIENT, IdentityProvider, form};

use super::registry::Registered;
use super::*;
use crate::{AccountRules, AuditDeed, AuditEvent, AuditSink, Encryption, ProviderLogIn, Sessions};

const HOST_NAME: &str = "127.0.0.1:9180";

/// An Admin API with a registry and a provider.
struct Console {
    provider: IdentityProvider,
    registered: Registered,
    options: Options,
}

/// Browser with its cookies.
#[derive(Default)]
struct Browser {
    pending: String,
    session: String,
    proof: String,
}

fn rules() -> AccountRules {
    let table = |pairs: &[(&str, &[&str])]| {
        let pairs = pairs.iter().map(|(group, names)| {
            ((*group).to_owned(), names.iter().map(|name| (*name).to_owned()).collect())
        });
        pairs.collect()
    };
    AccountRules {
        groups_claim: "groups".to_owned(),
        groups: table(&[("dev", &["developers"]), ("all", &["everyone", "missing"])]),
        roles: table(&[("ops", &["chiefs"])]),
        owner: "polaris".to_owned(),
        reserved_names: vec!["admin".to_owned()],
        ..AccountRules::default()
    }
}

impl Console {
    async fn new() -> Self {
        Self::with(rules()).await
    }

    async fn with(rules: AccountRules) -> Self {
        let provider = IdentityProvider::start();
        let scopes = ["openid".to_owned()];
        let settings = CodeFlowSettings {
            issuer: &provider.url("/realm"),
            client_id: CLIENT.0,
            client_secret: Some(CLIENT.1),
            scopes: &scopes,
            groups_claim: Some("groups"),
        };
        let limits = tollhouse_web::client::Limits {
            time_max: Duration::from_secs(5),
            body_bytes_max: REPLY_BYTES_MAX,
        };
        let flow = CodeFlow::new(&settings, tollhouse_web::Client::new(limits));
        let log_in = ProviderLogIn::new("Example".to_owned(), flow, rules);
        let options = Options {
            sessions: Some(Sessions::new(b"secret", Encryption::Off)),
            log_in: Some(Arc::new(log_in)),
            ..options()
        };
        let registered = Registered::with(options.clone()).await;
        let options = Options { people: Some(registered.registry.clone()), ..options };
        let console = Self { provider, registered, options };
        console.is_user("user-1", "ann", &[]);
        console
    }

    /// Makes the provider know its user by these claims.
    fn is_user(&self, subject: &str, name: &str, groups: &[&str]) {
        let claims = json!({"sub": subject, "preferred_username": name, "groups": groups,
            "email": format!("{name}@example.com")});
        self.provider.claim(claims);
    }

    async fn write(&self, objects: Vec<IdentityObject>) {
        let writes = objects.into_iter().map(IdentityWrite::Create).collect();
        let command = Command::Identity(Box::new(IdentityCommand::Write(writes)));
        self.registered.registry.submit(command).await.expect("created");
    }

    async fn send(&self, browser: &Browser, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut call = request(method, &format!("/../..{path}"), body);
        let proof = if browser.proof.is_empty() { "1" } else { &browser.proof };
        let headers = call.headers_mut();
        headers.remove("X-API-KEY");
        headers.insert(HOST, HOST_NAME.parse().expect("a value"));
        headers.insert("x-tollhouse-console", proof.parse().expect("a value"));
        let cookies = format!("{}; {}", browser.pending, browser.session);
        headers.insert(COOKIE, cookies.parse().expect("a value"));
        self.registered.fixture.send(call).await
    }

    /// Begins a log-in. Returns the browser, and the parameters of the provider's answer.
    async fn begin(&self) -> (Browser, Value) {
        let answer =
            self.send(&Browser::default(), "POST", "/console/v1/login/openid", &Value::Null).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let pending = cookie(&answer, "tollhouse_login");
        let location = answer.json()["location"].as_str().expect("an address").to_owned();
        let back = self.provider.log_in(&location);
        let (page, query) = back.split_once('?').expect("a query");
        assert_eq!(page, format!("http://{HOST_NAME}/ui/login"));
        let parameters = form(query);
        let sent = json!({"state": parameters["state"], "code": parameters["code"]});
        (Browser { pending, ..Browser::default() }, sent)
    }

    /// Logs in, and returns the browser with its session.
    async fn log_in(&self) -> Result<Browser, Answer> {
        let (mut browser, sent) = self.begin().await;
        let answer = self.send(&browser, "POST", "/console/v1/login", &sent).await;
        if answer.status != 200 {
            return Err(answer);
        }
        browser.session = cookie(&answer, "tollhouse_console");
        browser.proof = answer.json()["proof"].as_str().expect("a proof").to_owned();
        Ok(browser)
    }

    async fn who(&self, browser: &Browser) -> Value {
        self.send(browser, "GET", "/console/v1/login", &Value::Null).await.json()
    }

    /// Returns the users, by name.
    fn users(&self) -> Vec<Arc<User>> {
        let state = self.registered.registry.state_full();
        let mut users: Vec<Arc<User>> = state.users().cloned().collect();
        users.sort_by(|one, other| one.head.name.cmp(&other.head.name));
        users
    }

    /// Returns whether the only user is in a group and has a role.
    fn memberships(&self, group: &str, role: &str) -> (bool, bool) {
        let state = self.registered.registry.state_full();
        let id = Arc::clone(&state.users().next().expect("a user").head.id);
        let group = state.user_group(group).expect("a group");
        let role = state.access_role(role).expect("a role");
        (group.users.contains(&id), role.users.contains(&id))
    }
}

fn head(name: &str) -> IdentityHead {
    IdentityHead { id: name.into(), name: name.into(), ..IdentityHead::default() }
}

/// Returns the pair of a cookie that an answer sets.
fn cookie(answer: &Answer, name: &str) -> String {
    let lines = answer.headers.get_all("set-cookie").into_iter();
    let mut lines = lines.map(|line| line.to_str().expect("text"));
    let line = lines.find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {answer:?}"));
    line.split(';').next().expect("a pair").to_owned()
}

#[tokio::test]
async fn a_user_of_the_provider_is_created_and_signed_in() {
    let console = Console::new().await;
    let stranger = console.who(&Browser::default()).await;
    assert_eq!((&stranger["openid"], &stranger["signed_in"]), (&json!("Example"), &json!(false)));
    let browser = console.log_in().await.expect("signed in");
    let who = console.who(&browser).await;
    assert_eq!((&who["name"], &who["role"]), (&json!("ann"), &Value::Null), "{who}");
    let users = console.users();
    let [user] = &users[..] else { panic!("{users:?}") };
    assert_eq!((&*user.head.source, &*user.head.owner), ("openid-connect", "polaris"));
    assert_eq!((&*user.email, &*user.password.0), ("ann@example.com", ""));
    // Without a policy, the user may do nothing.
    let routes = console.send(&browser, "GET", "/apisix/admin/routes", &Value::Null).await;
    assert_eq!(routes.status, 401, "{routes:?}");
    // No password opens the account.
    for password in ["", "ann"] {
        let body = json!({"name": "ann", "password": password});
        let refused = console.send(&Browser::default(), "POST", "/console/v1/login", &body).await;
        assert_eq!(refused.status, 401, "{refused:?}");
    }
    let ended = console.send(&browser, "DELETE", "/console/v1/login", &Value::Null).await;
    assert_eq!(ended.status, 200, "{ended:?}");
    assert_eq!(console.who(&browser).await["signed_in"], json!(false));
    // The second log-in finds the user, whatever the provider calls it now.
    console.is_user("user-1", "anna", &[]);
    console.log_in().await.expect("signed in");
    let users = console.users();
    let [user] = &users[..] else { panic!("{users:?}") };
    assert_eq!((&*user.head.name, &*user.email), ("ann", "anna@example.com"));
}

#[tokio::test]
async fn a_log_in_counts_once_and_in_the_browser_that_began_it() {
    let console = Console::new().await;
    let (browser, sent) = console.begin().await;
    let (other, others) = console.begin().await;
    let login = "/console/v1/login";
    let mut mixed = sent.clone();
    mixed["state"] = others["state"].clone();
    for (from, body) in [
        (&Browser::default(), &sent),
        (&other, &sent),
        (&browser, &mixed),
        (&browser, &json!({"state": "", "code": sent["code"]})),
    ] {
        let refused = console.send(from, "POST", login, body).await;
        assert_eq!(refused.status, 401, "{refused:?}");
        assert!(refused.error().contains("this browser did not begin the log-in"), "{refused:?}");
    }
    assert!(console.provider.requests("/token").is_empty());
    let done = console.send(&browser, "POST", login, &sent).await;
    assert_eq!(done.status, 200, "{done:?}");
    assert!(cookie(&done, "tollhouse_login").ends_with('='), "{done:?}");
    let again = console.send(&browser, "POST", login, &sent).await;
    assert_eq!(again.status, 401, "{again:?}");
    assert!(again.error().contains("has been used already"), "{again:?}");
    // A used code does not help another log-in of the same browser.
    let (fresh, mut answer) = console.begin().await;
    answer["code"] = sent["code"].clone();
    let refused = console.send(&fresh, "POST", login, &answer).await;
    assert_eq!(refused.status, 401, "{refused:?}");
    assert!(refused.error().contains("invalid_grant"), "{refused:?}");
    assert_eq!(console.users().len(), 1);
}

#[tokio::test]
async fn other_websites_neither_begin_nor_complete_a_log_in() {
    let console = Console::new().await;
    let (browser, sent) = console.begin().await;
    for path in ["/console/v1/login/openid", "/console/v1/login"] {
        for (name, text) in [("sec-fetch-site", "cross-site"), ("origin", "https://evil.test")] {
            let mut call = request("POST", &format!("/../..{path}"), sent.to_string());
            let headers = call.headers_mut();
            headers.remove("X-API-KEY");
            headers.insert(HOST, HOST_NAME.parse().expect("a value"));
            headers.insert(COOKIE, browser.pending.parse().expect("a value"));
            headers.insert("x-tollhouse-console", "1".parse().expect("a value"));
            headers.insert(name, text.parse().expect("a value"));
            let refused = console.registered.fixture.send(call).await;
            assert_eq!(refused.status, 403, "{path} {name}: {refused:?}");
        }
    }
    let get = console.send(&browser, "GET", "/console/v1/login/openid", &Value::Null).await;
    assert_eq!(get.status, 405, "{get:?}");
}

#[tokio::test]
async fn what_the_provider_refuses_or_signs_wrongly_signs_nobody_in() {
    let console = Console::new().await;
    let (browser, sent) = console.begin().await;
    let denied = json!({"state": sent["state"], "error": "access_denied",
        "error_description": "not you"});
    let refused = console.send(&browser, "POST", "/console/v1/login", &denied).await;
    assert_eq!(refused.status, 401, "{refused:?}");
    assert!(refused.error().contains("refuses: access_denied not you"), "{refused:?}");
    console.provider.claim(json!({"nonce": "another"}));
    let refused = console.log_in().await.err().expect("refused");
    assert_eq!(refused.status, 401, "{refused:?}");
    assert!(console.users().is_empty());
}

#[tokio::test]
async fn a_provider_that_is_down_signs_nobody_in() {
    let console = Console::new().await;
    console.provider.behave("/token", Behaviour::Away);
    let refused = console.log_in().await.err().expect("refused");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.error().contains("sign in with a key"), "{refused:?}");
    let console = Console::new().await;
    console.provider.behave("/realm/.well-known/openid-configuration", Behaviour::Away);
    let path = "/console/v1/login/openid";
    let refused = console.send(&Browser::default(), "POST", path, &Value::Null).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(console.users().is_empty());
}

#[tokio::test]
async fn groups_of_the_provider_give_groups_and_roles_at_every_log_in() {
    let console = Console::new().await;
    let group = |name: &str| UserGroup { head: head(name), ..UserGroup::default() };
    let role = |name: &str| AccessRole { head: head(name), ..AccessRole::default() };
    let policy = Policy {
        head: head("chiefs do everything"),
        action: PolicyAction::Allow,
        principals: [Principal::role("chiefs")].into(),
        resources: [ResourcePattern { kind: ResourceKind::Gateway, text: "*".into() }].into(),
        functions: vec!["AdministerGateway".into()],
        ..Policy::default()
    };
    console
        .write(vec![
            group("developers").into(),
            group("everyone").into(),
            group("own").into(),
            role("chiefs").into(),
            role("own").into(),
            policy.into(),
        ])
        .await;
    console.is_user("user-1", "ann", &["ops", "all", "unknown"]);
    let browser = console.log_in().await.expect("signed in");
    assert_eq!(console.who(&browser).await["role"], json!("admin"));
    assert_eq!(console.memberships("everyone", "chiefs"), (true, true));
    assert_eq!(console.memberships("developers", "own"), (false, false));

    // An administrator puts the user into a group that the table does not name.
    let state = console.registered.registry.state_full();
    let mut own = UserGroup::clone(state.user_group("own").expect("a group"));
    own.users.insert(Arc::clone(&console.users()[0].head.id));
    let write = vec![IdentityWrite::Replace(own.into())];
    let command = Command::Identity(Box::new(IdentityCommand::Write(write)));
    console.registered.registry.submit(command).await.expect("replaced");

    console.is_user("user-1", "ann", &["dev"]);
    let later = console.log_in().await.expect("signed in");
    assert_eq!(console.memberships("developers", "chiefs"), (true, false));
    assert_eq!(console.memberships("everyone", "own"), (false, false));
    assert!(console.memberships("own", "own").0, "groups outside of the table stay");
    for browser in [&browser, &later] {
        assert_eq!(console.who(browser).await["role"], Value::Null, "rights end at once");
    }
}

#[tokio::test]
async fn a_disabled_user_is_not_let_in() {
    let console = Console::new().await;
    let browser = console.log_in().await.expect("signed in");
    let mut user = User::clone(&console.users()[0]);
    user.token.is_enabled = false;
    let write = vec![IdentityWrite::Replace(user.into())];
    let command = Command::Identity(Box::new(IdentityCommand::Write(write)));
    console.registered.registry.submit(command).await.expect("replaced");
    assert_eq!(console.who(&browser).await["signed_in"], json!(false));
    let refused = console.log_in().await.err().expect("refused");
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.error().contains("\"ann\" is disabled"), "{refused:?}");
}

#[tokio::test]
async fn a_name_or_mail_address_takes_nothing_over() {
    let console = Console::new().await;
    let token = |text: &str| tollhouse_registry::identity::AccessToken {
        text: text.into(),
        is_enabled: true,
    };
    let email = "ann@example.com".into();
    let local = User { head: head("ann"), token: token("t"), email, ..User::default() };
    console.write(vec![local.into()]).await;
    let browser = console.log_in().await.expect("signed in");
    let name = console.who(&browser).await["name"].as_str().expect("a name").to_owned();
    assert!(name.starts_with("ann-") && name.len() == 12, "{name}");
    // Nor does the name of a key, which the audit log would not tell apart.
    console.is_user("user-2", "admin", &[]);
    let browser = console.log_in().await.expect("signed in");
    let name = console.who(&browser).await["name"].as_str().expect("a name").to_owned();
    assert!(name.starts_with("admin-"), "{name}");
    assert_eq!(console.users().len(), 3);
}

#[tokio::test]
async fn users_outside_of_the_allowed_groups_are_not_created() {
    let allowed_groups = vec!["ops".to_owned()];
    let console = Console::with(AccountRules { allowed_groups, ..rules() }).await;
    let refused = console.log_in().await.err().expect("refused");
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.error().contains("allowed_groups"), "{refused:?}");
    assert!(console.users().is_empty());
    console.is_user("user-1", "ann", &["ops"]);
    console.log_in().await.expect("signed in");
}

#[derive(Debug, Default)]
struct Events(Mutex<Vec<AuditEvent>>);

impl AuditSink for Events {
    fn keep(&self, event: &AuditEvent) {
        self.0.lock().expect("no test panicked").push(event.clone());
    }
}

#[tokio::test]
async fn log_ins_are_audited_by_name() {
    let mut console = Console::new().await;
    let events = Arc::new(Events::default());
    let sink = Arc::clone(&events) as Arc<dyn AuditSink>;
    let store = Arc::clone(&console.registered.fixture.store);
    let parts = Parts { audit: Some(sink), ..parts(store, console.options.clone(), None) };
    console.registered.fixture.api = AdminApi::new(parts);
    let browser = console.log_in().await.expect("signed in");
    console.send(&browser, "DELETE", "/console/v1/login", &Value::Null).await;
    let (browser, sent) = console.begin().await;
    let wrong = json!({"state": "x", "code": sent["code"]});
    console.send(&browser, "POST", "/console/v1/login", &wrong).await;
    let events = events.0.lock().expect("no test panicked");
    let seen: Vec<_> = events.iter().map(|event| (event.deed, event.actor.as_deref())).collect();
    let expected = [
        (AuditDeed::SignIn, Some("ann")),
        (AuditDeed::SignOut, Some("ann")),
        (AuditDeed::RefusedKey, None),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn without_a_provider_nobody_logs_in_at_one() {
    let sessions = Some(Sessions::new(b"secret", Encryption::Off));
    let fixture = Fixture::with(Options { sessions, ..options() }).await;
    let send = async |method: &str, path: &str, body: &str| {
        let mut call = request(method, &format!("/../..{path}"), body.to_owned());
        call.headers_mut().insert("x-tollhouse-console", "1".parse().expect("a value"));
        fixture.send(call).await
    };
    assert_eq!(send("GET", "/console/v1/login", "").await.json()["openid"], Value::Null);
    assert_eq!(send("POST", "/console/v1/login/openid", "").await.status, 404);
    let sent = r#"{"state":"s","code":"c"}"#;
    assert_eq!(send("POST", "/console/v1/login", sent).await.status, 404);
}
