//! Paths: no panic, every normalised path has its root and no dot segments, and nodes read the
//! escaped path the same way.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollhouse_router::{NormalizeOptions, Normalized, escaped_path, normalize_path};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let options = NormalizeOptions {
        servlet_params: choice & 1 != 0,
        encoded_slash: choice & 2 != 0,
        delete_tail_slash: choice & 4 != 0,
    };
    // The parser of the head passes paths from their first slash on.
    let path = [b"/", rest].concat();
    let mut out = Vec::new();
    let normal = match normalize_path(&path, &options, &mut out) {
        Ok(Normalized::InOut) => out.as_slice(),
        Ok(Normalized::Borrowed) => path.as_slice(),
        Err(_) => return,
    };
    assert_eq!(normal.first(), Some(&b'/'), "a path without its root");
    let climbs = normal.split(|byte| *byte == b'/').any(|part| part == b"." || part == b"..");
    assert!(!climbs, "a path that still climbs");
    // Parameters and a trailing slash reach nodes, because the options remove them for routes only.
    let options = NormalizeOptions { encoded_slash: options.encoded_slash, ..Default::default() };
    let mut out = Vec::new();
    let normal = match normalize_path(&path, &options, &mut out) {
        Ok(Normalized::InOut) => out.as_slice(),
        Ok(Normalized::Borrowed) => path.as_slice(),
        Err(_) => return,
    };
    let escaped = escaped_path(&path, &options).expect("a path that can be normalised").into_owned();
    let mut again = Vec::new();
    let read = match normalize_path(&escaped, &options, &mut again) {
        Ok(Normalized::InOut) => again.as_slice(),
        _ => escaped.as_slice(),
    };
    assert_eq!(read, normal, "a path that its node reads otherwise");
});
