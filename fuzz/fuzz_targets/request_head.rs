//! Request heads: no panic, spans inside the head, and the same verdict for any division of the
//! bytes into reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollhouse_http::{HeadLimits, RequestHead};

fuzz_target!(|data: &[u8]| {
    // The first byte is the length of the first read.
    let Some((&first_read, bytes)) = data.split_first() else { return };
    let limits = HeadLimits::default();
    let mut whole = RequestHead::default();
    let verdict = whole.parse(bytes, &limits);

    let mut split = RequestHead::default();
    let cut = usize::from(first_read).min(bytes.len());
    let split_verdict = match split.parse(&bytes[..cut], &limits) {
        Ok(false) => split.parse(bytes, &limits),
        decided => decided,
    };
    assert_eq!(verdict, split_verdict, "the verdict depends on how the bytes arrive");

    if verdict == Ok(true) {
        assert!(whole.head_bytes <= bytes.len());
        assert_eq!(whole.head_bytes, split.head_bytes);
        for field in whole.fields.iter() {
            assert!(field.name().end() <= whole.head_bytes);
            assert!(field.value().end() <= whole.head_bytes);
        }
    }
});
