//! Stored OCSP answers, one file per certificate, so that a starting process has staples before its
//! first query.
//!
//! Stored answers are verified like new ones. A truncated, expired or foreign file only costs a
//! query. There are at most as many files as served certificates, and each has the size of an
//! answer.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tollhouse_model::certificate::status::ANSWER_BYTES_MAX;

/// Name of the folder in the data folder.
const FOLDER: &str = "staples";

/// File name extension after the certificate's fingerprint.
const EXTENSION: &str = "ocsp";

/// SHA-256 of a certificate.
pub(super) type Fingerprint = [u8; 32];

/// Folder in which OCSP answers are stored across restarts.
#[derive(Debug)]
pub(super) struct StapleFolder {
    folder: PathBuf,
}

impl StapleFolder {
    pub(super) fn in_folder(data_dir: &Path) -> Self {
        Self { folder: data_dir.join(FOLDER) }
    }

    /// Returns the stored answer for a certificate, if any. Opens one file, which usually does not
    /// exist.
    pub(super) fn load(&self, certificate: &Fingerprint) -> Option<Vec<u8>> {
        let mut answer = Vec::new();
        let file = File::open(self.path(certificate)).ok()?;
        let read = file.take(ANSWER_BYTES_MAX as u64 + 1).read_to_end(&mut answer).ok()?;
        (read <= ANSWER_BYTES_MAX).then_some(answer)
    }

    /// Replaces the stored answer. It is not flushed to disk: an answer that a crash truncates is
    /// queried again.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn save(&self, certificate: &Fingerprint, answer: &[u8]) -> std::io::Result<()> {
        let mut folder = std::fs::DirBuilder::new();
        folder.recursive(true).mode(0o700).create(&self.folder)?;
        let path = self.path(certificate);
        // Named after this process, because a successor may be writing the same answer.
        let draft = path.with_extension(format!("{}.new", std::process::id()));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(answer)?;
        std::fs::rename(draft, path)
    }

    /// Deletes the stored answer for a certificate.
    ///
    /// # Errors
    /// If the file cannot be deleted.
    pub(super) fn forget(&self, certificate: &Fingerprint) -> std::io::Result<()> {
        match std::fs::remove_file(self.path(certificate)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Deletes all files except the answers for `certificates`, including drafts of crashed
    /// processes.
    ///
    /// # Errors
    /// If the folder exists but cannot be read, or a file cannot be deleted.
    pub(super) fn retain(&self, certificates: &[Fingerprint]) -> std::io::Result<()> {
        let files = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            files => files?,
        };
        let known: std::collections::HashSet<_> =
            certificates.iter().map(|certificate| self.path(certificate)).collect();
        for file in files {
            let path = file?.path();
            if known.contains(&path) {
                continue;
            }
            match std::fs::remove_file(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        Ok(())
    }

    fn path(&self, certificate: &Fingerprint) -> PathBuf {
        let mut name: String = certificate.iter().map(|byte| format!("{byte:02x}")).collect();
        name.push('.');
        name.push_str(EXTENSION);
        self.folder.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_until_they_are_let_go_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = StapleFolder::in_folder(folder.path());
        let (one, two, three) = ([1; 32], [2; 32], [3; 32]);
        kept.retain(&[]).expect("nothing is there");
        kept.forget(&one).expect("nothing is there");
        assert_eq!(kept.load(&one), None);
        for certificate in [one, two, three] {
            kept.save(&certificate, b"old").expect("written");
            kept.save(&certificate, &certificate).expect("written");
        }
        kept.forget(&one).expect("removed");
        kept.retain(&[one, three]).expect("removed");
        let found = [one, two, three].map(|certificate| kept.load(&certificate));
        assert_eq!(found, [None, None, Some(three.to_vec())]);
        let files = std::fs::read_dir(folder.path().join(FOLDER)).expect("a folder");
        assert_eq!(files.count(), 1);
    }

    #[test]
    fn a_file_that_is_too_long_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = StapleFolder::in_folder(folder.path());
        kept.save(&[1; 32], &vec![0; ANSWER_BYTES_MAX]).expect("written");
        kept.save(&[2; 32], &vec![0; ANSWER_BYTES_MAX + 1]).expect("written");
        let lengths = [1, 2].map(|of| kept.load(&[of; 32]).map(|answer| answer.len()));
        assert_eq!(lengths, [Some(ANSWER_BYTES_MAX), None]);
    }
}
