//! The codec against raw frames, against another implementation, and against a suite of others.

#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod bounds;
mod conformance;
mod downgrade;
mod flow;
mod honest;
mod interop;
mod peer;
mod repeated;
mod socket;
mod stories;
mod suites;
