//! Hessian 2 as Dubbo's serialization has it (Hessian 2.0 Serialization Protocol): JSON in, JSON out.
//!
//! Strings count UTF-16 units and write each half of a pair by itself, as Java's library does.

mod read;
mod write;

pub use read::{ReadError, Reader, VALUES_MAX};
pub use write::Writer;

#[cfg(test)]
mod tests;
