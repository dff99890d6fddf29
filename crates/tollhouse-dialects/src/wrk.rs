//! wrk: a closed loop, and times that are corrected afterwards.

mod command;
pub mod options;
pub mod output;
mod script;

pub use command::run;
