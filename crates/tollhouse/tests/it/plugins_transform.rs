//! Plugins that change requests and answers, seen from outside: proxy-rewrite, response-rewrite,
//! redirect, mocking, fault-injection, echo, request-id, gzip and brotli.

use serde_json::json;

use crate::cases::Bench;

#[test]
fn requests_are_rewritten() {
    let bench = Bench::start();
    bench.check(include_str!("cases/tables/proxy_rewrite.txt"));
    bench.refuse(include_str!("cases/tables/transform_refusals.txt"));
}

#[test]
fn answers_are_rewritten() {
    let bench = Bench::start();
    bench.put("/consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": "k1"}}}));
    bench.check(include_str!("cases/tables/response_rewrite.txt"));
}

#[test]
fn answers_without_nodes() {
    let bench = Bench::start();
    bench.put("/consumers", json!({"username": "jack", "plugins": {"key-auth": {"key": "k1"}}}));
    bench.check(include_str!("cases/tables/local_answers.txt"));
}

#[test]
fn answers_are_compressed() {
    let bench = Bench::start();
    bench.check(include_str!("cases/tables/compression.txt"));
}
