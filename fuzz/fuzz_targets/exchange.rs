//! Whole exchanges: every request results in one request to the node, and bytes never pass from one
//! exchange to another.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| tollhouse_fuzz::exchange::play(data));
