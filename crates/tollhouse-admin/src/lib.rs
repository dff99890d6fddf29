//! APISIX-compatible Admin API: reads, writes and deletes the objects of the configuration store
//! over HTTP.
//!
//! [`AdminApi`] handles requests, and [`serve`] runs it on a listener. The data plane is
//! independent of this crate: it follows the store. Objects of the service registry are kept in the
//! registry and have separate paths.

#![forbid(unsafe_code)]

mod api;
mod arguments;
mod audit;
mod auth;
mod body;
mod call;
mod certificates;
mod chronicle;
mod config_files;
mod console;
mod context;
mod crud;
mod dispatch;
mod document;
mod encrypt;
mod foreseen;
mod host;
mod index;
mod limits;
mod log_in;
mod object;
mod object_rights;
mod openapi;
mod options;
mod page;
mod paging;
mod patch;
mod people;
mod plugin_confs;
mod plugins_api;
mod prefix;
mod problems;
mod references;
mod refused;
mod registry;
mod reply;
mod resource;
mod schema_api;
mod scripts;
mod serve;
mod served;
mod session;
mod shape;
mod shenyu;
mod sign_in;
mod spans;
mod standalone;
pub mod transfer;
mod ui;
mod validate;
mod yaml;

pub use api::AdminApi;
pub use audit::{AuditDeed, AuditEvent, AuditSink};
pub use certificates::source::{CertificateSource, Certificates, StapleSource};
pub use console::source::{
    BenchFile, ConsoleSource, LiveQuery, Question, RateContents, RateOrder, RatedKind,
    RequestFilter,
};
pub use context::Parts;
pub use document::{Document, DocumentSink};
pub use log_in::{AccountRules, ProviderLogIn};
pub use options::{
    AdminKey, ApiVersion, Cors, KeyCheck, Mode, Options, Role, ServerToken, StreamMode,
};
pub use plugins_api::{Subsystem, plugin_documents};
pub use registry::change_queue::ChangeQueue;
pub use registry::part::{
    DialectAnswer, DialectCall, DialectCaller, DialectFuture, RegistryDialect, RegistryListeners,
    RegistryPart,
};
pub use serve::serve;
pub use session::{Encryption, Sessions};
pub use shenyu::{ShenyuCall, ShenyuChange, ShenyuFuture, ShenyuSource};

/// Returns the OpenAPI document of the Admin API, as `GET /apisix/admin/openapi.json` does.
pub fn openapi_document() -> serde_json::Value {
    openapi::document()
}

/// Returns the paths of the objects that `value` refers to, such as `upstreams/1`; may contain
/// duplicates.
pub fn named_objects(value: &serde_json::Value) -> Vec<String> {
    references::find(value).into_iter().map(|found| found.target).collect()
}

#[cfg(test)]
mod tests;
