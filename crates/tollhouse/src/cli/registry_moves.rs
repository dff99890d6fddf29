//! The registry's content on its way in and out: as a file, out of the database of a Polaris, into a registry that
//! runs or one that does not.
//!
//! `file.rs` is the file's format, `source.rs` and `polaris.rs` where objects come from, `target.rs` where they go,
//! `tally.rs` what is said about it, `absent.rs` what only the registry has; the commands are `import.rs`, `export.rs`, `polaris_export.rs` and `restore.rs`.

mod absent;
mod export;
mod file;
mod import;
mod polaris;
mod polaris_database;
mod polaris_export;
mod restore;
mod source;
mod tally;
mod target;

pub use export::{ExportArguments, export};
pub use import::{FileArguments, PolarisArguments, import_file, import_polaris};
pub use polaris_export::{PolarisExportArguments, export_polaris};
pub use restore::{RestoreArguments, restore};

pub(super) use export::back_up;
