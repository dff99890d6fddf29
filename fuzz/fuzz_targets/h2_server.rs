//! A server's connection: no panic, limits respected, and the same result for any division of the
//! bytes into reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollhouse_fuzz::h2::drive;
use tollhouse_h2::{Connection, Limits, frame::PREFACE};
use tollhouse_stdx::MemoryBudget;

fuzz_target!(|data: &[u8]| {
    // The first byte is the number of bytes per read. A preface and SETTINGS are sent first.
    let Some((&read_bytes, bytes)) = data.split_first() else { return };
    let bytes = [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0][..], bytes].concat();
    let make = || Connection::server(Limits::default(), &MemoryBudget::unlimited(), 0);
    let whole = drive(make(), &bytes, bytes.len());
    let piecewise = drive(make(), &bytes, usize::from(read_bytes));
    assert_eq!(whole, piecewise, "the answers depend on how the bytes arrive");
});
