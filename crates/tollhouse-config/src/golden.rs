//! Golden files: an input, a ruler of dashes, and the expected output.
//!
//! `UPDATE_EXPECT=1` rewrites the expected output; the difference is then reviewed like code.

use std::fs;
use std::path::PathBuf;

const RULER: &str = "\n--------\n";

/// Runs `render` on every file of `testdata` whose name begins with `prefix`.
pub(crate) fn check(prefix: &str, render: impl Fn(&str) -> String) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the folder is part of the tree")
        .map(|entry| entry.expect("its entries can be read").path())
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        })
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no golden file begins with {prefix}");
    for path in paths {
        let text = fs::read_to_string(&path).expect("a golden file is text");
        let (input, expected) = text.split_once(RULER).expect("a golden file has a ruler");
        let found = render(&format!("{input}\n"));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            let updated = format!("{input}{RULER}{}\n", found.trim_end());
            fs::write(&path, updated).expect("a golden file can be written");
            continue;
        }
        let name = path.file_name().unwrap_or_default().display().to_string();
        assert_eq!(found.trim_end(), expected.trim_end(), "{name}");
    }
}

/// Looks up a variable in the environment that all golden files share.
pub(crate) fn environment(name: &str) -> Option<String> {
    match name {
        "UPSTREAM_PORT" => Some("1980".to_owned()),
        "TOLLHOUSE_WORKERS" => Some("2".to_owned()),
        "TOLLHOUSE_METRICS_PORT" => Some("9999".to_owned()),
        _ => None,
    }
}
