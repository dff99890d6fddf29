//! Honest clients in a hurry: what each implementation sends beside its calls, as often as calls may come. No time
//! passes, so that nothing but what the peer was sent pays for it.

use crate::peer::{Script, Subject};
use tollhouse_h2::frame::{flag, kind};
use tollhouse_h2::{EndStream, Limits, RequestLine};

/// Calls of the pattern that has the largest bound, ten times that, and of the others.
const CALLS: u32 = 100_000;
const FEWER_CALLS: u32 = 10_000;

/// A server that has met its client.
fn server() -> Subject {
    let mut subject = Subject::server(Limits::default());
    subject.feed(&Script::client().settings_ack(), usize::MAX);
    subject
}

fn number(call: u32) -> u32 {
    2 * call + 1
}

/// Answers the one open stream as a unary call is answered: a head, 100 bytes, trailers.
fn answer(subject: &mut Subject) {
    let stream = subject.streams.pop().expect("a call");
    subject.connection.respond(stream, 200, [], EndStream::No).expect("an open stream");
    assert_eq!(subject.connection.send_data(stream, &[0; 100], EndStream::No), Ok(100));
    subject.connection.send_trailers(stream, []).expect("an open stream");
    subject.connection.release(stream);
}

/// Answers call after call; `around` gives what the client sends before and after each answer.
fn check(name: &str, calls: u32, around: impl Fn(u32) -> [Script; 2]) {
    let mut subject = server();
    for call in 0..calls {
        let [before, after] = around(call);
        subject.feed(&before, usize::MAX);
        if !subject.streams.is_empty() {
            answer(&mut subject);
        }
        subject.feed(&after, usize::MAX);
        assert_eq!(subject.error, None, "{name}: call {call}");
        subject.told.clear();
        let sent = subject.connection.output().len();
        subject.connection.written(sent);
    }
}

fn ping(script: Script) -> Script {
    script.frame(kind::PING, 0, 0, &[0; 8])
}

#[test]
fn what_clients_send_beside_each_of_their_calls_is_no_flood() {
    let call =
        |n| Script::default().post(number(n), &[]).data(number(n), flag::END_STREAM, b"call");
    let widen = |n| Script::default().window_update(number(n), 100).window_update(0, 100);
    check("gRPC C-core: two updates for each answer", CALLS, |n| [call(n), widen(n)]);
    check("grpc-go and Netty: two updates and a PING for each answer", FEWER_CALLS, |n| {
        [call(n), ping(widen(n))]
    });
    check("updates of the connection in steps", FEWER_CALLS, |n| {
        [call(n), (0..10).fold(Script::default(), |script, _| script.window_update(0, 10))]
    });
    check("a stream's window of its own with each call", FEWER_CALLS, |n| {
        [call(n).window_update(number(n), 1 << 20), widen(n)]
    });
    check("a head that is followed by DATA without bytes", FEWER_CALLS, |n| {
        let head = Script::default().post(number(n), &[]);
        [head.data(number(n), 0, b"").data(number(n), flag::END_STREAM, b"call"), widen(n)]
    });
    check("a frame of a reserved type for each call", FEWER_CALLS, |n| {
        [call(n).frame(0x0b, 0, number(n), &[]), widen(n)]
    });
    check("weights for each call", FEWER_CALLS, |n| {
        let script = (0..5).fold(call(n), |script, weight| {
            script.frame(kind::PRIORITY, 0, number(n), &[0, 0, 0, 0, weight])
        });
        [script, widen(n)]
    });
}

#[test]
fn a_client_that_cancels_every_other_call_goes_on() {
    let cancelled = |n: u32| Script::default().get(number(n)).reset(number(n));
    let mut subject = server();
    for pair in 0..FEWER_CALLS / 2 {
        // As Go's client does: a PING with the reset tells it whether the connection is alive.
        subject.feed(&ping(cancelled(2 * pair)), usize::MAX);
        let stream = subject.streams.pop().expect("a call");
        subject.connection.release(stream);
        subject.feed(&Script::default().get(number(2 * pair + 1)), usize::MAX);
        answer(&mut subject);
        subject.feed(&Script::default().window_update(0, 100), usize::MAX);
        assert_eq!(subject.error, None, "pair {pair}");
        subject.told.clear();
        let sent = subject.connection.output().len();
        subject.connection.written(sent);
    }
}

#[test]
fn calls_that_are_opened_before_the_number_of_streams_is_known_are_refused_and_no_flood() {
    let mut subject = Subject::server(Limits::default());
    let script = (0..1000).fold(Script::client(), |script, n| script.get(number(n)));
    subject.feed(&script.settings_ack(), usize::MAX);
    assert_eq!(subject.error, None);
    assert_eq!(subject.streams.len(), 128);
}

#[test]
fn updates_for_many_short_messages_may_come_all_at_once() {
    let mut subject = server();
    subject.feed(&Script::default().post(1, &[]).window_update(0, 1 << 20), usize::MAX);
    subject.feed(&Script::default().window_update(1, 1 << 20), usize::MAX);
    let stream = subject.streams[0];
    subject.connection.respond(stream, 200, [], EndStream::No).expect("an open stream");
    for _ in 0..30_000 {
        assert_eq!(subject.connection.send_data(stream, b"x", EndStream::No), Ok(1));
        subject.take_output();
    }
    let step = Script::default().window_update(1, 1).window_update(0, 1);
    let all = (0..30_000).fold(Script::default(), |script, _| script.raw(&step.0));
    subject.feed(&all, usize::MAX);
    assert_eq!(subject.error, None);
}

#[test]
fn settings_that_follow_the_measured_path_are_no_flood() {
    let mut subject = server();
    for turn in 0..10_000_u64 {
        let settings = Script::default().settings(&[(4, 65_535 + turn as u32)]);
        subject.feed_at(&settings.window_update(0, 1), usize::MAX, turn * 100);
        subject.take_output();
    }
    assert_eq!(subject.error, None);
}

/// The same limits where this side is the client: a node returns windows for each short request.
#[test]
fn a_node_that_returns_two_windows_for_each_short_request_is_no_flood() {
    let mut subject = Subject::client(Limits::default());
    subject.feed(&Script::server().settings_ack(), usize::MAX);
    let line = RequestLine {
        method: b"POST",
        scheme: b"http",
        authority: b"a",
        path: b"/",
        protocol: b"",
    };
    let head = crate::peer::block(&[(":status", "200")]);
    for call in 0..CALLS {
        let stream = subject.connection.open(&line, [], EndStream::No).expect("a stream");
        assert_eq!(subject.connection.send_data(stream, b"call", EndStream::Yes), Ok(4));
        let number = stream.number();
        let script = Script::default().window_update(0, 4).window_update(number, 4);
        subject.feed(&ping(script).head(number, flag::END_STREAM, &head), usize::MAX);
        subject.connection.release(stream);
        assert_eq!(subject.error, None, "call {call}");
        subject.told.clear();
        let sent = subject.connection.output().len();
        subject.connection.written(sent);
    }
}
