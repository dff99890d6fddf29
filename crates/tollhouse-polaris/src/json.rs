//! Conversion between messages and JSON, as clients of the HTTP API expect it.
//!
//! Reading is lenient: both spellings of field names, numbers as text, and enums by name or number
//! are accepted, and unknown fields are ignored. Every field of the schema is written, set or not,
//! except fields that existing clients do not know yet.

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
