//! Encoding of services, aliases and namespaces as messages.

use super::answer::put_revision;
use super::write::{put_entry, put_flag_value, put_number_value, put_text_value};
use crate::date::DateText;
use tollhouse_registry::{
    Alias, Counts, Metadata, Namespace, NamespaceView, Revision, Service, ServiceRef,
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
pub fn put_console_service(out: &mut Vec<u8>, service: &Service, counts: Counts) {
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
    put_flag_value(out, 24, true);
    for namespace in &service.details.export_to {
        put_text_value(out, 25, namespace);
    }
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
    put_text_value(out, 5, DateText::from_unix_seconds(namespace.created_at).as_str());
    put_text_value(out, 6, DateText::from_unix_seconds(namespace.modified_at).as_str());
    put_text_value(out, 12, &namespace.name);
    put_flag_value(out, 15, true);
    for other in &namespace.export_to {
        put_text_value(out, 16, other);
    }
    put_labels(out, 17, &namespace.metadata);
}

/// Writes an alias of a list.
pub fn put_alias(out: &mut Vec<u8>, alias: &Alias) {
    put_text_value(out, 1, &alias.target.name);
    put_text_value(out, 2, &alias.target.namespace);
    put_text_value(out, 3, &alias.key.name);
    put_text_value(out, 4, &alias.key.namespace);
    put_text_value(out, 6, &alias.owners);
    put_text_value(out, 7, &alias.comment);
    put_text_value(out, 9, DateText::from_unix_seconds(alias.created_at).as_str());
    put_text_value(out, 10, DateText::from_unix_seconds(alias.modified_at).as_str());
    put_text_value(out, 11, &alias.id);
    put_flag_value(out, 12, true);
    put_flag_value(out, 13, true);
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
