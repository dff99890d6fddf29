//! wrk2: wrk's options with a rate, and latency from the planned start. The options are read where wrk's are
//! ([`crate::wrk::options`]).

mod command;
pub mod output;

pub use command::run;
