//! Response heads: no panic, spans inside the head, and the same verdict for any division of the
//! bytes into reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollhouse_http::{HeadLimits, ResponseHead};

/// Methods whose answers have different framing.
const METHODS: [&[u8]; 3] = [b"GET", b"HEAD", b"CONNECT"];

fuzz_target!(|data: &[u8]| {
    // The first two bytes are the length of the first read and the request's method.
    let [first_read, method, bytes @ ..] = data else { return };
    let method = METHODS[usize::from(*method) % METHODS.len()];
    let limits = HeadLimits::default();
    let mut whole = ResponseHead::default();
    let verdict = whole.parse(bytes, &limits, method);

    let mut split = ResponseHead::default();
    let cut = usize::from(*first_read).min(bytes.len());
    let split_verdict = match split.parse(&bytes[..cut], &limits, method) {
        Ok(false) => split.parse(bytes, &limits, method),
        decided => decided,
    };
    assert_eq!(verdict, split_verdict, "the verdict depends on how the bytes arrive");

    if verdict == Ok(true) {
        assert!(whole.head_bytes <= bytes.len());
        assert_eq!(whole.body, split.body);
        assert!((100..=999).contains(&whole.status));
    }
});
