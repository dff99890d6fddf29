//! Replacement of a certificate: the preview of the differences, and the stored key, which stays if
//! it matches.

use rcgen::{CertificateParams, KeyPair};

use super::encryption::pem;
use super::*;

fn certificate(key: &KeyPair, names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = CertificateParams::new(names).and_then(|params| params.self_signed(key));
    pem("CERTIFICATE", made.expect("a certificate can be made").der())
}

fn key_pair() -> (KeyPair, String) {
    let key = KeyPair::generate().expect("a key can be made");
    let text = pem("PRIVATE KEY", &key.serialize_der());
    (key, text)
}

async fn check(fixture: &Fixture, key: &str, id: &str, body: &Value) -> Answer {
    let request =
        Request::builder().method("POST").uri(format!("/console/v1/certificates/{id}/check"));
    let request = request.header("X-API-KEY", key).body(Full::new(body.to_string().into()));
    fixture.send(request.expect("it is a request")).await
}

#[tokio::test]
async fn a_certificate_is_renewed_without_its_key_where_the_stored_one_fits() {
    let fixture = Fixture::new().await;
    let (key, text) = key_pair();
    let old = certificate(&key, &["a.test", "b.test"]);
    let ssl = json!({"snis": ["a.test", "b.test"], "cert": old, "key": text});
    fixture.given(&[("/ssls/1", ssl)]).await;
    let new = certificate(&key, &["b.test", "c.test"]);
    let told = check(&fixture, ADMIN, "1", &json!({ "cert": new })).await;
    assert_eq!(told.status, 200, "{told:?}");
    let value = told.json();
    assert_eq!((&value["stored_key_fits"], &value["key_fits"]), (&true.into(), &Value::Null));
    assert_eq!(value["before"]["names"], json!(["a.test", "b.test"]));
    assert_eq!(value["after"]["names"], json!(["b.test", "c.test"]));
    assert!(value["after"]["faults"].to_string().contains("it does not cover a.test"));
    assert!(!told.text.contains("PRIVATE"), "no key is told");
    let renewed = fixture.call("PATCH", "/ssls/1", json!({ "cert": new }).to_string()).await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    let again = check(&fixture, ADMIN, "1", &json!({ "cert": new })).await.json();
    assert_eq!(again["stored_key_fits"], true, "the key has stayed");
}

#[tokio::test]
async fn another_key_is_asked_for_where_the_stored_one_does_not_fit() {
    let fixture = Fixture::new().await;
    let ((first, text), (second, other)) = (key_pair(), key_pair());
    let ssl = json!({"sni": "a.test", "cert": certificate(&first, &["a.test"]), "key": text});
    fixture.given(&[("/ssls/1", ssl)]).await;
    let new = certificate(&second, &["a.test"]);
    let told = check(&fixture, ADMIN, "1", &json!({ "cert": new, "key": other })).await.json();
    assert_eq!((&told["stored_key_fits"], &told["key_fits"]), (&false.into(), &true.into()));
    let refused = fixture.call("PATCH", "/ssls/1", json!({ "cert": new }).to_string()).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let both = json!({ "cert": new, "key": other }).to_string();
    assert_eq!(fixture.call("PATCH", "/ssls/1", both).await.status, 200);
}

#[tokio::test]
async fn only_those_who_may_write_learn_whether_a_key_fits() {
    let fixture = Fixture::new().await;
    let (key, text) = key_pair();
    let cert = certificate(&key, &["a.test"]);
    fixture.given(&[("/ssls/1", json!({"sni": "a.test", "cert": cert, "key": text}))]).await;
    for (caller, id, body, status) in [
        (VIEWER, "1", json!({ "cert": cert }), 401),
        (ADMIN, "2", json!({ "cert": cert }), 404),
        (ADMIN, "1", json!({ "cert": "none" }), 400),
        (ADMIN, "1", json!({ "certificate": cert }), 400),
    ] {
        assert_eq!(check(&fixture, caller, id, &body).await.status, status, "{caller} {id} {body}");
    }
}
