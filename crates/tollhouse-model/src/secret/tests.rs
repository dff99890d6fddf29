//! Tests of secret managers: every field, and the problems of invalid ones.

use serde_json::{Value, json};

use super::*;

fn parse(key: &str, value: &Value) -> (Option<Secret>, String) {
    let (secret, problems) = Secret::parse(Id::new(key), value, "secrets[0]");
    (secret, problems.to_string())
}

fn good(key: &str, value: &Value) -> SecretManager {
    let (secret, problems) = parse(key, value);
    assert_eq!(problems, "");
    secret.expect("no problem was found").keeper
}

fn vault() -> Value {
    json!({"uri": "http://127.0.0.1:8200", "prefix": "kv/apisix", "token": "root"})
}

fn aws() -> Value {
    json!({"access_key_id": "id", "secret_access_key": "secret"})
}

fn gcp() -> Value {
    json!({"auth_config": {"client_email": "a@b", "private_key": "key", "project_id": "p"}})
}

fn with(mut value: Value, field: &str, content: Value) -> Value {
    value[field] = content;
    value
}

#[test]
fn keys_name_the_manager() {
    let (secret, _) = parse("vault/1", &with(vault(), "id", json!("vault/1")));
    let secret = secret.expect("no problem was found");
    assert_eq!((secret.key.as_str(), secret.id.as_str()), ("vault/1", "1"));
    assert_eq!(Secret::key(Manager::Vault, "1"), secret.key);
    assert!(parse("vault/1", &with(vault(), "id", json!(1))).0.is_some());

    for key in ["1", "keychain/1", "vault/", "vault/a/b", "/1", ""] {
        assert!(parse(key, &vault()).0.is_none(), "{key}");
    }
    let (_, problems) = parse("keychain/1", &vault());
    assert_eq!(
        problems,
        "secrets[0]: wrong secret id (got \"keychain/1\"); write it as <manager>/<id>; \
         the managers are vault, aws, gcp"
    );
}

#[test]
fn a_vault_is_read_whole() {
    let SecretManager::Vault(read) = good("vault/1", &with(vault(), "namespace", json!("team")))
    else {
        panic!("the key says that it is a vault");
    };
    assert_eq!(read.uri, "http://127.0.0.1:8200");
    assert_eq!(read.prefix, "kv/apisix");
    assert_eq!(read.token.expose(), "root");
    assert_eq!(read.namespace.as_deref(), Some("team"));
    let from_environment =
        with(with(vault(), "uri", json!("$ENV://VAULT")), "token", json!("$env://T"));
    good("vault/1", &from_environment);
}

#[test]
fn aws_and_gcp_have_defaults() {
    let SecretManager::Aws(read) = good("aws/1", &aws()) else { panic!("the key says so") };
    assert_eq!((read.region.as_str(), read.endpoint_url), ("us-east-1", None));
    let own = with(aws(), "endpoint_url", json!("http://127.0.0.1:4566"));
    let SecretManager::Aws(read) = good("aws/1", &with(own, "session_token", json!("s"))) else {
        panic!("the key says so");
    };
    assert_eq!(read.endpoint_url.as_deref(), Some("http://127.0.0.1:4566"));
    assert_eq!(read.session_token.map(|token| token.expose().to_owned()).as_deref(), Some("s"));

    let SecretManager::Gcp(read) = good("gcp/1", &gcp()) else { panic!("the key says so") };
    assert!(read.ssl_verify);
    let GcpAccount::Inline(auth) = read.account else { panic!("it stands in the object") };
    assert_eq!(auth.scope, ["https://www.googleapis.com/auth/cloud-platform"]);
    assert_eq!(auth.token_uri, "https://oauth2.googleapis.com/token");
    assert_eq!(auth.entries_uri, "https://secretmanager.googleapis.com/v1");

    let by_file = json!({"auth_file": "/etc/gcp.json", "ssl_verify": false});
    let SecretManager::Gcp(read) = good("gcp/1", &by_file) else { panic!("the key says so") };
    assert_eq!(read.account, GcpAccount::File("/etc/gcp.json".to_owned()));
    assert!(!read.ssl_verify);
}

#[test]
fn nothing_secret_is_shown() {
    for (key, value) in [("vault/1", vault()), ("aws/1", aws()), ("gcp/1", gcp())] {
        let shown = format!("{:?}", good(key, &value));
        assert!(shown.contains("***"), "{shown}");
        for secret in ["\"root\"", "\"secret\"", "\"key\""] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
    let (_, problems) = parse("vault/1", &with(vault(), "token", json!({"a": "hidden"})));
    assert!(!problems.contains("hidden"), "{problems}");
}

#[test]
fn what_is_wrong_is_said() {
    let both = with(gcp(), "auth_file", json!("f"));
    let auth = |value: Value| json!({"auth_config": value});
    let table = [
        ("vault/1", json!({}), "property \"uri\" is required"),
        ("vault/1", json!({}), "property \"prefix\" is required"),
        ("vault/1", json!({}), "property \"token\" is required"),
        ("vault/1", with(vault(), "uri", json!("127.0.0.1")), "failed to match pattern"),
        ("vault/1", with(vault(), "uri", json!("http://")), "failed to match pattern"),
        ("vault/1", with(vault(), "uri", json!("http://[x]")), "failed to match pattern"),
        ("vault/1", with(vault(), "uri", json!(1)), "expected string, got number"),
        ("vault/1", with(vault(), "token", json!(1)), "expected string, got number"),
        ("vault/1", with(vault(), "namespace", json!(1)), "expected string, got number"),
        ("vault/1", with(vault(), "id", json!("vault/2")), "wrong id"),
        ("vault/1", json!([1]), "expected object, got array"),
        ("aws/1", json!({}), "property \"access_key_id\" is required"),
        ("aws/1", json!({}), "property \"secret_access_key\" is required"),
        ("aws/1", with(aws(), "region", json!(1)), "expected string, got number"),
        ("aws/1", with(aws(), "endpoint_url", json!("/x")), "failed to match pattern"),
        ("gcp/1", json!({}), "value should match only one schema, but matches none"),
        ("gcp/1", both, "matches both schemas 1 and 2"),
        ("gcp/1", auth(json!({})), "property \"client_email\" is required"),
        ("gcp/1", auth(json!({})), "property \"private_key\" is required"),
        ("gcp/1", auth(json!({})), "property \"project_id\" is required"),
        ("gcp/1", with(gcp(), "ssl_verify", json!("yes")), "expected boolean, got string"),
        ("gcp/1", auth(json!({"scope": "x"})), "expected array, got string"),
    ];
    for (key, value, expected) in table {
        let (secret, problems) = parse(key, &value);
        assert!(secret.is_none(), "{value}");
        assert!(problems.contains(expected), "{expected}: {problems}");
    }
}

#[test]
fn a_field_that_nobody_knows_is_a_warning() {
    let (secret, problems) = parse("vault/1", &with(vault(), "namespaces", json!("x")));
    assert!(secret.is_some());
    assert!(problems.contains("did you mean \"namespace\"?"), "{problems}");
}
