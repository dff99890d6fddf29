//! What a browser fetches of the console before anything is seen: the page, what it names, what that imports, and the words
//! of one language. It is held against a bound, since nobody notices a page that grows by a little each week.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Most bytes of it, compressed: a second on a slow line.
const BYTES_MAX: usize = 250_000;

/// The page.
const PAGE: &str = "index.html";

/// The words that most people load; those of other languages are as many.
const WORDS: &str = "en.js";

/// Fails where a browser has to fetch too much.
pub(super) fn check(files: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    let mut total = 0;
    let first = fetched_first(files)?;
    for name in &first {
        let bytes = files.get(name).with_context(|| format!("{name} is imported and missing"))?;
        total += compressed(bytes)?;
    }
    if total > BYTES_MAX {
        bail!(
            "the first load of the console is {total} bytes compressed; {BYTES_MAX} is the bound: move what the first \
             screen does not need behind a lazy route"
        );
    }
    println!("console: the first load is {total} bytes compressed, in {} files", first.len());
    Ok(())
}

/// The names of what is fetched first.
fn fetched_first(files: &BTreeMap<String, Vec<u8>>) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::from([PAGE.to_owned(), WORDS.to_owned()]);
    let mut open: Vec<String> = found.iter().cloned().collect();
    while let Some(name) = open.pop() {
        let bytes = files.get(&name).with_context(|| format!("{name} is missing"))?;
        let text = String::from_utf8_lossy(bytes);
        let marks: &[&str] = match name.rsplit('.').next() {
            Some("html") => &["src=\"./", "href=\"./"],
            // Imports that are called are of screens that nobody has opened.
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
            file("main.js", "import{a}from\"./a.js\";import\"./b.js\";import(\"./screen.js\")"),
            file("a.js", "import{c}from\"./b.js\""),
            file("b.js", ""),
            file("index.css", "@import \"./none.css\""),
            file("screen.js", "x"),
        ]);
        let first = fetched_first(&files).expect("all are there");
        let names: Vec<&str> = first.iter().map(String::as_str).collect();
        assert_eq!(names, ["a.js", "b.js", WORDS, "index.css", PAGE, "main.js"]);
        check(&files).expect("it is small");
        let mut large = files;
        let noise = (0..u32::try_from(BYTES_MAX).unwrap_or(u32::MAX))
            .map(|at| at.wrapping_mul(2_654_435_761));
        large.insert("b.js".to_owned(), noise.flat_map(u32::to_le_bytes).collect());
        assert!(check(&large).is_err_and(|error| error.to_string().contains("bound")));
    }
}
