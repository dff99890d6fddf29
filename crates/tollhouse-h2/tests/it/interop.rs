//! Whole exchanges with the `h2` crate on the other side, over a pipe that cuts bytes anywhere.

use std::collections::HashMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tollhouse_h2::hpack::HuffmanUse;
use tollhouse_h2::{Connection, Event, Field, FieldSink, HeadKind, Limits, RequestLine, StreamId};
use tollhouse_stdx::MemoryBudget;

type Pairs = Vec<(String, String)>;
type Pipe = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

/// One side's message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Message {
    fields: Pairs,
    body: Vec<u8>,
    trailers: Pairs,
}

/// A request and its response.
#[derive(Debug, Clone)]
struct Exchange {
    request: Message,
    status: u16,
    response: Message,
}

fn any_pairs() -> impl Strategy<Value = Pairs> {
    let name =
        prop_oneof![Just("x-a".to_owned()), Just("user-agent".to_owned()), "x-[a-z0-9]{1,8}"];
    let value = prop_oneof![Just(String::new()), Just("same".to_owned()), "[!-~]{1,40}"];
    // Sorted, since the crate keeps fields by name.
    proptest::collection::btree_map(name, value, 0..8).prop_map(|map| map.into_iter().collect())
}

fn any_message() -> impl Strategy<Value = Message> {
    let size = prop_oneof![Just(0_usize), 0..100_usize, 0..200_000_usize];
    (any_pairs(), size, prop_oneof![Just(Pairs::new()), any_pairs()]).prop_map(
        |(fields, size, trailers)| {
            let body = (0..size).map(|index| (index % 251) as u8).collect();
            Message { fields, body, trailers }
        },
    )
}

fn any_exchanges() -> impl Strategy<Value = Vec<Exchange>> {
    let exchange =
        (any_message(), 200..600_u16, any_message()).prop_map(|(request, status, mut response)| {
            if matches!(status, 204 | 304) {
                response.body.clear();
            }
            Exchange { request, status, response }
        });
    proptest::collection::vec(exchange, 1..8)
}

/// The fields of the message under way.
#[derive(Default)]
struct Fields(Pairs);

impl FieldSink for Fields {
    fn begin(&mut self, _: StreamId, _: HeadKind) {
        self.0.clear();
    }

    fn field(&mut self, field: Field<'_>) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        self.0.push((text(field.name), text(field.value)));
    }
}

/// What is left to be sent on a stream.
struct Outgoing {
    message: Message,
    sent: usize,
}

/// The codec with what the two roles share around it.
struct Side {
    connection: Connection,
    incoming: HashMap<StreamId, Message>,
    outgoing: HashMap<StreamId, Outgoing>,
    /// Messages that are complete.
    complete: Vec<(StreamId, Message)>,
}

fn fields_of(pairs: &Pairs) -> impl Iterator<Item = Field<'_>> {
    pairs.iter().map(|(name, value)| Field::new(name.as_bytes(), value.as_bytes()))
}

impl Side {
    fn new(connection: Connection) -> Self {
        Self {
            connection,
            incoming: HashMap::new(),
            outgoing: HashMap::new(),
            complete: Vec::new(),
        }
    }

    /// Sends what comes behind a head as far as it goes.
    fn send(&mut self, id: StreamId) {
        let Some(outgoing) = self.outgoing.get_mut(&id) else { return };
        let Message { body, trailers, .. } = &outgoing.message;
        let ends = trailers.is_empty();
        let rest = &body[outgoing.sent..];
        if !rest.is_empty() || ends {
            outgoing.sent += self.connection.send_data(id, rest, ends.into()).unwrap();
        }
        if outgoing.sent == body.len() {
            if !ends {
                self.connection.send_trailers(id, fields_of(trailers)).unwrap();
            }
            self.outgoing.remove(&id);
        }
    }

    fn begin_sending(&mut self, id: StreamId, message: Message, ends: bool) {
        if !ends {
            self.outgoing.insert(id, Outgoing { message, sent: 0 });
            self.send(id);
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let (mut input, mut fields) = (bytes, Fields::default());
        while let Some(event) = self.connection.receive(&mut input, 0, &mut fields).unwrap() {
            self.take(event, &mut fields);
        }
        while let Some(id) = self.connection.next_ready() {
            self.send(id);
        }
    }

    fn take(&mut self, event: Event<'_>, fields: &mut Fields) {
        let (id, ends) = match event {
            Event::Request { stream, ends } | Event::Response { stream, ends, .. } => {
                let fields = std::mem::take(&mut fields.0);
                self.incoming.insert(stream, Message { fields, ..Message::default() });
                (stream, ends)
            }
            Event::Data { stream, data, ends } => {
                self.incoming.get_mut(&stream).unwrap().body.extend_from_slice(data);
                self.connection.consume(stream, data.len());
                (stream, ends)
            }
            Event::Trailers { stream } => {
                let trailers = std::mem::take(&mut fields.0);
                self.incoming.get_mut(&stream).unwrap().trailers = trailers;
                (stream, true)
            }
            Event::Reset { code, .. } => panic!("reset with {code}"),
            _ => return,
        };
        if ends {
            self.complete.push((id, self.incoming.remove(&id).unwrap()));
        }
    }

    /// Writes or reads, whichever can go on: a side that only writes waits for one that does the same.
    /// `false` at the end of the pipe.
    async fn turn(&mut self, pipe: &mut Pipe, room: &mut [u8]) -> bool {
        let (reading, writing) = pipe;
        let has_output = !self.connection.output().is_empty();
        tokio::select! {
            written = writing.write(self.connection.output()), if has_output => {
                let Ok(count) = written else { return false };
                self.connection.written(count);
                while let Some(id) = self.connection.next_ready() {
                    self.send(id);
                }
            }
            read = reading.read(room) => {
                let Ok(count @ 1..) = read else { return false };
                self.receive(&room[..count]);
            }
        }
        true
    }
}

fn limits(huffman: HuffmanUse) -> Limits {
    Limits { huffman, ..Limits::default() }
}

/// Our client against the crate's server; gives what each request was answered with.
async fn our_client(exchanges: &[Exchange], huffman: HuffmanUse, piece: usize) -> Vec<Message> {
    let (near, far) = duplex(piece);
    let mut near = split(near);
    let server = tokio::task::spawn_local(their_server(far, exchanges.to_vec()));
    let budget = MemoryBudget::new(8 << 20);
    let mut side = Side::new(Connection::client(limits(huffman), &budget, 0));
    let mut streams = Vec::new();
    for (index, exchange) in exchanges.iter().enumerate() {
        let path = format!("/{index}");
        let line = RequestLine {
            method: b"POST",
            scheme: b"http",
            authority: b"test",
            path: path.as_bytes(),
            protocol: b"",
        };
        let message = exchange.request.clone();
        let ends = message.body.is_empty() && message.trailers.is_empty();
        let id = side.connection.open(&line, fields_of(&message.fields), ends.into()).unwrap();
        streams.push(id);
        side.begin_sending(id, message, ends);
    }
    let mut room = vec![0; piece];
    while side.complete.len() < exchanges.len() || !side.outgoing.is_empty() {
        assert!(side.turn(&mut near, &mut room).await, "the server went away");
    }
    drop(near);
    server.await.unwrap();
    let by_stream: HashMap<_, _> = side.complete.into_iter().collect();
    streams.iter().map(|id| by_stream[id].clone()).collect()
}

/// Our server against the crate's client; gives the requests as they arrived.
async fn our_server(exchanges: &[Exchange], huffman: HuffmanUse, piece: usize) -> Vec<Message> {
    let (near, far) = duplex(piece);
    let mut near = split(near);
    let client = tokio::task::spawn_local(their_client(far, exchanges.to_vec()));
    let budget = MemoryBudget::new(8 << 20);
    let mut side = Side::new(Connection::server(limits(huffman), &budget, 0));
    let mut requests = vec![Message::default(); exchanges.len()];
    let mut room = vec![0; piece];
    while side.turn(&mut near, &mut room).await {
        for (id, request) in std::mem::take(&mut side.complete) {
            let path = request.fields.iter().find(|(name, _)| name == ":path").unwrap();
            let index: usize = path.1[1..].parse().unwrap();
            requests[index] = request;
            let Exchange { status, response, .. } = exchanges[index].clone();
            let ends = response.body.is_empty() && response.trailers.is_empty();
            side.connection.respond(id, status, fields_of(&response.fields), ends.into()).unwrap();
            side.begin_sending(id, response, ends);
        }
    }
    client.await.unwrap();
    requests
}

fn to_map(pairs: &Pairs) -> HeaderMap {
    let pair = |(name, value): &(String, String)| {
        (HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap())
    };
    pairs.iter().map(pair).collect()
}

fn from_map(map: &HeaderMap) -> Pairs {
    let pair = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.to_string(), value.to_str().unwrap().to_owned())
    };
    let mut pairs: Pairs = map.iter().map(pair).collect();
    pairs.sort();
    pairs
}

async fn read_body(mut body: h2::RecvStream) -> (Vec<u8>, Pairs) {
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        bytes.extend_from_slice(&piece);
    }
    let trailers = body.trailers().await.unwrap();
    (bytes, trailers.map(|map| from_map(&map)).unwrap_or_default())
}

fn send_body(mut stream: h2::SendStream<Bytes>, message: &Message) {
    let ends = message.trailers.is_empty();
    stream.send_data(Bytes::from(message.body.clone()), ends).unwrap();
    if !ends {
        stream.send_trailers(to_map(&message.trailers)).unwrap();
    }
}

async fn their_server(pipe: DuplexStream, exchanges: Vec<Exchange>) {
    let mut connection = h2::server::handshake(pipe).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let index: usize = request.uri().path()[1..].parse().unwrap();
        let Exchange { request: expected, status, response } = exchanges[index].clone();
        tokio::task::spawn_local(async move {
            let (parts, body) = request.into_parts();
            let (body, trailers) = read_body(body).await;
            let found = Message { fields: from_map(&parts.headers), body, trailers };
            assert_eq!(found, expected);
            let mut head = Response::builder().status(status).body(()).unwrap();
            *head.headers_mut() = to_map(&response.fields);
            let ends = response.body.is_empty() && response.trailers.is_empty();
            let stream = respond.send_response(head, ends).unwrap();
            if !ends {
                send_body(stream, &response);
            }
        });
    }
}

async fn their_client(pipe: DuplexStream, exchanges: Vec<Exchange>) {
    let (mut sender, connection) = h2::client::handshake(pipe).await.unwrap();
    let driver = tokio::task::spawn_local(async move { connection.await.unwrap() });
    let mut responses = Vec::new();
    for (index, exchange) in exchanges.iter().enumerate() {
        sender = sender.ready().await.unwrap();
        let uri = format!("http://test/{index}");
        let mut head = Request::builder().method("POST").uri(uri).body(()).unwrap();
        *head.headers_mut() = to_map(&exchange.request.fields);
        let message = &exchange.request;
        let ends = message.body.is_empty() && message.trailers.is_empty();
        let (response, stream) = sender.send_request(head, ends).unwrap();
        if !ends {
            send_body(stream, message);
        }
        responses.push(response);
    }
    // All at once: they share the connection's window, which who is not read yet may have used up.
    let mut reading = Vec::new();
    for (response, exchange) in responses.into_iter().zip(exchanges) {
        reading.push(tokio::task::spawn_local(async move {
            let (parts, body) = response.await.unwrap().into_parts();
            assert_eq!(parts.status.as_u16(), exchange.status);
            let (body, trailers) = read_body(body).await;
            let found = Message { fields: from_map(&parts.headers), body, trailers };
            assert_eq!(found, exchange.response);
        }));
    }
    for response in reading {
        response.await.unwrap();
    }
    drop(sender);
    driver.await.unwrap();
}

/// Regular fields, sorted.
fn regular(message: &Message) -> Message {
    let mut message = message.clone();
    message.fields.retain(|(name, _)| !name.starts_with(':'));
    message.fields.sort();
    message.trailers.sort();
    message
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

fn any_huffman() -> impl Strategy<Value = HuffmanUse> {
    prop_oneof![Just(HuffmanUse::Never), Just(HuffmanUse::IfShorter)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn our_client_and_another_server_understand_each_other(
        exchanges in any_exchanges(),
        huffman in any_huffman(),
        piece in 16..40_000_usize,
    ) {
        let responses = block_on(our_client(&exchanges, huffman, piece));
        for (found, exchange) in responses.iter().zip(&exchanges) {
            let status = found.fields.iter().find(|(name, _)| name == ":status").unwrap();
            prop_assert_eq!(&status.1, &exchange.status.to_string());
            let mut found = regular(found);
            // The crate says how long a body is that it has whole.
            found.fields.retain(|(name, _)| name != "content-length");
            prop_assert_eq!(found, exchange.response.clone());
        }
    }

    #[test]
    fn our_server_and_another_client_understand_each_other(
        exchanges in any_exchanges(),
        huffman in any_huffman(),
        piece in 16..40_000_usize,
    ) {
        let requests = block_on(our_server(&exchanges, huffman, piece));
        for (found, exchange) in requests.iter().zip(&exchanges) {
            prop_assert_eq!(regular(found), exchange.request.clone());
        }
    }
}
