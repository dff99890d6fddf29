//! References to secrets in confs of plugins, consumers and credentials.

use tollhouse_model::secret::EnvironmentSource;

use super::*;

fn desk() -> Desk {
    let mut desk = Desk::new();
    let lookup = |name: &str| (name == "KEY").then(|| "opened".to_owned());
    let mut services = Services::new("APISIX");
    services.secrets = Some(Arc::new(EnvironmentSource::new(lookup)));
    desk.compiler.plugins = Plugins::new(Arc::new(test_catalogue()), Arc::new(services));
    desk
}

/// The consumer that a key leads to, if any.
fn found(desk: &Desk, key: &str) -> Option<String> {
    let found = desk.snapshot.consumers.credential("key-auth", key.as_bytes())?;
    Some(found.consumer.username.to_string())
}

#[test]
fn what_a_reference_stands_for_is_what_consumers_are_found_by() {
    let mut desk = desk();
    let auth = |key: &str| json!({"key-auth": {"key": key}});
    desk.apply([
        put(Kind::Consumer, "jack", json!({"username": "jack", "plugins": auth("$env://KEY")})),
        put(Kind::Consumer, "jill", json!({"username": "jill", "plugins": auth("$env://NONE")})),
        put(Kind::Credential, "jill/credentials/c", json!({"plugins": auth("$ENV://KEY/a")})),
    ]);
    assert_eq!(found(&desk, "opened").as_deref(), Some("jack"));
    assert_eq!(found(&desk, "$env://KEY"), None);
    assert_eq!(found(&desk, "$env://NONE").as_deref(), Some("jill"));
    assert_eq!(desk.problems(), ["Consumer jill: 1", "Credential jill/credentials/c: 1"]);
    let (_, problems) = desk.compiler.problems().next().expect("a problem");
    assert!(!problems.has_errors());
    let problem = problems.iter().next().expect("a problem");
    assert_eq!(problem.reason, "nothing answers for $ENV://NONE");
}

#[test]
fn a_plugin_is_compiled_with_what_a_reference_stands_for() {
    let mut desk = desk();
    // The conf is refused for what it says only once it is known: `opened` is no flag.
    let route = |bad: Value| json!({"uri": "/", "plugins": {"x": {"bad": bad}}});
    desk.apply([put(Kind::Route, "r", route(json!("$env://KEY")))]);
    let (_, problems) = desk.compiler.problems().next().expect("a problem");
    let problem = problems.iter().next().expect("a problem");
    assert!(problem.reason.ends_with("expected boolean, got string"), "{}", problem.reason);
    assert!(!desk.has_route("r"));
    desk.apply([put(Kind::Route, "r", route(json!(false)))]);
    assert_eq!(desk.problems(), [""; 0]);
}
