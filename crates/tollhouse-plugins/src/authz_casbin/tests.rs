//! Tests of authorisation by a model and a policy of Casbin.

use tollhouse_plugin::testing::{Harness, configure_among};
use tollhouse_plugin::{Catalogue, Services};

use super::*;

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
