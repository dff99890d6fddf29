//! A client's connection with three open requests, with the same checks as for the server's.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollhouse_fuzz::h2::drive;
use tollhouse_h2::{Connection, Limits, RequestLine};
use tollhouse_stdx::MemoryBudget;

fuzz_target!(|data: &[u8]| {
    // The first byte is the number of bytes per read. SETTINGS are sent first.
    let Some((&read_bytes, bytes)) = data.split_first() else { return };
    let bytes = [&[0, 0, 0, 4, 0, 0, 0, 0, 0], bytes].concat();
    let whole = drive(client(), &bytes, bytes.len());
    let piecewise = drive(client(), &bytes, usize::from(read_bytes));
    assert_eq!(whole, piecewise, "the answers depend on how the bytes arrive");
});

fn client() -> Connection {
    let mut client = Connection::client(Limits::default(), &MemoryBudget::unlimited(), 0);
    for (method, ends) in [(&b"GET"[..], true), (b"HEAD", true), (b"POST", false)] {
        let (scheme, authority, path) = (&b"http"[..], &b"a"[..], &b"/"[..]);
        let line = RequestLine { method, scheme, authority, path, protocol: b"" };
        client.open(&line, [], ends.into()).expect("the peer has set no limit yet");
    }
    client
}
