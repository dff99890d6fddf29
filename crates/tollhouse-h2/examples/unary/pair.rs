//! A client and a server that hand their output to each other.

use tollhouse_h2::{Connection, EndStream, Event, Field, Limits, RequestLine};
use tollhouse_stdx::MemoryBudget;

/// Size of a request and response message in bytes, roughly that of a heartbeat.
const MESSAGE: [u8; 100] = [b'm'; 100];

const LINE: RequestLine<'_> = RequestLine {
    method: b"POST",
    scheme: b"http",
    authority: b"registry.example:8091",
    path: b"/v1.PolarisGRPC/Heartbeat",
    protocol: b"",
};

/// Client and server of one connection, joined in memory.
pub struct Pair {
    client: Connection,
    server: Connection,
    /// Bytes in transit; stands in for both sockets.
    wire: Vec<u8>,
}

impl Pair {
    /// Creates both ends with default limits, and exchanges the preface and settings.
    pub fn new() -> Self {
        let budget = MemoryBudget::unlimited();
        let client = Connection::client(Limits::default(), &budget, 0);
        let server = Connection::server(Limits::default(), &budget, 0);
        Self { client, server, wire: Vec::new() }
    }

    /// Makes one call: a request with a message, a response with a message and trailers. Returns
    /// the number of bytes of messages and frames sent.
    pub fn call(&mut self, now_ms: u64) -> usize {
        let fields = [
            Field::new(b"content-type", b"application/grpc"),
            Field::new(b"te", b"trailers"),
            Field::new(b"user-agent", b"grpc-go/1.80.0"),
            Field::new(b"grpc-timeout", b"1S"),
        ];
        let stream = self.client.open(&LINE, fields, EndStream::No).expect("a stream is free");
        self.client.send_data(stream, &MESSAGE, EndStream::Yes).expect("the stream is open");
        let mut bytes = self.feed_server(now_ms);
        bytes += self.feed_client(now_ms);
        bytes
    }

    fn feed_server(&mut self, now_ms: u64) -> usize {
        take_output(&mut self.client, &mut self.wire);
        let mut input = &self.wire[..];
        let server = &mut self.server;
        while let Some(event) = server.receive(&mut input, now_ms, &mut ()).expect("no error") {
            let Event::Data { stream, data, ends } = event else { continue };
            server.consume(stream, data.len());
            if ends {
                let fields = [Field::new(b"content-type", b"application/grpc")];
                server.respond(stream, 200, fields, EndStream::No).expect("the stream is open");
                server.send_data(stream, &MESSAGE, EndStream::No).expect("the stream is open");
                let trailers = [Field::new(b"grpc-status", b"0")];
                server.send_trailers(stream, trailers).expect("the stream is open");
                server.release(stream);
            }
        }
        self.wire.len()
    }

    fn feed_client(&mut self, now_ms: u64) -> usize {
        take_output(&mut self.server, &mut self.wire);
        let mut input = &self.wire[..];
        let client = &mut self.client;
        while let Some(event) = client.receive(&mut input, now_ms, &mut ()).expect("no error") {
            match event {
                Event::Data { stream, data, .. } => client.consume(stream, data.len()),
                Event::Trailers { stream } => client.release(stream),
                _ => {}
            }
        }
        self.wire.len()
    }
}

fn take_output(connection: &mut Connection, wire: &mut Vec<u8>) {
    wire.clear();
    wire.extend_from_slice(connection.output());
    connection.written(wire.len());
}
