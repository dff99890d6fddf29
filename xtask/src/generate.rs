//! `cargo x gen`: the reference pages under `docs/reference/`, written by the program itself.
//!
//! Each page is what `tollhouse reference <name>` prints, so that a page cannot differ from the
//! code. With `--check` nothing is written and a stale page is an error.

use crate::shell;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::PathBuf;

/// The pages, by the name the program knows them under.
const PAGES: &[&str] = &["config", "errors", "metrics", "cli"];

/// Arguments of `cargo x gen`.
#[derive(Args)]
pub(crate) struct GenerateArguments {
    /// Write nothing; fail when a page differs from what the program prints.
    #[arg(long)]
    check: bool,
}

/// Runs `cargo x gen`.
pub(crate) fn run(arguments: &GenerateArguments) -> Result<()> {
    if arguments.check {
        let stale = stale_pages()?;
        if !stale.is_empty() {
            bail!("stale, run `cargo x gen`: {}", stale.join(", "));
        }
        println!("the reference pages are current");
        return Ok(());
    }
    for (name, text) in render_pages()? {
        let path = page_path(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        println!("wrote docs/reference/{name}.md");
    }
    Ok(())
}

/// The pages whose file differs from what the program prints.
pub(crate) fn stale_pages() -> Result<Vec<String>> {
    let stale = render_pages()?
        .into_iter()
        .filter(|(name, text)| {
            std::fs::read_to_string(page_path(name)).ok().as_deref() != Some(text.as_str())
        })
        .map(|(name, _)| format!("docs/reference/{name}.md"))
        .collect();
    Ok(stale)
}

fn page_path(name: &str) -> PathBuf {
    shell::workspace_root().join("docs/reference").join(format!("{name}.md"))
}

/// Builds the program once and asks it for every page.
fn render_pages() -> Result<Vec<(&'static str, String)>> {
    shell::run(&mut shell::cargo(&["build", "--quiet", "--package", "tollhouse"]))?;
    let binary = shell::target_directory()?.join("debug/tollhouse");
    let program = binary.to_str().context("the target folder is not UTF-8")?;
    PAGES
        .iter()
        .map(|name| {
            // A fixed width: the help text must not depend on the terminal.
            let mut command = shell::command(program, &["reference", name]);
            command.env("COLUMNS", "100").env("NO_COLOR", "1");
            let text = shell::capture(&mut command)?;
            if text.trim().is_empty() {
                bail!("`tollhouse reference {name}` printed nothing");
            }
            Ok((*name, text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_lives_under_docs_reference() {
        assert!(page_path("errors").ends_with("docs/reference/errors.md"));
    }
}
