//! Documents of the Admin API and the declarative file: no panic, and documents with errors among
//! their problems are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollhouse_model::{GlobalRule, Id, PluginConfig, Problems, Route, Service, Upstream};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let Ok(value) = serde_json::from_slice(bytes) else { return };
    let id = Id::new("1");
    match choice % 5 {
        0 => check(Route::parse(id, &value, "route")),
        1 => check(Service::parse(id, &value, "service")),
        2 => check(Upstream::parse(Some(id), &value, "upstream")),
        3 => check(GlobalRule::parse(id, &value, "global_rule")),
        _ => check(PluginConfig::parse(id, &value, "plugin_config")),
    }
});

fn check<T>((document, problems): (Option<T>, Problems)) {
    assert_eq!(document.is_none(), problems.has_errors());
}
