//! Transfer of the registry's contents to and from files and Polaris databases. The registry may be
//! running or stopped.
//!
//! `file.rs` is the file format, `source.rs` and `polaris.rs` are sources, `target.rs` is the
//! target, `tally.rs` the summary, `absent.rs` finds the objects that only the registry has. The
//! commands are `import.rs`, `export.rs`, `polaris_export.rs` and `restore.rs`.

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
