//! Calls of other services that scripts make: HTTP and Redis, with the clients of the plugins.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tollhouse_lua::{HttpCall, HttpReply, Outside, RedisCall, RedisReply};
use tollhouse_plugin::LocalFuture;

use crate::http_client::{Call, HttpClient, Repeat, Reuse, Target};
use crate::redis::Servers;
use crate::redis::conf::Address;

/// Idle connections per server and core.
const CONNECTIONS_MAX: usize = 16;

/// Time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(60);

/// Commands that change the state of a connection, which all requests of a core share.
const OF_ONE_CONNECTION: [&str; 17] = [
    "auth",
    "blmove",
    "blmpop",
    "blpop",
    "brpop",
    "brpoplpush",
    "discard",
    "exec",
    "monitor",
    "multi",
    "psubscribe",
    "quit",
    "reset",
    "select",
    "subscribe",
    "unwatch",
    "watch",
];

/// Calls of scripts.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScriptCalls;

impl Outside for ScriptCalls {
    fn http<'a>(&'a self, call: HttpCall) -> LocalFuture<'a, Result<HttpReply, String>> {
        Box::pin(async move {
            let target = Target::parse(&call.uri).map_err(|error| error.to_string())?;
            let reuse = Reuse::For { idle: IDLE, connections_max: CONNECTIONS_MAX };
            let timeout = Duration::from_millis(call.timeout_ms);
            let client = HttpClient::new(timeout, call.verifies.into(), reuse);
            let sent = Call {
                method: call.method,
                path: target.path.clone().into_bytes(),
                headers: call.headers,
                body: Bytes::from(call.body),
                repeat: Repeat::ByMethod,
            };
            let reply = client.send(&target, sent).await.map_err(|error| error.to_string())?;
            let headers = reply.headers.iter();
            let headers =
                headers.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
            Ok(HttpReply {
                status: reply.status,
                headers: headers.collect(),
                body: reply.body.to_vec(),
            })
        })
    }

    fn redis<'a>(&'a self, call: RedisCall) -> LocalFuture<'a, Result<RedisReply, String>> {
        Box::pin(async move {
            let name = call.command.first().map(|name| name.to_ascii_lowercase());
            let name = String::from_utf8(name.unwrap_or_default()).unwrap_or_default();
            if OF_ONE_CONNECTION.contains(&name.as_str()) {
                let text = format!("{name} is not available: connections are shared; use eval");
                return Err(text);
            }
            let servers = Servers::at(&Address {
                host: &call.host,
                port: call.port,
                tls: call.tls,
                username: call.username.as_deref(),
                password: call.password.as_deref(),
                database: call.database,
                timeout: Duration::from_millis(call.timeout_ms),
            })?;
            servers.command(&call.command).await.map(reply_of)
        })
    }
}

fn reply_of(value: Value) -> RedisReply {
    match value {
        Value::Nil => RedisReply::Null,
        Value::Int(number) => RedisReply::Number(number),
        Value::Boolean(is_set) => RedisReply::Number(i64::from(is_set)),
        Value::BulkString(bytes) => RedisReply::Text(bytes),
        Value::SimpleString(text) => RedisReply::Text(text.into_bytes()),
        Value::Okay => RedisReply::Text(b"OK".to_vec()),
        Value::Double(number) => RedisReply::Text(number.to_string().into_bytes()),
        Value::VerbatimString { text, .. } => RedisReply::Text(text.into_bytes()),
        Value::Array(items) | Value::Set(items) => {
            RedisReply::List(items.into_iter().map(reply_of).collect())
        }
        Value::Map(pairs) => {
            let items = pairs.into_iter().flat_map(|(key, value)| [reply_of(key), reply_of(value)]);
            RedisReply::List(items.collect())
        }
        Value::ServerError(error) => RedisReply::Error(error.to_string()),
        other => RedisReply::Text(format!("{other:?}").into_bytes()),
    }
}
