//! Request bodies of the registry's objects. Unknown fields are refused, so that typing errors are
//! noticed. Read-only fields are accepted and ignored.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use tollhouse_registry::limits::{TTL_SECONDS_MAX, WEIGHT_MAX};
use tollhouse_registry::{
    AliasChange, DetailsChange, InstanceChange, Location, Metadata, NamespaceChange, NewInstance,
    ServiceChange, ServiceDetails, ServiceKey,
};

use crate::body;
use crate::reply::Reply;

/// A namespace.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NamespaceIn {
    pub(super) name: Option<Arc<str>>,
    comment: Option<String>,
    owners: Option<String>,
    metadata: Option<Metadata>,
    export_to: Option<Vec<String>>,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "services")]
    _services: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "instances")]
    _instances: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "create_time")]
    _create_time: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "update_time")]
    _update_time: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "revision")]
    _revision: IgnoredAny,
}

impl NamespaceIn {
    /// Returns the change that the body describes; fields that it omits stay unchanged.
    pub(super) fn change(self) -> NamespaceChange {
        NamespaceChange {
            comment: self.comment,
            owners: self.owners,
            metadata: self.metadata,
            export_to: self.export_to,
            token: None,
        }
    }

    /// Returns the change that replaces the whole namespace: fields that the request omits become
    /// empty.
    pub(super) fn whole(self) -> NamespaceChange {
        NamespaceChange {
            comment: Some(self.comment.unwrap_or_default()),
            owners: Some(self.owners.unwrap_or_default()),
            metadata: Some(self.metadata.unwrap_or_default()),
            export_to: Some(self.export_to.unwrap_or_default()),
            token: None,
        }
    }
}

/// A service.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ServiceIn {
    pub(super) namespace: Option<Box<str>>,
    pub(super) name: Option<Box<str>>,
    metadata: Option<Metadata>,
    ports: Option<String>,
    business: Option<String>,
    department: Option<String>,
    cmdb: Option<[String; 3]>,
    comment: Option<String>,
    owners: Option<String>,
    platform_id: Option<String>,
    export_to: Option<Vec<String>>,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "instances")]
    _instances: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "mass_expiry")]
    _mass_expiry: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "create_time")]
    _create_time: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "update_time")]
    _update_time: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "revision")]
    _revision: IgnoredAny,
}

impl ServiceIn {
    /// Returns the change that the body describes; fields that it omits stay unchanged.
    pub(super) fn change(self) -> ServiceChange {
        let details = DetailsChange {
            ports: self.ports,
            business: self.business,
            department: self.department,
            cmdb_mod: self.cmdb.map_or_else(Default::default, |levels| levels.map(Some)),
            comment: self.comment,
            owners: self.owners,
            platform_id: self.platform_id,
            export_to: self.export_to,
        };
        ServiceChange { metadata: self.metadata, details, token: None }
    }

    /// Returns the change that replaces the whole service: fields that the request omits become
    /// empty.
    pub(super) fn whole(self) -> ServiceChange {
        let ServiceChange { metadata, details, token } = self.change();
        let nothing = DetailsChange::from(ServiceDetails::default());
        let [first, second, third] = details.cmdb_mod;
        let level = |given: Option<String>| Some(given.unwrap_or_default());
        let details = DetailsChange {
            ports: details.ports.or(nothing.ports),
            business: details.business.or(nothing.business),
            department: details.department.or(nothing.department),
            cmdb_mod: [level(first), level(second), level(third)],
            comment: details.comment.or(nothing.comment),
            owners: details.owners.or(nothing.owners),
            platform_id: details.platform_id.or(nothing.platform_id),
            export_to: details.export_to.or(nothing.export_to),
        };
        ServiceChange { metadata: Some(metadata.unwrap_or_default()), details, token }
    }
}

/// Name of a service: namespace and name.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NameIn {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
}

/// An alias.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AliasIn {
    pub(super) namespace: Option<Box<str>>,
    pub(super) name: Option<Box<str>>,
    pub(super) target: Option<NameIn>,
    pub(super) comment: Option<String>,
    pub(super) owners: Option<String>,
    pub(super) metadata: Option<Metadata>,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "create_time")]
    _create_time: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "update_time")]
    _update_time: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "revision")]
    _revision: IgnoredAny,
}

impl AliasIn {
    /// Returns the change that the body describes; fields that it omits stay unchanged.
    pub(super) fn change(self) -> AliasChange {
        AliasChange {
            target: self.target.map(|target| ServiceKey::new(&target.namespace, &target.name)),
            comment: self.comment,
            owners: self.owners,
            metadata: self.metadata,
        }
    }
}

/// A rule in the JSON of the dialect's clients.
#[derive(JsonSchema)]
#[schemars(description = "The rule in Polaris' JSON.")]
pub(super) struct RuleText {}

/// Activation of a rule.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchIn {
    pub(super) enabled: bool,
}

/// An instance.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct InstanceIn {
    pub(super) id: Option<Arc<str>>,
    pub(super) namespace: Option<Box<str>>,
    pub(super) service: Option<Box<str>>,
    pub(super) host: Option<Box<str>>,
    #[schemars(range(max = 65_535))]
    pub(super) port: Option<u32>,
    protocol: Option<Box<str>>,
    version: Option<Box<str>>,
    #[schemars(range(max = WEIGHT_MAX))]
    weight: Option<u32>,
    priority: Option<u32>,
    healthy: Option<bool>,
    isolated: Option<bool>,
    /// Seconds between heartbeats; `null` turns health checks off, and absent changes nothing.
    #[serde(deserialize_with = "said")]
    #[schemars(range(min = 1, max = TTL_SECONDS_MAX))]
    ttl_seconds: Option<Option<u32>>,
    metadata: Option<Metadata>,
    location: Option<LocationIn>,
    logic_set: Option<Box<str>>,
    pub(super) vpc_id: Option<Box<str>>,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "last_beat")]
    _last_beat: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "create_time")]
    _create_time: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "update_time")]
    _update_time: IgnoredAny,
    #[schemars(with = "serde_json::Value", extend("readOnly" = true))]
    #[serde(rename = "revision")]
    _revision: IgnoredAny,
}

/// Location of an instance.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LocationIn {
    region: Box<str>,
    zone: Box<str>,
    campus: Box<str>,
}

impl From<LocationIn> for Location {
    fn from(location: LocationIn) -> Self {
        Self { region: location.region, zone: location.zone, campus: location.campus }
    }
}

fn said<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(reader).map(Some)
}

impl InstanceIn {
    /// Refuses a TTL that is out of range, because the registry would silently replace it.
    pub(super) fn check(&self) -> Result<(), Reply> {
        let allowed = 1..=u32::from(TTL_SECONDS_MAX);
        match self.ttl_seconds {
            Some(Some(seconds)) if !allowed.contains(&seconds) => {
                let text = format!("ttl_seconds must be between 1 and {TTL_SECONDS_MAX}");
                Err(body::invalid(&text))
            }
            _ => Ok(()),
        }
    }

    /// Returns the instance to register, with this id.
    pub(super) fn register(self, id: Arc<str>) -> NewInstance {
        let metadata = self.metadata.unwrap_or_default();
        NewInstance {
            id,
            service: self.service.unwrap_or_default(),
            namespace: self.namespace.unwrap_or_default(),
            host: self.host.unwrap_or_default(),
            port: self.port,
            vpc_id: self.vpc_id.unwrap_or_default(),
            protocol: self.protocol.unwrap_or_default(),
            version: self.version.unwrap_or_default(),
            priority: self.priority.unwrap_or_default(),
            weight: self.weight,
            ttl_seconds: self.ttl_seconds.flatten(),
            healthy: self.healthy,
            isolated: self.isolated,
            location: self.location.map(Location::from),
            metadata_pairs: metadata.len(),
            metadata,
            logic_set: self.logic_set.unwrap_or_default(),
            unknown: bytes::Bytes::new(),
        }
    }

    /// Converts the body into a change of an existing instance; refuses a new address.
    pub(super) fn change(self) -> Result<InstanceChange, Reply> {
        let fixed = [
            ("namespace", self.namespace.is_some()),
            ("service", self.service.is_some()),
            ("host", self.host.is_some()),
            ("port", self.port.is_some()),
            ("vpc_id", self.vpc_id.is_some()),
        ];
        if let Some((name, _)) = fixed.iter().find(|(_, said)| *said) {
            let text = format!("{name} cannot be changed; register another instance instead");
            return Err(body::invalid(&text));
        }
        Ok(InstanceChange {
            protocol: self.protocol,
            version: self.version,
            priority: self.priority,
            weight: self.weight,
            ttl_seconds: self.ttl_seconds,
            healthy: self.healthy,
            isolated: self.isolated,
            location: self.location.map(Location::from),
            metadata: self.metadata,
            logic_set: self.logic_set,
        })
    }
}
