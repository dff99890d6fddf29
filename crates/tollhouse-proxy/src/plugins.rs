//! Runs plugins: which take part in a request, in which order, and what they may touch.
//!
//! A request whose route and global rules have no plugins never comes here. The plugins are
//! elsewhere; here is the side of the data plane that the plugin contract asks for.

pub mod chain;
pub(crate) mod chains;
mod exchange;
pub(crate) mod log_phase;
pub(crate) mod overlay;
pub(crate) mod prepared;
pub(crate) mod request_phases;
pub(crate) mod response_phase;
pub(crate) mod state;
mod unavailable;

pub use chain::{Chain, PluginStep, StepSet};
