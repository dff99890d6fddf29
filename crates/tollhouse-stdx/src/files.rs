//! Durable file names.

use std::fs::File;
use std::io;
use std::path::Path;

/// Flushes the parent folder of a path, so that a file created or renamed in it keeps its name
/// after a power failure. The parent of a bare file name is the current folder.
///
/// # Errors
/// If the folder cannot be opened or flushed.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_lies_in_the_current_folder() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for path in [Path::new("backup.db"), Path::new("./backup.db"), &folder.path().join("a")] {
            sync_parent(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        let missing = folder.path().join("missing").join("a");
        assert_eq!(sync_parent(&missing).map_err(|it| it.kind()), Err(io::ErrorKind::NotFound));
    }
}
