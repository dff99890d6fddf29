//! Control side of a running gateway: configuration sources, Admin API, registry, signals,
//! introspection, and hand-over to a successor.
//!
//! All of this runs on one runtime on the main thread; none of it is on the path of a request.

#![forbid(unsafe_code)]

mod admin;
mod audit;
pub mod banner;
mod certificate_ends;
pub mod certificates;
mod configuration;
mod console;
mod context;
mod discovery;
pub mod doctor;
pub mod explain;
pub mod feed;
pub mod findings;
mod identity;
mod introspection;
mod log_in;
mod metrics;
mod outages;
pub mod plugins;
pub mod process;
pub mod process_log;
pub mod registry;
pub mod resources;
mod secret_managers;
pub mod secrets;
pub mod settings;
mod shenyu_admin;
mod shenyu_follower;
mod shenyu_local;
pub mod signals;
mod staples;
pub mod terminal;
pub mod trial;
