//! Reading of whole text files of bounded size.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use tollhouse_model::Problem;

/// Maximum size of a file in bytes: some 500,000 routes. A larger file is hardly a configuration,
/// and reading it would take memory needed for serving.
pub(crate) const FILE_BYTES_MAX: u64 = 256 << 20;

/// Reads a file as text; the problem names the file.
pub(crate) fn read(path: &Path) -> Result<String, Problem> {
    let name = path.display().to_string();
    read_bounded(path, FILE_BYTES_MAX).map_err(|reason| {
        let hint = "check the path and its permissions";
        Problem::error(name, reason.to_string()).with_hint(hint)
    })
}

/// Why a file cannot be read as text.
#[derive(Debug, thiserror::Error)]
enum FileError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// The file exceeds the limit; holds the limit in bytes.
    #[error("larger than {}", tollhouse_stdx::bytes_size::format(*.0))]
    TooLarge(u64),
    /// The file is not UTF-8; holds the offset of the first invalid byte.
    #[error("not UTF-8: the first wrong byte is at {0}")]
    NotUtf8(usize),
}

fn read_bounded(path: &Path, bytes_max: u64) -> Result<String, FileError> {
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    // The file may grow meanwhile, so the read is limited to one byte more than allowed.
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(FileError::TooLarge(bytes_max));
    }
    String::from_utf8(bytes).map_err(|error| FileError::NotUtf8(error.utf8_error().valid_up_to()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_whole_or_refused() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let path = directory.path().join("a.yaml");
        let read = |bytes_max| read_bounded(&path, bytes_max).map_err(|error| error.to_string());
        assert!(read(4).is_err_and(|reason| reason.starts_with("cannot be read")));
        std::fs::write(&path, "four").expect("the file can be written");
        assert_eq!(read(4), Ok("four".to_owned()));
        assert_eq!(read(3), Err("larger than 3B".to_owned()));
        std::fs::write(&path, b"a\xff").expect("the file can be written");
        assert_eq!(read(4), Err("not UTF-8: the first wrong byte is at 1".to_owned()));
    }
}
