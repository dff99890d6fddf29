//! A person logs in to the console at an identity provider, with the whole program between: the
//! session counts, outlives the process, and the audit names the person.

use serde_json::{Value, json};
use tollhouse_testkit::identity_provider::{CLIENT, form};
use tollhouse_testkit::{Gateway, GatewayBuilder, IdentityProvider, Message, RawClient};

use crate::support::gateway;

/// Browser that the console's page runs in.
#[derive(Default)]
struct Browser {
    cookies: Vec<(String, String)>,
    proof: String,
}

impl Browser {
    fn send(&mut self, gateway: &Gateway, method: &str, path: &str, body: &Value) -> Message {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let pairs = self.cookies.iter().map(|(name, value)| format!("{name}={value}"));
        let cookies = pairs.collect::<Vec<_>>().join("; ");
        let proof = if self.proof.is_empty() { "1" } else { &self.proof };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nCookie: {cookies}\r\nX-Tollhouse-Console: {proof}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            gateway.admin_address(),
            body.len()
        );
        let answer = RawClient::connect(gateway.admin_address()).ask(request);
        for line in answer.all("set-cookie") {
            let (name, rest) = line.split_once('=').expect("a pair");
            let value = rest.split(';').next().unwrap_or_default();
            self.cookies.retain(|(other, _)| other != name);
            if !line.contains("Max-Age=0") {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        answer
    }

    fn name(&mut self, gateway: &Gateway) -> Value {
        json(&self.send(gateway, "GET", "/console/v1/login", &Value::Null))["name"].clone()
    }
}

fn json(answer: &Message) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"))
}

#[test]
fn a_person_logs_in_at_the_provider_and_is_known_after_a_restart() {
    let provider = IdentityProvider::start();
    provider.claim(json!({"preferred_username": "ann", "groups": ["ops"]}));
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), format!("{}\n", CLIENT.1)).expect("it takes the secret");
    let (issuer, file) = (provider.url("/realm"), secret.path().display().to_string());
    let configured = |builder: GatewayBuilder| {
        let settings = [
            ("issuer", issuer.as_str()),
            ("client_id", CLIENT.0),
            ("client_secret_file", &file),
            ("allowed_groups", "ops"),
            ("name", "Example"),
        ];
        settings.iter().fold(builder.registry(), |builder, (name, value)| {
            builder.set(&format!("admin.openid_connect.{name}"), value)
        })
    };
    let gateway = configured(gateway().without_resources()).start();
    let mut browser = Browser::default();
    let who = json(&browser.send(&gateway, "GET", "/console/v1/login", &Value::Null));
    assert_eq!((&who["openid"], &who["signed_in"]), (&json!("Example"), &json!(false)), "{who}");
    let begun = browser.send(&gateway, "POST", "/console/v1/login/openid", &Value::Null);
    assert_eq!(begun.status(), 200, "{begun:?}");
    let location = json(&begun)["location"].as_str().expect("an address").to_owned();
    let back = provider.log_in(&location);
    let page = format!("http://{}/ui/login?", gateway.admin_address());
    let parameters = form(back.strip_prefix(&page).unwrap_or_else(|| panic!("{back}")));
    let shown = browser.send(&gateway, "GET", "/ui/login", &Value::Null);
    assert_eq!(shown.status(), 200, "the page takes the code out of its address");
    let sent = json!({"state": parameters["state"], "code": parameters["code"]});
    let done = browser.send(&gateway, "POST", "/console/v1/login", &sent);
    assert_eq!(done.status(), 200, "{done:?}");
    browser.proof = json(&done)["proof"].as_str().expect("a proof").to_owned();
    assert_eq!(browser.name(&gateway), "ann");
    let log = gateway.folder().join("audit.log");
    let lines = std::fs::read_to_string(&log).unwrap_or_else(|error| panic!("{log:?}: {error}"));
    let signed_in = lines.lines().find(|line| line.contains("sign_in")).unwrap_or_default();
    assert!(signed_in.contains("\"actor\":\"ann\""), "{lines}");

    // The address stays, because cookies have the port in their names.
    let address = gateway.admin_address().to_string();
    let again = configured(gateway.kill()).set("listen.admin", &address).start();
    assert_eq!(browser.name(&again), "ann");
    let ended = browser.send(&again, "DELETE", "/console/v1/login", &Value::Null);
    assert_eq!(ended.status(), 200, "{ended:?}");
    assert_eq!(browser.name(&again), Value::Null);
}
