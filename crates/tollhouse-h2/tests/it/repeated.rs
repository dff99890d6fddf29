//! Heads that are sent over and over: what arrives is what a head that is encoded anew would bring.

use proptest::prelude::*;
use tollhouse_h2::{
    Connection, EndStream, Event, Field, FieldSink, HeadKind, Limits, RequestLine, SendError,
    StreamId,
};
use tollhouse_stdx::MemoryBudget;

type Lines = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Default)]
struct Fields(Lines);

impl FieldSink for Fields {
    fn begin(&mut self, _: StreamId, _: HeadKind) {
        self.0.clear();
    }

    fn field(&mut self, field: Field<'_>) {
        self.0.push((field.name.to_vec(), field.value.to_vec()));
    }
}

/// The fields of a head; those of the last one are secret and the others' too many for a small table.
fn lines(head: u64) -> Lines {
    let text = |name: &str, value: String| (name.as_bytes().to_vec(), value.into_bytes());
    let mut lines = vec![text("user-agent", "a test".into()), text("x-head", format!("{head}"))];
    match head {
        2 => lines.push(text("authorization", "Bearer 1234".into())),
        3 => lines.extend((0..20).map(|n| text(&format!("x-{n}"), "v".repeat(50)))),
        // More than one frame, and than any table holds.
        4 => lines.push(text("x-long", "l".repeat(20_000))),
        _ => {}
    }
    lines
}

fn line(path: &str) -> RequestLine<'_> {
    RequestLine {
        method: b"GET",
        scheme: b"http",
        authority: b"a.example",
        path: path.as_bytes(),
        protocol: b"",
    }
}

struct Pair {
    client: Connection,
    server: Connection,
    /// Bytes of the last head.
    sent_bytes: usize,
}

impl Pair {
    fn new(decoder_table_bytes: u32) -> Self {
        let budget = MemoryBudget::new(0);
        let limits = Limits { decoder_table_bytes, ..Limits::default() };
        let client = Connection::client(Limits::default(), &budget, 0);
        let mut pair =
            Self { client, server: Connection::server(limits, &budget, 0), sent_bytes: 0 };
        pair.carry();
        pair
    }

    /// Hands bytes over; what the server has got of a request.
    fn carry(&mut self) -> Option<Lines> {
        let (mut got, mut fields) = (None, Fields::default());
        loop {
            let up = self.client.output().to_vec();
            self.client.written(up.len());
            self.sent_bytes = self.sent_bytes.max(up.len());
            let mut input = &up[..];
            while let Some(event) = self.server.receive(&mut input, 0, &mut fields).unwrap() {
                if let Event::Request { stream, ends: true } = event {
                    got = Some(fields.0.clone());
                    self.server.respond(stream, 204, [], EndStream::Yes).unwrap();
                    self.server.release(stream);
                }
            }
            let down = self.server.output().to_vec();
            self.server.written(down.len());
            let mut input = &down[..];
            while let Some(event) = self.client.receive(&mut input, 0, &mut ()).unwrap() {
                if let Event::Response { stream, .. } = event {
                    self.client.release(stream);
                }
            }
            if up.is_empty() && down.is_empty() {
                return got;
            }
        }
    }

    /// Sends a head and gives what arrived, without pseudo-header fields.
    fn send(&mut self, head: u64, is_repeated: bool) -> Lines {
        self.sent_bytes = 0;
        let (path, lines) = (format!("/{head}"), lines(head));
        let fields = lines.iter().map(|(name, value)| Field::new(name, value));
        let opened = match is_repeated {
            true => self.client.open_repeated(head, &line(&path), fields, EndStream::Yes),
            false => self.client.open(&line(&path), fields, EndStream::Yes),
        };
        opened.unwrap();
        let got = self.carry().expect("a request arrived");
        assert_eq!(got[3], (b":path".to_vec(), path.into_bytes()));
        got[4..].to_vec()
    }
}

proptest! {
    #[test]
    fn what_arrives_does_not_depend_on_whether_a_head_is_kept(
        table_bytes in prop_oneof![Just(0_u32), Just(200), Just(4096)],
        steps in proptest::collection::vec((0..5_u64, any::<bool>(), 1..4_usize), 1..40),
    ) {
        let mut pair = Pair::new(table_bytes);
        for (head, is_repeated, times) in steps {
            for _ in 0..times {
                prop_assert_eq!(pair.send(head, is_repeated), lines(head));
            }
        }
    }
}

#[test]
fn a_head_that_is_kept_is_as_short_as_one_that_is_remembered() {
    let mut pair = Pair::new(4096);
    let lengths: Vec<usize> = (0..5)
        .map(|_| {
            pair.send(1, true);
            pair.sent_bytes
        })
        .collect();
    assert!(lengths[0] > 40, "{lengths:?}");
    // A byte for each field behind the header of the frame.
    assert_eq!(&lengths[2..], [9 + 6; 3], "{lengths:?}");
}

#[test]
fn a_head_that_cannot_be_sent_leaves_what_follows_whole() {
    let mut pair = Pair::new(4096);
    for _ in 0..4 {
        assert_eq!(pair.send(1, true), lines(1));
    }
    let bad = [Field::new(b"te", b"gzip")];
    let refused = pair.client.open_repeated(9, &line("/9"), bad, EndStream::Yes);
    assert!(matches!(refused, Err(SendError::Field(_))), "{refused:?}");
    for _ in 0..4 {
        assert_eq!(pair.send(1, true), lines(1));
    }
}
