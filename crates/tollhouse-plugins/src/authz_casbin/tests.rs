//! Tests of authorisation by a model and a policy of Casbin.

use tollhouse_plugin::testing::{FakeExchange, Harness, configure_among};
use tollhouse_plugin::{Catalogue, Services};

use super::*;
use crate::key_auth::KeyAuth;

const POLICY: &str = "p, *, /, GET\np, admin, *, *\ng, alice, admin\n# done\n";

fn model(roles: &str, effect: &str, matcher: &str) -> String {
    format!(
        "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = sub, obj, act, eft\n\
         [role_definition]\n{roles}\n[policy_effect]\ne = {effect}\n[matchers]\nm = {matcher}\n"
    )
}

const ALLOW: &str = "some(where (p.eft == allow))";
const MATCHER: &str = "(g(r.sub, p.sub) || keyMatch(r.sub, p.sub)) && keyMatch(r.obj, p.obj) && keyMatch(r.act, p.act)";

fn status(model: &str, policy: &str, request: &str) -> u16 {
    let conf = json!({"model": model, "policy": policy, "username": "user"});
    Harness::new::<AuthzCasbin>(&conf).request(request).status()
}

#[test]
fn users_and_their_roles_may_do_what_the_policy_says() {
    let model = model("g = _, _", ALLOW, MATCHER);
    for (request, expected) in [
        ("GET / HTTP/1.1\n\n", 0),
        ("GET /data HTTP/1.1\n\n", 403),
        ("POST / HTTP/1.1\n\n", 403),
        ("POST /data HTTP/1.1\nUser: admin\n\n", 0),
        ("DELETE /data/x HTTP/1.1\nuser: alice\n\n", 0),
        ("GET /data HTTP/1.1\nuser: bob\n\n", 403),
    ] {
        assert_eq!(status(&model, POLICY, request), expected, "{request}");
    }
    let conf = json!({"model": model, "policy": POLICY, "username": "user"});
    let refused = Harness::new::<AuthzCasbin>(&conf).request("GET /x HTTP/1.1\n\n");
    assert_eq!(refused.body(), "{\"message\":\"Access Denied\"}\n");
}

#[test]
fn effects_and_functions_are_casbins() {
    let plain = "r.sub == p.sub && keyMatch(r.obj, p.obj)";
    let both = "some(where (p.eft == allow)) && !some(where (p.eft == deny))";
    let policy = "p, a, /x/*, GET, allow\np, a, /x/secret, GET, deny";
    for (effect, matcher, policy, path, user, expected) in [
        (both, plain, policy, "/x/1", "a", 0),
        (both, plain, policy, "/x/secret", "a", 403),
        ("!some(where (p.eft == deny))", plain, policy, "/other", "b", 0),
        ("!some(where (p.eft == deny))", plain, policy, "/x/secret", "a", 403),
        ("priority(p.eft) || deny", plain, policy, "/x/secret", "a", 0),
        ("priority(p.eft) || deny", plain, policy, "/y", "a", 403),
        (ALLOW, "keyMatch2(r.obj, p.obj)", "p, a, /u/:id, GET", "/u/7", "", 0),
        (ALLOW, "keyMatch2(r.obj, p.obj)", "p, a, /u/:id, GET", "/u/7/x", "", 403),
        (ALLOW, "regexMatch(r.obj, p.obj) && r.act in ('GET', \"PUT\")", "p, a, ^/n/\\d+$, x", "/n/42", "", 0),
        (ALLOW, "regexMatch(r.obj, p.obj)", "p, a, ^/n/\\d+$, x", "/n/4x", "", 403),
        (ALLOW, "ipMatch(r.sub, p.sub)", "p, 10.0.0.0/8, x, y", "/", "10.1.2.3", 0),
        (ALLOW, "ipMatch(r.sub, p.sub)", "p, 10.0.0.0/8, x, y", "/", "11.1.2.3", 403),
        (ALLOW, "!(r.sub != p.sub) || false", "p, a, x, y", "/", "a", 0),
        (ALLOW, "g(r.sub, p.sub, r.obj)", "p, admin, x, y\ng, alice, admin, /d", "/d", "alice", 0),
        (ALLOW, "g(r.sub, p.sub, r.obj)", "p, admin, x, y\ng, alice, admin, /d", "/e", "alice", 403),
    ] {
        let roles = if matcher.contains("r.obj)") && matcher.starts_with("g(") { "g = _, _, _" } else { "g = _, _" };
        let request = format!("GET {path} HTTP/1.1\nuser: {user}\n\n");
        assert_eq!(status(&model(roles, effect, matcher), policy, &request), expected, "{matcher} {path}");
    }
}

#[test]
fn the_metadata_may_have_the_model() {
    let services = Arc::new(Services::new("test"));
    let metadata = json!({"model": model("g = _, _", ALLOW, MATCHER), "policy": POLICY});
    let conf = json!({"username": "user"});
    for (metadata, expected) in [(Some(&metadata), 403), (None, 503)] {
        let handler =
            configure_among::<AuthzCasbin>(&conf, &services, &Catalogue::empty(), metadata);
        let mut harness = Harness::with(handler.unwrap(), Arc::clone(&services));
        assert_eq!(harness.request("GET /x HTTP/1.1\n\n").status(), expected);
    }
}

#[test]
fn bad_confs_are_refused() {
    let with = |model: &str, policy: &str| json!({"model": model, "policy": policy, "username": "u"});
    let good = model("g = _, _", ALLOW, MATCHER);
    let glob = model("g = _, _", ALLOW, "globMatch(r.obj, p.obj)");
    for (conf, text) in [
        (json!({}), "value should match only one schema, but matches none"),
        (with("[request_definition]\nr = sub", ""), "the model lacks \"p\" in [policy_definition]"),
        (with(&model("g = _, _", "some", MATCHER), ""), "unsupported policy effect"),
        (with(&model("g = _, _", ALLOW, "r.sub.Age > 18"), ""), "unsupported matcher"),
        (with(&model("g = _, _", ALLOW, "eval(p.sub, p.sub)"), ""), "unsupported function \"eval\""),
        (with(&model("g = _, _", ALLOW, "r.who == p.sub"), ""), "unknown field"),
        (with(&format!("{good}[x]\ny = z"), ""), "unsupported \"y\" in [x]"),
        (with(&good, "p, a"), "invalid policy line \"p, a\""),
        (with(&good, "g2, a, b"), "invalid policy line"),
        (with(&good, "p, a, b, c, Deny"), "invalid effect \"Deny\" in policy line"),
        (with(&good, "p, a, b, c,"), "invalid effect \"\" in policy line"),
        (with(&good, &"p, a, b, c\n".repeat(10_001)), "the policy has 10001 lines: at most 10000 are supported"),
        (with(&glob, "p, a, /[a-z], c"), "unsupported pattern \"/[a-z]\" of globMatch"),
        (with(&glob, "p, a, /{a}, c"), "unsupported pattern \"/{a}\" of globMatch"),
        (with(&glob, "p, a, /\\*, c"), "of globMatch"),
        (with(&model("g = _, _", ALLOW, "keyMatch(p.obj, r.obj)"), ""), "keyMatch needs a pattern of the policy"),
        (
            json!({"model_path": "/nonexistent", "policy_path": "/nonexistent", "username": "u"}),
            "failed to read \"/nonexistent\"",
        ),
    ] {
        let refusal = Harness::refusal::<AuthzCasbin>(&conf);
        assert!(refusal.contains(text), "{refusal}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &good).unwrap();
    let path = file.path().to_str().unwrap();
    let conf = json!({"model_path": path, "policy_path": path, "username": "u"});
    assert!(Harness::refusal::<AuthzCasbin>(&conf).contains("invalid policy line"));
}

#[test]
fn requests_that_cannot_be_decided_are_refused() {
    let denies = "!some(where (p.eft == deny))";
    let regex = model("g = _, _", denies, "regexMatch(r.obj, p.obj)");
    let policy = "p, a, (?:(?!pub)\\w+/?)+\\.php$, x, deny";
    let doom = "a".repeat(40);
    for (path, expected) in [
        ("/b", 0),
        ("/evil.php", 403),
        (&format!("/{doom}!/evil.php"), 403),
        (&format!("/{}", "b/".repeat(5000)), 403),
    ] {
        let request = format!("GET {path} HTTP/1.1\n\n");
        assert_eq!(status(&regex, policy, &request), expected, "{path}");
    }
    let negated = model("g = _, _", ALLOW, "!regexMatch(r.obj, p.obj)");
    let policy = policy.replace(", deny", "");
    assert_eq!(status(&negated, &policy, &format!("GET /{doom}!/evil.php HTTP/1.1\n\n")), 403);
}

#[test]
fn many_policies_and_a_long_path_cost_a_bounded_work() {
    let wild = model("g = _, _", ALLOW, "keyMatch2(r.obj, p.obj)");
    let policy = (0..10_000).map(|n| format!("p, a, *a*a*a*{n}, x\n")).collect::<String>();
    let request = format!("GET /{} HTTP/1.1\n\n", "a".repeat(8000));
    assert_eq!(status(&wild, &policy, &request), 403);
    assert_eq!(status(&wild, &policy, "GET /aaa9999 HTTP/1.1\n\n"), 0);
}

#[test]
fn the_user_is_the_consumer_that_authentication_has_found() {
    // All plugins for authentication run in the phase before.
    assert_eq!(AuthzCasbin::PHASES, Phases::ACCESS);
    let conf = json!({
        "model": model("g = _, _", ALLOW, MATCHER), "policy": POLICY, "username": "x-consumer-username",
    });
    for (headers, expected) in [
        ("", 403),
        ("apikey: one\n", 0),
        ("apikey: two\n", 403),
        ("apikey: two\nX-Consumer-Username: admin\n", 403),
        ("X-Consumer-Username: admin\n", 403),
    ] {
        let text = format!("GET /data HTTP/1.1\n{headers}\n");
        let mut exchange = FakeExchange::parse(&text, 1_700_000_000_000);
        let keys = |harness: Harness| {
            harness
                .consumer::<KeyAuth>("alice", &json!({"key": "one"}))
                .consumer::<KeyAuth>("bob", &json!({"key": "two"}))
        };
        let found = keys(Harness::new::<KeyAuth>(&json!({}))).run(&mut exchange).consumer;
        let mut harness = keys(Harness::new::<AuthzCasbin>(&conf));
        let outcome = harness.run_as(&mut exchange, found.as_deref());
        assert_eq!(outcome.answer.map_or(0, |answer| answer.status), expected, "{headers}");
    }
}
