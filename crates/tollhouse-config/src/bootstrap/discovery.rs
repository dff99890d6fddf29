//! Registries outside of this process from which upstreams get their nodes: the table `discovery`,
//! with the keys of APISIX's `config.yaml`.
//!
//! This file has the settings and the shape of the table; `discovery/registries.rs` reads the
//! sections, and `discovery/section.rs` the values in them.

mod registries;
mod section;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};
use tollhouse_model::{Problem, Problems};

use super::Secret;
use super::shape::{Read, Refusal, Shape};
use super::shape_more::{PrivateTable, Table};
use crate::substitute::Environment;

/// Prefix of a text that stands for an environment variable.
const ENVIRONMENT_PREFIX: &str = "$env://";

/// Registries by kind; `None` if the table has no such section.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DiscoveryRegistries {
    pub consul: Option<ConsulRegistry>,
    pub consul_kv: Option<ConsulKvRegistry>,
    pub nacos: Option<NacosRegistry>,
    pub eureka: Option<EurekaRegistry>,
    pub kubernetes: Option<KubernetesRegistry>,
    /// Names of settings without effect, each with its reason.
    ignored: Vec<(String, &'static str)>,
    /// The table as written, for display with stars.
    table: Map<String, Value>,
}

/// Servers of a registry, with the limits of calls to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryServers {
    pub servers: Vec<RegistryServer>,
    /// Timeout of a call, from the look-up of the server's name to the last byte.
    pub timeout: Duration,
    /// Pause between two reads where the registry does not push changes, and after a failure.
    pub fetch_interval: Duration,
    /// CA certificates of the servers, PEM; `None` uses those of the system.
    pub ca: Option<PathBuf>,
}

/// Address of a server of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryServer {
    /// Scheme, host and port, without a path and credentials.
    pub url: String,
    /// `user:password`, if the address has them.
    pub credentials: Option<Secret>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsulRegistry {
    pub access: RegistryServers,
    pub token: Option<Secret>,
    /// Weight of an instance.
    pub weight: u32,
    /// Longest wait of a blocking query; `None` polls.
    pub wait: Option<Duration>,
    /// Services that have no nodes.
    pub skip_services: Vec<String>,
}

/// Key-value store of Consul, whose keys are nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsulKvRegistry {
    pub consul: ConsulRegistry,
    /// First part of all keys, without slashes at its ends.
    pub prefix: String,
    /// Keys without a node.
    pub skip_keys: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NacosRegistry {
    pub access: RegistryServers,
    /// Path of the API, such as `/nacos/v1/`.
    pub prefix: String,
    /// Weight of an instance without one.
    pub weight: u32,
    /// Access key and secret key, with which requests are signed.
    pub keys: Option<(Secret, Secret)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EurekaRegistry {
    pub access: RegistryServers,
    /// Path of the API, such as `/eureka/`.
    pub prefix: String,
    /// Weight of an instance without the metadata `weight`.
    pub weight: u32,
}

/// API servers of a Kubernetes cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesRegistry {
    pub access: RegistryServers,
    /// Bearer token; `None` sends none.
    pub token: Option<KubernetesToken>,
    /// Weight of an endpoint.
    pub weight: u32,
}

/// Bearer token of a service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KubernetesToken {
    Text(Secret),
    /// File with the token, which may change.
    File(PathBuf),
}

/// Syntax of the table `discovery`.
pub(crate) struct RegistryTable;

impl Shape for RegistryTable {
    type Value = DiscoveryRegistries;
    const SECRET: bool = true;
    fn takes() -> String {
        "table with the sections consul, consul_kv, nacos, eureka and kubernetes".to_owned()
    }
    fn read(value: &Value) -> Read<DiscoveryRegistries> {
        let table = Table::read(value)?;
        let mut refusals: Vec<Refusal> = Vec::new();
        let found = registries::read(&table, &mut refusals);
        if refusals.is_empty() { Ok(DiscoveryRegistries { table, ..found }) } else { Err(refusals) }
    }
    fn show(value: &DiscoveryRegistries) -> String {
        PrivateTable::show(&value.table)
    }
}

/// Variables with the address of the API server, which Kubernetes sets in pods.
const POD_VARIABLES: [(&str, &str); 2] =
    [("host", "KUBERNETES_SERVICE_HOST"), ("port", "KUBERNETES_SERVICE_PORT")];

/// Fills in the address of the API server from the environment of a pod, where the file has none or
/// names the variable as `${NAME}`.
fn fill_in_pod(registries: &mut Value, environment: Environment<'_>) {
    let Some(Value::Object(kubernetes)) = registries.get_mut("kubernetes") else { return };
    let service = kubernetes.entry("service").or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(service) = service else { return };
    for (key, variable) in POD_VARIABLES {
        let reference = format!("${{{variable}}}");
        let is_unset =
            service.get(key).is_none_or(|value| value.is_null() || *value == *reference.as_str());
        if let Some(found) = environment(variable).filter(|_| is_unset) {
            service.insert(key.to_owned(), found.into());
        }
    }
}

/// Replaces texts such as `$env://CONSUL_TOKEN` by environment variables. The variables need not be
/// listed in `secrets.env`, because the author of this file starts the process.
pub(super) fn resolve(value: &mut Value, environment: Environment<'_>, problems: &mut Problems) {
    fill_in_pod(value, environment);
    let mut waiting = vec![("discovery".to_owned(), value)];
    while let Some((path, value)) = waiting.pop() {
        match value {
            Value::String(text) => {
                let Some(name) = text.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
                match environment(name) {
                    Some(found) => *text = found,
                    None => {
                        let reason = format!("the environment variable {name:?} is not set");
                        problems.push(Problem::error(path, reason));
                    }
                }
            }
            Value::Array(items) => {
                let items = items.iter_mut().enumerate();
                waiting.extend(items.map(|(index, item)| (format!("{path}[{index}]"), item)));
            }
            Value::Object(fields) => {
                let fields = fields.iter_mut();
                waiting.extend(fields.map(|(name, field)| (format!("{path}.{name}"), field)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Warns of settings without effect.
pub(super) fn check(registries: &DiscoveryRegistries, problems: &mut Problems) {
    for (name, reason) in &registries.ignored {
        let path = format!("discovery.{name}");
        problems.push(Problem::warning(path, "has no effect").with_hint(*reason));
    }
}

#[cfg(test)]
mod tests;
