//! Flow control and whose turn it is.

use crate::peer::{Reaction, Script, Subject, reaction, run};
use tollhouse_h2::frame::{flag, kind};
use tollhouse_h2::{Connection, EndStream, ErrorCode, Limits, Priority, ResetCause};
use tollhouse_stdx::MemoryBudget;

/// A server with GETs of these streams, their heads sent.
fn serving(limits: Limits, settings: &[(u16, u32)], numbers: &[u32]) -> Subject {
    let mut subject = Subject::server(limits);
    let script = Script::client().settings(settings).settings_ack();
    subject.feed(&numbers.iter().fold(script, |script, number| script.get(*number)), usize::MAX);
    for number in numbers {
        let stream = subject.stream(*number);
        subject.connection.respond(stream, 200, [], EndStream::No).unwrap();
    }
    subject.take_output();
    subject
}

/// Stream and length of each DATA frame that waits.
fn data_sent(subject: &mut Subject) -> Vec<(u32, usize)> {
    let sent = subject.take_output();
    let data = sent.iter().filter(|frame| frame.kind == kind::DATA);
    data.map(|frame| (frame.stream, frame.payload.len())).collect()
}

#[test]
fn data_waits_for_its_window() {
    let mut subject = serving(Limits::default(), &[(4, 1000)], &[1]);
    let stream = subject.stream(1);
    assert_eq!(subject.connection.send_data(stream, &[0; 3000], EndStream::Yes), Ok(1000));
    assert_eq!(data_sent(&mut subject), [(1, 1000)]);
    assert_eq!(subject.connection.next_ready(), None);
    // The setting takes away what was sent already.
    subject.feed(&Script::default().settings(&[(4, 0)]).window_update(1, 1000), usize::MAX);
    assert_eq!(subject.connection.next_ready(), None);
    subject.feed(&Script::default().window_update(1, 1), usize::MAX);
    assert_eq!(subject.connection.next_ready(), Some(stream));
    assert_eq!(subject.connection.next_ready(), None);
    assert_eq!(subject.connection.send_data(stream, &[0; 2000], EndStream::Yes), Ok(1));
    subject.feed(&Script::default().settings(&[(4, 5000)]), usize::MAX);
    assert_eq!(subject.connection.next_ready(), Some(stream));
    assert_eq!(subject.connection.send_data(stream, &[0; 1999], EndStream::Yes), Ok(1999));
    let sent = subject.take_output();
    assert_eq!(sent.last().map(|frame| frame.flags), Some(flag::END_STREAM));
}

#[test]
fn an_end_without_data_needs_no_window() {
    let mut subject = serving(Limits::default(), &[(4, 0)], &[1, 3]);
    let (first, second) = (subject.stream(1), subject.stream(3));
    assert_eq!(subject.connection.send_data(first, &[], EndStream::Yes), Ok(0));
    assert_eq!(subject.connection.send_data(second, &[], EndStream::No), Ok(0));
    assert_eq!(data_sent(&mut subject), [(1, 0)]);
    assert!(subject.connection.send_data(first, &[], EndStream::Yes).is_err());
}

#[test]
fn the_connections_window_is_shared_in_turn() {
    let mut subject = serving(Limits::default(), &[(4, 1 << 20)], &[1, 3]);
    let (first, second) = (subject.stream(1), subject.stream(3));
    let body = vec![0; 200_000];
    // The window of the connection is 65,535, the room of the output a byte more.
    assert_eq!(subject.connection.send_data(first, &body, EndStream::Yes), Ok(65_535));
    assert_eq!(subject.connection.send_data(second, &body, EndStream::Yes), Ok(0));
    assert_eq!(subject.connection.next_ready(), None);
    data_sent(&mut subject);
    subject.feed(&Script::default().window_update(0, 100_000), usize::MAX);
    let mut order = Vec::new();
    while let Some(stream) = subject.connection.next_ready() {
        subject.connection.send_data(stream, &body, EndStream::Yes).unwrap();
        order.push(stream.number());
        if order.len() % 4 == 0 {
            data_sent(&mut subject);
        }
    }
    assert!(order.windows(2).all(|pair| pair[0] != pair[1]), "{order:?}");
    assert_eq!(order.len(), 7);
}

#[test]
fn the_urgent_go_first_and_bulk_goes_on() {
    let priority = |text: &str| Priority::parse(text.as_bytes());
    let mut subject = serving(Limits::default(), &[(4, 1 << 30)], &[1, 3, 5]);
    subject.feed(&Script::default().window_update(0, 1 << 30), usize::MAX);
    let bulk = subject.stream(1);
    let urgent = subject.stream(5);
    subject.connection.set_priority(bulk, priority("u=7"));
    subject.connection.set_priority(urgent, priority("u=0"));
    let body = vec![0; 1 << 20];
    for number in [1, 3, 5] {
        let stream = subject.stream(number);
        subject.connection.send_data(stream, &body, EndStream::No).unwrap();
    }
    data_sent(&mut subject);
    let mut order = Vec::new();
    for _ in 0..32 {
        let stream = subject.connection.next_ready().unwrap();
        subject.connection.send_data(stream, &body, EndStream::No).unwrap();
        order.push(stream.number());
        data_sent(&mut subject);
    }
    let count = |number: u32| order.iter().filter(|other| **other == number).count();
    assert_eq!(order[0], 5);
    assert!(count(5) >= 28 && count(1) >= 1 && count(3) >= 1, "{order:?}");
}

#[test]
fn priorities_come_with_the_head_or_a_frame() {
    let update = |stream: u32, text: &str| {
        let payload = [&stream.to_be_bytes()[..], text.as_bytes()].concat();
        Script::default().frame(kind::PRIORITY_UPDATE, 0, 0, &payload)
    };
    let head = crate::peer::request(&[("priority", "u=1, i")]);
    let script = Script::client()
        .head(1, flag::END_STREAM, &head)
        .raw(&update(3, "u=5").0)
        .get(3)
        .get(5)
        .raw(&update(5, "u=6,i").0);
    let (subject, _) = run(|| Subject::server(Limits::default()), &script);
    let told = |number| subject.connection.priority(subject.stream(number)).unwrap();
    assert_eq!(told(1), Priority { urgency: 1, is_incremental: true });
    assert_eq!(told(3), Priority { urgency: 5, is_incremental: false });
    assert_eq!(told(5), Priority { urgency: 6, is_incremental: true });
}

#[test]
fn a_slow_stream_stops_itself_and_no_other() {
    let mut subject = Subject::server(Limits::default());
    subject.feed(&Script::client().settings_ack().post(1, &[]).post(3, &[]), usize::MAX);
    subject.take_output();
    let (slow, fast) = (subject.stream(1), subject.stream(3));
    let piece = vec![0; 16_384];
    // The slow one's window is used up, and nothing of it is consumed.
    let mut script = Script::default();
    for _ in 0..3 {
        script = script.data(1, 0, &piece);
    }
    subject.feed(&script.data(1, 0, &piece[..16_383]), usize::MAX);
    for _ in 0..500 {
        subject.feed(&Script::default().data(3, 0, &piece), usize::MAX);
        subject.connection.consume(fast, piece.len());
    }
    assert_eq!(subject.error, None);
    let sent = subject.take_output();
    assert!(sent.iter().all(|frame| frame.kind == kind::WINDOW_UPDATE && frame.stream != 1));
    // One byte more of the slow one is too much.
    let mut second = Subject::server(Limits::default());
    second.feed(&Script::client().settings_ack().post(1, &[]), usize::MAX);
    for _ in 0..4 {
        second.feed(&Script::default().data(1, 0, &piece), usize::MAX);
    }
    let expected = Reaction::Connection(ErrorCode::FLOW_CONTROL_ERROR);
    assert_eq!(reaction(&second.take_output()), expected);
    subject.connection.consume(slow, 65_535);
    let sent = subject.take_output();
    assert!(sent.iter().any(|frame| frame.stream == 1));
}

#[test]
fn more_than_the_connections_window_is_an_error() {
    let limits = Limits {
        stream_window_bytes: 1 << 20,
        connection_window_bytes: 0,
        unread_bytes: 0,
        ..Limits::default()
    };
    let mut script = Script::client().settings_ack().post(1, &[]).data(1, 0, b"x");
    for _ in 0..4 {
        script = script.data(1, 0, &[0; 16_384]);
    }
    let (_, found) = run(|| Subject::server(limits), &script);
    assert_eq!(found, Reaction::Connection(ErrorCode::FLOW_CONTROL_ERROR));
}

#[test]
fn windows_widen_within_their_budgets_and_narrow_again() {
    let budget = MemoryBudget::new(200_000);
    let limits = Limits::default();
    let mut connection = Connection::server(limits, &budget, 0);
    let mut sink = ();
    let opening = Script::client().settings_ack().post(1, &[]);
    let mut input = &opening.0[..];
    let mut stream = None;
    while let Some(event) = connection.receive(&mut input, 1, &mut sink).unwrap() {
        if let tollhouse_h2::Event::Request { stream: id, .. } = event {
            stream = Some(id);
        }
    }
    let stream = stream.unwrap();
    // All within one millisecond: a window's half is used up in less than two round trips.
    for _ in 0..200 {
        let frame = Script::default().data(1, 0, &[0; 16_000]);
        let mut input = &frame.0[..];
        while connection.receive(&mut input, 1, &mut sink).unwrap().is_some() {}
        connection.consume(stream, 16_000);
        connection.written(connection.output().len());
    }
    assert_eq!(connection.counters().widened_windows, 2);
    assert!(connection.counters().unwidened_windows > 0);
    assert_eq!(budget.held(), 3 * 65_535);
    connection.release(stream);
    assert_eq!(budget.held(), 0);
}

#[test]
fn a_stream_that_waits_too_long_is_reset_whatever_trickles() {
    let mut subject = serving(Limits::default(), &[(4, 0)], &[1]);
    let stream = subject.stream(1);
    assert_eq!(subject.connection.send_data(stream, &[0; 5000], EndStream::Yes), Ok(0));
    let mut left = 5000;
    for second in 1..=60 {
        assert_eq!(subject.connection.tick(second * 1000), Ok(None));
        let update = Script::default().window_update(1, 1);
        subject.feed_at(&update, usize::MAX, second * 1000);
        while let Some(stream) = subject.connection.next_ready() {
            left -= subject.connection.send_data(stream, &vec![0; left], EndStream::Yes).unwrap();
        }
    }
    assert_eq!(left, 5000 - 60);
    let event = subject.connection.tick(61_000).unwrap();
    let code = ErrorCode::CANCEL;
    let expected = tollhouse_h2::Event::Reset { stream, code, cause: ResetCause::Stall };
    assert_eq!(event, Some(expected));
    assert_eq!(subject.connection.counters().stalled_streams, 1);
    assert_eq!(subject.connection.tick(61_000), Ok(None));
}

#[test]
fn releasing_a_stream_says_whether_it_was_complete() {
    // Answered while the client was still sending: no error, stop.
    let mut subject = Subject::server(Limits::default());
    subject.feed(&Script::client().settings_ack().post(1, &[]).post(3, &[]).get(5), usize::MAX);
    subject.take_output();
    for (number, answers, expected) in [
        (1, true, Reaction::Stream(1, ErrorCode::NO_ERROR)),
        (3, false, Reaction::Stream(3, ErrorCode::CANCEL)),
        (5, true, Reaction::Fine),
    ] {
        let stream = subject.stream(number);
        if answers {
            subject.connection.respond(stream, 200, [], EndStream::Yes).unwrap();
        }
        subject.connection.release(stream);
        subject.connection.release(stream);
        assert_eq!(reaction(&subject.take_output()), expected);
    }
    assert_eq!(subject.connection.open_streams(), 0);
}

#[test]
fn pings_are_answered_ahead_of_data_that_waits() {
    let mut subject = serving(Limits::default(), &[(4, 1 << 20)], &[1]);
    let stream = subject.stream(1);
    let body = vec![0; 1 << 20];
    let sent = subject.connection.send_data(stream, &body, EndStream::Yes).unwrap();
    subject.feed(&Script::default().window_update(0, 1 << 20), usize::MAX);
    subject.feed(&Script::default().frame(kind::PING, 0, 0, &[7; 8]), usize::MAX);
    let first = subject.take_output();
    assert_eq!(first.last().map(|frame| frame.kind), Some(kind::PING));
    assert_eq!(subject.connection.next_ready(), Some(stream));
    assert!(subject.connection.send_data(stream, &body[sent..], EndStream::Yes).unwrap() > 0);
}
