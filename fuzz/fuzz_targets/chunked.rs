//! Chunked bodies: no panic, progress at every step, and the same data for any division of the
//! bytes into reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollhouse_http::{ChunkError, ChunkedDecoder};

fuzz_target!(|data: &[u8]| {
    // The first byte is the number of bytes per read.
    let Some((&read_bytes, bytes)) = data.split_first() else { return };
    for decoder in [ChunkedDecoder::new(), ChunkedDecoder::for_answer()] {
        let whole = decode(decoder, bytes, bytes.len().max(1));
        let piecewise = decode(decoder, bytes, usize::from(read_bytes).max(1));
        assert_eq!(whole, piecewise, "the body depends on how the bytes arrive");
    }
    // Padding is allowed in answers only. Any other valid request body has the same meaning in an
    // answer.
    let request = decode(ChunkedDecoder::new(), bytes, bytes.len().max(1));
    if request.2.is_none() {
        assert_eq!(decode(ChunkedDecoder::for_answer(), bytes, bytes.len().max(1)), request);
    }
});

/// Returns the data of a body, whether it ended, and its error.
fn decode(
    mut decoder: ChunkedDecoder,
    bytes: &[u8],
    read_bytes: usize,
) -> (Vec<u8>, bool, Option<ChunkError>) {
    let mut data = Vec::new();
    for read in bytes.chunks(read_bytes) {
        let mut rest = read;
        while !rest.is_empty() && !decoder.is_done() {
            match decoder.step(rest) {
                Ok(step) => {
                    assert!(step.consumed > 0, "a step without progress");
                    data.extend_from_slice(&rest[step.data]);
                    rest = &rest[step.consumed..];
                }
                Err(error) => return (data, false, Some(error)),
            }
        }
    }
    (data, decoder.is_done(), None)
}
