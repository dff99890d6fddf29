//! Configuration files of ghz in every format: no panic, and an accepted file can be run or is
//! refused with a reason.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tollhouse_dialects::ghz::parse_config;

fuzz_target!(|text: &str| {
    // Files that a configuration names would be opened, and the result must not depend on this
    // machine's files.
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
