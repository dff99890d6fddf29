//! Datagrams from many sources through stream routes: a session's datagram never reaches another
//! session's client.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollhouse_fuzz::datagrams::play(input));
