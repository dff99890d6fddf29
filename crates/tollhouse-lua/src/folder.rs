//! Folder of scripts: plugins in `plugins/`, and modules that scripts load with `require`. It is
//! read when the process starts; scripts themselves open no file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Total length of all files, in bytes.
const BYTES_MAX: u64 = 16 << 20;

/// Levels of folders.
const DEPTH_MAX: usize = 8;

/// Why a folder cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("failed to read {0}: {1}")]
    Unreadable(PathBuf, std::io::Error),
    #[error("{0} is not UTF-8")]
    NotText(PathBuf),
    #[error("the Lua files of the folder have more than 16 MiB")]
    TooLarge,
}

/// Reads all Lua files of a folder: text by module name, such as `plugins.greet`. The folder may
/// have APISIX's layout, in which plugins are in `apisix/plugins/`.
///
/// # Errors
/// If a file cannot be read.
pub fn read_folder(folder: &Path) -> Result<BTreeMap<String, String>, FolderError> {
    let mut found = BTreeMap::new();
    let mut bytes = 0;
    read_into(folder, "", 0, &mut found, &mut bytes)?;
    let names = found.into_iter();
    Ok(names.map(|(name, text)| (own_name(&name), text)).collect())
}

fn own_name(name: &str) -> String {
    name.strip_prefix("apisix.").unwrap_or(name).to_owned()
}

fn read_into(
    folder: &Path,
    prefix: &str,
    depth: usize,
    found: &mut BTreeMap<String, String>,
    bytes: &mut u64,
) -> Result<(), FolderError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| FolderError::Unreadable(path, error)
    };
    for entry in std::fs::read_dir(folder).map_err(unreadable(folder))? {
        let path = entry.map_err(unreadable(folder))?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = if prefix.is_empty() { stem.to_owned() } else { format!("{prefix}.{stem}") };
        let facts = std::fs::metadata(&path).map_err(unreadable(&path))?;
        if facts.is_dir() {
            if depth < DEPTH_MAX {
                read_into(&path, &name, depth + 1, found, bytes)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            *bytes += facts.len();
            if *bytes > BYTES_MAX {
                return Err(FolderError::TooLarge);
            }
            let text = std::fs::read(&path).map_err(unreadable(&path))?;
            let text = String::from_utf8(text).map_err(|_| FolderError::NotText(path.clone()))?;
            // The first line may name an interpreter.
            let text = if text.starts_with('#') { format!("--{text}") } else { text };
            found.insert(name, text);
        }
    }
    Ok(())
}
