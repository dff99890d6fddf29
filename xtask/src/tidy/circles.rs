//! Files of one crate that refer to each other in a circle, so that one cannot be read or changed
//! without the others.
//!
//! The check reads the text: `use` lines and paths in the code, without tests. A reexport
//! (`pub use`) counts for the file that defines the item. Names made by macros are not found.

use super::finding::{Finding, Severity};
use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of files in one circle: a noun, its parts, and the file that distributes work
/// among them.
const CIRCLE_FILES_MAX: usize = 10;

/// Known larger circles, as crate, number of files and reason. An entry may only shrink.
const KNOWN: &[(&str, usize, &str)] =
    &[("tollhouse-load", 15, "the rules of honesty, one file each, and the list that runs them")];

/// Path of a module in its crate; empty for the crate's root.
type Module = Vec<String>;

/// References from one file to others.
struct File<'s> {
    path: &'s str,
    /// Paths that the file refers to, from the crate's root.
    named: Vec<Module>,
}

/// Finds circles of references among the files of each crate.
pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        if let Some((name, _)) = place(&source.path) {
            crates.entry(name).or_default().push(source);
        }
    }
    crates.iter().filter_map(|(name, sources)| check_crate(name, sources)).collect()
}

fn check_crate(name: &str, sources: &[&Source]) -> Option<Finding> {
    let largest = circles(sources).into_iter().max_by_key(Vec::len).unwrap_or_default();
    let known = KNOWN.iter().find(|(known, ..)| *known == name).map(|(_, files, _)| *files);
    let (what, remedy) = match known {
        Some(files) if largest.len() < files => (
            format!(
                "the largest circle of {name} has {} files, and {files} are allowed",
                largest.len()
            ),
            "lower its entry in xtask/src/tidy/circles.rs, or remove it".to_owned(),
        ),
        known if largest.len() > known.unwrap_or(CIRCLE_FILES_MAX) => (
            format!("{} files name each other in a circle: {}", largest.len(), largest.join(", ")),
            "put what all of them need into a file that names none of them".to_owned(),
        ),
        _ => return None,
    };
    Some(Finding {
        path: largest.first().copied().unwrap_or(name).to_owned(),
        line: 0,
        severity: Severity::Fails,
        what,
        why: "files in a circle can only be understood together",
        remedy,
    })
}

/// Returns groups of two or more files that refer to each other, directly or indirectly.
fn circles<'s>(sources: &[&'s Source]) -> Vec<Vec<&'s str>> {
    let modules: BTreeSet<Module> =
        sources.iter().filter_map(|source| Some(place(&source.path)?.1)).collect();
    let mut files: BTreeMap<Module, File<'s>> = BTreeMap::new();
    let mut handed_on: BTreeMap<Module, Module> = BTreeMap::new();
    for source in sources {
        let Some((_, module)) = place(&source.path) else { continue };
        let uses = uses(&code_outside_tests(source));
        for (name, target) in uses.handed_on {
            if let Some(target) = absolute(&module, &target, &modules) {
                handed_on.insert([module.clone(), vec![name]].concat(), target);
            }
        }
        let named = uses.named.iter().filter_map(|path| absolute(&module, path, &modules));
        files.insert(module.clone(), File { path: &source.path, named: named.collect() });
    }
    let names: Vec<&Module> = files.keys().collect();
    let arrows: Vec<BTreeSet<usize>> = files
        .iter()
        .map(|(module, file)| {
            let owners = file.named.iter().map(|path| owner(path, &files, &handed_on));
            owners
                .filter(|owner| owner != module)
                .filter_map(|it| names.binary_search(&&it).ok())
                .collect()
        })
        .collect();
    let reached: Vec<BTreeSet<usize>> =
        (0..arrows.len()).map(|from| reach(from, &arrows)).collect();
    let mut groups: BTreeMap<usize, Vec<&'s str>> = BTreeMap::new();
    for (index, file) in files.values().enumerate() {
        let first = reached[index].iter().find(|other| reached[**other].contains(&index));
        if let Some(first) = first.filter(|_| reached[index].contains(&index)) {
            groups.entry(*first.min(&index)).or_default().push(file.path);
        }
    }
    groups.into_values().filter(|group| group.len() > 1).collect()
}

/// Returns the crate of a file, and its module.
fn place(path: &str) -> Option<(&str, Module)> {
    let (name, below) = match path.strip_prefix("crates/") {
        Some(rest) => rest.split_once("/src/")?,
        None => ("xtask", path.strip_prefix("xtask/src/")?),
    };
    let mut module: Module = below.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    let is_root = module.len() == 1 && (module[0] == "lib" || module[0] == "main");
    if is_root || module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    Some((name, module))
}

fn code_outside_tests(source: &Source) -> String {
    let lines = source.lines.iter().filter(|line| !line.in_test);
    lines.map(|line| line.code.as_str()).collect::<Vec<_>>().join("\n")
}

/// Modules that a file's code refers to.
#[derive(Default)]
struct Uses {
    /// Paths as written, from the first segment to the last.
    named: Vec<Module>,
    /// Names that `pub use` exports, with their targets.
    handed_on: Vec<(String, Module)>,
}

fn uses(code: &str) -> Uses {
    let mut uses = Uses::default();
    let mut imported: BTreeMap<String, Module> = BTreeMap::new();
    let mut rest = String::new();
    for statement in code.split_inclusive(';') {
        let start = statement.rfind("use ").filter(|start| is_import(statement, *start));
        let Some(start) = start else {
            rest.push_str(statement);
            continue;
        };
        let (before, tree) = (&statement[..start], &statement[start + 4..]);
        let (line_start, is_public) =
            before.rfind('\n').map_or((0, before), |at| (at, &before[at..]));
        rest.push_str(&before[..line_start]);
        for path in expand(&[], tree.trim_end_matches(';')) {
            let Some(name) = path.last().cloned() else { continue };
            if is_public.trim_start().starts_with("pub") {
                uses.handed_on.push((name, path));
            } else {
                imported.insert(name, path.clone());
                uses.named.push(path);
            }
        }
    }
    for path in paths(&rest) {
        let first = imported.get(&path[0]);
        uses.named.push(match first {
            Some(imported) => [imported.as_slice(), &path[1..]].concat(),
            None => path,
        });
    }
    uses
}

/// Checks whether `use ` at this byte begins a statement, and is not part of a word or of another
/// statement.
fn is_import(statement: &str, start: usize) -> bool {
    let line = statement[..start].rsplit('\n').next().unwrap_or_default().trim();
    line.is_empty() || (line.starts_with("pub") && !line.contains(' '))
}

/// Returns all paths of a `use` tree. `self` and aliases (the names after `as`) are left out.
fn expand(before: &[String], tree: &str) -> Vec<Module> {
    let mut found = Vec::new();
    for part in split_at_commas(tree) {
        let (path, inner) = match part.trim().split_once('{') {
            Some((path, inner)) => (path, Some(inner.trim_end().trim_end_matches('}'))),
            None => (part.split(" as ").next().unwrap_or_default(), None),
        };
        let segments = path.split("::").map(str::trim);
        let segments = segments.filter(|it| !it.is_empty() && (*it != "self" || before.is_empty()));
        let whole: Module = before.iter().cloned().chain(segments.map(str::to_owned)).collect();
        match inner {
            Some(inner) => found.extend(expand(&whole, inner)),
            None if whole.is_empty() => {}
            None => found.push(whole),
        }
    }
    found
}

fn split_at_commas(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// Returns the paths with at least two segments.
fn paths(code: &str) -> Vec<Module> {
    let is_part = |it: char| it.is_alphanumeric() || it == '_' || it == ':';
    let words = code.split(|it| !is_part(it)).filter(|word| word.contains("::"));
    let segments = words.map(|word| word.split("::").filter(|it| !it.is_empty()));
    segments.map(|it| it.map(str::to_owned).collect::<Module>()).filter(|it| it.len() > 1).collect()
}

/// Returns a path from the crate's root, or `None` if it belongs to another crate.
fn absolute(module: &Module, path: &[String], modules: &BTreeSet<Module>) -> Option<Module> {
    let first = path.first()?;
    let ups = path.iter().take_while(|it| *it == "super").count();
    if first == "crate" {
        return Some(path[1..].to_vec());
    }
    if ups > 0 {
        let above = module.len().checked_sub(ups)?;
        return Some([&module[..above], &path[ups..]].concat());
    }
    if first == "self" {
        return Some([module, &path[1..]].concat());
    }
    let below = [module.as_slice(), &path[..1]].concat();
    modules.contains(&below).then(|| [module.as_slice(), path].concat())
}

/// Returns the module whose file defines the item of a path: the longest prefix of the path that is
/// a file, after following its reexports.
fn owner(
    path: &Module,
    files: &BTreeMap<Module, File<'_>>,
    handed_on: &BTreeMap<Module, Module>,
) -> Module {
    let mut path = path.clone();
    // The limit for reexports that refer to each other prevents an endless loop.
    for _ in 0..8 {
        let length = (0..=path.len()).rev().find(|length| files.contains_key(&path[..*length]));
        let length = length.unwrap_or_default();
        match path.get(..=length).and_then(|name| handed_on.get(name)) {
            Some(target) => path = [target.as_slice(), &path[length + 1..]].concat(),
            None => return path[..length].to_vec(),
        }
    }
    path
}

/// Returns all files that can be reached from a file. The file itself is included only if a path
/// leads back to it.
fn reach(from: usize, arrows: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<usize> = arrows[from].iter().copied().collect();
    while let Some(file) = waiting.pop() {
        if reached.insert(file) {
            waiting.extend(&arrows[file]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source::parse(&format!("crates/a/src/{path}"), text))
            .collect();
        let sources: Vec<&Source> = sources.iter().collect();
        let own = |path: &&str| path.trim_start_matches("crates/a/src/").to_owned();
        circles(&sources).iter().map(|circle| circle.iter().map(own).collect()).collect()
    }

    #[test]
    fn files_that_name_each_other_are_found_however_they_do() {
        let cases: [(&str, &str); 5] = [
            ("use crate::b::B;", "use crate::a::A;"),
            ("use super::b::{self, B};", "fn f() { crate::a::g() }"),
            (
                "use crate::b;\nfn f() -> b::B {}",
                "pub(crate) use super::c::C;\nuse super::a;\nfn g() { a::h() }",
            ),
            ("use crate::{c::C, b::{D as E, B}};", "use crate::{\n    a::A,\n};"),
            ("fn f() { super::b::g() }", "use super::a::A;"),
        ];
        for (a, b) in cases {
            let found = found(&[
                ("lib.rs", "mod a;\nmod b;"),
                ("a.rs", a),
                ("b.rs", b),
                ("c.rs", "struct C;"),
            ]);
            assert_eq!(found, [["a.rs", "b.rs"]], "{a} | {b}");
        }
    }

    #[test]
    fn what_is_only_imported_one_way_or_in_tests_or_comments_is_no_circle() {
        let b = "// crate::a::A\nfn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}";
        assert_eq!(found(&[("a.rs", "use crate::b::f;"), ("b.rs", b)]), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_name_that_is_handed_on_counts_for_the_file_that_defines_it() {
        let files = [
            ("lib.rs", "pub use a::A;\nmod a;\nmod b;"),
            ("a.rs", "pub struct A;"),
            ("b.rs", "use crate::A;"),
            ("a/c.rs", "use super::A;"),
        ];
        assert_eq!(found(&files), Vec::<Vec<String>>::new());
        let back = [files[0], ("a.rs", "use crate::b::B;"), files[2]];
        assert_eq!(found(&back), [["a.rs", "b.rs"]]);
    }

    #[test]
    fn a_circle_past_the_limit_is_a_finding_that_names_its_files() {
        let ring = |count: usize| -> Vec<Source> {
            let text = |next: usize| format!("use crate::f{next}::F;");
            (0..count)
                .map(|n| Source::parse(&format!("crates/a/src/f{n}.rs"), &text((n + 1) % count)))
                .collect()
        };
        assert!(check(&ring(CIRCLE_FILES_MAX)).is_empty());
        let findings = check(&ring(CIRCLE_FILES_MAX + 1));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].what.contains("f10.rs"), "{}", findings[0].what);
    }
}
