//! Whole exchanges: one request in, one request out, and no byte of one exchange in another.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| tollhouse_fuzz::exchange::play(data));
