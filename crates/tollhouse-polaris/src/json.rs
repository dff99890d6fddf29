//! Messages as JSON and back, in the manner clients of the HTTP API know.
//!
//! Read leniently: field names in either spelling, fields nobody knows ignored, numbers as text,
//! enums by name or number. Written with every field of the schema, whether set or not, save for those
//! that clients in use do not know yet.

mod newer;
mod plain;
mod plain_print;
mod print;
mod read;

pub use plain::read_plain;
pub use plain_print::{print_plain, print_sparse};
pub use print::{PrintError, print, print_within};
pub use read::{ReadError, read, read_kept, read_list};

#[cfg(test)]
mod tests;
