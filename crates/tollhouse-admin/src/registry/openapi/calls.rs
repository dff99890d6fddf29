//! Table of the registry's operations and filters.

/// An operation: method, path below the prefix, identifier, summary, request schema, and response.
pub(super) type Call =
    (&'static str, &'static str, &'static str, &'static str, Option<&'static str>, Answer);

/// Successful response of an operation; the text is the name of its schema.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    One(&'static str),
    Created(&'static str),
    Put(&'static str),
    List(&'static str),
    Lines,
    Nothing,
    Beat,
}

use Answer::{Beat, Created, Lines, List, Nothing, One, Put};

pub(super) const CALLS: &[Call] = &[
    ("get", "status", "registry_status", "State of the registry", None, One("registry_status")),
    (
        "get",
        "clients",
        "list_registry_clients",
        "Clients that reported themselves",
        None,
        List("registry_client"),
    ),
    (
        "post",
        "objects",
        "put_registry_objects",
        "Put objects of another registry, as an export has them",
        Some("object_line"),
        One("objects_put"),
    ),
    ("get", "namespaces", "list_namespaces", "List namespaces", None, List("namespace")),
    (
        "post",
        "namespaces",
        "create_namespace",
        "Create a namespace",
        Some("namespace_write"),
        Created("namespace"),
    ),
    ("get", "namespaces/{name}", "read_namespace", "Read a namespace", None, One("namespace")),
    (
        "put",
        "namespaces/{name}",
        "write_namespace",
        "Write a namespace",
        Some("namespace_write"),
        Put("namespace"),
    ),
    (
        "patch",
        "namespaces/{name}",
        "patch_namespace",
        "Change a namespace",
        Some("namespace_write"),
        One("namespace"),
    ),
    ("delete", "namespaces/{name}", "delete_namespace", "Delete an empty namespace", None, Nothing),
    ("get", "services", "list_registry_services", "List services", None, List("registry_service")),
    (
        "post",
        "services",
        "create_registry_service",
        "Create a service",
        Some("registry_service_write"),
        Created("registry_service"),
    ),
    (
        "get",
        "services/{namespace}/{name}",
        "read_registry_service",
        "Read a service",
        None,
        One("registry_service"),
    ),
    (
        "put",
        "services/{namespace}/{name}",
        "write_registry_service",
        "Write a service",
        Some("registry_service_write"),
        Put("registry_service"),
    ),
    (
        "patch",
        "services/{namespace}/{name}",
        "patch_registry_service",
        "Change a service",
        Some("registry_service_write"),
        One("registry_service"),
    ),
    (
        "delete",
        "services/{namespace}/{name}",
        "delete_registry_service",
        "Delete a service without instances",
        None,
        Nothing,
    ),
    (
        "get",
        "services/{namespace}/{name}/instances",
        "list_instances_of",
        "List the instances of a service or alias, or watch them",
        None,
        Lines,
    ),
    (
        "post",
        "services/{namespace}/{name}/instances",
        "register_instance_of",
        "Register an instance",
        Some("instance_write"),
        Put("instance"),
    ),
    (
        "get",
        "instances",
        "list_instances",
        "List instances of all services",
        None,
        List("instance"),
    ),
    (
        "post",
        "instances",
        "register_instance",
        "Register an instance",
        Some("instance_write"),
        Put("instance"),
    ),
    (
        "patch",
        "instances",
        "patch_instances",
        "Isolate, take back in or weight many instances in one commit, all of them or none",
        Some("instances_patch"),
        One("instances_patched"),
    ),
    ("get", "instances/{id}", "read_instance", "Read an instance", None, One("instance")),
    (
        "put",
        "instances/{id}",
        "write_instance",
        "Register an instance under this id",
        Some("instance_write"),
        Put("instance"),
    ),
    (
        "patch",
        "instances/{id}",
        "patch_instance",
        "Change an instance: weight, isolation, health and the like",
        Some("instance_write"),
        One("instance"),
    ),
    (
        "delete",
        "instances/{id}",
        "deregister_instance",
        "Deregister an instance",
        None,
        One("instance"),
    ),
    (
        "post",
        "instances/{id}/heartbeat",
        "beat_instance",
        "Send a heartbeat for an instance",
        None,
        Beat,
    ),
    ("get", "aliases", "list_aliases", "List aliases", None, List("alias")),
    ("post", "aliases", "create_alias", "Create an alias", Some("alias_write"), Created("alias")),
    ("get", "aliases/{namespace}/{name}", "read_alias", "Read an alias", None, One("alias")),
    (
        "put",
        "aliases/{namespace}/{name}",
        "write_alias",
        "Write an alias",
        Some("alias_write"),
        Put("alias"),
    ),
    (
        "patch",
        "aliases/{namespace}/{name}",
        "patch_alias",
        "Change an alias",
        Some("alias_write"),
        One("alias"),
    ),
    ("delete", "aliases/{namespace}/{name}", "delete_alias", "Delete an alias", None, Nothing),
    ("get", "rules", "list_all_rules", "List governance rules of all kinds", None, List("rule")),
    ("get", "rules/{kind}", "list_rules", "List governance rules of a kind", None, List("rule")),
    (
        "post",
        "rules/{kind}",
        "create_rule",
        "Create a rule, written as clients get it",
        Some("rule_text"),
        Created("rule"),
    ),
    ("get", "rules/{kind}/{id}", "read_rule", "Read a rule", None, One("rule")),
    (
        "put",
        "rules/{kind}/{id}",
        "write_rule",
        "Write a rule, written as clients get it",
        Some("rule_text"),
        Put("rule"),
    ),
    (
        "patch",
        "rules/{kind}/{id}",
        "switch_rule",
        "Switch a rule on or off",
        Some("rule_switch"),
        One("rule"),
    ),
    ("delete", "rules/{kind}/{id}", "delete_rule", "Delete a rule", None, Nothing),
];

/// Filters of lists: path, then names and descriptions.
pub(super) const FILTERS: &[(&str, &[(&str, &str)])] = &[
    (
        "namespaces",
        &[
            ("name", "Regular expression that is found in the name."),
            ("label", LABEL),
            ("q", WORDS),
            ("sort", "`name`, `services`, `instances` or `changed`; with a `-` the last first."),
        ],
    ),
    (
        "services",
        &[
            ("namespace", "The namespace."),
            ("name", "Regular expression that is found in the name."),
            ("label", LABEL),
            ("q", WORDS),
            (
                "sort",
                "`namespace`, `name`, `instances`, `healthy`, `unhealthy`, `isolated` or `changed`; with a `-` the last \
                 first.",
            ),
        ],
    ),
    ("instances", INSTANCE_FILTERS),
    ("services/{namespace}/{name}/instances", INSTANCE_FILTERS),
    (
        "aliases",
        &[
            ("namespace", "The namespace of the alias."),
            ("name", "Regular expression that is found in the name."),
            ("target_namespace", "The namespace of its service."),
            ("target", "The name of its service."),
            ("q", WORDS),
            ("sort", "`namespace`, `name`, `target` or `changed`; with a `-` the last first."),
        ],
    ),
    ("rules", RULE_FILTERS),
    ("rules/{kind}", RULE_FILTERS),
    ("clients", &[("name", "Regular expression that is found in the id.")]),
];

const WORDS: &str = "Words that are all found in what it says of itself, whatever their case.";

const LABEL: &str = "A key of metadata, or `key:value`.";

const INSTANCE_FILTERS: &[(&str, &str)] = &[
    ("namespace", "The namespace."),
    ("service", "The name of the service."),
    ("host", "The host."),
    ("port", "The port."),
    ("protocol", "The protocol."),
    ("version", "The version."),
    ("healthy", "`true` or `false`."),
    ("isolated", "`true` or `false`."),
    ("label", LABEL),
    ("q", WORDS),
    (
        "sort",
        "`service`, `id`, `host`, `version`, `weight`, `healthy`, `isolated` or `changed`; with a `-` the last first.",
    ),
];

const RULE_FILTERS: &[(&str, &str)] = &[
    ("namespace", "The namespace it is listed under."),
    ("name", "Regular expression that is found in the name."),
    ("service", "The name of a service that it is for."),
    ("enabled", "`true` or `false`."),
    ("q", WORDS),
    (
        "sort",
        "`kind`, `name`, `namespace`, `priority`, `enabled` or `changed`; with a `-` the last first.",
    ),
];
