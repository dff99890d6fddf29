//! References to secrets in confs of plugins, consumers and credentials.

use tollhouse_model::secret::EnvironmentSource;

use super::*;

fn desk() -> TestCompiler {
    let mut desk = TestCompiler::new();
    let lookup = |name: &str| match name {
        "KEY" => Some("opened".to_owned()),
        "EMPTY" => Some(String::new()),
        "OFF" => Some("false".to_owned()),
        _ => None,
    };
    let mut services = Services::new("APISIX");
    services.secrets = Some(Arc::new(EnvironmentSource::new(lookup)));
    desk.compiler.plugins = Plugins::new(Arc::new(test_catalogue()), Arc::new(services));
    desk
}

/// The consumer that a key leads to, if any.
fn found(desk: &TestCompiler, key: &str) -> Option<String> {
    let found = desk.snapshot.consumers.credential("key-auth", key.as_bytes())?;
    Some(found.consumer.username.to_string())
}

#[test]
fn what_a_reference_stands_for_is_what_consumers_are_found_by() {
    let mut desk = desk();
    let auth = |key: &str| json!({"key-auth": {"key": key}});
    let consumer = |name: &str, key: &str| {
        put(Kind::Consumer, name, json!({"username": name, "plugins": auth(key)}))
    };
    desk.apply([
        consumer("jack", "$env://KEY"),
        consumer("jill", "$env://NONE"),
        consumer("jim", "$env://EMPTY"),
        consumer("joe", "$secret://vault"),
        consumer("jon", "tollhouse-sealed:1:0123456789abcdef:AAAA"),
        consumer("jus", ""),
        put(Kind::Credential, "jack/credentials/c", json!({"plugins": auth("$ENV://KEY/a")})),
    ]);
    assert_eq!(found(&desk, "opened").as_deref(), Some("jack"));
    let texts = [
        "$env://KEY",
        "$env://NONE",
        "$env://EMPTY",
        "",
        "$secret://vault",
        "$ENV://KEY/a",
        "tollhouse-sealed:1:0123456789abcdef:AAAA",
    ];
    for text in texts {
        assert_eq!(found(&desk, text), None, "{text}");
    }
    let reasons: Vec<String> = desk
        .compiler
        .problems()
        .flat_map(|(_, problems)| problems.iter())
        .map(|problem| problem.reason.clone())
        .collect();
    let expected = [
        "nothing answers for $env://NONE",
        "what $env://EMPTY stands for is empty",
        "nothing answers for $secret://vault",
        "the value is sealed, and no key of the keyring opens it",
        "failed to check the configuration of plugin key-auth err: an empty key identifies no consumer",
        "nothing answers for $ENV://KEY/a",
    ];
    assert_eq!(reasons, expected);
    assert!(desk.compiler.problems().all(|(_, problems)| problems.has_errors()));
    // The last good credential of somebody who already is one stays.
    desk.apply([consumer("jack", "$env://NONE")]);
    assert_eq!(found(&desk, "opened").as_deref(), Some("jack"));
}

#[test]
fn a_plugin_is_compiled_with_what_a_reference_stands_for() {
    let mut desk = desk();
    let route = |bad: Value| json!({"uri": "/", "plugins": {"x": {"bad": bad}}});
    // What no flag can come of refuses, and says which field wants one and who was to give it.
    let table = [
        ("$env://KEY", "what $env://KEY stands for is not true or false"),
        ("$env://EMPTY", "what $env://EMPTY stands for is not true or false"),
        ("$env://NONE", "nothing answers for $env://NONE"),
        ("$secret://vault/1/a/b", "nothing answers for $secret://vault/1/a/b"),
    ];
    for (reference, expected) in table {
        desk.apply([put(Kind::Route, "r", route(json!(reference)))]);
        let (_, problems) = desk.compiler.problems().next().expect("a problem");
        let problem = problems.iter().next().expect("a problem");
        assert!(problem.path.ends_with(".plugins.x.bad"), "{}", problem.path);
        assert_eq!(problem.reason, expected);
        let step = desk.route("r").chain.steps().first().cloned().expect("it stands there");
        assert!(step.refuses_with.is_some(), "{reference}");
    }
    desk.apply([put(Kind::Route, "r", route(json!("$ENV://OFF")))]);
    assert_eq!(desk.problems(), [""; 0]);
}
