//! Calls of Dubbo methods without their Java interfaces: frames of the protocol over TCP
//! ([`frame`]), generic invocations and their replies ([`call`]), and the required part of Hessian
//! 2 ([`hessian`]).
//!
//! Performs no IO: functions convert bytes. Input from peers is limited in bytes, nesting and
//! decoded size.

#![forbid(unsafe_code)]

pub mod call;
pub mod frame;
pub mod hessian;

pub use call::{Failure, Invocation, read_reply, write_request};
pub use frame::{FrameError, Frames, Message};
pub use hessian::VALUES_MAX as REPLY_VALUES_MAX;
