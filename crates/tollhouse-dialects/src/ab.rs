//! ab (ApacheBench 2.3).

mod address;
mod command;
pub mod options;
pub mod output;

pub use command::run;
