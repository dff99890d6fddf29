//! Small private file system for tests that can be filled. Only programs in its mount namespace see
//! it; the test reaches its files through `/proc`. Unmounted when the test ends.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Sizes of the writes that fill the disk: large ones first, then single pages.
const PIECES: [usize; 2] = [1 << 20, 4 << 10];

/// Mounted file system of a test.
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
    /// Process that keeps the mount namespace.
    child: Child,
}

impl SmallDisk {
    /// Mounts a tmpfs of a size such as `12m`. Returns `None`, with a message, if mounting is not
    /// permitted.
    ///
    /// # Panics
    ///
    /// If temporary folders cannot be created.
    pub fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("disk")).expect("a folder");
        let script = format!(
            "mount -t tmpfs -o size={size},mode=0700 none {}; echo mounted; read line || true",
            folder.path().join("disk").display()
        );
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private", "sh", "-ec", &script]);
        let child = unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut disk = Self { child: child.spawn().ok()?, folder };
        let mut line = String::new();
        let output = disk.child.stdout.take().expect("it is piped");
        let _ = BufReader::new(output).read_line(&mut line);
        if line.trim() != "mounted" {
            println!("skipped: no file system can be mounted here");
            return None;
        }
        Some(disk)
    }

    /// Returns its mount point, for programs in the namespace.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// Returns the path of one of its files for the test.
    ///
    /// # Panics
    ///
    /// If the path is absolute.
    pub fn file(&self, path: &str) -> PathBuf {
        let disk = self.path();
        let below_root = disk.strip_prefix("/").expect("temporary folders have whole paths");
        PathBuf::from(format!("/proc/{}/root", self.child.id())).join(below_root).join(path)
    }

    /// Writes a script that runs a program inside the mount namespace.
    ///
    /// # Panics
    ///
    /// If the script cannot be written.
    pub fn program(&self, program: &Path) -> PathBuf {
        let script = self.folder.path().join("run");
        let text = format!(
            "#!/bin/sh\nexec nsenter --mount=/proc/{}/ns/mnt --wd=\"$PWD\" {} \"$@\"\n",
            self.child.id(),
            program.display()
        );
        std::fs::write(&script, text).expect("the folder takes files");
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&script, mode).expect("the file is there");
        script
    }

    /// Fills the file system.
    ///
    /// # Panics
    ///
    /// If the file cannot be created.
    pub fn fill(&self) {
        fill(&self.file("filling"));
    }

    /// Frees the space that [`Self::fill`] used.
    ///
    /// # Panics
    ///
    /// If the file system was not filled.
    pub fn make_room(&self) {
        std::fs::remove_file(self.file("filling")).expect("it was filled");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Writes to a file until its file system is full.
///
/// # Panics
///
/// If the file cannot be created.
pub(crate) fn fill(path: &Path) {
    let mut filling = File::options().create(true).append(true).open(path);
    let filling = filling.as_mut().expect("there is a file system");
    for bytes in PIECES {
        while filling.write_all(&vec![0; bytes]).is_ok() {}
    }
}
