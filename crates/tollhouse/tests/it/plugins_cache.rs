//! proxy-cache, seen from outside: what is kept, for whom, and what clients are told about it.

use serde_json::json;

use crate::cases::Bench;

#[test]
fn answers_are_kept() {
    let bench = Bench::start();
    bench.put("/consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": "one"}}}));
    bench.put("/consumers", json!({"username": "rose", "plugins": {"key-auth": {"key": "two"}}}));
    bench.check(include_str!("cases/tables/proxy_cache.txt"));
}

#[test]
fn caches_refuse_bad_confs() {
    Bench::start().refuse(include_str!("cases/tables/proxy_cache_refusals.txt"));
}
