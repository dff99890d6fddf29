//! Fake engines that only record their calls. A test has the engines that it sets; the others are
//! unavailable.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tollhouse_plugin::{Answer, LocalFuture, RequestContext};
use tollhouse_stdx::MemoryBudget;

use crate::engines::{CallError, CallResult, EngineError, Engines, Logins, RecordSink, Scripts};
use crate::{OAuth2Client, RecordPlace, RedisServers, ScriptCall};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct FakeEngines {
    /// Fake Redis that answers scripts.
    pub(super) redis: Option<Arc<FakeRedis>>,
    /// Records received.
    pub(super) records: Arc<Notes>,
    /// Destinations of the records.
    pub(super) places: Notes,
    /// Token for which each code is exchanged; `None` if the server does not answer.
    pub(super) token: Option<String>,
    /// Forms that were posted.
    pub(super) posted: Notes,
    /// Dubbo calls. One server cannot be reached, one does not answer in time, and the others
    /// answer.
    pub(super) called: Notes,
}

/// Recorded calls, in their order.
#[derive(Debug, Default)]
pub(super) struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn note(&self, text: String) {
        self.0.lock().expect("nobody panicked").push(text);
    }

    /// Returns all recorded calls.
    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().expect("nobody panicked").clone()
    }
}

impl Engines for FakeEngines {
    fn redis(&self, _servers: &RedisServers) -> Result<Arc<dyn Scripts>, EngineError> {
        let away = || EngineError("there is none".to_owned());
        Ok(Arc::<FakeRedis>::clone(self.redis.as_ref().ok_or_else(away)?))
    }

    fn records(&self, place: &RecordPlace) -> Arc<dyn RecordSink> {
        self.places.note(format!("{place:?}"));
        Arc::<Notes>::clone(&self.records)
    }

    fn post_form<'a>(&'a self, url: &'a str, form: String) -> LocalFuture<'a, Option<Vec<u8>>> {
        self.posted.note(format!("{url} {form}"));
        let answer = self.token.as_ref().map(|token| json!({"access_token": token}).to_string());
        Box::pin(std::future::ready(answer.map(String::into_bytes)))
    }

    fn logins(&self, _client: &OAuth2Client) -> Result<Arc<dyn Logins>, EngineError> {
        Ok(Arc::new(FakeLogins))
    }

    fn call_dubbo<'a>(
        &'a self,
        server: &'a str,
        call: &'a tollhouse_dubbo::Invocation<'a>,
    ) -> LocalFuture<'a, Result<CallResult, CallError>> {
        let arguments = Value::from(call.arguments.to_vec());
        let called = format!("{server} {}.{}", call.service, call.method);
        self.called.note(format!("{called} {:?} {arguments}", call.types));
        let result = match server {
            "10.0.0.1:1" => Err(CallError::Unreachable("it is gone".to_owned())),
            "10.0.0.2:1" => Err(CallError::TimedOut),
            _ => {
                let held = MemoryBudget::unlimited().take(0).expect("there is no bound");
                Ok(CallResult { value: json!({"id": 7}), held })
            }
        };
        Box::pin(std::future::ready(result))
    }
}

/// Login handler that admits one user, by a cookie.
#[derive(Debug)]
struct FakeLogins;

impl Logins for FakeLogins {
    fn admit<'a>(
        &'a self,
        cx: &'a mut RequestContext<'_>,
    ) -> LocalFuture<'a, Result<Vec<String>, Box<Answer<'static>>>> {
        let is_known = cx.cookie("session").is_some_and(|session| session == b"jack");
        if is_known {
            cx.set_header("Authorization", b"Bearer jacks");
        }
        let elsewhere = || Answer::status(302).with_header("Location", &b"http://id.test/"[..]);
        let known = vec!["session=jack; Path=/".to_owned()];
        let admitted = if is_known { Ok(known) } else { Err(Box::new(elsewhere())) };
        Box::pin(std::future::ready(admitted))
    }
}

impl RecordSink for Notes {
    fn push(&self, record: String) {
        self.note(record);
    }
}

/// Fake Redis that gives these answers, the last one first, and records its calls.
#[derive(Debug)]
pub(super) struct FakeRedis {
    pub(super) answers: Mutex<Vec<Option<i64>>>,
    pub(super) asked: Notes,
}

impl Scripts for FakeRedis {
    fn run<'a>(&'a self, call: &'a ScriptCall) -> LocalFuture<'a, Option<i64>> {
        self.send(call.clone());
        let answer = self.answers.lock().expect("nobody panicked").pop();
        Box::pin(std::future::ready(answer.expect("it has one")))
    }

    fn send(&self, call: ScriptCall) {
        let word = if call.script.contains("zrem'") { "leave" } else { "ask" };
        self.asked.note(format!("{word} {}", call.keys[0]));
    }
}
