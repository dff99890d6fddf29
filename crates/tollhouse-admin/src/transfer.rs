//! Objects on their way into a store and out of it as documents: what the command line and the console have in common.
//! Nothing here reads or writes a store.

mod masked;
mod objects;
mod plan;

pub use masked::masked;
pub use objects::{Object, Objects, Times, from_document, from_listing, open_document, path_of};
pub use plan::{Change, Plan, PrivateKeys, Prune, changed_fields};
