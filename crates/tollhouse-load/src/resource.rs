//! What processes and the kernel use while a case runs: sampled from `/proc` by a thread of its own,
//! given back as the series of a result.
//!
//! Which processes belong to a [`Watched`] group is found in `resource/find.rs`; the texts of the kernel
//! are read in `resource/process.rs` and `resource/kernel.rs`; sums are formed in `resource/group.rs`.

mod find;
mod group;
mod kernel;
mod latest;
mod machine;
mod process;
mod procfs;
mod sampler;
mod watched;

pub(crate) use kernel::halve;
pub use latest::{Latest, Usage};
pub use procfs::Procfs;
pub use sampler::{SAMPLE_EVERY, Sampler};
pub use watched::{Selector, Watched};
