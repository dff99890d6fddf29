//! Runs plugins: which ones take part in a request, in which order, and what they may change.
//!
//! Requests without plugins on their route and without global rules skip this module. It implements
//! the data plane's side of the plugin contract; the plugins are in another crate.

pub mod chain;
pub(crate) mod chains;
mod exchange;
pub(crate) mod log_phase;
mod matched;
pub(crate) mod overlay;
pub(crate) mod prepared;
pub(crate) mod request_phases;
pub(crate) mod response_phase;
pub(crate) mod state;
mod timing;
mod unavailable;

pub use chain::{Chain, PluginStep, StepSet};
