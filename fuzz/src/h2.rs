//! A connection that is fed anything, by an application that answers everything.

use tollhouse_h2::{Connection, ConnectionError, Event, Limits};

/// Most memory that a connection may hold whose output is read, in bytes.
const MEMORY_BYTES_MAX: usize = 4 << 20;

/// Feeds `bytes` in reads of `read_bytes`, and gives all that was written and what ended it.
///
/// # Panics
/// When a bound is passed, or a stream is named that nobody holds.
pub fn drive(
    mut connection: Connection,
    bytes: &[u8],
    read_bytes: usize,
) -> (Vec<u8>, Option<ConnectionError>) {
    let mut written = Vec::new();
    for read in bytes.chunks(read_bytes.max(1)) {
        let mut input = read;
        loop {
            match connection.receive(&mut input, 0, &mut ()) {
                Ok(Some(event)) => answer(&mut connection, event),
                Ok(None) => break,
                Err(error) => {
                    written.extend_from_slice(connection.output());
                    return (written, Some(error));
                }
            }
        }
        assert!(input.is_empty(), "bytes were left");
        assert!(connection.memory_bytes() < MEMORY_BYTES_MAX, "the connection holds too much");
        assert!(connection.open_streams() <= Limits::default().concurrent_streams);
    }
    written.extend_from_slice(connection.output());
    (written, None)
}

fn answer(connection: &mut Connection, event: Event<'_>) {
    match event {
        // DATA is given back with its stream: when windows are updated would else depend on pieces.
        Event::Data { stream, ends: true, .. }
        | Event::Request { stream, ends: true }
        | Event::Trailers { stream } => finish(connection, stream),
        Event::Response { stream, ends: true, .. } | Event::Reset { stream, .. } => {
            connection.release(stream);
        }
        _ => {}
    }
}

/// Answers where that is still possible, and lets go.
fn finish(connection: &mut Connection, stream: tollhouse_h2::StreamId) {
    if connection.respond(stream, 200, [], false).is_ok() {
        let _ = connection.send_data(stream, b"hello", true);
    }
    connection.release(stream);
}
