//! Datagrams of many sources through stream routes: no session's datagram reaches another's client.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollhouse_fuzz::datagrams::play(input));
