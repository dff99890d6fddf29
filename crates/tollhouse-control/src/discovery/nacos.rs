//! Nodes from Nacos, over its HTTP API of version 1, which servers of the versions 1 to 3 have for
//! clients. Each service of an upstream is polled.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use axum::http::Method;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Semaphore;
use tollhouse_config::bootstrap::{DiscoveryRegistries, NacosRegistry, RegistryServers};

use super::remote::catalogue::{Catalogue, RemoteInstance, ServiceName};
use super::remote::each::{Read, follow_each, read_on};
use super::remote::http::{Basic, Call, Calls, escaped};
use super::remote::{Protocol, RemoteSource};

pub type Source = RemoteSource<Nacos>;

/// Concurrent calls.
const POLLS_MAX: usize = 8;

/// Largest answer about a service, in bytes: some thousands of instances.
const BODY_BYTES_MAX: usize = 8 << 20;

/// Group of a service that names none.
const GROUP_DEFAULT: &str = "DEFAULT_GROUP";

/// Time before the end of a token at which a new one is taken.
const TOKEN_RESERVE: Duration = Duration::from_secs(30);

/// Longest use of a token, whatever the server says.
const TOKEN_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Smallest weight of an instance that serves, because weights are whole numbers here.
const WEIGHT_MIN: u32 = 1;

/// Nacos servers.
#[derive(Debug)]
pub struct Nacos {
    settings: NacosRegistry,
    polls: Semaphore,
    /// Number of the next service's first server.
    next_server: AtomicUsize,
    /// Token of each server that has asked for one, with its end.
    tokens: Mutex<BTreeMap<usize, (String, Instant)>>,
}

impl Protocol for Nacos {
    const THREAD: &'static str = "nacos-nodes";

    fn open(registries: &DiscoveryRegistries) -> Option<Self> {
        let settings = registries.nacos.clone()?;
        let (polls, next_server) = (Semaphore::new(POLLS_MAX), AtomicUsize::new(0));
        Some(Self { settings, polls, next_server, tokens: Mutex::default() })
    }

    fn access(&self) -> &RegistryServers {
        &self.settings.access
    }

    async fn run(self: Arc<Self>, catalogue: Arc<Catalogue>) {
        follow_each(&Arc::clone(&catalogue), |name| {
            Arc::clone(&self).follow(Arc::clone(&catalogue), name)
        })
        .await;
    }
}

impl Nacos {
    async fn follow(self: Arc<Self>, catalogue: Arc<Catalogue>, name: ServiceName) {
        let first = self.next_server.fetch_add(1, Ordering::Relaxed);
        let access = &self.settings.access;
        let mut calls = Calls::new(access, BODY_BYTES_MAX, first);
        let nacos = Arc::clone(&self);
        read_on(catalogue, name, access.fetch_interval, async move |name| {
            let _turn = nacos.polls.acquire().await.map_err(|error| error.to_string())?;
            let instances = calls.try_each(async |calls| nacos.read(calls, name).await).await;
            // Not kept between polls, because there is one for each service.
            calls.close();
            let instances = instances?;
            let pause = nacos.settings.access.fetch_interval;
            Ok(Read { instances, pause })
        })
        .await;
    }

    async fn read(
        &self,
        calls: &mut Calls,
        name: &ServiceName,
    ) -> Result<Option<Vec<RemoteInstance>>, String> {
        let server = calls.server();
        let token = self.token(calls).await?;
        let mut target = format!(
            "{}ns/instance/list?healthyOnly=false&serviceName={}",
            self.settings.prefix,
            escaped(&name.service)
        );
        let group = if name.group.is_empty() { GROUP_DEFAULT } else { &name.group };
        let mut add = |key: &str, value: &str| {
            target.push_str(&format!("&{key}={}", escaped(value)));
        };
        add("groupName", group);
        if !name.namespace.is_empty() {
            add("namespaceId", &name.namespace);
        }
        if let Some(token) = &token {
            add("accessToken", token);
        }
        if let Some((access, secret)) = &self.settings.keys {
            let data = format!("{}@@{group}@@{}", unix_ms(), name.service);
            let key =
                hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.expose().as_bytes());
            let signature = STANDARD.encode(hmac::sign(&key, data.as_bytes()));
            add("ak", access.expose());
            add("data", &data);
            add("signature", &signature);
        }
        let answer = calls.send(Call::get(target), Basic::Unused).await.inspect_err(|_| {
            // The server may have forgotten the token.
            self.tokens.lock().unwrap_or_else(PoisonError::into_inner).remove(&server);
        })?;
        self.instances(&answer.body)
    }

    /// Returns a token of the current server, if its address has a user and a password.
    async fn token(&self, calls: &mut Calls) -> Result<Option<String>, String> {
        let server = calls.server();
        let Some((user, password)) = calls.credentials() else { return Ok(None) };
        let target = format!(
            "{}auth/login?username={}&password={}",
            self.settings.prefix,
            escaped(user),
            escaped(password)
        );
        let known = || {
            let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
            let known = tokens.get(&server).filter(|(_, end)| *end > Instant::now());
            known.map(|(token, _)| token.clone())
        };
        if let Some(token) = known() {
            return Ok(Some(token));
        }
        let call = Call { method: Method::POST, ..Call::get(target) };
        let answer = calls.send(call, Basic::Unused).await;
        let answer = answer.map_err(|reason| format!("login at {reason}"))?;
        let login: Login = serde_json::from_slice(&answer.body)
            .map_err(|_| "the answer to the login has no accessToken".to_owned())?;
        let lifetime = Duration::from_secs(login.token_ttl).min(TOKEN_TIME_MAX);
        let lifetime = lifetime.saturating_sub(TOKEN_RESERVE);
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.insert(server, (login.access_token.clone(), Instant::now() + lifetime));
        Ok(Some(login.access_token))
    }

    /// Parses an answer. An unknown service has no hosts, like one without instances.
    fn instances(&self, body: &[u8]) -> Result<Option<Vec<RemoteInstance>>, String> {
        let answer: List = serde_json::from_slice(body)
            .map_err(|error| format!("the answer is not a list of instances: {error}"))?;
        let instances = answer.hosts.into_iter().map(|host| {
            let metadata = host.metadata.unwrap_or_default().into_iter();
            let text = |value: Value| match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            RemoteInstance {
                host: host.ip,
                port: host.port,
                weight: host.weight.map_or(self.settings.weight, whole_weight),
                is_healthy: host.healthy.unwrap_or(true),
                is_isolated: !host.enabled.unwrap_or(true),
                metadata: metadata.map(|(key, value)| (key, text(value))).collect(),
            }
        });
        Ok(Some(instances.collect()))
    }
}

/// Returns a weight of Nacos, which is a fraction, as a whole number. Only 0 is 0.
fn whole_weight(weight: f64) -> u32 {
    if weight <= 0.0 { 0 } else { (weight.round() as u32).max(WEIGHT_MIN) }
}

fn unix_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Login {
    access_token: String,
    #[serde(default)]
    token_ttl: u64,
}

#[derive(Debug, Deserialize)]
struct List {
    /// Required, because a document without it is not a list; an unknown service has an empty one.
    hosts: Vec<Host>,
}

#[derive(Debug, Deserialize)]
struct Host {
    ip: String,
    port: u32,
    weight: Option<f64>,
    healthy: Option<bool>,
    enabled: Option<bool>,
    metadata: Option<BTreeMap<String, Value>>,
}

#[cfg(test)]
mod tests;
