//! What RFC 9113 says of single frames and messages: each case with the kind and code of its error.

use crate::peer::{Reaction, Script, Subject, Told, block, frames, reaction, request, run, serve};
use tollhouse_h2::frame::{PREFACE, flag, kind};
use tollhouse_h2::{
    EndStream, ErrorCode, FaultScope, Field, Limits, Malformed, RequestLine, StreamId,
};

const PE: Reaction = Reaction::Connection(ErrorCode::PROTOCOL_ERROR);
const FSE: Reaction = Reaction::Connection(ErrorCode::FRAME_SIZE_ERROR);
const FCE: Reaction = Reaction::Connection(ErrorCode::FLOW_CONTROL_ERROR);
const SC: Reaction = Reaction::Connection(ErrorCode::STREAM_CLOSED);
const CE: Reaction = Reaction::Connection(ErrorCode::COMPRESSION_ERROR);
const EYC: Reaction = Reaction::Connection(ErrorCode::ENHANCE_YOUR_CALM);

fn check(cases: Vec<(&str, Script, Reaction)>) {
    for (name, script, expected) in cases {
        let (_, found) = serve(&script);
        assert_eq!(found, expected, "{name}");
    }
}

fn start() -> Script {
    Script::client()
}

#[test]
fn connections_begin_with_a_preface_and_settings() {
    check(vec![
        ("no preface", Script::default().raw(b"GET / HTTP/1.1\r\n\r\n"), PE),
        ("a preface cut", Script::default().raw(&PREFACE[..20]).raw(b"XXXX"), PE),
        ("PING first", Script::default().raw(PREFACE).frame(kind::PING, 0, 0, &[0; 8]), PE),
        ("an ACK first", Script::default().raw(PREFACE).settings_ack(), PE),
        ("all is well", start(), Reaction::Fine),
    ]);
    let (_, found) = serve(&Script::default().raw(b"x"));
    assert_eq!(found, PE);
    let (mut subject, _) = serve(&start());
    assert_eq!(subject.told, [Told::Settings]);
    assert_eq!(subject.take_output(), []);
    let sent = frames(&subject.written);
    assert_eq!((sent[0].kind, sent[0].flags), (kind::SETTINGS, 0));
    let acks = sent.iter().filter(|frame| frame.kind == kind::SETTINGS && frame.flags == flag::ACK);
    assert_eq!(acks.count(), 1);
}

#[test]
fn frames_of_wrong_lengths_are_refused_before_their_payload() {
    let header_only = |length: u32, kind: u8, stream: u32| {
        let [_, a, b, c] = length.to_be_bytes();
        let [s0, s1, s2, s3] = stream.to_be_bytes();
        start().get(1).raw(&[a, b, c, kind, 0, s0, s1, s2, s3])
    };
    check(vec![
        ("large DATA", header_only(16_385, kind::DATA, 1), FSE),
        ("large unknown", header_only(16_385, 0xee, 0), FSE),
        ("PADDED without a length", start().post(1, &[]).data(1, flag::PADDED, &[]), FSE),
        ("HEADERS PADDED, empty", start().head(1, flag::PADDED, &[]), FSE),
        ("HEADERS PRIORITY, short", start().head(1, flag::PRIORITY, &[0; 4]), FSE),
        ("RST_STREAM of 3", start().get(1).frame(kind::RST_STREAM, 0, 1, &[0; 3]), FSE),
        ("SETTINGS of 5", start().frame(kind::SETTINGS, 0, 0, &[0; 5]), FSE),
        ("ACK with payload", start().frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]), FSE),
        ("PING of 7", start().frame(kind::PING, 0, 0, &[0; 7]), FSE),
        ("GOAWAY of 7", start().frame(kind::GOAWAY, 0, 0, &[0; 7]), FSE),
        ("WINDOW_UPDATE of 3", start().frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]), FSE),
        ("PRIORITY of 4", start().frame(kind::PRIORITY, 0, 1, &[0; 4]), FSE),
        ("PRIORITY_UPDATE of 3", start().frame(kind::PRIORITY_UPDATE, 0, 0, &[0; 3]), FSE),
    ]);
}

#[test]
fn unknown_frames_are_skipped_but_not_inside_of_a_block() {
    let (subject, found) = serve(&start().frame(0xee, 0xff, 0, &[0; 16_384]).get(1));
    assert_eq!((found, subject.told.len()), (Reaction::Fine, 2));
    let open = start().frame(kind::HEADERS, flag::END_STREAM, 1, &request(&[]));
    check(vec![
        ("unknown", open.clone().frame(0xee, 0, 1, &[]), PE),
        ("DATA", open.clone().data(1, 0, b"x"), PE),
        ("PING", open.clone().frame(kind::PING, 0, 0, &[0; 8]), PE),
        ("another stream's", open.clone().frame(kind::CONTINUATION, 4, 3, &[]), PE),
        ("its own", open.frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[]), Reaction::Fine),
        ("CONTINUATION alone", start().frame(kind::CONTINUATION, 4, 1, &[]), PE),
    ]);
}

#[test]
fn frames_belong_to_streams_or_to_the_connection() {
    check(vec![
        ("DATA on 0", start().data(0, 0, b"x"), PE),
        ("DATA on an idle stream", start().data(1, 0, b"x"), PE),
        ("HEADERS on 0", start().get(0), PE),
        ("HEADERS on an even stream", start().get(2), PE),
        ("5, then 3", start().get(5).get(3), PE),
        ("RST_STREAM on 0", start().reset(0), PE),
        ("RST_STREAM on an idle stream", start().reset(1), PE),
        ("PRIORITY on 0", start().frame(kind::PRIORITY, 0, 0, &[0; 5]), PE),
        ("SETTINGS on 1", start().frame(kind::SETTINGS, 0, 1, &[]), PE),
        ("PING on 1", start().frame(kind::PING, 0, 1, &[0; 8]), PE),
        ("GOAWAY on 1", start().frame(kind::GOAWAY, 0, 1, &[0; 8]), PE),
        ("CONTINUATION on 0", start().frame(kind::CONTINUATION, 0, 0, &[]), PE),
        ("WINDOW_UPDATE on an idle stream", start().window_update(1, 1), PE),
        ("PUSH_PROMISE", start().get(1).frame(kind::PUSH_PROMISE, 4, 1, &[0; 4]), PE),
        ("PRIORITY_UPDATE on 1", start().frame(kind::PRIORITY_UPDATE, 0, 1, &[0; 4]), PE),
        ("PRIORITY_UPDATE of 0", start().frame(kind::PRIORITY_UPDATE, 0, 0, &[0; 4]), PE),
        ("PRIORITY on idle", start().frame(kind::PRIORITY, 0, 9, &[0; 5]), Reaction::Fine),
    ]);
}

#[test]
fn padding_is_no_data_but_counts_in_windows() {
    let post = || start().post(1, &[]);
    check(vec![
        ("all padding and more", post().data(1, flag::PADDED, &[4, 0, 0, 0]), PE),
        ("all padding", post().data(1, flag::PADDED, &[3, 0, 0, 0]), Reaction::Fine),
        ("head", start().head(1, flag::PADDED, &[200, 0]), PE),
    ]);
    let script = post().data(1, flag::PADDED | flag::END_STREAM, &[2, b'h', b'i', 0, 0]);
    let (subject, _) = serve(&script);
    let data = Told::Data { stream: 1, data: b"hi".to_vec(), ends: true };
    assert_eq!(subject.told.last(), Some(&data));
    let mut padded = vec![1];
    padded.extend(request(&[]));
    padded.push(0);
    let (subject, _) = serve(&start().head(1, flag::PADDED | flag::END_STREAM, &padded));
    assert_eq!(subject.told.len(), 2);
}

#[test]
fn what_comes_behind_the_end_is_an_error() {
    let done = || start().get(1);
    check(vec![
        ("HEADERS after END_STREAM", done().get(1), SC),
        ("DATA after END_STREAM", done().data(1, 0, b"x"), SC),
        ("DATA after RST_STREAM", start().post(1, &[]).reset(1).data(1, 0, b"x"), SC),
        ("HEADERS after RST_STREAM", start().post(1, &[]).reset(1).get(1), SC),
        ("RST_STREAM twice", start().post(1, &[]).reset(1).reset(1), Reaction::Fine),
        (
            "WINDOW_UPDATE behind it",
            start().post(1, &[]).reset(1).window_update(1, 1),
            Reaction::Fine,
        ),
    ]);
}

/// A server that answers the first stream at once and releases it.
fn answered() -> Subject {
    let mut subject = Subject::server(Limits::default());
    subject.feed(&start().settings_ack().get(1), usize::MAX);
    let stream = subject.stream(1);
    subject.connection.respond(stream, 200, [], EndStream::Yes).unwrap();
    subject.connection.release(stream);
    subject
}

#[test]
fn closed_streams_are_told_from_skipped_ones() {
    for (name, script, expected) in [
        ("a finished stream", Script::default().get(1), SC),
        ("DATA on it", Script::default().data(1, 0, b"x"), SC),
        ("a skipped stream", Script::default().get(7).get(5), PE),
        ("WINDOW_UPDATE", Script::default().window_update(1, 1), Reaction::Fine),
        ("RST_STREAM", Script::default().reset(1), Reaction::Fine),
    ] {
        let (_, found) = run(answered, &script);
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn faults_of_a_stream_reset_it_where_that_is_configured() {
    let limits = Limits { faults: FaultScope::Stream, ..Limits::default() };
    let stream = |code| Reaction::Stream(1, code);
    let itself = [0, 0, 0, 1, 0];
    for (name, script, expected) in [
        (
            "update of 0",
            start().post(1, &[]).window_update(1, 0),
            stream(ErrorCode::PROTOCOL_ERROR),
        ),
        (
            "overflow",
            start().post(1, &[]).window_update(1, 0x7fff_ffff),
            stream(ErrorCode::FLOW_CONTROL_ERROR),
        ),
        (
            "PRIORITY of 4",
            start().post(1, &[]).frame(kind::PRIORITY, 0, 1, &[0; 4]),
            stream(ErrorCode::FRAME_SIZE_ERROR),
        ),
        (
            "PRIORITY on itself",
            start().post(1, &[]).frame(kind::PRIORITY, 0, 1, &itself),
            stream(ErrorCode::PROTOCOL_ERROR),
        ),
        ("HEADERS after the end", start().get(1).get(1), stream(ErrorCode::STREAM_CLOSED)),
        ("DATA after the end", start().get(1).data(1, 0, b"x"), stream(ErrorCode::STREAM_CLOSED)),
    ] {
        let (subject, found) = run(|| Subject::server(limits), &script);
        assert_eq!(found, expected, "{name}");
        assert!(matches!(subject.told.last(), Some(Told::Reset { .. })), "{name}");
        assert_eq!(subject.connection.counters().resets_caused, 1, "{name}");
    }
    check(vec![
        ("update of 0", start().post(1, &[]).window_update(1, 0), PE),
        ("update of 0 of all", start().window_update(0, 0), PE),
        (
            "overflow",
            start().post(1, &[]).window_update(1, 0x7fff_ffff),
            stream(ErrorCode::FLOW_CONTROL_ERROR),
        ),
        ("overflow of all", start().window_update(0, 0x7fff_ffff), FCE),
        ("on itself", start().frame(kind::PRIORITY, 0, 1, &itself), PE),
        ("a head on itself", start().head(1, flag::PRIORITY, &itself), PE),
    ]);
}

#[test]
fn streams_above_the_limit_are_refused_and_tables_stay_in_step() {
    let limits = Limits { concurrent_streams: 2, ..Limits::default() };
    // The refused head puts a field into the table, which the next one refers to.
    let with_entry = [request(&[]), b"\x40\x01k\x01v".to_vec()].concat();
    let referring = [request(&[]), vec![0xbe]].concat();
    let script = start().get(1).get(3).head(5, flag::END_STREAM, &with_entry).reset(1);
    let (subject, found) = run(|| Subject::server(limits), &script);
    assert_eq!(found, Reaction::Stream(5, ErrorCode::REFUSED_STREAM));
    assert_eq!(subject.connection.counters().refused_streams, 1);
    // A stream that the client reset keeps its place until the work for it ends.
    let mut subject = Subject::server(limits);
    subject.feed(&script, usize::MAX);
    subject.take_output();
    subject.feed(&Script::default().get(7), usize::MAX);
    let refused = Reaction::Stream(7, ErrorCode::REFUSED_STREAM);
    assert_eq!(reaction(&subject.take_output()), refused);
    let first = subject.stream(1);
    subject.connection.release(first);
    subject.feed(&Script::default().head(9, flag::END_STREAM, &referring), usize::MAX);
    let Some(Told::Request { stream: 9, fields, .. }) = subject.told.last() else { panic!() };
    assert!(fields.ends_with("k: v\n"), "{fields}");
}

#[test]
fn settings_are_applied_in_order_and_acknowledged() {
    check(vec![
        ("ENABLE_PUSH 2", start().settings(&[(2, 2)]), PE),
        ("INITIAL_WINDOW_SIZE", start().settings(&[(4, 1 << 31)]), FCE),
        ("MAX_FRAME_SIZE", start().settings(&[(5, 16_383)]), PE),
        (
            "a window beyond the maximum",
            start().post(1, &[]).window_update(1, 9).settings(&[(4, 0x7fff_ffff)]),
            FCE,
        ),
        ("unknown", start().settings(&[(0x4321, 7)]), Reaction::Fine),
        ("9 too late", start().settings(&[(9, 1)]), PE),
    ]);
    let (subject, _) = serve(&start().settings(&[(4, 5)]).settings(&[(4, 7), (4, 9)]));
    assert_eq!(subject.connection.peer_settings().initial_window_bytes, 9);
    let sent = frames(&subject.written);
    let acks = sent.iter().filter(|frame| frame.kind == kind::SETTINGS && frame.flags == flag::ACK);
    assert_eq!(acks.count(), 3);
}

#[test]
fn pings_are_answered_with_what_they_carry() {
    let (subject, found) = serve(&start().frame(kind::PING, 0, 0, b"12345678"));
    assert_eq!(found, Reaction::Fine);
    let sent = frames(&subject.written);
    let pong = sent.last().unwrap();
    assert_eq!(
        (pong.kind, pong.flags, &pong.payload[..]),
        (kind::PING, flag::ACK, &b"12345678"[..])
    );
    let (subject, _) = serve(&start().frame(kind::PING, flag::ACK, 0, b"12345678"));
    assert_eq!(subject.told.last(), Some(&Told::Pong(*b"12345678")));
}

#[test]
fn bad_header_blocks_end_the_connection() {
    let with = |bytes: &[u8]| start().head(1, flag::END_STREAM, &[&request(&[]), bytes].concat());
    check(vec![
        ("index 0", with(&[0x80]), CE),
        ("beyond the tables", with(&[0xbe]), CE),
        ("a long integer", with(&[0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]), CE),
        ("a size behind a field", with(&[0x20]), CE),
        (
            "a size of 5,000",
            start().head(1, 1, &[&[0x3f, 0x89, 0x27], &request(&[])[..]].concat()),
            CE,
        ),
        ("a cut field", with(&[0x00, 0x05, b'a']), CE),
        (
            "Huffman with 8 bits of padding",
            with(&[0x00, 0x01, b'a', 0x81, 0x07]).raw(&[]),
            Reaction::Fine,
        ),
        ("the same, too long", with(&[0x00, 0x01, b'a', 0x82, 0x07, 0xff]), CE),
        ("in trailers", start().post(1, &[]).head(1, flag::END_STREAM, &[0x80]), CE),
        ("of a refused stream", start().reset(1), PE),
    ]);
}

#[test]
fn malformed_requests_reset_their_stream_and_reach_nobody() {
    let fine = [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a")];
    let with = |name: &'static str, value: &'static str| {
        let mut fields = fine.to_vec();
        fields.push((name, value));
        fields
    };
    let replaced = |name: &'static str, value: &'static str| {
        fine.map(|(n, v)| if n == name { (n, value) } else { (n, v) }).to_vec()
    };
    let without = |name: &str| fine.iter().copied().filter(|(n, _)| *n != name).collect::<Vec<_>>();
    let cases = [
        with("Foo", "x"),
        with("a b", "x"),
        with("a:b", "x"),
        with("", "x"),
        with("a", "x\ry"),
        with("a", "x\ny"),
        with("a", "x\0y"),
        with("a", "x "),
        with("connection", "close"),
        with("transfer-encoding", "chunked"),
        with("te", "gzip"),
        with("content-length", "5, 5"),
        replaced(":method", "GET / HTTP/1.1"),
        replaced(":path", "/a b"),
        replaced(":path", "/x\r\nHost: y"),
        replaced(":path", ""),
        replaced(":path", "*"),
        replaced(":authority", "u@a"),
        with(":path", "/"),
        with(":foo", "x"),
        with(":status", "200"),
        with(":protocol", "websocket"),
        without(":path"),
        without(":method"),
        without(":scheme"),
        without(":authority"),
        [vec![("a", "b")], fine.to_vec()].concat(),
        [fine.to_vec(), vec![("content-length", "5"), ("content-length", "5")]].concat(),
        [fine.to_vec(), vec![("host", "a"), ("host", "a")]].concat(),
    ];
    for fields in cases {
        let (subject, found) = serve(&start().head(1, flag::END_STREAM, &block(&fields)).get(3));
        let expected = Reaction::Stream(1, ErrorCode::PROTOCOL_ERROR);
        assert_eq!(found, expected, "{fields:?}");
        let is_next_fine = matches!(subject.told[1..], [Told::Request { stream: 3, .. }]);
        assert!(is_next_fine, "{fields:?}: {:?}", subject.told);
        assert_eq!(subject.connection.counters().malformed_messages, 1);
    }
    for fields in [with("te", "trailers"), with("host", "a:443"), with("host", "A")] {
        let (_, found) = serve(&start().head(1, flag::END_STREAM, &block(&fields)));
        assert_eq!(found, Reaction::Fine, "{fields:?}");
    }
}

#[test]
fn another_host_than_the_authority_is_answered_with_400() {
    let (subject, found) = serve(&start().head(1, 0, &request(&[("host", "b")])));
    assert_eq!(found, Reaction::Stream(1, ErrorCode::NO_ERROR));
    assert_eq!(subject.connection.last_malformed(), Some(Malformed::Host));
    let sent = frames(&subject.written);
    let head = sent.iter().find(|frame| frame.kind == kind::HEADERS).unwrap();
    assert!(head.payload.ends_with(b"400") && head.flags & flag::END_STREAM != 0);
}

#[test]
fn bodies_are_as_long_as_they_say() {
    let five = || start().post(1, &[("content-length", "5")]);
    let reset = Reaction::Stream(1, ErrorCode::PROTOCOL_ERROR);
    let with_five = request(&[("content-length", "5")]);
    check(vec![
        ("four", five().data(1, flag::END_STREAM, b"1234"), reset.clone()),
        ("six", five().data(1, 0, b"123456"), reset.clone()),
        ("six in two frames", five().data(1, 0, b"123").data(1, 0, b"456"), reset.clone()),
        ("five", five().data(1, 0, b"12").data(1, flag::END_STREAM, b"345"), Reaction::Fine),
        ("five, end later", five().data(1, 0, b"12345").data(1, 1, b""), Reaction::Fine),
        ("five, padded", five().data(1, 9, b"\x0212345\0\0"), Reaction::Fine),
        ("none", start().head(1, flag::END_STREAM, &with_five), reset.clone()),
        ("trailers too early", five().data(1, 0, b"1234").head(1, 1, &block(&[("a", "b")])), reset),
        ("trailers", five().data(1, 0, b"12345").head(1, 1, &block(&[("a", "b")])), Reaction::Fine),
    ]);
}

#[test]
fn trailers_end_the_message() {
    let post = || start().post(1, &[]).data(1, 0, b"x");
    let reset = Reaction::Stream(1, ErrorCode::PROTOCOL_ERROR);
    check(vec![
        ("without END_STREAM", post().head(1, 0, &block(&[("a", "b")])), reset.clone()),
        ("pseudo", post().head(1, 1, &block(&[(":path", "/")])), reset.clone()),
        ("upper case", post().head(1, 1, &block(&[("A", "b")])), reset),
    ]);
    let (subject, _) = serve(&post().head(1, flag::END_STREAM, &block(&[("a", "b")])));
    let trailers = Told::Trailers { stream: 1, fields: "a: b\n".to_owned() };
    assert_eq!(subject.told.last(), Some(&trailers));
}

#[test]
fn what_is_in_flight_when_we_reset_is_dropped() {
    let mut subject = Subject::server(Limits::default());
    subject.feed(&start().settings_ack().post(1, &[]), usize::MAX);
    let stream = subject.stream(1);
    subject.connection.reset(stream, ErrorCode::CANCEL);
    subject.connection.release(stream);
    subject.take_output();
    let count = subject.told.len();
    let mut script = Script::default();
    for _ in 0..64 {
        script = script.data(1, 0, &[0; 16_000]);
    }
    script = script.head(1, flag::END_STREAM, &[b"\x40\x01k\x01v".to_vec()].concat());
    subject.feed(&script, 1000);
    assert_eq!((subject.error, subject.told.len()), (None, count));
    // The connection's window is whole again, but for less than half of it.
    let returned: u64 = subject
        .take_output()
        .iter()
        .map(|frame| {
            assert_eq!((frame.kind, frame.stream), (kind::WINDOW_UPDATE, 0));
            u64::from(u32::from_be_bytes(frame.payload[..].try_into().unwrap()))
        })
        .sum();
    assert!(returned > 64 * 16_000 / 2, "{returned}");
    // And its trailers filled the table.
    let referring = [request(&[]), vec![0xbe]].concat();
    subject.feed(&Script::default().head(3, flag::END_STREAM, &referring), usize::MAX);
    assert!(matches!(subject.told.last(), Some(Told::Request { stream: 3, .. })));
}

#[test]
fn sensitive_fields_stay_so() {
    let mut head = request(&[]);
    head.extend(b"\x10\x0dauthorization\x01x");
    let (subject, _) = serve(&start().head(1, flag::END_STREAM, &head));
    let Some(Told::Request { fields, .. }) = subject.told.last() else { panic!() };
    assert!(fields.ends_with("!authorization: x\n"));
}

#[test]
fn connect_and_extended_connect() {
    let limits = Limits { connect_protocol: true, ..Limits::default() };
    let plain = block(&[(":method", "CONNECT"), (":authority", "a:1")]);
    let extended = block(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/chat"),
        (":authority", "a"),
    ]);
    for head in [&plain, &extended] {
        let script = start().head(1, 0, head).data(1, 0, b"x").data(1, flag::END_STREAM, b"y");
        let (subject, found) = run(|| Subject::server(limits), &script);
        assert_eq!(found, Reaction::Fine);
        let data = Told::Data { stream: 1, data: b"xy".to_vec(), ends: true };
        assert_eq!(subject.told.last(), Some(&data));
    }
    let (_, found) = serve(&start().head(1, 0, &extended));
    assert_eq!(found, Reaction::Stream(1, ErrorCode::PROTOCOL_ERROR));
    let settings = &frames(Subject::server(limits).connection.output())[0];
    assert!(settings.payload.chunks(6).any(|entry| entry == [0, 8, 0, 0, 0, 1]));
}

const LINE: RequestLine<'_> =
    RequestLine { method: b"GET", scheme: b"https", authority: b"a", path: b"/", protocol: b"" };

/// A client with requests of these methods open.
fn client(methods: &[&'static str]) -> Subject {
    let mut subject = Subject::client(Limits::default());
    subject.feed(&Script::server().settings_ack(), usize::MAX);
    for method in methods {
        let line = RequestLine { method: method.as_bytes(), ..LINE };
        let stream = subject.connection.open(&line, [], EndStream::Yes).unwrap();
        subject.streams.push(stream);
    }
    subject.take_output();
    subject.told.clear();
    subject
}

#[test]
fn responses_are_checked_as_requests_are() {
    let status = |text: &str| block(&[(":status", text)]);
    let of_length =
        |text: &str, length: &str| block(&[(":status", text), ("content-length", length)]);
    let reset = Reaction::Stream(1, ErrorCode::PROTOCOL_ERROR);
    let start = Script::default;
    for (name, method, script, expected) in [
        ("200", "GET", start().head(1, 1, &status("200")), Reaction::Fine),
        ("DATA first", "GET", start().data(1, 0, b"x"), reset.clone()),
        ("no status", "GET", start().head(1, 1, &block(&[("a", "b")])), reset.clone()),
        ("101", "GET", start().head(1, 0, &status("101")), reset.clone()),
        ("100 that ends", "GET", start().head(1, 1, &status("100")), reset.clone()),
        (
            "5 and 4",
            "GET",
            start().head(1, 0, &of_length("200", "5")).data(1, 1, b"1234"),
            reset.clone(),
        ),
        ("5 at once", "GET", start().head(1, 1, &of_length("200", "5")), reset.clone()),
        ("HEAD", "HEAD", start().head(1, 1, &of_length("200", "100")), Reaction::Fine),
        (
            "HEAD with DATA",
            "HEAD",
            start().head(1, 0, &of_length("200", "1")).data(1, 1, b"x"),
            reset.clone(),
        ),
        ("204", "GET", start().head(1, 1, &of_length("204", "3")), Reaction::Fine),
        ("304", "GET", start().head(1, 1, &of_length("304", "100")), Reaction::Fine),
        (
            "a request's field",
            "GET",
            start().head(1, 1, &block(&[(":status", "200"), (":path", "/")])),
            reset,
        ),
        ("even", "GET", start().head(2, 1, &status("200")), PE),
        ("never opened", "GET", start().head(3, 1, &status("200")), PE),
        ("push", "GET", start().frame(kind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2]), PE),
        ("push enabled", "GET", start().settings(&[(2, 1)]), PE),
        ("PRIORITY_UPDATE", "GET", start().frame(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1]), PE),
        (
            "more than a header list",
            "GET",
            start().head(1, 1, &[status("200"), block(&[("a", "b"); 300])].concat()),
            Reaction::Stream(1, ErrorCode::PROTOCOL_ERROR),
        ),
    ] {
        let (_, found) = run(|| client(&[method]), &script);
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let status = |text: &str| block(&[(":status", text)]);
    let script = Script::default()
        .head(1, 0, &status("100"))
        .head(1, 0, &status("103"))
        .head(1, 0, &status("200"))
        .data(1, 0, b"x")
        .head(1, 1, &block(&[("grpc-status", "0")]));
    let (subject, found) = run(|| client(&["GET"]), &script);
    assert_eq!(found, Reaction::Fine);
    let fields = String::from;
    assert_eq!(
        subject.told,
        [
            Told::Interim { stream: 1, status: 100 },
            Told::Interim { stream: 1, status: 103 },
            Told::Response {
                stream: 1,
                status: 200,
                fields: fields(":status: 200\n"),
                ends: false
            },
            Told::Data { stream: 1, data: b"x".to_vec(), ends: false },
            Told::Trailers { stream: 1, fields: fields("grpc-status: 0\n") },
        ]
    );
}

#[test]
fn a_goaway_frees_streams_for_another_connection() {
    let goaway = |last: u32| {
        let payload = [&last.to_be_bytes()[..], &[0; 4], b"bye"].concat();
        Script::default().frame(kind::GOAWAY, 0, 0, &payload)
    };
    let script = goaway(3).head(3, 1, &block(&[(":status", "200")]));
    let (mut subject, found) = run(|| client(&["GET", "GET", "GET"]), &script);
    assert_eq!(found, Reaction::Fine);
    assert_eq!(subject.told[0], Told::GoAway { last_stream: 3, code: ErrorCode::NO_ERROR });
    assert!(matches!(subject.told[1], Told::Response { stream: 3, .. }));
    assert!(!subject.connection.can_open());
    for stream in subject.streams.clone() {
        assert!(!subject.connection.is_finished());
        subject.connection.release(stream);
        subject.take_output();
    }
    assert!(subject.connection.is_finished());
    let (_, found) = run(|| client(&["GET"]), &Script(goaway(3).0).raw(&goaway(5).0));
    assert_eq!(found, PE);
}

#[test]
fn a_server_drains_in_two_steps() {
    let mut subject = Subject::server(Limits::default());
    let mut script = start().settings_ack();
    for number in 0..50 {
        script = script.get(2 * number + 1);
    }
    subject.feed(&script, usize::MAX);
    subject.take_output();
    subject.connection.drain();
    let sent = subject.take_output();
    assert_eq!(sent[0].kind, kind::GOAWAY);
    assert_eq!(sent[0].payload, [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    assert_eq!(sent[1].kind, kind::PING);
    // One more was in flight; one comes behind the last word.
    let pong = Script::default().get(101).frame(kind::PING, flag::ACK, 0, &sent[1].payload);
    subject.feed(&pong, usize::MAX);
    let sent = subject.take_output();
    assert_eq!(sent[0].payload, [0, 0, 0, 101, 0, 0, 0, 0]);
    let count = subject.told.len();
    subject.feed(&Script::default().get(103), usize::MAX);
    assert_eq!((subject.told.len(), subject.take_output().len()), (count, 0));
    let streams = std::mem::take(&mut subject.streams);
    assert_eq!(streams.len(), 51);
    for stream in streams {
        assert!(!subject.connection.is_finished());
        subject.connection.respond(stream, 200, [], EndStream::Yes).unwrap();
        subject.connection.release(stream);
        subject.take_output();
    }
    assert!(subject.connection.is_finished());
}

#[test]
fn a_drain_does_not_wait_for_a_silent_client() {
    let mut subject = answered();
    subject.connection.drain();
    subject.take_output();
    assert_eq!(subject.connection.tick(60_000), Ok(None));
    assert!(matches!(reaction(&subject.take_output()), Reaction::Connection(ErrorCode::NO_ERROR)));
    assert!(subject.connection.is_finished());
}

#[test]
fn fields_that_no_message_may_have_are_not_sent() {
    let mut subject = Subject::server(Limits::default());
    subject.feed(&start().settings_ack().get(1).get(3), usize::MAX);
    let (first, second): (StreamId, StreamId) = (subject.stream(1), subject.stream(3));
    subject.take_output();
    let good = [Field::new(b"server", b"x"), Field::new(b"X-Mixed", b"y")];
    // Twice, so that the table has them.
    for (name, value) in [("a", "b\r\nc: d"), ("a b", "c"), ("connection", "close"), (":path", "/")]
    {
        let bad = Field::new(name.as_bytes(), value.as_bytes());
        let fields = good.into_iter().chain([bad]);
        assert!(subject.connection.respond(first, 200, fields, EndStream::Yes).is_err(), "{name}");
        assert_eq!(subject.take_output(), []);
    }
    // The tables of both sides are in step all the same.
    subject.connection.respond(first, 200, good, EndStream::Yes).unwrap();
    subject.connection.respond(second, 200, good, EndStream::Yes).unwrap();
    let sent = subject.take_output();
    let mut decoder = tollhouse_h2::hpack::Decoder::default();
    for frame in sent {
        let mut lines = String::new();
        let mut visit = |field: Field<'_>| {
            lines += &String::from_utf8_lossy(field.name);
            lines.push(' ');
        };
        decoder.decode(&frame.payload, &mut visit).unwrap();
        assert_eq!(lines, ":status server x-mixed ");
    }
}

#[test]
fn long_heads_go_on_in_continuation() {
    let mut subject = Subject::server(Limits::default());
    subject.feed(&start().get(1), usize::MAX);
    subject.take_output();
    let value = vec![b'v'; 40_000];
    let stream = subject.stream(1);
    subject.connection.respond(stream, 200, [Field::new(b"long", &value)], EndStream::Yes).unwrap();
    let sent = subject.take_output();
    let shape: Vec<_> = sent.iter().map(|f| (f.kind, f.flags, f.payload.len() <= 16_384)).collect();
    assert_eq!(
        shape,
        [
            (kind::HEADERS, flag::END_STREAM, true),
            (kind::CONTINUATION, 0, true),
            (kind::CONTINUATION, flag::END_HEADERS, true)
        ]
    );
}

#[test]
fn too_large_heads_are_answered_with_431() {
    let fields = vec![("a", "b"); 300];
    let (subject, found) = serve(&start().head(1, flag::END_STREAM, &request(&fields)).get(3));
    assert_eq!(found, Reaction::Stream(1, ErrorCode::PROTOCOL_ERROR));
    let sent = frames(&subject.written);
    let head = sent.iter().find(|frame| frame.kind == kind::HEADERS).unwrap();
    assert!(head.payload.ends_with(b"431"));
    assert!(matches!(subject.told.last(), Some(Told::Request { stream: 3, .. })));
    assert_eq!(subject.connection.counters().oversized_heads, 1);
    let crumbs = vec![("cookie", "a=b; c=d; e=f; g=h; i=j; k=l; m=n; o=p; q=r; s=t"); 150];
    let (_, found) = serve(&start().head(1, flag::END_STREAM, &request(&crumbs)));
    assert_eq!(found, Reaction::Fine);
    let crumbs = vec![("cookie", ""); 1001];
    let (_, found) = serve(&start().head(1, flag::END_STREAM, &request(&crumbs)));
    assert_eq!(found, Reaction::Stream(1, ErrorCode::PROTOCOL_ERROR));
    assert_ne!(found, EYC);
}
