//! wrk2: wrk's options with a fixed rate, and latency from the planned start. The options are
//! parsed together with wrk's ([`crate::wrk::options`]).

mod command;
pub mod output;

pub use command::run;
