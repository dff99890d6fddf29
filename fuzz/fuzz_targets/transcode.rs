//! Conversion of JSON to a gRPC message, and of a message to JSON.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tollhouse_model::json::Document;
use tollhouse_transcode::{Definition, JsonForm, Method, encode_message};

static METHOD: LazyLock<Method> = LazyLock::new(|| {
    let text = "syntax = \"proto3\"; enum E { A = 0; } message M { int64 a = 1; string b = 2; \
                repeated sint32 c = 3; map<string, M> d = 4; bytes e = 5; double f = 6; E g = 7; \
                oneof o { bool h = 8; M i = 9; } repeated M j = 10; optional fixed64 k = 11; } \
                service S { rpc C (M) returns (M); }";
    let definition = Definition::compile(text).expect("it compiles");
    definition.method("S", "C").expect("it is there")
});

fuzz_target!(|data: &[u8]| {
    if let Ok(document) = Document::parse(data) {
        let mut message = Vec::new();
        if encode_message(&METHOD.input, document.root(), &mut message).is_ok() {
            let mut out = Vec::new();
            // Every encoded message must be valid for its receiver.
            JsonForm::default().write(&METHOD.input, &message, &mut out, &mut |_| true).expect("a message");
        }
    }
    let mut out = Vec::new();
    if JsonForm::default().write(&METHOD.output, data, &mut out, &mut |_| true).is_ok() {
        assert!(Document::parse(&out).is_ok());
    }
});
