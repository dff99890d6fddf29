//! Configuration files of ghz in every format: no panic, and what is taken can be measured or is refused
//! with a reason in one line.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tollhouse_dialects::ghz::parse_config;

fuzz_target!(|text: &str| {
    // Files that a configuration names are opened; nothing here is to depend on this machine's.
    if text.contains("file") {
        return;
    }
    for name in ["a.json", "a.toml", "a.yaml", "a"] {
        match parse_config(Path::new(name), text) {
            Ok(command) => {
                if let Err(error) = command.case.validate() {
                    assert!(!error.to_string().is_empty(), "refused without a reason");
                }
                assert!(serde_json::to_string(&command.options).is_ok(), "options are plain data");
            }
            Err(error) => assert!(!error.to_string().is_empty(), "refused without a reason"),
        }
    }
});
