//! A small file system of a test's own, which can be filled. Only programs that are started inside its mount namespace
//! see it; the test reaches its files by `/proc`. It goes with the test.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Bytes that are written at a time while there is room: large ones first, then what a page takes.
const PIECES: [usize; 2] = [1 << 20, 4 << 10];

/// See the module.
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
    /// Keeps the namespace.
    child: Child,
}

impl SmallDisk {
    /// Mounts a tmpfs of a size such as `12m`; `None`, with a message, where that is not allowed.
    ///
    /// # Panics
    /// When temporary folders cannot be made.
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

    /// Its path for programs that are started on it.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// A path on it, as the test reaches it.
    ///
    /// # Panics
    /// When the path is absolute.
    pub fn file(&self, path: &str) -> PathBuf {
        let disk = self.path();
        let below_root = disk.strip_prefix("/").expect("temporary folders have whole paths");
        PathBuf::from(format!("/proc/{}/root", self.child.id())).join(below_root).join(path)
    }

    /// A program that runs another one where this file system is seen.
    ///
    /// # Panics
    /// When it cannot be written.
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

    /// Takes all the room that there is.
    ///
    /// # Panics
    /// When no file can be made.
    pub fn fill(&self) {
        fill(&self.file("filling"));
    }

    /// Gives it back.
    ///
    /// # Panics
    /// When it was not filled.
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

/// Writes a file for as long as there is room on its file system.
///
/// # Panics
/// When the file cannot be made.
pub(crate) fn fill(path: &Path) {
    let mut filling = File::options().create(true).append(true).open(path);
    let filling = filling.as_mut().expect("there is a file system");
    for bytes in PIECES {
        while filling.write_all(&vec![0; bytes]).is_ok() {}
    }
}
