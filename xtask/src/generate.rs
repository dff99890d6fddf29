//! `cargo x gen`: writes the reference pages under `docs/reference/` from the program itself.
//!
//! Each page is the output of `tollhouse reference <name>`, so that a page cannot differ from the
//! code. The list of plugins contains the names of the plugin pages. With `--check` nothing is
//! written, and a stale page is an error, as is the page of a plugin that no longer exists.

use crate::shell;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::PathBuf;

/// The pages, by their names in the program.
const PAGES: &[&str] = &["config", "errors", "metrics", "cli", PLUGINS];

/// Name of the page that lists plugins, and of the folder with their pages.
const PLUGINS: &str = "plugins";

/// Arguments of `cargo x gen`.
#[derive(Args)]
pub(crate) struct GenerateArguments {
    /// Write nothing; fail when a page differs from the program's output.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &GenerateArguments) -> Result<()> {
    if arguments.check {
        let stale = stale_pages()?;
        if !stale.is_empty() {
            bail!("stale, run `cargo x gen`: {}", stale.join(", "));
        }
        println!("the reference pages are current");
        return Ok(());
    }
    let pages = render_pages()?;
    for page in &pages {
        let path = page.path();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, &page.text).with_context(|| format!("writing {}", path.display()))?;
        println!("wrote {}", page.display_path());
    }
    for name in orphans(&pages)? {
        std::fs::remove_file(path_of(&name)).with_context(|| format!("removing {name}.md"))?;
        println!("removed {}", display_path(&name));
    }
    Ok(())
}

/// A page as the program prints it.
struct Page {
    /// Path below the reference without the extension, for example `plugins/key-auth`.
    name: String,
    text: String,
}

impl Page {
    fn path(&self) -> PathBuf {
        path_of(&self.name)
    }

    fn display_path(&self) -> String {
        display_path(&self.name)
    }
}

fn path_of(name: &str) -> PathBuf {
    shell::workspace_root().join("docs/reference").join(format!("{name}.md"))
}

fn display_path(name: &str) -> String {
    format!("docs/reference/{name}.md")
}

/// Returns the pages whose file differs from the program's output, and those that it no longer
/// prints.
pub(crate) fn stale_pages() -> Result<Vec<String>> {
    let pages = render_pages()?;
    let differs = |page: &&Page| {
        std::fs::read_to_string(page.path()).ok().as_deref() != Some(page.text.as_str())
    };
    let mut stale: Vec<String> = pages.iter().filter(differs).map(Page::display_path).collect();
    stale.extend(orphans(&pages)?.iter().map(|name| display_path(name)));
    Ok(stale)
}

/// Returns the files among the plugin pages that belong to no plugin.
fn orphans(pages: &[Page]) -> Result<Vec<String>> {
    let folder = shell::workspace_root().join("docs/reference").join(PLUGINS);
    let mut found = Vec::new();
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error).with_context(|| format!("reading {}", folder.display())),
    };
    for entry in entries {
        let file = entry?.file_name().to_string_lossy().into_owned();
        let Some(stem) = file.strip_suffix(".md") else { continue };
        let name = format!("{PLUGINS}/{stem}");
        if !pages.iter().any(|page| page.name == name) {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// Builds the program once and prints every page with it.
fn render_pages() -> Result<Vec<Page>> {
    shell::run(&mut shell::cargo(&["build", "--quiet", "--package", "tollhouse"]))?;
    let binary = shell::target_directory()?.join("debug/tollhouse");
    let program = binary.to_str().context("the target folder is not UTF-8")?;
    let mut pages = Vec::new();
    for name in PAGES {
        let text = printed(program, &["reference", name])?;
        pages.push(Page { name: (*name).to_owned(), text });
    }
    let list = pages.iter().find(|page| page.name == PLUGINS);
    for plugin in list.map(|page| linked(&page.text)).unwrap_or_default() {
        let text = printed(program, &["reference", "plugin", &plugin])?;
        pages.push(Page { name: format!("{PLUGINS}/{plugin}"), text });
    }
    Ok(pages)
}

fn printed(program: &str, words: &[&str]) -> Result<String> {
    // The width is fixed, so that the help text does not depend on the terminal.
    let mut command = shell::command(program, words);
    command.env("COLUMNS", "100").env("NO_COLOR", "1");
    let text = shell::capture(&mut command)?;
    if text.trim().is_empty() {
        bail!("`tollhouse {}` printed nothing", words.join(" "));
    }
    Ok(text)
}

/// Returns the plugins that the list links to.
fn linked(list: &str) -> Vec<String> {
    let opening = format!("]({PLUGINS}/");
    let targets = list.split(&opening).skip(1);
    targets.filter_map(|rest| rest.split_once(".md)").map(|(name, _)| name.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_lives_under_docs_reference() {
        assert!(path_of("errors").ends_with("docs/reference/errors.md"));
        assert!(path_of("plugins/cors").ends_with("docs/reference/plugins/cors.md"));
    }

    #[test]
    fn the_list_names_the_pages_of_plugins() {
        let list =
            "| [cors](plugins/cors.md) | 4000 |\n| ai | 1 |\n| [key-auth](plugins/key-auth.md) |";
        assert_eq!(linked(list), ["cors", "key-auth"]);
        assert!(linked("| [other](other/cors.md) |").is_empty());
    }
}
