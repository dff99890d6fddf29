//! Resource use of processes and the kernel during a case: sampled from `/proc` by a separate
//! thread, returned as series of the result.
//!
//! `resource/find.rs` finds the processes of a [`Watched`] group, `resource/process.rs` and
//! `resource/kernel.rs` parse the kernel's files, and `resource/group.rs` computes sums.

mod find;
mod group;
mod kernel;
mod latest;
mod machine;
mod process;
mod sampler;
mod watched;

pub(crate) use kernel::halve;
pub use latest::{Latest, Usage};
pub use sampler::{SAMPLE_EVERY, Sampler};
pub use watched::{Selector, Watched};
