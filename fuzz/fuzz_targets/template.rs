//! Request templates: no panic and no endless work while parsing or rendering, and a static text is
//! rendered unchanged.
#![no_main]

use go_template::{Method, Template, Variables};
use libfuzzer_sys::fuzz_target;
use tollhouse_stdx::Random;

/// Limit for the output of one rendering in bytes, with room for the last piece.
const OUTPUT_BYTES_MAX: usize = 48 << 20;

fuzz_target!(|text: &str| {
    let Ok(template) = Template::parse(text) else { return };
    if !text.contains("{{") {
        assert_eq!(template.as_static(), Some(text), "plain text is changed");
    }
    let variables = Variables {
        worker_id: "g0c0",
        request_number: 42,
        method: &Method::default(),
        unix_ns: 1_709_211_845_678_901_234,
        uuid: 7,
    };
    let mut out = String::new();
    let is_rendered = template.render(&variables, &mut Random::seeded(1), &mut out).is_ok();
    assert!(out.len() <= OUTPUT_BYTES_MAX, "more is written than the bound allows");
    let mut again = String::new();
    let is_again = template.render(&variables, &mut Random::seeded(1), &mut again).is_ok();
    assert_eq!((is_rendered, out), (is_again, again), "the same seed gives another text");
});
