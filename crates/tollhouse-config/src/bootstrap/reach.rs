//! Limits on what objects can reach on the machine: environment variables and files. The author of
//! an object need not be the administrator of the process.

use std::path::{Path, PathBuf};

use tollhouse_model::{Problem, Problems};

use super::Bootstrap;
use crate::environment;

/// Secrets outside the store that objects may refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Variables allowed in `$env://NAME`; `PREFIX*` allows all with that prefix.
    pub env: Vec<String>,
}

/// Place of the files that plugins write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFiles {
    /// Folder of the files that plugins write; by default `logs` in the data folder.
    pub folder: PathBuf,
}

impl LogFiles {
    /// Returns the default, `logs` in the data folder. Nothing else is stored in `logs`.
    pub(crate) fn in_folder(data_dir: &Path) -> Self {
        Self { folder: data_dir.join("logs") }
    }
}

/// Checks that objects cannot read the gateway's own settings, and that log files cannot overwrite
/// its data.
pub(super) fn check(bootstrap: &Bootstrap, problems: &mut Problems) {
    let own = |name: &&String| environment::is_own(name.trim_end_matches('*'));
    for name in bootstrap.secrets.env.iter().filter(own) {
        let reason = format!("{name:?} names the gateway's own settings, which no object may read");
        let problem = Problem::error("secrets.env", reason);
        problems.push(
            problem.with_hint("give the variable a name that does not begin with TOLLHOUSE_"),
        );
    }
    let folder = absolute(&bootstrap.log_files.folder);
    if absolute(&bootstrap.data_dir).starts_with(&folder) {
        let reason =
            "it contains the data folder, so that plugins could overwrite keys and settings";
        let problem = Problem::error("log_files.folder", reason);
        problems.push(
            problem.with_hint("give a separate folder, such as the default, logs in data_dir"),
        );
    }
}

/// Returns an absolute path without `.` and `..`. Symbolic links are not resolved; they are the
/// administrator's responsibility.
fn absolute(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut clean = PathBuf::new();
    for component in whole.components() {
        match component {
            std::path::Component::ParentDir => drop(clean.pop()),
            other => clean.push(other),
        }
    }
    clean
}
