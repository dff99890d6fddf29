//! Reads input files with a size limit and writes output files; errors name the file and the
//! problem.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::BenchError;

/// Reads a file of at most `bytes_max` bytes.
///
/// # Errors
/// If the file cannot be read or is larger.
pub fn read_bytes(path: &Path, bytes_max: u64) -> Result<Vec<u8>, BenchError> {
    let error = |why: String| BenchError::File { path: path.to_owned(), why };
    let file = File::open(path).map_err(|cause| error(format!("cannot be opened: {cause}")))?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|cause| error(format!("cannot be read: {cause}")))?;
    if bytes.len() as u64 > bytes_max {
        return Err(error(format!(
            "is larger than {} bytes",
            crate::report::figure::count(bytes_max)
        )));
    }
    Ok(bytes)
}

/// Reads a text file of at most `bytes_max` bytes.
///
/// # Errors
/// If the file cannot be read, is larger, or is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String, BenchError> {
    String::from_utf8(read_bytes(path, bytes_max)?).map_err(|cause| BenchError::File {
        path: path.to_owned(),
        why: format!("is not UTF-8 from byte {} on", cause.utf8_error().valid_up_to()),
    })
}

/// Rejects an output file that cannot be written, before time is spent on measuring.
///
/// # Errors
/// If the path is a folder, or its parent folder does not exist.
pub fn check_writable(path: &Path) -> Result<(), BenchError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let why = if path.is_dir() {
        "is a folder; write the name of a file"
    } else if folder.is_some_and(|folder| !folder.is_dir()) {
        "cannot be written: its folder is not there"
    } else {
        return Ok(());
    };
    Err(BenchError::File { path: path.to_owned(), why: why.into() })
}

/// Writes a file.
///
/// # Errors
/// If the file cannot be written.
pub fn write_text(path: &Path, text: &str) -> Result<(), BenchError> {
    std::fs::write(path, text).map_err(|error| BenchError::File {
        path: path.to_owned(),
        why: format!("cannot be written: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("body");
        std::fs::write(&path, [b'a', b'b', 0xff]).expect("the folder can be written");
        assert_eq!(read_bytes(&path, 3).expect("three bytes"), [b'a', b'b', 0xff]);
        for (error, part) in [
            (read_bytes(&path, 2).map(|_| ()), "larger than 2 bytes"),
            (read_text(&path, 3).map(|_| ()), "not UTF-8 from byte 2"),
            (read_text(&folder.path().join("none"), 3).map(|_| ()), "cannot be opened"),
        ] {
            let error = error.expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
