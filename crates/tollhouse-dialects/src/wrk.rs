//! wrk: a closed loop, with times corrected after the run.

mod command;
pub mod options;
pub mod output;
mod script;

pub use command::run;
