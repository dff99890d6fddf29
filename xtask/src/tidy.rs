//! `cargo x tidy`: the house rules that no compiler checks, each a small pure function in a
//! separate file.
//!
//! A check takes text and returns findings. This file only passes the tree to the checks and prints
//! the findings: the place, the problem, the reason and the remedy.

mod changelog;
mod circles;
mod citations;
mod commits;
mod direction;
mod finding;
mod functions;
mod glossary;
mod language;
mod layout;
mod links;
mod manifest;
mod sans_io;
mod source;
mod test_rules;
mod tree;
mod words;

use crate::{generate, shell};
use anyhow::{Result, bail};
use clap::Args;
use finding::{Finding, Severity};
use source::Source;
use tree::{Kind, Tree};

/// List of tolerated functions that are longer than the limit; the file may only shrink.
const RATCHET_PATH: &str = "xtask/ratchet.txt";
/// List of files with known offences against plain English; the list may only shrink.
const WORDING_PATH: &str = "xtask/wording.txt";
/// Document whose last table lists the words to avoid.
const GLOSSARY_PATH: &str = "docs/glossary.md";

/// Arguments of `cargo x tidy`.
#[derive(Args)]
pub(crate) struct TidyArguments {
    /// Lower the entries of xtask/wording.txt to what their files still hold, before the check.
    #[arg(long)]
    shrink: bool,
}

pub(crate) fn run(arguments: &TidyArguments) -> Result<()> {
    if arguments.shrink {
        let tree = Tree::read(&shell::workspace_root())?;
        let offences: Vec<_> = read_sources(&tree).iter().flat_map(language::offences).collect();
        let shrunk = language::shrink(&offences, tree.text(WORDING_PATH).unwrap_or_default());
        std::fs::write(shell::workspace_root().join(WORDING_PATH), shrunk)?;
    }
    let mut findings = check_tree()?;
    let subject = shell::capture(&mut shell::command("git", &["log", "-1", "--format=%s"]))
        .unwrap_or_default();
    findings.extend(commits::check(&subject));
    findings.extend(check_generated());
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for finding in &findings {
        println!("{finding}\n");
    }
    let failures = findings.iter().filter(|f| f.severity == Severity::Fails).count();
    println!("tidy: {failures} to fix, {} to consider", findings.len() - failures);
    if failures > 0 {
        bail!("the tree is not tidy");
    }
    Ok(())
}

/// Runs every check that only needs the files and `cargo metadata`, not a built program.
fn check_tree() -> Result<Vec<Finding>> {
    let tree = Tree::read(&shell::workspace_root())?;
    let text = tree.text(GLOSSARY_PATH).unwrap_or_default();
    let (glossary, mut findings) = glossary::Glossary::parse(GLOSSARY_PATH, text);
    let (mut long_functions, mut offences) = (Vec::new(), Vec::new());
    let sources = read_sources(&tree);
    findings.extend(circles::check(&sources));
    for source in &sources {
        findings.extend(layout::check(source));
        findings.extend(words::check(source));
        findings.extend(glossary.check(source));
        findings.extend(test_rules::check(source));
        findings.extend(sans_io::check(source));
        findings.extend(citations::check(source, &|name| tree.has_ending(name)));
        long_functions.extend(functions::long_functions(source));
        offences.extend(language::offences(source));
    }
    for file in &tree.files {
        match file.kind {
            Kind::Markdown => {
                findings.extend(links::check(&file.path, &file.text, &tree));
                let exists = |name: &str| tree.has_ending(name);
                findings.extend(citations::check_document(&file.path, &file.text, &exists));
            }
            Kind::Manifest => findings.extend(manifest::check(&file.path, &file.text)),
            Kind::Rust | Kind::Other => {}
        }
        findings.extend(changelog::check(&file.path));
    }
    let ratchet = tree.text(RATCHET_PATH).unwrap_or_default();
    // All files are checked together, so that a function that has moved counts as the same one.
    findings.extend(functions::check(&long_functions, RATCHET_PATH, ratchet));
    findings.extend(language::check(
        &offences,
        WORDING_PATH,
        tree.text(WORDING_PATH).unwrap_or_default(),
    ));
    findings.extend(direction::check(&read_packages()?));
    Ok(findings)
}

/// Returns the handwritten Rust files, and marks test modules as such even if only their parent
/// declares it.
fn read_sources(tree: &Tree) -> Vec<Source> {
    let is_written = |path: &str| !path.contains("/generated/");
    let files = tree.files.iter().filter(|file| file.kind == Kind::Rust && is_written(&file.path));
    let mut sources: Vec<Source> =
        files.map(|file| Source::parse(&file.path, &file.text)).collect();
    let test_modules: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in &mut sources {
        source.mark_if_below(&test_modules);
    }
    sources
}

fn read_packages() -> Result<Vec<direction::Package>> {
    let words = ["metadata", "--format-version=1", "--no-deps", "--offline"];
    let metadata = serde_json::from_str(&shell::capture(&mut shell::cargo(&words))?)?;
    Ok(direction::packages_from_metadata(&metadata))
}

/// Checks the generated pages; a program that cannot print them is a finding too.
fn check_generated() -> Vec<Finding> {
    let finding = |path: String, what: String| Finding {
        path,
        line: 0,
        severity: Severity::Fails,
        what,
        why: "a wrong reference misleads readers",
        remedy: "run `cargo x gen` and commit the result".to_owned(),
    };
    match generate::stale_pages() {
        Ok(stale) => stale
            .into_iter()
            .map(|page| finding(page, "differs from what the program prints".to_owned()))
            .collect(),
        Err(error) => vec![finding("docs/reference".to_owned(), format!("{error:#}"))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_keeps_the_rules_of_the_house() {
        let findings = check_tree().expect("the tree can be read");
        let failures: Vec<String> = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Fails)
            .map(ToString::to_string)
            .collect();
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    }
}
