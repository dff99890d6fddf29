//! The Admin API in APISIX's dialect: objects are written, read and deleted over HTTP, and live in
//! the configuration store.
//!
//! [`AdminApi`] answers requests, [`serve`] puts it behind a listener. What a data plane makes of the
//! objects is not known in this crate: the data plane follows the store. Objects of the service registry live in
//! that registry, and have paths of their own.

#![forbid(unsafe_code)]

mod api;
mod arguments;
mod audit;
mod auth;
mod body;
mod call;
mod certificates;
mod chronicle;
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
mod object;
mod openapi;
mod options;
mod page;
mod paging;
mod patch;
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
mod serve;
mod served;
mod session;
mod shape;
mod shenyu;
mod sign_in;
mod standalone;
pub mod transfer;
mod ui;
mod validate;
mod yaml;

pub use api::AdminApi;
pub use audit::{AuditDeed, AuditEvent, AuditSink};
pub use certificates::source::{CertificateSource, Certificates, StapleSource};
pub use console::source::{ConsoleSource, Question, RatedKind, RequestFilter};
pub use context::Parts;
pub use document::{Document, DocumentSink};
pub use options::{
    AdminKey, ApiVersion, Cors, KeyCheck, Mode, Options, Role, ServerToken, StreamMode,
};
pub use plugins_api::{Subsystem, plugin_documents};
pub use registry::part::{RegistryDialect, RegistryListeners, RegistryPart};
pub use serve::serve;
pub use session::{Encryption, Sessions};
pub use shenyu::{ShenyuCall, ShenyuChange, ShenyuFuture, ShenyuSource};

/// The OpenAPI document of the Admin API, as `GET /apisix/admin/openapi.json` gives it.
pub fn openapi_document() -> serde_json::Value {
    openapi::document()
}

/// The objects that the value of an object names, as `upstreams/1`; some perhaps twice.
pub fn named_objects(value: &serde_json::Value) -> Vec<String> {
    references::find(value).into_iter().map(|found| found.target).collect()
}

#[cfg(test)]
mod tests;
