//! Engines that do nothing but note what they are asked.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tollhouse_shenyu::limiter::redis::{RedisServers, ScriptCall};
use tollhouse_shenyu::record_store::RecordStore;

use crate::engines::{CallError, EngineError, Engines, RecordSink, Scripts};

/// A Redis that gives these answers, and notes what it was asked.
#[derive(Debug)]
pub(super) struct FakeRedis {
    pub(super) answers: Mutex<Vec<Option<i64>>>,
    pub(super) asked: Mutex<Vec<String>>,
}

#[derive(Debug)]
pub(super) struct FakeEngines(pub(super) Arc<FakeRedis>);

impl Engines for FakeEngines {
    fn redis(&self, _servers: &RedisServers) -> Result<Arc<dyn Scripts>, EngineError> {
        Ok(Arc::<FakeRedis>::clone(&self.0))
    }

    fn records(&self, _store: &RecordStore) -> Arc<dyn RecordSink> {
        unreachable!("no test here writes records")
    }

    fn post_form<'a>(
        &'a self,
        _url: &'a str,
        _form: String,
    ) -> tollhouse_plugin::LocalFuture<'a, Option<Vec<u8>>> {
        Box::pin(std::future::ready(None))
    }

    fn call_dubbo<'a>(
        &'a self,
        _server: &'a str,
        _call: &'a tollhouse_dubbo::Invocation<'a>,
    ) -> tollhouse_plugin::LocalFuture<'a, Result<Value, CallError>> {
        Box::pin(std::future::ready(Err(CallError::TimedOut)))
    }
}

impl Scripts for FakeRedis {
    fn run<'a>(&'a self, call: &'a ScriptCall) -> tollhouse_plugin::LocalFuture<'a, Option<i64>> {
        self.send(call.clone());
        let answer = self.answers.lock().expect("nobody panicked").pop();
        Box::pin(std::future::ready(answer.expect("it has one")))
    }

    fn send(&self, call: ScriptCall) {
        let word = if call.script.contains("zrem'") { "leave" } else { "ask" };
        let mut asked = self.asked.lock().expect("nobody panicked");
        asked.push(format!("{word} {}", call.keys[0]));
    }
}

/// Servers of Dubbo: one that cannot be reached, one that does not answer in time, and others.
#[derive(Debug, Default)]
pub(super) struct FakeServers(pub(super) Mutex<Vec<String>>);

impl Engines for FakeServers {
    fn redis(&self, _servers: &RedisServers) -> Result<Arc<dyn Scripts>, EngineError> {
        Err(EngineError("there is none".to_owned()))
    }

    fn records(&self, _store: &RecordStore) -> Arc<dyn RecordSink> {
        unreachable!("no test here writes records")
    }

    fn post_form<'a>(
        &'a self,
        _url: &'a str,
        _form: String,
    ) -> tollhouse_plugin::LocalFuture<'a, Option<Vec<u8>>> {
        Box::pin(std::future::ready(None))
    }

    fn call_dubbo<'a>(
        &'a self,
        server: &'a str,
        call: &'a tollhouse_dubbo::Invocation<'a>,
    ) -> tollhouse_plugin::LocalFuture<'a, Result<Value, CallError>> {
        let arguments = Value::from(call.arguments.to_vec());
        let text =
            format!("{server} {}.{} {:?} {arguments}", call.service, call.method, call.types);
        self.0.lock().expect("nobody panicked").push(text);
        let result = match server {
            "10.0.0.1:1" => Err(CallError::Unreachable("it is gone".to_owned())),
            "10.0.0.2:1" => Err(CallError::TimedOut),
            _ => Ok(json!({"id": 7})),
        };
        Box::pin(std::future::ready(result))
    }
}

/// Takes what it is given.
#[derive(Debug, Default)]
pub(super) struct FakeStore(pub(super) Mutex<Vec<String>>);

impl RecordSink for FakeStore {
    fn push(&self, record: String) {
        self.0.lock().expect("nobody panicked").push(record);
    }
}

#[derive(Debug)]
pub(super) struct FakeStores(pub(super) Arc<FakeStore>);

impl Engines for FakeStores {
    fn redis(&self, _servers: &RedisServers) -> Result<Arc<dyn Scripts>, EngineError> {
        Err(EngineError("there is none".to_owned()))
    }

    fn records(&self, _store: &RecordStore) -> Arc<dyn RecordSink> {
        Arc::<FakeStore>::clone(&self.0)
    }

    fn post_form<'a>(
        &'a self,
        _url: &'a str,
        _form: String,
    ) -> tollhouse_plugin::LocalFuture<'a, Option<Vec<u8>>> {
        Box::pin(std::future::ready(None))
    }

    fn call_dubbo<'a>(
        &'a self,
        _server: &'a str,
        _call: &'a tollhouse_dubbo::Invocation<'a>,
    ) -> tollhouse_plugin::LocalFuture<'a, Result<Value, CallError>> {
        Box::pin(std::future::ready(Err(CallError::TimedOut)))
    }
}

/// Changes each code into this token, and notes what it is asked.
#[derive(Debug)]
pub(super) struct FakeCasdoor {
    pub(super) token: String,
    pub(super) asked: Mutex<Vec<String>>,
}

impl Engines for FakeCasdoor {
    fn redis(&self, _servers: &RedisServers) -> Result<Arc<dyn Scripts>, EngineError> {
        Err(EngineError("there is none".to_owned()))
    }

    fn records(&self, _store: &RecordStore) -> Arc<dyn RecordSink> {
        unreachable!("no test here writes records")
    }

    fn post_form<'a>(
        &'a self,
        url: &'a str,
        form: String,
    ) -> tollhouse_plugin::LocalFuture<'a, Option<Vec<u8>>> {
        self.asked.lock().expect("nobody panicked").push(format!("{url} {form}"));
        let answer = json!({"access_token": self.token}).to_string().into_bytes();
        Box::pin(std::future::ready(Some(answer)))
    }

    fn call_dubbo<'a>(
        &'a self,
        _server: &'a str,
        _call: &'a tollhouse_dubbo::Invocation<'a>,
    ) -> tollhouse_plugin::LocalFuture<'a, Result<Value, CallError>> {
        Box::pin(std::future::ready(Err(CallError::TimedOut)))
    }
}
