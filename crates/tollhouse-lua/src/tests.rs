//! Tests of scripts through the harness of plugins: compilers, requests, and other services that
//! repeat what they are asked.

use std::sync::Arc;

use serde_json::{Value, json};
use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome};
use tollhouse_plugin::{Catalogue, FunctionPhase, LocalFuture, Scope, Scripting, Services};

use crate::Lua;
use crate::world::{HttpCall, HttpReply, Outside, RedisCall, RedisReply, Settings};

mod direct;
mod hostile;
mod interface;
mod modules;

/// Other services of tests: they repeat what they are asked.
pub(super) struct Echo;

impl Outside for Echo {
    fn http<'a>(&'a self, call: HttpCall) -> LocalFuture<'a, Result<HttpReply, String>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if call.uri.contains("refused") {
                return Err("connection refused".to_owned());
            }
            let method = String::from_utf8_lossy(&call.method).into_owned();
            let body = format!("{method} {} {}", call.uri, String::from_utf8_lossy(&call.body));
            let headers = vec![("X-Seen".to_owned(), b"yes".to_vec())];
            Ok(HttpReply { status: 201, headers, body: body.into_bytes() })
        })
    }

    fn redis<'a>(&'a self, call: RedisCall) -> LocalFuture<'a, Result<RedisReply, String>> {
        Box::pin(async move {
            let parts: Vec<_> =
                call.command.iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect();
            Ok(match parts[0].as_str() {
                "get" => RedisReply::Null,
                "incr" => RedisReply::Number(7),
                "lrange" => RedisReply::List(vec![RedisReply::Text(b"a".to_vec())]),
                "eval" => RedisReply::Error("ERR bad".to_owned()),
                _ => RedisReply::Text(parts.join(" ").into_bytes()),
            })
        })
    }
}

pub(super) fn lua_with(sources: &[(&str, &str)]) -> Lua {
    let sources = sources.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Lua::new(Settings {
        memory_bytes: 16 << 20,
        sources: sources.collect(),
        attributes: json!({"greet": {"word": "hello"}}).as_object().cloned().unwrap_or_default(),
        outside: Arc::new(Echo),
    })
}

/// Returns a harness for functions of a phase.
pub(super) fn functions(phase: FunctionPhase, texts: &[&str]) -> Harness {
    functions_of(&lua_with(&[]), phase, texts)
}

/// Returns a harness for functions that this compiler checks and runs.
pub(super) fn functions_of(lua: &Lua, phase: FunctionPhase, texts: &[&str]) -> Harness {
    let services = Arc::new(Services::new("test"));
    let catalogue = Catalogue::empty();
    let conf = json!({"a": 1});
    let scope = Scope {
        owner: "routes/1",
        conf: &conf,
        metadata: None,
        protos: None,
        catalogue: &catalogue,
        services: &services,
    };
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let handler = lua.functions("serverless-pre-function", phase, &texts, &scope);
    Harness::with(handler.expect("the functions are good"), Arc::clone(&services))
}

/// Returns the reason for which functions are refused; empty if they are accepted.
pub(super) fn refusal(text: &str) -> String {
    let services = Arc::new(Services::new("test"));
    let catalogue = Catalogue::empty();
    let conf = Value::Null;
    let scope = Scope {
        owner: "routes/1",
        conf: &conf,
        metadata: None,
        protos: None,
        catalogue: &catalogue,
        services: &services,
    };
    let texts = [text.to_owned()];
    let made =
        lua_with(&[]).functions("serverless-pre-function", FunctionPhase::Access, &texts, &scope);
    made.err().map(String::from).unwrap_or_default()
}

/// Runs a function body in the access phase of a request, and describes its outcome.
pub(super) fn run(body: &str, request: &str) -> Outcome {
    let text = format!("return function(conf, ctx) {body} end");
    functions(FunctionPhase::Access, &[&text]).request(request)
}

/// Runs a function body and returns the text that it answers with.
pub(super) fn said(body: &str) -> String {
    let request =
        "POST /a/b?x=1&y=2&x=3&z HTTP/1.1\nHost: t.com\nX-A: 1\nCookie: c=d\n\n{\"k\":[1]}";
    text_of(&run(body, request))
}

pub(super) fn text_of(outcome: &Outcome) -> String {
    match &outcome.answer {
        Some(reply) => reply.body.clone(),
        None => "(no answer)".to_owned(),
    }
}

pub(super) fn status_of(outcome: &Outcome) -> u16 {
    outcome.answer.as_ref().map_or(0, |reply| reply.status)
}

pub(super) fn get() -> FakeExchange {
    FakeExchange::parse("GET /a HTTP/1.1\n\n", 0)
}
