//! PROXY headers of both versions: the verdict does not depend on how the bytes are split, and an
//! accepted header can be written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollhouse_net::proxy_protocol::{HEADER_BYTES_MAX, ProxyHeader, Version, parse, write};

fuzz_target!(|data: &[u8]| {
    let whole = parse(data);
    if data.len() >= HEADER_BYTES_MAX {
        assert_ne!(whole, Ok(None), "the parser waits for more than its limit");
    }
    for end in 0..data.len().min(HEADER_BYTES_MAX) {
        let early = parse(&data[..end]);
        assert!(early == Ok(None) || early == whole, "{early:?}, then {whole:?}");
    }
    let Ok(Some(header)) = whole else { return };
    assert!(header.length <= data.len().min(HEADER_BYTES_MAX));
    if let ProxyHeader::Proxied { source, destination } = header.said {
        for version in [Version::V1, Version::V2, Version::V2Datagram] {
            let mut bytes = Vec::new();
            write(version, source, destination, &mut bytes);
            let again = parse(&bytes);
            assert!(matches!(again, Ok(Some(read)) if read.length == bytes.len()), "{again:?}");
        }
    }
});
