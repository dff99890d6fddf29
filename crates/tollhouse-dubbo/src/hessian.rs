//! Hessian 2 as used by Dubbo (Hessian 2.0 Serialization Protocol), converted to and from JSON.
//!
//! Lengths of strings count UTF-16 units, and each surrogate is encoded separately, as in Java's
//! library.

mod read;
mod write;

pub use read::{ReadError, Reader, VALUES_MAX};
pub use write::Writer;

#[cfg(test)]
mod tests;
