//! The load generator: one engine, the suites that reproduce published reports, and the reports it writes.
//!
//! A [`case::Case`] says what to do, a [`result::CaseResult`] is what was seen, a
//! [`report::Report`] is the file that holds all of a session. Of the gateway it uses only the codec, the
//! sockets and the standard extensions, so that it cannot flatter the product it measures.

#![forbid(unsafe_code)]

pub mod case;
pub mod connect;
pub mod connections;
pub mod distribution;
pub mod error;
pub mod failure;
pub mod file;
pub mod honesty;
pub mod live;
pub mod pace;
pub mod pacer;
pub mod plan;
pub mod preflight;
pub mod protocol;
pub mod published;
pub mod record;
pub mod report;
pub mod resource;
pub mod result;
pub mod run;
pub mod schedule;
pub mod session;
pub mod suite;
pub mod target;
mod text;
#[cfg(test)]
mod theory;
pub mod worker;
