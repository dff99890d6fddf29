//! Nodes from Eureka: the list of all applications is polled, as Eureka's own clients do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tollhouse_config::bootstrap::{DiscoveryRegistries, EurekaRegistry, RegistryServers};

use super::remote::catalogue::{Catalogue, RemoteInstance};
use super::remote::http::{Basic, Call, Calls};
use super::remote::{Protocol, RemoteSource};

pub type Source = RemoteSource<Eureka>;

/// Largest list of all applications, in bytes: some ten thousand instances.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Pause after a failure, if `fetch_interval` is longer.
const RETRY_TIME: Duration = Duration::from_secs(5);

/// Instances of each application, by its name in capitals.
type Applications = BTreeMap<String, Vec<RemoteInstance>>;

/// Eureka servers.
#[derive(Debug)]
pub struct Eureka {
    settings: EurekaRegistry,
}

impl Protocol for Eureka {
    const THREAD: &'static str = "eureka-nodes";

    fn open(registries: &DiscoveryRegistries) -> Option<Self> {
        Some(Self { settings: registries.eureka.clone()? })
    }

    fn access(&self) -> &RegistryServers {
        &self.settings.access
    }

    async fn run(self: Arc<Self>, catalogue: Arc<Catalogue>) {
        let access = &self.settings.access;
        let mut calls = Calls::new(access, BODY_BYTES_MAX, 0);
        let mut wanted = catalogue.wanted();
        loop {
            wanted.mark_unchanged();
            let applications = calls.try_each(async |calls| self.read(calls).await).await;
            let pause = match &applications {
                Ok(_) => access.fetch_interval,
                Err(_) => access.fetch_interval.min(RETRY_TIME),
            };
            for name in catalogue.services() {
                match &applications {
                    Ok(applications) => {
                        let instances = applications.get(&name.service.to_uppercase()).cloned();
                        catalogue.put(&name, instances);
                    }
                    Err(reason) => catalogue.fail(&name, reason),
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                changed = wanted.changed() => if changed.is_err() { return },
            }
        }
    }
}

impl Eureka {
    async fn read(&self, calls: &mut Calls) -> Result<Applications, String> {
        let target = format!("{}apps", self.settings.prefix);
        let answer = calls.send(Call::get(target), Basic::Sent).await?;
        self.applications(&answer.body)
    }

    fn applications(&self, body: &[u8]) -> Result<Applications, String> {
        let answer: Answer = serde_json::from_slice(body)
            .map_err(|error| format!("the answer is not a list of applications: {error}"))?;
        let mut applications = Applications::new();
        for application in answer.applications.application.into_list() {
            let instances = application.instance.into_list().into_iter();
            let instances = instances.filter_map(|instance| self.instance(instance));
            applications.entry(application.name.to_uppercase()).or_default().extend(instances);
        }
        Ok(applications)
    }

    /// Returns an instance; `None` if it has no port that is on.
    fn instance(&self, instance: Instance) -> Option<RemoteInstance> {
        let overridden = instance.older_overridden_status.or(instance.overridden_status);
        let overridden = overridden.filter(|status| status != "UNKNOWN");
        let status = overridden.unwrap_or(instance.status);
        // As in APISIX, the port of TLS goes before the other one.
        let secure = instance.secure_port.and_then(Port::number);
        let port = secure.or_else(|| instance.port.and_then(Port::number))?;
        let metadata: BTreeMap<String, String> = instance
            .metadata
            .into_iter()
            .filter_map(|(key, value)| Some((key, text_of(&value)?)))
            .collect();
        let weight = metadata.get("weight").and_then(|weight| weight.parse().ok());
        Some(RemoteInstance {
            host: instance.ip_addr,
            port,
            weight: weight.unwrap_or(self.settings.weight),
            is_healthy: status == "UP",
            is_isolated: status == "OUT_OF_SERVICE",
            metadata,
        })
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[derive(Debug, Deserialize)]
struct Answer {
    applications: ApplicationList,
}

#[derive(Debug, Deserialize)]
struct ApplicationList {
    /// Required: a server without applications has an empty list.
    application: OneOrMany<Application>,
}

#[derive(Debug, Deserialize)]
struct Application {
    name: String,
    #[serde(default)]
    instance: OneOrMany<Instance>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Instance {
    ip_addr: String,
    status: String,
    overridden_status: Option<String>,
    /// The same, as older servers write it.
    #[serde(rename = "overriddenstatus")]
    older_overridden_status: Option<String>,
    port: Option<Port>,
    secure_port: Option<Port>,
    #[serde(default)]
    metadata: BTreeMap<String, Value>,
}

/// A port, whose switch some servers write as a text.
#[derive(Debug, Deserialize)]
struct Port {
    #[serde(rename = "$")]
    number: Value,
    #[serde(rename = "@enabled")]
    is_enabled: Value,
}

impl Port {
    fn number(self) -> Option<u32> {
        let is_enabled = text_of(&self.is_enabled).is_some_and(|text| text == "true");
        text_of(&self.number).filter(|_| is_enabled)?.parse().ok()
    }
}

/// A list, which some servers write as its only item.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    Many(Vec<T>),
    One(T),
}

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<T> OneOrMany<T> {
    fn into_list(self) -> Vec<T> {
        match self {
            Self::Many(items) => items,
            Self::One(item) => vec![item],
        }
    }
}

#[cfg(test)]
mod tests;
