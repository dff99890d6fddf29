//! Declarative files in both formats: no panic, and every item is readable afterwards.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollhouse_config::Format;
use tollhouse_config::declarative;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (format, text) = match choice % 2 {
        0 => (Format::Json, text.to_owned()),
        // A file without this end is refused immediately, which would test little.
        _ => (Format::Yaml, format!("{text}\n#END\n")),
    };
    let environment = |name: &str| (name.len() < 4).then(|| format!("value of {name}"));
    if let Ok(document) = declarative::parse(&text, format, &environment) {
        for item in &document.items {
            // The call may return a problem, but must not panic.
            let _read = item.value();
        }
    }
});
