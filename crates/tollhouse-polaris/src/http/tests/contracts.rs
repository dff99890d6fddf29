//! Contracts as a console edits them.

use super::*;

const METHODS: &str = "/naming/v1/service/contract/methods";

fn contract(version: &str, interfaces: &Value) -> Value {
    json!({
        "name": "shop", "type": "openapi", "namespace": "ns", "service": "s", "protocol": "http",
        "version": version, "content": "text", "interfaces": interfaces,
    })
}

/// Methods and paths of the contract of version 1.
async fn interfaces(server: &Server) -> Vec<String> {
    let found = server.get("/naming/v1/service/contracts?namespace=ns&service=s").await.json();
    assert_eq!(found["amount"], 1, "{found}");
    let interfaces = found["data"][0]["interfaces"].as_array().expect("a list").iter();
    let text = |it: &Value| {
        let texts = ["method", "path", "content", "source"].map(|key| it[key].as_str());
        texts.map(Option::unwrap_or_default).join(" ")
    };
    interfaces.map(text).collect()
}

#[tokio::test]
async fn contracts_are_edited_by_hand() {
    let server = Server::start().await;
    let none = json!([]);
    let list = json!([contract("1", &none)]);
    assert_eq!(server.post("/naming/v1/service/contracts", &list).await.code(), 200_000);
    assert_eq!(server.post("/naming/v1/service/contracts", &list).await.code(), 200_002);
    let get = json!([{"method": "GET", "path": "/a", "content": "x"}]);
    let post = json!([{"method": "POST", "path": "/b", "content": "y"}]);
    let changed = json!([{"method": "GET", "path": "/a", "content": "z"}]);
    let append = format!("{METHODS}/append");
    let delete = format!("{METHODS}/delete");
    let steps: [(&str, &str, &Value, u64, &[&str]); 6] = [
        ("POST", METHODS, &get, 200_000, &["GET /a x Manual"]),
        ("PUT", &append, &post, 200_000, &["GET /a x Manual", "POST /b y Manual"]),
        // One that is there already is replaced.
        ("PUT", &append, &changed, 200_000, &["POST /b y Manual", "GET /a z Manual"]),
        ("POST", &delete, &post, 200_000, &["GET /a z Manual"]),
        ("POST", &delete, &post, 200_002, &["GET /a z Manual"]),
        ("POST", METHODS, &post, 200_000, &["POST /b y Manual"]),
    ];
    for (method, path, sent, code, expected) in steps {
        let answer = server.write(method, path, &contract("1", sent)).await;
        assert_eq!(answer.code(), code, "{path}: {}", answer.text);
        assert_eq!(interfaces(&server).await, expected, "{path}");
    }
    let nameless = contract("1", &json!([{"method": "GET"}]));
    assert_eq!(server.write("PUT", &append, &nameless).await.code(), 400_000);
    for (method, path) in [("POST", METHODS), ("PUT", &*append), ("POST", &*delete)] {
        let answer = server.write(method, path, &contract("9", &get)).await;
        assert_eq!(answer.code(), 400_202, "{path}");
    }
    let unnamed = json!([{"version": "1", "service": "s"}]);
    assert_eq!(server.post("/naming/v1/service/contracts", &unnamed).await.code(), 400_110);
}
