//! Hosts and nodes: `host:port` as in a request's `Host` and in an upstream's nodes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollhouse_http::authority;
use tollhouse_model::upstream::parse_address;

fuzz_target!(|data: &[u8]| {
    if let Some((host, port)) = authority::split(data) {
        assert!(!host.is_empty() && host.end() <= data.len());
        if let Some(port) = port {
            assert!(port.end() <= data.len());
        }
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok((host, _)) = parse_address(text)
    {
        assert!(!host.is_empty());
    }
});
