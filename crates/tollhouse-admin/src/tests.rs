//! Tests of the whole API: calls as clients send them, and answers as clients get them. Each part
//! of the API has a file; this file contains what they share.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Request};
use serde_json::{Value, json};
use tollhouse_model::encryption::{Form, Keyring};
use tollhouse_plugin::Services;
use tollhouse_store::{Location, Store};

use crate::{AdminApi, AdminKey, Options, Parts, Role};

mod access;
mod bodies;
mod changes;
mod clients;
mod console;
mod documents;
mod encryption;
mod listing;
mod log_ins;
mod objects;
mod patches;
mod people;
mod preconditions;
mod races;
mod references;
mod registry;
mod registry_bulk;
mod renewal;
mod resources;
mod restored;
mod roles;
mod schemas;
mod served;
mod serving;
mod shenyu;
mod transfer;
mod warnings;
mod wrapper;

/// Keys of the roles admin, operator and viewer.
const ADMIN: &str = "edd1c9f034335f136f87ad84b625c8f1";
const OPERATOR: &str = "0f34ac2c1b8a4c1e9d0f5e6a7b8c9d0e";
const VIEWER: &str = "4054f7cf07e344346cd3f287985e76a2";

/// An Admin API over a store in memory.
struct Fixture {
    api: AdminApi,
    store: Arc<dyn Store>,
}

/// An answer, read to its end.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("headers are text"))
    }

    /// `error_msg`.
    fn error(&self) -> String {
        self.json()["error_msg"].as_str().unwrap_or_default().to_owned()
    }
}

fn options() -> Options {
    let key = |name: &str, key: &str, role| AdminKey { name: name.into(), key: key.into(), role };
    Options {
        keys: vec![
            key("admin", ADMIN, Role::Admin),
            key("operator", OPERATOR, Role::Operator),
            key("viewer", VIEWER, Role::Viewer),
        ],
        ..Options::default()
    }
}

fn parts(store: Arc<dyn Store>, options: Options, registry: Option<crate::RegistryPart>) -> Parts {
    let keyring = Keyring::new(["qeddd145sfvddff3", "edd1c9f0985e76a2"]);
    let keyring = keyring.expect("the keys have a right length");
    Parts {
        store,
        in_service: None,
        catalogue: Arc::new(tollhouse_plugins::catalogue()),
        services: Arc::new(Services::new("APISIX/3.18.0")),
        keyring: Arc::new(keyring.with_form(Form::Apisix)),
        registry,
        certificates: None,
        staples: None,
        console: None,
        shenyu: None,
        audit: None,
        tracer: None,
        options,
    }
}

impl Fixture {
    async fn new() -> Self {
        Self::with(options()).await
    }

    async fn with(options: Options) -> Self {
        let store = tollhouse_store::open(&Location::Memory).expect("memory is there");
        Self::over(store, options).await
    }

    /// Replaces the Admin API by one over the same store with data about a process.
    async fn put_console(&mut self, console: Arc<dyn crate::ConsoleSource>) {
        let parts =
            Parts { console: Some(console), ..parts(Arc::clone(&self.store), options(), None) };
        self.api = AdminApi::new(parts);
    }

    async fn over(store: Arc<dyn Store>, options: Options) -> Self {
        Self::with_registry(store, options, None).await
    }

    async fn with_registry(
        store: Arc<dyn Store>,
        options: Options,
        registry: Option<crate::RegistryPart>,
    ) -> Self {
        let parts = parts(Arc::clone(&store), options, registry);
        Self { api: AdminApi::new(parts), store }
    }

    /// Sends a request as it is.
    async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let peer: SocketAddr = "127.0.0.1:40000".parse().expect("it is an address");
        self.send_from(request, peer).await
    }

    async fn send_from(&self, request: Request<Full<Bytes>>, peer: SocketAddr) -> Answer {
        let (head, body) = self.api.handle(request, peer).await.into_parts();
        let body = body.collect().await.expect("the body is whole").to_bytes();
        let text = String::from_utf8(body.to_vec()).expect("answers are text");
        Answer { status: head.status.as_u16(), headers: head.headers, text }
    }

    /// Calls a path below `/apisix/admin` as an administrator.
    async fn call(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send(request(method, path, body)).await
    }

    async fn call_as(&self, key: &str, method: &str, path: &str) -> Answer {
        let mut request = request(method, path, "");
        request.headers_mut().insert("X-API-KEY", key.parse().expect("it is a value"));
        self.send(request).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "").await
    }

    async fn put(&self, path: &str, value: &Value) -> Answer {
        self.call("PUT", path, value.to_string()).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", path, "").await
    }

    /// Writes objects that must be accepted.
    async fn given(&self, objects: &[(&str, Value)]) {
        for (path, value) in objects {
            let answer = self.put(path, value).await;
            assert!(matches!(answer.status, 200 | 201), "{path}: {answer:?}");
        }
    }
}

fn request(method: &str, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(format!("http://127.0.0.1:9180/apisix/admin{path}"))
        .header("X-API-KEY", ADMIN)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(Full::new(body.into()))
        .expect("it is a request")
}

/// Returns a route to an arbitrary node.
fn route() -> Value {
    json!({"uri": "/a", "upstream": {"nodes": {"127.0.0.1:1980": 1}}})
}
