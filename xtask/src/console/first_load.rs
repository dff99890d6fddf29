//! Size of the first load of the console: the page, the files that it names, the files that those
//! import, the texts of one language, and the guide that a new gateway shows. These are the files
//! that `console/e2e/live.spec.ts` counts in a browser. The size has a limit, because the growth of
//! a page by a little each week goes unnoticed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Limit for the transferred size in bytes: one second on a slow connection.
const BYTES_MAX: usize = 240_000;

const PAGE: &str = "index.html";

/// File with the texts of the most common language; those of other languages have about the same
/// size.
const WORDS: &str = "en.js";

/// File with the guide on the overview of a gateway without routes, which is the largest first
/// screen.
const GUIDE: &str = "start-guide.js";

/// Checks the size of the first load.
///
/// # Errors
/// If the first load is too large.
pub(super) fn check(files: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    let mut total = 0;
    let first = fetched_first(files)?;
    for name in &first {
        let bytes = files.get(name).with_context(|| format!("{name} is imported and missing"))?;
        // The page holds a nonce and is written anew for each request, uncompressed.
        total += if name == PAGE { bytes.len() } else { compressed(bytes)? };
    }
    if total > BYTES_MAX {
        bail!(
            "the first load of the console is {total} bytes; {BYTES_MAX} is the bound: move what the first \
             screen does not need behind a lazy route"
        );
    }
    println!("console: the first load is {total} bytes, in {} files", first.len());
    Ok(())
}

/// Returns the names of the files in the first load.
fn fetched_first(files: &BTreeMap<String, Vec<u8>>) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::from([PAGE, WORDS, GUIDE].map(str::to_owned));
    let mut open: Vec<String> = found.iter().cloned().collect();
    while let Some(name) = open.pop() {
        let bytes = files.get(&name).with_context(|| format!("{name} is missing"))?;
        let text = String::from_utf8_lossy(bytes);
        let marks: &[&str] = match name.rsplit('.').next() {
            Some("html") => &["src=\"./", "href=\"./"],
            // Imports that are called belong to screens that are not open yet.
            Some("js") => &["from\"./", "import\"./"],
            _ => &[],
        };
        for mark in marks {
            for rest in text.split(mark).skip(1) {
                let named = rest.split('"').next().unwrap_or_default();
                if files.contains_key(named) && found.insert(named.to_owned()) {
                    open.push(named.to_owned());
                }
            }
        }
    }
    Ok(found)
}

fn compressed(bytes: &[u8]) -> Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_imported_is_fetched_and_what_is_called_is_not() {
        let file = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
        let files = BTreeMap::from([
            file(PAGE, "<script src=\"./main.js\"></script><link href=\"./index.css\">"),
            file(WORDS, "export{}"),
            file(GUIDE, "import\"./form.js\""),
            file("form.js", ""),
            file("main.js", "import{a}from\"./a.js\";import\"./b.js\";import(\"./screen.js\")"),
            file("a.js", "import{c}from\"./b.js\""),
            file("b.js", ""),
            file("index.css", "@import \"./none.css\""),
            file("screen.js", "x"),
        ]);
        let first = fetched_first(&files).expect("all are there");
        let names: Vec<&str> = first.iter().map(String::as_str).collect();
        assert_eq!(names, ["a.js", "b.js", WORDS, "form.js", "index.css", PAGE, "main.js", GUIDE]);
        check(&files).expect("it is small");
        let mut large = files;
        let noise = (0..u32::try_from(BYTES_MAX).unwrap_or(u32::MAX))
            .map(|at| at.wrapping_mul(2_654_435_761));
        large.insert("b.js".to_owned(), noise.flat_map(u32::to_le_bytes).collect());
        assert!(check(&large).is_err_and(|error| error.to_string().contains("bound")));
    }
}
