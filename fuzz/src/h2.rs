//! An HTTP/2 connection that receives arbitrary bytes, with an application that answers everything.

use tollhouse_h2::{Connection, ConnectionError, EndStream, Event, Limits};

/// Memory limit in bytes for a connection whose output is read.
const MEMORY_BYTES_MAX: usize = 4 << 20;

/// Passes `bytes` to the connection in reads of `read_bytes`, and returns the output and the error
/// that ended the connection, if any.
///
/// # Panics
/// If a limit is exceeded, or an unknown stream is named.
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
        // Windows grow again when a stream is released, because otherwise the time of window
        // updates would depend on the division into reads.
        Event::Data { stream, ends: true, .. }
        | Event::Request { stream, ends: true }
        | Event::Trailers { stream } => finish(connection, stream),
        Event::Response { stream, ends: true, .. } | Event::Reset { stream, .. } => {
            connection.release(stream);
        }
        _ => {}
    }
}

/// Answers the request if possible, and releases the stream.
fn finish(connection: &mut Connection, stream: tollhouse_h2::StreamId) {
    if connection.respond(stream, 200, [], EndStream::No).is_ok() {
        let _ = connection.send_data(stream, b"hello", EndStream::Yes);
    }
    connection.release(stream);
}
