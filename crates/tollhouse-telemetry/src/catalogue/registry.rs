//! Names and help texts of the metrics of the service registry. The values are read from its state
//! on each scrape.

use super::Metric;

macro_rules! metrics {
    ($($constant:ident: $kind:literal, $name:literal, $label:expr, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Metric =
                Metric { name: $name, help: $help, kind: $kind, label: $label };
        )*

        /// The metrics of the registry, in the order of the page.
        pub const METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    INSTANCES: "gauge", "tollhouse_registry_instances", Some("namespace,state"),
        "Registered instances, by namespace and state; namespaces beyond the hundredth are one.";
    SERVICES: "gauge", "tollhouse_registry_services", Some("namespace"),
        "Registered services, by namespace; namespaces beyond the hundredth are one.";
    NAMESPACES: "gauge", "tollhouse_registry_namespaces", None, "Namespaces of the registry.";
    ALIASES: "gauge", "tollhouse_registry_aliases", None, "Aliases of services.";
    RULES: "gauge", "tollhouse_registry_rules", None, "Governance rules.";
    CONTRACTS: "gauge", "tollhouse_registry_contracts", None, "Service contracts.";
    MEMORY: "gauge", "tollhouse_registry_memory_bytes", None,
        "Estimated memory of all objects; limited by `registry.memory_max`.";
    CLIENTS: "gauge", "tollhouse_registry_clients", None,
        "Clients that have reported recently.";
    MASS_EXPIRIES: "gauge", "tollhouse_registry_mass_expiries", None,
        "Services whose silent instances are kept, because too many became silent at once.";
    MEMBERS: "gauge", "tollhouse_registry_members", None,
        "Nodes that share the registry, including this one; 1 if it is stored in the data folder.";
    REDIS_DOWN: "gauge", "tollhouse_registry_redis_down", None,
        "Whether heartbeats go over the database, because the Redis that should carry them between nodes does not take them.";
    ROUND_LOSSES: "counter", "tollhouse_registry_round_losses_total", None,
        "Times that heartbeats forwarded by another node were lost, as when a Redis loses its data. The deadlines of all instances that may be concerned start anew.";
    VERSION: "gauge", "tollhouse_registry_version", None,
        "Version of the registry that is published; counts from the start.";
    TRANSITIONS: "counter", "tollhouse_registry_transitions_total", Some("to"),
        "Changes of health caused by heartbeats or their absence.";
    HEARTBEATS: "counter", "tollhouse_registry_heartbeats_total", Some("instance"),
        "Heartbeats, by whether their instance is registered.";
    COMMANDS: "counter", "tollhouse_registry_commands_total", Some("outcome"),
        "Commands to change the registry.";
    COMMITS: "counter", "tollhouse_registry_commits_total", None,
        "Groups of commands made durable.";
    COMMIT_SECONDS: "counter", "tollhouse_registry_commit_seconds_total", None,
        "Time spent on making groups of commands durable.";
    CONNECTIONS: "gauge", "tollhouse_registry_connections", None,
        "Connections of clients over gRPC open now.";
    CONNECTIONS_OPENED: "counter", "tollhouse_registry_connections_opened_total", None,
        "Connections of clients over gRPC accepted.";
    CONNECTIONS_REFUSED: "counter", "tollhouse_registry_connections_refused_total", None,
        "Connections of clients over gRPC closed at once, because there were too many.";
    CONNECTIONS_FAULTED: "counter", "tollhouse_registry_connections_faulted_total", None,
        "Connections of clients over gRPC closed because of a protocol error or an exceeded limit.";
    WATCHES: "gauge", "tollhouse_registry_watches", None, "Watches open through the Admin API.";
    CALLS_FAILED: "counter", "tollhouse_registry_calls_failed_total", None,
        "Calls over gRPC that ended with a status other than OK.";
    CALLS: "counter", "tollhouse_registry_calls_total", Some("method,code"),
        "Calls of clients over gRPC and HTTP, by method and Polaris' code of the answer.";
    CALL_SECONDS: "histogram", "tollhouse_registry_call_duration_seconds", Some("method"),
        "Time from the message of a call to its answer.";
}
