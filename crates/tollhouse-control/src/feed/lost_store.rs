//! Refuses to begin with an empty store where there was one before: a volume that is not mounted or a restore that failed
//! half-way would otherwise look like a gateway that runs.

use std::path::{Path, PathBuf};

use tollhouse_config::Bootstrap;

/// The store of the data folder.
const STORE: &str = "store.db";

/// Made before a store's first file, and never removed.
const LOCK: &str = "store.lock";

/// Made once a store was open: a process that was killed while it made its first store leaves none of them.
const MADE_LATER: [&str; 3] = ["keyring", "admin.key", "store.reserve"];

/// The store of a folder is gone.
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

/// Checks that the data folder has the store that was in it.
///
/// # Errors
/// It is missing or empty, and the folder was in use.
pub fn check(bootstrap: &Bootstrap) -> Result<(), LostStore> {
    let folder = &bootstrap.data_dir;
    let path = folder.join(STORE);
    let state = match std::fs::metadata(&path).map(|file| file.len()) {
        Ok(0) => "empty",
        // What else keeps it from being read is found by opening it.
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
    // A folder that was brought here without its locks. Without a store no keyring is made.
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
