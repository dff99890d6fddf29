//! The load generator: one engine, suites that reproduce published reports, and the reports it
//! writes.
//!
//! A [`case::Case`] describes a measurement, a [`result::CaseResult`] holds its figures, and a
//! [`report::Report`] is the file with all results of a session. The crate shares only codec,
//! sockets and standard-library extensions with the gateway, so that it cannot favour the product
//! it measures.

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
