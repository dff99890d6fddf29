//! Stages of a request, one file each, in the order in which `pipeline.rs` calls them: limits,
//! normalise, challenge (ACME), connection name, client certificate, route, plugins, forward (with
//! `attempt`, one try), deliver or tunnel, account.
//!
//! No stage calls the next.

pub(crate) mod access_log;
pub(crate) mod account;
pub(crate) mod attempt;
pub(crate) mod challenge;
pub(crate) mod client_address;
pub(crate) mod client_certificate;
pub(crate) mod connection_name;
pub(crate) mod deliver;
pub(crate) mod forward;
pub(crate) mod judged_path;
pub(crate) mod limits;
pub(crate) mod normalise;
pub(crate) mod plugins;
pub(crate) mod recent;
pub(crate) mod request_body;
pub(crate) mod route;
pub(crate) mod trace;
pub(crate) mod tunnel;
pub(crate) mod upstream_head;
