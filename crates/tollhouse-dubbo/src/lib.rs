//! Calls of Dubbo without its interfaces: frames of its protocol over TCP ([`frame`]), generic invocations
//! and what comes of them ([`call`]), and as much of Hessian 2 as these need ([`hessian`]).
//!
//! Does no IO: bytes go in and come out. What a peer sends is bounded in bytes, in depth, and in what it
//! grows to.

#![forbid(unsafe_code)]

pub mod call;
pub mod frame;
pub mod hessian;

pub use call::{Failure, Invocation, read_reply, write_request};
pub use frame::{FrameError, Frames, Message};
pub use hessian::VALUES_MAX as REPLY_VALUES_MAX;
