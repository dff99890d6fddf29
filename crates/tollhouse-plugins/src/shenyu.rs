//! Connections for ShenYu plugins: Redis (shared with plugins here), Dubbo (`shenyu/dubbo.rs`),
//! servers that receive records of exchanges (`shenyu/records.rs`), forms (`shenyu/forms.rs`), and
//! identity providers (`shenyu/logins.rs`).

mod dubbo;
mod forms;
mod logins;
mod records;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use redis::Script;
use serde_json::{Value, json};
use tollhouse_dubbo::Invocation;
use tollhouse_plugin::{LocalFuture, Services};
use tollhouse_shenyu_gateway::{
    CallError, CallResult, EngineError, Engines, Logins, OAuth2Client, RecordPlace, RecordSink,
    RedisMode, RedisServers, ScriptCall, Scripts,
};
use tollhouse_stdx::MemoryBudget;

use self::forms::Forms;
use self::logins::LoginState;
use crate::logging::batch::Outlet;
use crate::redis::conf::Policy;
use crate::redis::{Argument, Call, Servers, Unavailable};

/// Implementations of ShenYu's plugins that this build contains.
#[derive(Debug, Default)]
pub struct PluginEngines {
    /// Runtime of deliveries, for which no request waits.
    outlet: Outlet,
    /// Sinks in use. All rules of a plugin share one, so that its queue has one limit.
    sinks: Mutex<HashMap<RecordPlace, Weak<dyn RecordSink>>>,
    /// Sender of forms, created on first use.
    forms: OnceLock<Forms>,
    /// State that all logins share.
    logins: LoginState,
    /// Budget for answers that are read whole; unlimited in tools that serve nothing.
    memory: OnceLock<Arc<MemoryBudget>>,
}

impl PluginEngines {
    /// Returns engines that use the services of the process. By default, nothing is delivered.
    pub fn new(services: &Services) -> Self {
        let memory = OnceLock::from(Arc::clone(&services.memory));
        Self { outlet: Outlet::from_services(services), memory, ..Self::default() }
    }
}

impl Engines for PluginEngines {
    fn redis(&self, servers: &RedisServers) -> Result<Arc<dyn Scripts>, EngineError> {
        let (policy, conf) = conf(servers);
        let servers =
            Servers::parse(policy, &conf).map_err(|error| EngineError(error.to_string()))?;
        let servers = servers.ok_or_else(|| EngineError("it names no servers".to_owned()))?;
        Ok(Arc::new(RedisScripts { servers: Arc::new(servers), known: Mutex::default() }))
    }

    fn records(&self, place: &RecordPlace) -> Arc<dyn RecordSink> {
        let mut sinks = self.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sink) = sinks.get(place).and_then(Weak::upgrade) {
            return sink;
        }
        sinks.retain(|_, sink| sink.strong_count() > 0);
        let sink = records::sink(place, self.outlet.clone());
        sinks.insert(place.clone(), Arc::downgrade(&sink));
        sink
    }

    fn post_form<'a>(&'a self, url: &'a str, form: String) -> LocalFuture<'a, Option<Vec<u8>>> {
        let sender = self.forms.get_or_init(Forms::default);
        Box::pin(sender.post(url, form))
    }

    fn logins(&self, client: &OAuth2Client) -> Result<Arc<dyn Logins>, EngineError> {
        self.logins.client(client)
    }

    fn call_dubbo<'a>(
        &'a self,
        server: &'a str,
        call: &'a Invocation<'a>,
    ) -> LocalFuture<'a, Result<CallResult, CallError>> {
        Box::pin(dubbo::call(server, call, self.memory.get_or_init(MemoryBudget::unlimited)))
    }
}

/// Converts the servers to the form of a limiter's conf.
fn conf(servers: &RedisServers) -> (Policy, Value) {
    let RedisServers { addresses, master, password, database, .. } = servers;
    match servers.mode {
        RedisMode::Standalone => {
            let (host, port) = addresses.first().cloned().unwrap_or_default();
            let conf = json!({"redis_host": host, "redis_port": port, "redis_password": password,
                "redis_database": database});
            (Policy::Redis, conf)
        }
        RedisMode::Cluster => {
            let nodes: Vec<_> =
                addresses.iter().map(|(host, port)| format!("{host}:{port}")).collect();
            let conf = json!({"redis_cluster_nodes": nodes, "redis_cluster_name": "shenyu",
                "redis_password": password});
            (Policy::RedisCluster, conf)
        }
        RedisMode::Sentinel => {
            let sentinels: Vec<_> =
                addresses.iter().map(|(host, port)| json!({"host": host, "port": port})).collect();
            let conf = json!({"redis_sentinels": sentinels, "redis_master_name": master,
                "redis_password": password, "redis_database": database});
            (Policy::RedisSentinel, conf)
        }
    }
}

#[derive(Debug)]
struct RedisScripts {
    servers: Arc<Servers>,
    /// Scripts by text, so that the digest of each is computed once. There are only a few.
    known: Mutex<Vec<(&'static str, Arc<Script>)>>,
}

impl RedisScripts {
    fn script(&self, text: &'static str) -> Arc<Script> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, script)) = known.iter().find(|(other, _)| std::ptr::eq(*other, text)) {
            return Arc::clone(script);
        }
        let script = Arc::new(Script::new(text));
        known.push((text, Arc::clone(&script)));
        script
    }
}

async fn run(servers: &Servers, script: &Script, call: &ScriptCall) -> Result<i64, Unavailable> {
    let [key, other] = &call.keys;
    let arguments = call.arguments.map(Argument::Number);
    let (key, further_key) = (key.as_bytes(), Some(other.as_bytes()));
    servers.call(&Call { script, key, further_key, arguments: &arguments }).await
}

impl Scripts for RedisScripts {
    fn run<'a>(&'a self, call: &'a ScriptCall) -> LocalFuture<'a, Option<i64>> {
        let script = self.script(call.script);
        Box::pin(async move { run(&self.servers, &script, call).await.ok() })
    }

    fn send(&self, call: ScriptCall) {
        // Without a runtime the process is exiting; the entry in Redis expires.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (servers, script) = (Arc::clone(&self.servers), self.script(call.script));
        runtime.spawn(async move {
            // The failure has been logged already, and the entry in Redis expires.
            let _: Result<i64, Unavailable> = run(&servers, &script, &call).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollhouse_shenyu_gateway::LimiterRule;
    use tollhouse_testkit::redis::RedisServer;

    fn servers(port: u16) -> Arc<dyn Scripts> {
        let config = format!(r#"{{"mode":"standalone","url":"127.0.0.1:{port}"}}"#);
        let servers = RedisServers::read(Some(&config)).expect("it is one").expect("it has one");
        PluginEngines::default().redis(&servers).expect("there can be such a server")
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(Default::default())
            .expect("a runtime");
        runtime.block_on(future)
    }

    #[test]
    fn each_algorithm_of_shenyus_limiter_counts_in_redis_as_it_does_here() {
        let Some(server) = RedisServer::start(&[]) else { return };
        let scripts = servers(server.port);
        /// Second, number of requests, number of those that pass.
        type Seconds = &'static [(u64, u32, u32)];
        let cases: [(&str, u32, Seconds); 3] = [
            ("tokenBucket", 2, &[(0, 9, 5), (1, 9, 2), (9, 9, 5)]),
            ("leakyBucket", 2, &[(0, 9, 5), (1, 9, 2), (9, 9, 5)]),
            ("slidingWindow", 1, &[(0, 9, 5), (1, 2, 0), (5, 1, 0), (6, 9, 5)]),
        ];
        wait(async {
            for (algorithm, rate, seconds) in cases {
                let handle = format!(
                    r#"{{"algorithmName":"{algorithm}","replenishRate":{rate},"burstCapacity":5}}"#
                );
                let rule = LimiterRule::read(Some(&handle)).expect("it is one");
                for (now_s, requests, expected) in seconds {
                    let mut passed = 0;
                    for request in 0..*requests {
                        let name = format!("{now_s}-{request}");
                        let call = rule.ask(algorithm, "k", &name, 1_000_000 + now_s);
                        passed += u32::from(scripts.run(&call).await == Some(1));
                    }
                    assert_eq!(passed, *expected, "{algorithm} {now_s}");
                }
            }
        });
        let keys = server.ask(&["keys", "*"]);
        assert!(keys.contains("request_rate_limiter.{tokenBucket-k}.timestamp"), "{keys}");
    }

    #[test]
    fn requests_under_way_are_counted_in_redis_until_they_end() {
        let Some(server) = RedisServer::start(&[]) else { return };
        let scripts = servers(server.port);
        let rule = LimiterRule::read(Some(r#"{"algorithmName":"concurrent","burstCapacity":2}"#));
        let rule = rule.expect("it is one");
        wait(async {
            let calls = ["a", "b", "c"].map(|name| rule.ask("r", "k", name, 1_000_000));
            let mut passed = Vec::new();
            for call in &calls {
                passed.push(scripts.run(call).await);
            }
            assert_eq!(passed, [Some(1), Some(1), Some(0)]);
            let left = rule.leave(&calls[0]).expect("it is counted");
            assert_eq!(scripts.run(&left).await, Some(1));
            assert_eq!(scripts.run(&calls[2]).await, Some(1));
        });
    }

    #[test]
    fn no_answer_of_redis_is_none() {
        let closed = tollhouse_testkit::ClosedPort::new();
        let scripts = servers(closed.address().port());
        let rule = LimiterRule::read(None).expect("it is one");
        assert_eq!(wait(async { scripts.run(&rule.ask("r", "k", "x", 0)).await }), None);
    }
}
