//! The files that tidy checks: all text of the workspace, without build output and ignored files.

use super::links::Targets;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// Folders with built or downloaded files.
const SKIPPED_FOLDERS: &[&str] = &[
    "target",
    ".git",
    "node_modules",
    "console/node_modules",
    "crates/tollhouse-console/assets",
    "fuzz/target",
    "fuzz/corpus",
    "fuzz/artifacts",
];

/// Kind of text in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rust,
    Markdown,
    /// A `Cargo.toml` other than the root's.
    Manifest,
    Other,
}

/// A file and its text; the text of kind `Other` is only read for lists in `xtask/`.
pub(crate) struct File {
    /// Path from the root, with `/` between parts.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// Files of the repository.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
    /// Every file and folder, for the checks of references.
    paths: BTreeSet<String>,
    /// Every file's path, with and without its leading folders.
    endings: BTreeSet<String>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self { files: Vec::new(), paths: BTreeSet::new(), endings: BTreeSet::new() };
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    /// Checks whether a file has this path, or a path that ends with it after a `/`.
    pub(crate) fn has_ending(&self, name: &str) -> bool {
        self.endings.contains(name)
    }

    /// Returns the text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    fn read_folder(&mut self, root: &Path, folder: &str) -> Result<()> {
        let place = root.join(folder);
        let entries = std::fs::read_dir(&place).with_context(|| place.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if SKIPPED_FOLDERS.contains(&path.as_str()) {
                continue;
            }
            self.paths.insert(path.clone());
            let file_type = entry.file_type()?;
            if file_type.is_dir() {
                self.read_folder(root, &path)?;
            } else if file_type.is_file() {
                let folders = path.match_indices('/').map(|(at, _)| at + 1);
                let endings = std::iter::once(0).chain(folders).map(|at| path[at..].to_owned());
                self.endings.extend(endings);
                self.read_file(root, path)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, root: &Path, path: String) -> Result<()> {
        let kind = kind_of(&path);
        let is_list = path.starts_with("xtask/") && path.ends_with(".txt");
        let text = if kind != Kind::Other || is_list {
            std::fs::read_to_string(root.join(&path)).with_context(|| path.clone())?
        } else {
            String::new()
        };
        self.files.push(File { path, kind, text });
        Ok(())
    }
}

impl Targets for Tree {
    fn exists(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path)
    }

    fn document(&self, path: &str) -> Option<&str> {
        self.text(path)
    }
}

fn kind_of(path: &str) -> Kind {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("rs") => Kind::Rust,
        Some("md") => Kind::Markdown,
        Some("toml") if path.ends_with("/Cargo.toml") && !is_workspace_of_its_own(path) => {
            Kind::Manifest
        }
        _ => Kind::Other,
    }
}

/// Checks whether a manifest belongs to fuzz targets or test clients, whose versions are
/// independent of ours.
fn is_workspace_of_its_own(path: &str) -> bool {
    path.starts_with("fuzz/") || path.contains("/tests/interop/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_names() {
        let cases = [
            ("crates/a/src/lib.rs", Kind::Rust),
            ("README.md", Kind::Markdown),
            ("crates/a/Cargo.toml", Kind::Manifest),
            ("Cargo.toml", Kind::Other),
            ("fuzz/Cargo.toml", Kind::Other),
            ("crates/a/tests/interop/b/Cargo.toml", Kind::Other),
            ("LICENSE", Kind::Other),
        ];
        for (path, expected) in cases {
            assert_eq!(kind_of(path), expected, "{path}");
        }
    }

    #[test]
    fn the_tree_knows_its_folders() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("docs/reference")).unwrap();
        std::fs::create_dir_all(folder.path().join("target/debug")).unwrap();
        std::fs::write(folder.path().join("docs/a.md"), "text").unwrap();
        let tree = Tree::read(folder.path()).unwrap();
        assert!(tree.exists("docs/reference") && tree.exists("docs/a.md"));
        assert!(!tree.exists("target/debug"));
        assert_eq!(tree.text("docs/a.md"), Some("text"));
        assert!(
            tree.has_ending("a.md") && tree.has_ending("docs/a.md") && !tree.has_ending("d.md")
        );
    }
}
