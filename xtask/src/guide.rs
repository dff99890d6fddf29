//! `cargo x guide`: follows the guide for plugins as a reader would.
//!
//! The files that the guide shows are written to a temporary folder, and the crate is tested, built
//! and run there. Crates of the registry are shared with the tree's own target folder; those of the
//! tree are built once more, because they belong to another workspace there.

use crate::shell;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Guide with the files of the crate, each after a line with its path.
const GUIDE: &str = "docs/guides/write-a-plugin.md";
/// Folder that the guide calls the crate.
const CRATE: &str = "my-gateway";
/// Path of the tree in the guide's manifest.
const TREE: &str = "../tollhouse/";

pub(crate) fn run() -> Result<()> {
    let root = shell::workspace_root();
    let text = fs::read_to_string(root.join(GUIDE)).context(GUIDE)?;
    let files = files(&text);
    if files.len() < 2 {
        bail!("{GUIDE} does not show the files of {CRATE}");
    }
    let folder = std::env::temp_dir().join(format!("tollhouse-guide-{}", std::process::id()));
    let result = follow(&root, &folder, &files);
    let _ = fs::remove_dir_all(&folder);
    result
}

/// Writes the files, then tests, builds and runs the crate.
fn follow(root: &Path, folder: &Path, files: &[(String, String)]) -> Result<()> {
    for (path, content) in files {
        let file = folder.join(path);
        fs::create_dir_all(file.parent().context("a file is in a folder")?)?;
        let tree = format!("{}/", root.display());
        fs::write(&file, content.replace(TREE, &tree))?;
    }
    let home = folder.join(CRATE);
    // The versions that the tree is tested with, so that nothing is downloaded.
    fs::copy(root.join("Cargo.lock"), home.join("Cargo.lock"))?;
    shell::run(&mut cargo(root, &home, &["test", "--offline"]))?;
    shell::run(&mut cargo(root, &home, &["build", "--offline"]))?;
    let output = cargo(root, &home, &["run", "--offline", "--quiet", "--", "plugins"]).output()?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || !listed.contains("require-header") {
        bail!("the binary of the guide does not list its plugin:\n{listed}");
    }
    println!("the guide builds a gateway with the plugin require-header");
    Ok(())
}

fn cargo(root: &Path, home: &Path, words: &[&str]) -> Command {
    let mut command = shell::cargo(words);
    command.current_dir(home).env("CARGO_TARGET_DIR", target(root));
    command
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Returns the files that a guide shows: a line with the path in backticks and a colon, and the code
/// block after it.
fn files(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    let mut path = None;
    while let Some(line) = lines.next() {
        if let Some(named) = line.strip_prefix('`').and_then(|rest| rest.strip_suffix("`:")) {
            path = Some(named.to_owned()).filter(|path| path.starts_with(CRATE));
        } else if line.starts_with("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            if let Some(path) = path.take() {
                found.push((path, block.join("\n") + "\n"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_the_blocks_after_their_paths() {
        let text = "x\n\n`my-gateway/Cargo.toml`:\n\n```toml\na\nb\n```\n\n```sh\nno\n```\n`other`:\n\n```\nno\n```\n";
        let expected = vec![("my-gateway/Cargo.toml".to_owned(), "a\nb\n".to_owned())];
        assert_eq!(files(text), expected);
    }

    #[test]
    fn the_guide_shows_manifest_and_program() {
        let text =
            fs::read_to_string(shell::workspace_root().join(GUIDE)).expect("the guide exists");
        let paths: Vec<String> = files(&text).into_iter().map(|(path, _)| path).collect();
        let expected =
            ["my-gateway/src/require_header.rs", "my-gateway/Cargo.toml", "my-gateway/src/main.rs"];
        assert_eq!(paths, expected);
    }
}
