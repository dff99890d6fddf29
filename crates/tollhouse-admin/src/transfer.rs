//! Conversion between objects in a store and documents, shared by the command line and the console.
//! No I/O.

mod masked;
mod objects;
mod plan;

pub use masked::masked;
pub use objects::{Object, Objects, Times, from_document, from_listing, open_document, path_of};
pub use plan::{Change, Plan, PrivateKeys, Prune, changed_fields};
