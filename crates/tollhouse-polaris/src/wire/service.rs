//! Encoding of services, aliases and namespaces as messages.

use super::answer::put_revision;
use super::write::{put_entry, put_flag_value, put_number_value, put_text_value};
use crate::date::DateText;
use crate::dialect::rights::Permits;
use tollhouse_registry::{
    Alias, Counts, DEFAULT_NAMESPACE, Metadata, Namespace, NamespaceView, Revision, Service,
    ServiceRef,
};

/// Writes a service for clients: under the requested name, with the revision of its instances.
/// Ports are left out, because the list of all ports ever seen grows without bound and clients do
/// not read it.
pub fn put_discovered_service(
    out: &mut Vec<u8>,
    service: &Service,
    asked: ServiceRef<'_>,
    revision: Revision,
) {
    put_text_value(out, 1, asked.name);
    put_text_value(out, 2, asked.namespace);
    put_labels(out, 3, &service.metadata);
    put_details(out, service);
    put_revision(out, 15, &revision.digits());
}

/// Writes a service of a list: its name and labels.
pub fn put_listed_service(out: &mut Vec<u8>, service: &Service) {
    put_text_value(out, 1, &service.key.name);
    put_text_value(out, 2, &service.key.namespace);
    put_labels(out, 3, &service.metadata);
}

/// Writes an alias in a list of services: its name and the alias's labels, in the form of a
/// service.
pub fn put_listed_alias(out: &mut Vec<u8>, alias: &Alias) {
    put_text_value(out, 1, &alias.key.name);
    put_text_value(out, 2, &alias.key.namespace);
    put_labels(out, 3, &alias.metadata);
}

/// Writes a service for the console, without its token.
pub(crate) fn put_console_service(
    out: &mut Vec<u8>,
    service: &Service,
    counts: Counts,
    permits: Permits,
) {
    put_listed_service(out, service);
    put_text_value(out, 4, &service.details.ports);
    put_details(out, service);
    put_text_value(out, 13, DateText::from_unix_seconds(service.created_at).as_str());
    put_text_value(out, 14, DateText::from_unix_seconds(service.modified_at).as_str());
    put_revision(out, 15, &service.revision.digits());
    put_text_value(out, 16, &service.details.platform_id);
    put_number_value(out, 17, counts.total);
    put_number_value(out, 18, counts.healthy);
    put_text_value(out, 21, &service.id);
    put_flag_value(out, 24, permits.editable);
    for namespace in &service.details.export_to {
        put_text_value(out, 25, namespace);
    }
    put_flag_value(out, 100, permits.deletable);
}

/// Writes a namespace of the console's list.
pub(crate) fn put_console_namespace(out: &mut Vec<u8>, view: &NamespaceView, permits: Permits) {
    put_namespace(out, view);
    let namespace = &view.namespace;
    if namespace.comment.is_empty() && namespace.is_built_in() {
        // The comments of Polaris, until there are others.
        let is_default = &*namespace.name == DEFAULT_NAMESPACE;
        put_text_value(out, 2, if is_default { "Default Environment" } else { "Polaris-server" });
    }
    put_flag_value(out, 15, permits.editable);
    put_flag_value(out, 100, permits.deletable);
}

/// Writes a namespace of a list.
pub fn put_namespace(out: &mut Vec<u8>, view: &NamespaceView) {
    put_namespace_fields(out, &view.namespace);
    put_number_value(out, 7, view.services.len());
    put_number_value(out, 8, view.counts.healthy);
    put_number_value(out, 9, view.counts.total);
}

fn put_namespace_fields(out: &mut Vec<u8>, namespace: &Namespace) {
    put_text_value(out, 1, &namespace.name);
    put_text_value(out, 2, &namespace.comment);
    put_text_value(out, 3, &namespace.owners);
    // Built-in namespaces have no date until they are changed.
    for (number, seconds) in [(5, namespace.created_at), (6, namespace.modified_at)] {
        if seconds != 0 {
            put_text_value(out, number, DateText::from_unix_seconds(seconds).as_str());
        }
    }
    put_text_value(out, 12, &namespace.name);
    for other in &namespace.export_to {
        put_text_value(out, 16, other);
    }
    put_labels(out, 17, &namespace.metadata);
}

/// Writes an alias of a list.
pub(crate) fn put_alias(out: &mut Vec<u8>, alias: &Alias, permits: Permits) {
    put_text_value(out, 1, &alias.target.name);
    put_text_value(out, 2, &alias.target.namespace);
    put_text_value(out, 3, &alias.key.name);
    put_text_value(out, 4, &alias.key.namespace);
    put_text_value(out, 6, &alias.owners);
    put_text_value(out, 7, &alias.comment);
    put_text_value(out, 9, DateText::from_unix_seconds(alias.created_at).as_str());
    put_text_value(out, 10, DateText::from_unix_seconds(alias.modified_at).as_str());
    put_text_value(out, 11, &alias.id);
    put_flag_value(out, 12, permits.editable);
    put_flag_value(out, 13, permits.deletable);
    put_labels(out, 26, &alias.metadata);
}

fn put_details(out: &mut Vec<u8>, service: &Service) {
    let details = &service.details;
    let [first, second, third] = &details.cmdb_mod;
    let texts = [
        (5, &details.business),
        (6, &details.department),
        (7, first),
        (8, second),
        (9, third),
        (10, &details.comment),
        (11, &details.owners),
    ];
    for (number, text) in texts {
        put_text_value(out, number, text);
    }
}

fn put_labels(out: &mut Vec<u8>, number: u32, labels: &Metadata) {
    for (key, value) in labels {
        put_entry(out, number, key, value);
    }
}
