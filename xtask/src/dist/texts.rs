//! Completions and manual pages, printed by the binary itself, so that they cannot differ from it.

use crate::shell;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

pub(super) struct Page {
    pub(super) name: String,
    pub(super) text: String,
}

pub(super) struct Texts {
    pub(super) bash: String,
    pub(super) zsh: String,
    pub(super) fish: String,
    /// Manual pages of section 1, one for each command.
    pub(super) pages: Vec<Page>,
}

impl Texts {
    pub(super) fn from_binary(binary: &Path) -> Result<Self> {
        let completions =
            |shell: &str| shell::capture(Command::new(binary).args(["completions", shell]));
        let folder = tempfile::tempdir()?;
        shell::run(Command::new(binary).arg("man-pages").arg(folder.path()))
            .context("the binary must run on this machine to describe itself")?;
        let mut pages = Vec::new();
        for file in std::fs::read_dir(folder.path())? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            pages.push(Page { name, text: std::fs::read_to_string(file.path())? });
        }
        pages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self {
            bash: completions("bash")?,
            zsh: completions("zsh")?,
            fish: completions("fish")?,
            pages,
        })
    }
}
