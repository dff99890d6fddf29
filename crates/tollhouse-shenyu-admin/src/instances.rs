//! Gateways and other instances that send heartbeats. The latest heartbeat of each is held in
//! memory only, because after a restart all of them report again within seconds.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::HeaderMap;
use serde_json::{Value, json};
use tollhouse_web::Peer;

use crate::clock;
use crate::row::{self, Row};
use crate::tables;

/// Silence after which an instance counts as offline (ShenYu's `instance` settings).
const OFFLINE_MS: u64 = 20_000;

/// Silence after which an instance is removed.
const FORGOTTEN_MS: u64 = 60_000;

/// Maximum number of instances in memory; more than follow at a time. A new one replaces the one
/// that has been silent longest.
const INSTANCES_MAX: usize = 1_024;

/// Maximum size of an instance's self-description in bytes: versions and sizes of a JVM. A longer
/// one is dropped.
const INFO_BYTES_MAX: usize = 8 << 10;

/// Maximum length of a part of an identity in bytes; a host name has at most 253.
const PART_BYTES_MAX: usize = 256;

/// Key of an instance: namespace, type, address and port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    namespace: String,
    kind: String,
    ip: String,
    port: String,
}

#[derive(Debug, Clone)]
struct Instance {
    info: String,
    first: String,
    last: String,
    last_ms: u64,
}

/// Gateway that follows over a connection, identified by its peer address and the port that it
/// reports.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reporter {
    pub(crate) namespace: String,
    ip: String,
    port: String,
}

impl Reporter {
    /// Identifies the gateway at the other end of a connection. Its port is taken from the header
    /// `port_header`.
    pub(crate) fn new(
        peer: Option<Peer>,
        headers: &HeaderMap,
        port_header: &str,
        namespace: String,
    ) -> Self {
        let port = headers.get(port_header).and_then(|port| port.to_str().ok()).unwrap_or_default();
        let ip = peer.map(|peer| peer.address.ip().to_canonical().to_string()).unwrap_or_default();
        Self { namespace, ip, port: port.to_owned() }
    }

    /// Records a heartbeat with the gateway's self-description, which is JSON text.
    pub(crate) fn report(&self, instances: &Instances, info: &str) {
        let body = json!({"instanceIp": self.ip, "instancePort": self.port, "instanceInfo": info,
            "namespaceId": self.namespace});
        if let Some(body) = body.as_object() {
            instances.beat(body, clock::now_ms());
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Instances(Mutex<BTreeMap<Identity, Instance>>);

impl Instances {
    /// Records a heartbeat with the members `instanceIp`, `instancePort`, `instanceType`,
    /// `instanceInfo` and `namespaceId`. A body without `instanceIp` is ignored.
    pub(crate) fn beat(&self, body: &Row, now_ms: u64) {
        let Some(ip) = row::filled(body, "instanceIp") else { return };
        let identity = Identity {
            namespace: tables::namespace(body),
            kind: row::filled(body, "instanceType").unwrap_or_else(|| "bootstrap".to_owned()),
            ip,
            port: row::text(body, "instancePort").unwrap_or_default(),
        };
        let parts = [&identity.namespace, &identity.kind, &identity.ip, &identity.port];
        if parts.iter().any(|part| part.len() > PART_BYTES_MAX) {
            return;
        }
        let info = row::document(body, "instanceInfo").unwrap_or_default();
        let info = if info.len() > INFO_BYTES_MAX { String::new() } else { info };
        let last = clock::text_at(now_ms);
        let mut instances = self.lock();
        instances.retain(|_, instance| now_ms.saturating_sub(instance.last_ms) < FORGOTTEN_MS);
        if instances.len() >= INSTANCES_MAX && !instances.contains_key(&identity) {
            let silent =
                instances.iter().min_by_key(|(_, it)| it.last_ms).map(|(id, _)| id.clone());
            silent.map(|silent| instances.remove(&silent));
        }
        let first =
            instances.get(&identity).map_or_else(|| last.clone(), |known| known.first.clone());
        instances.insert(identity, Instance { info, first, last, last_ms: now_ms });
    }

    /// Returns the instances that contain the given arguments, each as an object.
    pub(crate) fn list(
        &self,
        argument: &dyn Fn(&str) -> Option<String>,
        now_ms: u64,
    ) -> Vec<Value> {
        let mut instances = self.lock();
        instances.retain(|_, instance| now_ms.saturating_sub(instance.last_ms) < FORGOTTEN_MS);
        let is_meant = |(identity, _): &(&Identity, &Instance)| {
            let is = |name: &str, value: &str| {
                argument(name).is_none_or(|wanted| value.contains(&wanted))
            };
            is("namespaceId", &identity.namespace)
                && is("instanceType", &identity.kind)
                && is("instanceIp", &identity.ip)
                && is("instancePort", &identity.port)
        };
        let view = |(identity, it): (&Identity, &Instance)| {
            json!({"instanceIp": identity.ip, "instancePort": identity.port,
                "instanceType": identity.kind, "instanceInfo": it.info,
                "namespaceId": identity.namespace, "instanceState": state(it, now_ms),
                "lastHeartBeatTime": it.last_ms, "dateCreated": it.first, "dateUpdated": it.last})
        };
        instances.iter().filter(is_meant).map(view).collect()
    }

    /// Counts the instances of a namespace in each state: `{"pieData":[…],"lineData":[…]}`.
    pub(crate) fn analysis(&self, namespace: &str, now_ms: u64) -> Value {
        let all = self.list(&|name| (name == "namespaceId").then(|| namespace.to_owned()), now_ms);
        let count = |state: i64| all.iter().filter(|it| it["instanceState"] == state).count();
        let (online, offline) = (count(1), count(2));
        json!({
            "pieData": [{"name": "ONLINE", "value": online}, {"name": "OFFLINE", "value": offline}],
            "lineData": [{"name": "ONLINE", "data": [online]}, {"name": "OFFLINE", "data": [offline]}],
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Identity, Instance>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns ShenYu's number of a state: 1 for online, 2 for offline.
fn state(instance: &Instance, now_ms: u64) -> i64 {
    if now_ms.saturating_sub(instance.last_ms) < OFFLINE_MS { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_goes_off_line_and_is_forgotten() {
        let instances = Instances::default();
        let body =
            json!({"instanceIp": "10.0.0.1", "instancePort": 9195, "instanceInfo": {"a": 1}});
        instances.beat(body.as_object().unwrap(), 1_000);
        let states = |now_ms| -> Vec<i64> {
            let list = instances.list(&|_| None, now_ms);
            list.iter().map(|it| it["instanceState"].as_i64().unwrap()).collect()
        };
        assert_eq!(states(20_999), [1]);
        assert_eq!(states(21_000), [2]);
        let analysis = instances.analysis(tollhouse_shenyu::model::DEFAULT_NAMESPACE, 21_000);
        assert_eq!(analysis["pieData"][1], json!({"name": "OFFLINE", "value": 1}));
        assert!(states(61_000).is_empty());
    }

    #[test]
    fn a_flood_of_instances_is_bounded() {
        let instances = Instances::default();
        for at in 0..2 * INSTANCES_MAX {
            let body = json!({"instanceIp": format!("10.0.0.{at}")});
            instances.beat(body.as_object().unwrap(), 1_000 + at as u64);
        }
        assert_eq!(instances.list(&|_| None, 3_000).len(), INSTANCES_MAX);
        instances.beat(&Row::new(), 3_000);
        assert_eq!(instances.list(&|_| None, 3_000).len(), INSTANCES_MAX);
        let long = "x".repeat(PART_BYTES_MAX + 1);
        for part in ["instanceIp", "instancePort", "instanceType", "namespaceId"] {
            let instances = Instances::default();
            let mut body = json!({"instanceIp": "10.0.0.1"});
            body[part] = json!(long);
            instances.beat(body.as_object().unwrap(), 1_000);
            assert_eq!(instances.list(&|_| None, 1_000).len(), 0, "{part}");
        }
    }
}
