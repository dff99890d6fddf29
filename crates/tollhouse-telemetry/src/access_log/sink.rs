//! Destinations of log lines: a file that can be reopened, or the standard output.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Output of the writer thread: a file, standard output, or a test.
pub trait Sink: Send {
    /// Writes some of `bytes` and returns their number.
    ///
    /// # Errors
    /// If the system refuses the write. The writer then drops lines and tries again later.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Reopens a file by its path, so that a renamed file is released.
    ///
    /// # Errors
    /// If opening fails; the sink continues with the old file.
    fn reopen(&mut self) -> io::Result<()>;
}

/// Output that `access_log.path` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The standard output, written as `-`.
    Stdout,
    /// A file, which is created if missing and appended to.
    File(PathBuf),
}

impl Target {
    /// Parses a path; `-` is standard output.
    pub fn parse(text: &str) -> Self {
        if text == "-" { Self::Stdout } else { Self::File(PathBuf::from(text)) }
    }

    /// Opens the destination.
    ///
    /// # Errors
    /// If the file cannot be opened for appending.
    pub fn open(&self) -> io::Result<Box<dyn Sink>> {
        match self {
            Self::Stdout => Ok(Box::new(StdoutSink)),
            Self::File(path) => Ok(Box::new(FileSink::open(path)?)),
        }
    }
}

#[derive(Debug)]
pub struct FileSink {
    path: PathBuf,
    file: File,
}

impl FileSink {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: open_for_appending(path)? })
    }
}

impl Sink for FileSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = open_for_appending(&self.path)?;
        Ok(())
    }
}

/// Mode of log files. Other users may not read them, because lines contain addresses and queries.
const FILE_MODE: u32 = 0o640;

fn open_for_appending(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path)
}

#[derive(Debug)]
pub struct StdoutSink;

impl Sink for StdoutSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write(bytes)?;
        stdout.flush()?;
        Ok(written)
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}
