//! The server name in a TLS hello: the verdict does not depend on how the bytes are split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollhouse_net::client_hello::{HELLO_BYTES_MAX, parse};

fuzz_target!(|data: &[u8]| {
    let whole = parse(data);
    if data.len() >= HELLO_BYTES_MAX {
        assert_ne!(whole, Ok(None), "the parser waits for more than its limit");
    }
    if let Ok(Some(hello)) = &whole
        && let Some(name) = &hello.server_name
    {
        assert!(!name.is_empty() && !name.bytes().any(|byte| byte.is_ascii_uppercase()));
    }
    for end in [data.len() / 3, data.len() / 2, data.len().saturating_sub(1)] {
        let early = parse(&data[..end]);
        assert!(early == Ok(None) || early == whole, "{early:?}, then {whole:?}");
    }
});
