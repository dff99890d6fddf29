//! Response bodies of the registry's objects, borrowed from its state. Tokens are never included.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tollhouse_registry::limits::{TTL_SECONDS_MAX, WEIGHT_MAX};
use tollhouse_registry::{
    Alias, Counts, Instance, Location, MassExpiry, Metadata, NamespaceView, Rule, RuleKind,
    ServiceKey, ServiceView,
};

use super::incoming::{LocationIn, RuleText};

/// Number of instances by state.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct InstanceCounts {
    total: u32,
    /// Healthy or not checked, and not isolated.
    healthy: u32,
    /// Number of the healthy ones whose health is not checked.
    unchecked: u32,
    unhealthy: u32,
    isolated: u32,
}

impl From<Counts> for InstanceCounts {
    fn from(counts: Counts) -> Self {
        Self {
            total: counts.total,
            healthy: counts.healthy,
            unchecked: counts.unchecked,
            unhealthy: counts.unhealthy(),
            isolated: counts.isolated,
        }
    }
}

/// A namespace.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct NamespaceOut<'a> {
    name: &'a str,
    comment: &'a str,
    owners: &'a str,
    metadata: &'a Metadata,
    export_to: &'a [String],
    services: u32,
    instances: InstanceCounts,
    create_time: u64,
    update_time: u64,
    revision: String,
}

impl<'a> NamespaceOut<'a> {
    pub(super) fn from_view(view: &'a NamespaceView) -> Self {
        let namespace = &view.namespace;
        Self {
            name: &namespace.name,
            comment: &namespace.comment,
            owners: &namespace.owners,
            metadata: &namespace.metadata,
            export_to: &namespace.export_to,
            services: view.services.len(),
            instances: view.counts.into(),
            create_time: namespace.created_at,
            update_time: namespace.modified_at,
            revision: namespace.revision.to_string(),
        }
    }
}

/// A service without its instances.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct ServiceOut<'a> {
    namespace: &'a str,
    name: &'a str,
    id: &'a str,
    metadata: &'a Metadata,
    ports: &'a str,
    business: &'a str,
    department: &'a str,
    cmdb: &'a [String; 3],
    comment: &'a str,
    owners: &'a str,
    platform_id: &'a str,
    export_to: &'a [String],
    instances: InstanceCounts,
    mass_expiry: Option<MassExpiryOut>,
    create_time: u64,
    update_time: u64,
    revision: String,
}

impl<'a> ServiceOut<'a> {
    pub(super) fn from_view(view: &'a ServiceView, expiry: Option<MassExpiry>) -> Self {
        let service = &view.service;
        let details = &service.details;
        Self {
            namespace: &service.key.namespace,
            name: &service.key.name,
            id: &service.id,
            metadata: &service.metadata,
            ports: &details.ports,
            business: &details.business,
            department: &details.department,
            cmdb: &details.cmdb_mod,
            comment: &details.comment,
            owners: &details.owners,
            platform_id: &details.platform_id,
            export_to: &details.export_to,
            instances: view.counts.into(),
            mass_expiry: expiry.map(MassExpiryOut::from),
            create_time: service.created_at,
            update_time: service.modified_at,
            revision: view.revision.to_string(),
        }
    }
}

/// Mass expiry of a service: its start, and the number of silent instances that it keeps.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct MassExpiryOut {
    since_ms: u64,
    kept: u32,
}

impl From<MassExpiry> for MassExpiryOut {
    fn from(expiry: MassExpiry) -> Self {
        Self { since_ms: expiry.since_ms, kept: expiry.kept }
    }
}

/// An instance.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct InstanceOut<'a> {
    id: &'a str,
    namespace: &'a str,
    service: &'a str,
    host: &'a str,
    port: u16,
    protocol: &'a str,
    version: &'a str,
    #[schemars(range(max = WEIGHT_MAX))]
    weight: u16,
    priority: u32,
    healthy: bool,
    isolated: bool,
    #[schemars(range(min = 1, max = TTL_SECONDS_MAX))]
    ttl_seconds: Option<u8>,
    last_beat: Option<HeartbeatCounts>,
    metadata: &'a Metadata,
    #[schemars(with = "Option<LocationIn>")]
    location: Option<&'a Location>,
    logic_set: &'a str,
    vpc_id: &'a str,
    create_time: u64,
    update_time: u64,
    revision: String,
}

/// Heartbeats of an instance since the process started or the instance registered.
#[derive(Debug, JsonSchema, Serialize)]
struct HeartbeatCounts {
    at_ms: u64,
    count: u64,
}

impl<'a> InstanceOut<'a> {
    pub(super) fn from_instance(instance: &'a Instance) -> Self {
        let beat = instance.pulse.last_heartbeat();
        Self {
            id: &instance.id,
            namespace: &instance.service.namespace,
            service: &instance.service.name,
            host: &instance.host,
            port: instance.port,
            protocol: &instance.protocol,
            version: &instance.version,
            weight: instance.weight,
            priority: instance.priority,
            healthy: instance.healthy,
            isolated: instance.isolated,
            ttl_seconds: instance.ttl_seconds,
            last_beat: (beat.count > 0)
                .then_some(HeartbeatCounts { at_ms: beat.at_ms, count: beat.count }),
            metadata: &instance.metadata,
            location: instance.location.as_ref(),
            logic_set: &instance.logic_set,
            vpc_id: &instance.vpc_id,
            create_time: instance.created_at,
            update_time: instance.modified_at,
            revision: instance.revision.to_string(),
        }
    }
}

/// Name of a service: namespace and name.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct NameOut<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl<'a> NameOut<'a> {
    pub(super) fn from_key(key: &'a ServiceKey) -> Self {
        Self { namespace: &key.namespace, name: &key.name }
    }
}

/// An alias.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct AliasOut<'a> {
    namespace: &'a str,
    name: &'a str,
    id: &'a str,
    target: NameOut<'a>,
    comment: &'a str,
    owners: &'a str,
    metadata: &'a Metadata,
    create_time: u64,
    update_time: u64,
    revision: String,
}

impl<'a> AliasOut<'a> {
    pub(super) fn from_alias(alias: &'a Alias) -> Self {
        Self {
            namespace: &alias.key.namespace,
            name: &alias.key.name,
            id: &alias.id,
            target: NameOut::from_key(&alias.target),
            comment: &alias.comment,
            owners: &alias.owners,
            metadata: &alias.metadata,
            create_time: alias.created_at,
            update_time: alias.modified_at,
            revision: alias.revision.to_string(),
        }
    }
}

/// A governance rule; `rule` is its content as clients get it.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct RuleOut<'a> {
    #[schemars(extend("enum" = RuleKind::ALL.map(RuleKind::name)))]
    kind: &'static str,
    id: &'a str,
    name: &'a str,
    namespace: &'a str,
    targets: Vec<NameOut<'a>>,
    priority: u32,
    enabled: bool,
    create_time: u64,
    update_time: u64,
    revision: String,
    #[schemars(with = "RuleText")]
    rule: Value,
}

impl<'a> RuleOut<'a> {
    pub(super) fn from_rule(rule: &'a Rule, rule_text: Value) -> Self {
        Self {
            kind: rule.kind.name(),
            id: &rule.id,
            name: &rule.name,
            namespace: &rule.namespace,
            targets: rule.targets.iter().map(NameOut::from_key).collect(),
            priority: rule.priority,
            enabled: rule.enabled,
            create_time: rule.created_at,
            update_time: rule.modified_at,
            revision: rule.revision.to_string(),
            rule: rule_text,
        }
    }
}
