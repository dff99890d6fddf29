//! An Admin API as the place where objects are: read by its lists, written by PUT and DELETE.
//!
//! Any server of the dialect will do, an APISIX too. One request after the other on one connection,
//! over plain HTTP, as the listener on the loopback address speaks it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tollhouse_config::Bootstrap;
use tollhouse_model::encryption::Keyring;
use tollhouse_model::{Credential, Id, Kind};

use super::plan::Change;
use crate::cli::objects::{Object, Objects};
use crate::control::secrets;

/// Where the Admin API has its resources.
const BASE: &str = "/apisix/admin";

/// Longest wait for one answer: a list of 100,000 objects takes a second or two.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// Largest answer read, in bytes; documents are read up to the same size.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Characters of a refusal that are repeated.
const REFUSAL_CHARS_MAX: usize = 500;

/// An Admin API, connected to.
pub(super) struct AdminApi {
    authority: String,
    key: Option<String>,
    keyring: Option<Keyring>,
    runtime: Runtime,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl AdminApi {
    /// Takes the address apart; connects with the first request.
    pub(super) fn open(
        url: &str,
        key: Option<&str>,
        bootstrap: &Bootstrap,
    ) -> anyhow::Result<Self> {
        let key = match key {
            Some(key) => Some(key.to_owned()),
            None => secrets::admin_key_if_any(bootstrap)?.map(|key| key.expose().to_owned()),
        };
        Ok(Self {
            authority: authority_of(url)?,
            key,
            keyring: secrets::keyring_if_any(bootstrap)?,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            connection: None,
        })
    }

    /// What people call it.
    pub(super) fn name(&self) -> String {
        format!("http://{}{BASE}", self.authority)
    }

    /// The keys of the data directory on this machine, if it has any.
    pub(super) fn keyring(&self) -> Option<&Keyring> {
        self.keyring.as_ref()
    }

    /// All objects.
    pub(super) fn objects(&mut self) -> anyhow::Result<Objects> {
        let mut found = Objects::new();
        for kind in Kind::lists() {
            self.add_list(&mut found, kind, &format!("{BASE}/{kind}"))?;
        }
        let consumers: Vec<Id> = found
            .keys()
            .filter(|(kind, _)| *kind == Kind::Consumer)
            .map(|(_, id)| id.clone())
            .collect();
        for consumer in consumers {
            let path = format!("{BASE}/consumers/{consumer}/credentials");
            self.add_list(&mut found, Kind::Credential, &path)?;
        }
        Ok(found)
    }

    fn add_list(&mut self, found: &mut Objects, kind: Kind, path: &str) -> anyhow::Result<()> {
        let (status, body) = self.ask("GET", path, Bytes::new())?;
        // Of credentials this means none; of a kind, that the server does not serve it.
        if status == StatusCode::NOT_FOUND || (kind == Kind::StreamRoute && !status.is_success()) {
            return Ok(());
        }
        if !status.is_success() {
            bail!("failed to read {path}: {}", refusal(status, &body));
        }
        let list: List = serde_json::from_slice(&body)
            .with_context(|| format!("failed to read {path}: the answer is no list of objects"))?;
        found.extend(list.objects(kind));
        Ok(())
    }

    /// Makes the changes, one after the other.
    pub(super) fn apply(&mut self, changes: &[Change]) -> anyhow::Result<()> {
        for (written, change) in changes.iter().enumerate() {
            self.make(change).with_context(|| {
                format!("{written} of {} changes were written, and no more", changes.len())
            })?;
        }
        Ok(())
    }

    fn make(&mut self, change: &Change) -> anyhow::Result<()> {
        let path = path_of(change.kind, &change.id);
        let (method, body) = match &change.new {
            Some(object) => ("PUT", body_of(change.kind, object)),
            None => ("DELETE", Bytes::new()),
        };
        let (status, answer) = self.ask(method, &path, body)?;
        // Credentials go with their consumer.
        let is_gone = method == "DELETE" && status == StatusCode::NOT_FOUND;
        if !status.is_success() && !is_gone {
            bail!("failed to {method} {path}: {}", refusal(status, &answer));
        }
        Ok(())
    }

    /// One exchange.
    fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("host", &self.authority).header("accept", "application/json");
        if let Some(key) = &self.key {
            request = request.header("x-api-key", key);
        }
        let request =
            request.body(Full::new(body)).context("the key or an id is no header text")?;
        let (authority, connection) = (&self.authority, &mut self.connection);
        self.runtime.block_on(async {
            let exchange = exchange(authority, connection, request);
            match tokio::time::timeout(ANSWER_TIME_MAX, exchange).await {
                Ok(answered) => answered,
                Err(_) => Err(anyhow!("no answer within {} s", ANSWER_TIME_MAX.as_secs())),
            }
            .with_context(|| format!("failed to ask http://{authority}{path}"))
        })
    }
}

async fn exchange(
    authority: &str,
    connection: &mut Option<SendRequest<Full<Bytes>>>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let mut sender = match connection.take() {
        Some(open) => open,
        None => connect(authority).await?,
    };
    // A server may close a connection at any time between two requests.
    if sender.ready().await.is_err() {
        sender = connect(authority).await?;
    }
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| anyhow!("the answer cannot be read: {error}"))?.to_bytes();
    *connection = Some(sender);
    Ok((status, body))
}

async fn connect(authority: &str) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(authority).await?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Runs while a request is waited for; its errors are those of the request.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Host and port of an address.
fn authority_of(url: &str) -> anyhow::Result<String> {
    if url.starts_with("https://") {
        bail!("{url}: only plain http:// is spoken here; run the import on the gateway's machine");
    }
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() || !["", "apisix/admin"].contains(&path.trim_end_matches('/')) {
        bail!("{url}: expected an address such as http://127.0.0.1:9180");
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok(if has_port { authority.to_owned() } else { format!("{authority}:80") })
}

fn path_of(kind: Kind, id: &Id) -> String {
    match kind {
        Kind::Credential => format!("{BASE}/consumers/{id}"),
        _ => format!("{BASE}/{kind}/{id}"),
    }
}

/// The object as PUT takes it: times are the server's, and the path names it.
fn body_of(kind: Kind, object: &Object) -> Bytes {
    let mut value = object.value.clone();
    if let Value::Object(fields) = &mut value
        && kind != Kind::Consumer
    {
        fields.shift_remove("id");
    }
    value.to_string().into()
}

/// What a server says when it refuses.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    let said: Option<Value> = serde_json::from_slice(body).ok();
    let field = |name: &str| said.as_ref()?.get(name)?.as_str();
    let parts: Vec<&str> =
        ["error_msg", "message", "description"].into_iter().filter_map(field).collect();
    let text: String = parts.join(": ").chars().take(REFUSAL_CHARS_MAX).collect();
    let hint = match status {
        StatusCode::UNAUTHORIZED => "; give the key with --admin-key",
        _ => "",
    };
    format!("{} {text}{hint}", status.as_u16())
}

/// The answer to the question for a list.
struct List(Vec<(String, Map<String, Value>)>);

impl<'de> serde::Deserialize<'de> for List {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let answer = BTreeMap::<String, Value>::deserialize(reader)?;
        let entry = |entry: &Value| {
            let key = entry.get("key")?.as_str()?.to_owned();
            Some((key, entry.get("value")?.as_object()?.clone()))
        };
        match answer.get("list") {
            Some(Value::Array(entries)) => Ok(Self(entries.iter().filter_map(entry).collect())),
            // Servers whose language has one type for both write an empty list so.
            Some(Value::Object(fields)) if fields.is_empty() => Ok(Self(Vec::new())),
            _ => Err(serde::de::Error::custom("no list")),
        }
    }
}

impl List {
    /// The objects of a kind, told by the ends of their keys.
    fn objects(self, kind: Kind) -> impl Iterator<Item = ((Kind, Id), Object)> {
        let infix = match kind {
            Kind::Credential => "/consumers/".to_owned(),
            _ => format!("/{kind}/"),
        };
        self.0.into_iter().filter_map(move |(key, fields)| {
            let id = Id::new(&key[key.find(&infix)? + infix.len()..]);
            // Some servers list credentials among the consumers.
            let is_credential = Credential::split_key(id.as_str()).is_some();
            let belongs = is_credential == (kind == Kind::Credential);
            belongs.then(|| ((kind, id.clone()), Object::new(kind, &id, fields)))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        let table = [
            ("http://127.0.0.1:9180", Some("127.0.0.1:9180")),
            ("http://127.0.0.1:9180/apisix/admin/", Some("127.0.0.1:9180")),
            ("127.0.0.1:9180", Some("127.0.0.1:9180")),
            ("http://gateway", Some("gateway:80")),
            ("http://[::1]:9180/", Some("[::1]:9180")),
            ("https://127.0.0.1:9180", None),
            ("http://127.0.0.1:9180/other", None),
            ("http:///", None),
        ];
        for (url, expected) in table {
            assert_eq!(authority_of(url).ok().as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn lists_become_objects() {
        let list = json!({"total": 2, "list": [
            {"key": "/apisix/consumers/jack", "value": {"username": "jack", "create_time": 1}},
            {"key": "/apisix/consumers/jack/credentials/c", "value": {"id": "c"}},
        ]});
        for (kind, expected) in [
            (Kind::Consumer, json!({"username": "jack"})),
            (Kind::Credential, json!({"id": "jack/credentials/c"})),
        ] {
            let list: List = serde_json::from_value(list.clone()).expect("it is a list");
            let found: Vec<_> = list.objects(kind).map(|(_, object)| object.value).collect();
            assert_eq!(found, [expected]);
        }
        let empty: Result<List, _> = serde_json::from_value(json!({"list": {}, "total": 0}));
        assert!(empty.is_ok_and(|list| list.0.is_empty()));
        assert!(serde_json::from_value::<List>(json!({"message": "x"})).is_err());
    }

    #[test]
    fn refusals_are_repeated_with_what_helps() {
        let body = br#"{"error_msg":"failed to check token","description":"wrong apikey"}"#;
        let text = refusal(StatusCode::UNAUTHORIZED, body);
        assert_eq!(text, "401 failed to check token: wrong apikey; give the key with --admin-key");
        assert_eq!(refusal(StatusCode::BAD_GATEWAY, b"<html>"), "502 ");
    }

    #[test]
    fn objects_are_put_where_they_belong() {
        let id = Id::new("jack/credentials/c");
        let path = path_of(Kind::Credential, &id);
        assert_eq!(path, "/apisix/admin/consumers/jack/credentials/c");
        assert_eq!(path_of(Kind::Secret, &Id::new("vault/1")), "/apisix/admin/secrets/vault/1");
        let fields = json!({"id": "c", "plugins": {}, "create_time": 1});
        let fields = fields.as_object().expect("an object").clone();
        let object = Object::new(Kind::Credential, &id, fields);
        assert_eq!(&body_of(Kind::Credential, &object)[..], br#"{"plugins":{}}"#);
    }
}
