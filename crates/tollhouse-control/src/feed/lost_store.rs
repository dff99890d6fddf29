//! Refusal to start with an empty store where a store existed before: otherwise an unmounted volume
//! or a failed restore would look like a working gateway.

use std::path::{Path, PathBuf};

use tollhouse_config::Bootstrap;

/// File name of the store in the data folder.
const STORE: &str = "store.db";

/// Lock file, created before a store's first file and never removed.
const LOCK: &str = "store.lock";

/// Files created only after the first store was opened. If a process was killed while it created
/// its first store, none of these files exists.
const MADE_LATER: [&str; 3] = ["keyring", "admin.key", "store.reserve"];

/// The folder's store is missing or empty.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is {state}, though a gateway kept its objects in this folder before: look whether the volume is mounted and \
     whether a restore has ended, and put the store or a backup of it back. To begin with an empty store, start once \
     with --set store.allow_missing=true",
    path.display()
)]
pub struct LostStore {
    path: PathBuf,
    state: &'static str,
}

/// Checks that the data folder still has the store that was in it.
///
/// # Errors
/// If the store is missing or empty, and the folder was in use.
pub fn check(bootstrap: &Bootstrap) -> Result<(), LostStore> {
    let folder = &bootstrap.data_dir;
    let path = folder.join(STORE);
    let state = match std::fs::metadata(&path).map(|file| file.len()) {
        Ok(0) => "empty",
        // Other damage is detected when the store is opened.
        Ok(_) => return Ok(()),
        Err(_) => "missing",
    };
    if bootstrap.store.allow_missing || !was_in_use(folder) {
        return Ok(());
    }
    Err(LostStore { path, state })
}

fn was_in_use(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).exists();
    let was_opened = has(LOCK) && MADE_LATER.iter().any(|name| has(name));
    // The second case is a folder that was copied without its lock files: a keyring is only created
    // with a store.
    was_opened || (has("keyring") && has("registry/store.db"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_had_a_store_is_refused_without_it() {
        let cases: [(&[&str], bool); 8] = [
            (&[], true),
            (&["store.lock"], true),
            (&["admin.key", "registry/store.db", "node.id"], true),
            (&["keyring"], true),
            (&["store.lock", "keyring"], false),
            (&["store.lock", "admin.key"], false),
            (&["store.lock", "store.reserve"], false),
            (&["keyring", "registry/store.db", "node.id"], false),
        ];
        for (files, is_good) in cases {
            for state in ["missing", "empty"] {
                let folder = tempfile::tempdir().expect("a folder");
                let file = |name: &str, text: &str| {
                    std::fs::write(folder.path().join(name), text).expect("it takes files");
                };
                std::fs::create_dir(folder.path().join("registry")).expect("it takes folders");
                files.iter().for_each(|name| file(name, "x"));
                if state == "empty" {
                    file(STORE, "");
                }
                let mut bootstrap =
                    Bootstrap { data_dir: folder.path().to_owned(), ..Bootstrap::default() };
                let checked = check(&bootstrap);
                assert_eq!(checked.is_ok(), is_good, "{files:?}");
                if let Err(error) = checked {
                    let text = error.to_string();
                    let path = folder.path().join(STORE).display().to_string();
                    assert!(text.contains(&format!("{path} is {state}")), "{text}");
                    assert!(text.contains("--set store.allow_missing=true"), "{text}");
                }
                bootstrap.store.allow_missing = true;
                check(&bootstrap).expect("it is allowed");
                file(STORE, "x");
                bootstrap.store.allow_missing = false;
                check(&bootstrap).expect("it is there");
            }
        }
    }
}
