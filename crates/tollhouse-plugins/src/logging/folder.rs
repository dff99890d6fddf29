//! Folder of the files that plugins write. Clients of the Admin API choose the paths and requests
//! the content. A path must therefore never reach a file that the process or the machine reads: it
//! cannot leave the folder, and links are not followed.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use tollhouse_plugin::ConfError;

/// Permissions of new files and folders.
const FILE_MODE: u32 = 0o640;
const FOLDER_MODE: u32 = 0o750;

/// Path of a log file below the folder for plugins' files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogPath {
    folder: PathBuf,
    /// Path relative to the folder.
    below: PathBuf,
}

impl LogPath {
    /// Parses the `path` of a conf. In tools that serve nothing, the folder is unknown and empty.
    ///
    /// # Errors
    /// If the path is not a file's or leaves the folder.
    pub(crate) fn parse(folder: &Path, path: &str) -> Result<Self, ConfError> {
        let refuse = |reason: &str| {
            let folder = folder.display();
            Err(ConfError::from(format!(
                "property \"path\" validation failed: {path:?} {reason}; give a path below {folder}, or set \
                 log_files.folder in the bootstrap file"
            )))
        };
        let known = !folder.as_os_str().is_empty();
        let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let below = match Path::new(path).strip_prefix("/") {
            Err(_) => Path::new(path),
            Ok(_) if known => match Path::new(path).strip_prefix(&whole) {
                Ok(below) => below,
                Err(_) => return refuse("lies outside of the folder of log files"),
            },
            Ok(below) => below,
        };
        let mut names = PathBuf::new();
        for component in below.components() {
            match component {
                Component::Normal(name) => names.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return refuse("has a \"..\"");
                }
            }
        }
        if names.as_os_str().is_empty() || path.ends_with('/') || path.contains('\0') {
            return refuse("names no file");
        }
        Ok(Self { folder: if known { whole } else { PathBuf::new() }, below: names })
    }

    /// Returns the absolute path, for messages and comparison.
    pub(crate) fn whole(&self) -> PathBuf {
        self.folder.join(&self.below)
    }

    /// Opens the file for appending. Creates it and its folders as needed.
    ///
    /// # Errors
    /// If a component is a link, the file is not a regular file, or the system refuses.
    pub(crate) fn open(&self) -> io::Result<File> {
        let into = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = match openat(CWD, &self.folder, into, Mode::empty()) {
            Ok(folder) => folder,
            Err(_) => {
                std::fs::create_dir_all(&self.folder)?;
                openat(CWD, &self.folder, into, Mode::empty())?
            }
        };
        let (names, file) = (self.below.parent(), self.below.file_name().unwrap_or_default());
        for name in names.into_iter().flatten() {
            folder = step_into(&folder, Path::new(name), into | OFlags::NOFOLLOW)?;
        }
        // Non-blocking, because a pipe without a reader would block the writer of all files.
        let append = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        let flags = append | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&folder, file, flags, Mode::from_raw_mode(FILE_MODE))?);
        if file.metadata()?.is_file() {
            return Ok(file);
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

fn step_into(folder: &OwnedFd, name: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    match openat(folder, name, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => {
            match mkdirat(folder, name, Mode::from_raw_mode(FOLDER_MODE)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(openat(folder, name, flags, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_stay_below_the_folder() {
        for (path, below) in [
            ("a.log", Some("a.log")),
            ("logs/./a.log", Some("logs/a.log")),
            ("/var/log/gateway/x/a.log", Some("x/a.log")),
            ("/var/log/gateway", None),
            ("/var/log/gateway-2/a.log", None),
            ("/var/log/gateway/../a.log", None),
            ("/etc/passwd", None),
            ("../a.log", None),
            ("a/../../b", None),
            ("a/", None),
            ("a\0b", None),
            ("", None),
        ] {
            let parsed = LogPath::parse(Path::new("/var/log/gateway"), path);
            let expected = below.map(|below| Path::new("/var/log/gateway").join(below));
            assert_eq!(parsed.as_ref().ok().map(LogPath::whole), expected, "{path:?}");
            if let Err(error) = parsed {
                assert!(String::from(error).contains("log_files.folder"), "{path:?}");
            }
        }
    }

    #[test]
    fn links_are_not_followed_and_pipes_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, outside) = (dir.path().join("logs"), dir.path().join("outside"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(outside.join("secret"), "kept").unwrap();
        symlink(&outside, folder.join("folder")).unwrap();
        symlink(outside.join("secret"), folder.join("file")).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, folder.join("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        std::fs::create_dir(folder.join("plain")).unwrap();
        for path in ["folder/secret", "file", "pipe", "plain"] {
            let opened = LogPath::parse(&folder, path).unwrap().open();
            assert!(opened.is_err(), "{path}");
        }
        let mut file = LogPath::parse(&folder, "new/a.log").unwrap().open().unwrap();
        file.write_all(b"1\n").unwrap();
        assert_eq!(std::fs::read_to_string(folder.join("new/a.log")).unwrap(), "1\n");
        assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "kept");
    }
}
