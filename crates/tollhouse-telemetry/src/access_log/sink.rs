//! Where lines end up: a file that can be opened anew, or the standard output.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What the writer thread writes to.
pub trait Sink: Send {
    /// Writes some of `bytes` and says how many.
    ///
    /// # Errors
    /// Whatever the system says; the writer drops lines and tries again later.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Opens anew what has a name, so that a moved file is let go.
    ///
    /// # Errors
    /// When opening fails; the sink goes on with what it had.
    fn reopen(&mut self) -> io::Result<()>;
}

/// What `access_log.path` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The standard output, written as `-`.
    Stdout,
    /// A file, created if need be and appended to.
    File(PathBuf),
}

impl Target {
    /// Reads `-` or a path.
    pub fn parse(text: &str) -> Self {
        if text == "-" { Self::Stdout } else { Self::File(PathBuf::from(text)) }
    }

    /// Opens it.
    ///
    /// # Errors
    /// When the file cannot be opened for appending.
    pub fn open(&self) -> io::Result<Box<dyn Sink>> {
        match self {
            Self::Stdout => Ok(Box::new(StdoutSink)),
            Self::File(path) => Ok(Box::new(FileSink::open(path)?)),
        }
    }
}

/// A file that lines are appended to.
#[derive(Debug)]
pub struct FileSink {
    path: PathBuf,
    file: File,
}

impl FileSink {
    /// Opens the file, creating it if need be.
    ///
    /// # Errors
    /// When the system refuses.
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

/// Lines hold addresses and queries: those who run the machine may read them, others not.
const FILE_MODE: u32 = 0o640;

fn open_for_appending(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path)
}

/// The standard output.
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
