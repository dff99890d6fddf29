//! Floods: each ends at its bound, with memory that stays small.

use crate::peer::{Reaction, Script, Subject, Told, block, reaction, request, run};
use tollhouse_h2::frame::{flag, kind};
use tollhouse_h2::limits::{UPDATES_PER_DATA_FRAME, UPDATES_PER_STREAM};
use tollhouse_h2::{Connection, Counters, EndStream, ErrorCode, FaultScope, Limits};
use tollhouse_stdx::MemoryBudget;

const EYC: Reaction = Reaction::Connection(ErrorCode::ENHANCE_YOUR_CALM);

/// Most memory that any of these may make a connection hold.
const MEMORY_BYTES_MAX: usize = 512 * 1024;

/// Feeds `step(0)`, `step(1)`… to a server until it ends, releasing streams as `release` says; gives
/// how many steps that took.
fn flood(
    limits: Limits,
    mut step: impl FnMut(u32) -> Script,
    is_socket_read: bool,
) -> (u32, Subject) {
    let mut subject = Subject::server(limits);
    subject.feed(&Script::client().settings_ack(), usize::MAX);
    for count in 0..200_000 {
        subject.feed(&step(count), usize::MAX);
        if is_socket_read && subject.error.is_none() {
            subject.take_output();
        }
        subject.told.clear();
        if subject.error.is_some() {
            assert!(subject.connection.memory_bytes() < MEMORY_BYTES_MAX);
            return (count, subject);
        }
        for stream in std::mem::take(&mut subject.streams) {
            subject.connection.release(stream);
        }
    }
    panic!("the flood does not end");
}

/// A flood: its name, what its steps are, and what counts it.
type Flood = (&'static str, Box<dyn Fn(u32) -> Script>, fn(&Counters) -> u64);

fn check(floods: Vec<Flood>, expected: impl Fn(&Limits) -> u32) {
    let limits = Limits { faults: FaultScope::Stream, ..Limits::default() };
    for (name, step, count) in floods {
        let (steps, mut subject) = flood(limits, step, true);
        assert_eq!(steps, expected(&limits), "{name}");
        assert_eq!(count(subject.connection.counters()), u64::from(steps) + 1, "{name}");
        assert_eq!(reaction(&subject.take_output()), EYC, "{name}");
    }
}

fn number(count: u32) -> u32 {
    2 * count + 1
}

fn post(count: u32) -> Script {
    Script::default().post(number(count), &[])
}

#[test]
fn resets_end_at_one_bound_whoever_is_made_to_send_them() {
    let priority_of_itself = |n: u32| {
        let itself = [&number(n).to_be_bytes()[..], &[0]].concat();
        post(n).frame(kind::PRIORITY, 0, number(n), &itself)
    };
    let update = |n, increment| post(n).window_update(number(n), increment);
    let get = |n| Script::default().get(number(n));
    let malformed = |n| Script::default().head(number(n), 1, &block(&[("A", "b")]));
    let short_priority = |n| post(n).frame(kind::PRIORITY, 0, number(n), &[0; 4]);
    let floods: Vec<Flood> = vec![
        ("rapid reset", Box::new(|n| post(n).reset(number(n))), |c| c.resets_received),
        ("update of 0", Box::new(move |n| update(n, 0)), |c| c.resets_caused),
        ("overflow", Box::new(move |n| update(n, 0x7fff_ffff)), |c| c.resets_caused),
        ("PRIORITY of 4", Box::new(short_priority), |c| c.resets_caused),
        ("PRIORITY on itself", Box::new(priority_of_itself), |c| c.resets_caused),
        ("HEADERS behind the end", Box::new(move |n| get(n).get(number(n))), |c| c.resets_caused),
        ("DATA behind the end", Box::new(move |n| get(n).data(number(n), 0, b"x")), |c| {
            c.resets_caused
        }),
        ("malformed heads", Box::new(malformed), |c| c.malformed_messages),
    ];
    check(floods, |limits| limits.resets.burst);
}

#[test]
fn floods_of_other_frames_end_at_their_bounds() {
    let ping = |_| Script::default().frame(kind::PING, 0, 0, &[0; 8]);
    let unknown = |_| Script::default().frame(0xee, 0, 0, &[]);
    let priority = |_| Script::default().frame(kind::PRIORITY, 0, 1, &[0; 5]);
    let update = |_| Script::default().window_update(0, 1);
    check(vec![("PING", Box::new(ping), |c| c.pings)], |limits| limits.pings.burst);
    check(vec![("unknown", Box::new(unknown), |c| c.unknown_frames)], |limits| {
        limits.empty_frames.burst
    });
    check(vec![("PRIORITY", Box::new(priority), |c| c.priorities)], |limits| {
        limits.priorities.burst
    });
    check(vec![("WINDOW_UPDATE", Box::new(update), |c| c.window_updates)], |limits| {
        limits.window_updates.burst
    });
    // Nothing of ours is answered by these, but for the first acknowledgement.
    let settings_ack = |_| Script::default().settings_ack();
    let ping_ack = |_| Script::default().frame(kind::PING, flag::ACK, 0, &[0; 8]);
    let acknowledgements = |limits: &Limits| limits.acknowledgements.burst - 1;
    check(vec![("SETTINGS ACK", Box::new(settings_ack), |c| c.frames - 2)], acknowledgements);
    check(vec![("PING ACK", Box::new(ping_ack), |c| c.frames - 2)], acknowledgements);
    let goaway = |_| Script::default().frame(kind::GOAWAY, 0, 0, &[0; 4096]);
    check(vec![("GOAWAY", Box::new(goaway), |c| c.frames - 2)], |limits| limits.goaways.burst);
    // The first of them came with the preface.
    check(
        vec![("SETTINGS", Box::new(|_| Script::default().settings(&[])), |c| c.settings - 1)],
        |limits| limits.settings.burst - 1,
    );
}

#[test]
fn updates_beyond_what_a_download_paid_for_end_at_the_bound() {
    let mut subject = Subject::server(Limits::default());
    subject.feed(&Script::client().settings_ack().post(1, &[]), usize::MAX);
    let stream = subject.streams[0];
    subject.connection.respond(stream, 200, [], EndStream::No).expect("an open stream");
    for _ in 0..100 {
        assert_eq!(subject.connection.send_data(stream, &[0; 500], EndStream::No), Ok(500));
        subject.take_output();
    }
    let paid = 100 * UPDATES_PER_DATA_FRAME + UPDATES_PER_STREAM;
    let update = Script::default().window_update(0, 1);
    let allowed = Limits::default().window_updates.burst + paid;
    for _ in 0..allowed {
        subject.feed(&update, usize::MAX);
    }
    assert_eq!(subject.error, None);
    subject.feed(&update, usize::MAX);
    assert_eq!(reaction(&subject.take_output()), EYC);
}

/// Answered calls pay for no longer burst of cancelled ones afterwards.
#[test]
fn resets_in_a_row_end_at_their_bound_whatever_was_answered_before() {
    let mut subject = Subject::server(Limits::default());
    subject.feed(&Script::client().settings_ack(), usize::MAX);
    for n in 0..5000 {
        subject.feed(&Script::default().get(number(n)), usize::MAX);
        let stream = subject.streams.pop().expect("a call");
        subject.connection.respond(stream, 200, [], EndStream::Yes).expect("an open stream");
        subject.connection.release(stream);
        subject.take_output();
    }
    let mut resets = 0;
    while subject.error.is_none() {
        let n = 5000 + resets;
        subject.feed(&Script::default().get(number(n)).reset(number(n)), usize::MAX);
        for stream in std::mem::take(&mut subject.streams) {
            subject.connection.release(stream);
        }
        resets += 1;
    }
    assert_eq!(resets, Limits::default().resets.burst + 1);
}

#[test]
fn time_gives_back_what_a_flood_took() {
    let mut subject = Subject::server(Limits::default());
    subject.feed(&Script::client().settings_ack(), usize::MAX);
    let ping = Script::default().frame(kind::PING, 0, 0, &[0; 8]);
    for second in 0..1000_u64 {
        for _ in 0..10 {
            subject.feed_at(&ping, usize::MAX, second * 1000);
            subject.take_output();
        }
    }
    assert_eq!(subject.error, None);
}

/// grpc-go asks by a PING how far the path is for each piece of DATA that it gets.
#[test]
fn a_ping_for_each_piece_of_data_is_no_flood() {
    let mut subject = Subject::server(Limits::default());
    subject.feed(&Script::client().settings_ack().post(1, &[]), usize::MAX);
    let stream = subject.streams[0];
    subject.connection.respond(stream, 200, [], EndStream::No).expect("an open stream");
    let ping = Script::default().frame(kind::PING, 0, 0, &[0; 8]).window_update(1, 1);
    let ping = ping.window_update(0, 1);
    for _ in 0..5000 {
        assert_eq!(subject.connection.send_data(stream, b"x", EndStream::No), Ok(1));
        subject.feed(&ping, usize::MAX);
        subject.take_output();
    }
    assert_eq!(subject.error, None);
}

#[test]
fn empty_data_ends_at_its_bound_and_honest_data_does_not() {
    let mut subject = Subject::server(Limits::default());
    subject.feed(&Script::client().settings_ack().post(1, &[]), usize::MAX);
    let empty = (0..101).fold(Script::default(), |script, _| script.data(1, 0, b""));
    subject.feed(&empty, usize::MAX);
    assert_eq!(reaction(&subject.take_output()), EYC);
    assert_eq!(subject.connection.counters().empty_data, 101);
    let mut subject = Subject::server(Limits::default());
    subject.feed(&Script::client().settings_ack().post(1, &[]), usize::MAX);
    subject.feed(&(0..5000).fold(Script::default(), |s, _| s.data(1, 0, b"x")), usize::MAX);
    assert_eq!(subject.error, None);
}

#[test]
fn blocks_end_at_a_number_of_frames_and_of_bytes() {
    let open = || Script::client().frame(kind::HEADERS, 0, 1, &request(&[]));
    let goes_on = |script: Script, payload: &[u8]| script.frame(kind::CONTINUATION, 0, 1, payload);
    let empty = (0..9).fold(open(), |script, _| goes_on(script, &[]));
    let large = (0..4).fold(open(), |script, _| goes_on(script, &[0; 16_384]));
    for (script, continuations) in [(empty, 9), (large, 4)] {
        let (subject, found) = run(|| Subject::server(Limits::default()), &script);
        assert_eq!(found, EYC);
        assert_eq!(subject.connection.counters().continuations, continuations);
        assert!(subject.connection.memory_bytes() < MEMORY_BYTES_MAX);
    }
}

#[test]
fn bombs_of_references_end_at_the_list_of_fields() {
    // An entry of one letter, or one of four thousand bytes, and references to it.
    let small = b"\x40\x01a\x00".to_vec();
    let large = [&b"\x40\x01a"[..], &[0x7f, 0x91, 0x1e], &[b'x'; 4000]].concat();
    let crumb = b"\x60\x00".to_vec();
    for entry in [small, large, crumb] {
        let bomb = [request(&[]), entry, vec![0xbe; 16_000 - 4200]].concat();
        let script = Script::client().head(1, flag::END_STREAM, &bomb).get(3);
        let (subject, found) = run(|| Subject::server(Limits::default()), &script);
        assert_eq!(found, Reaction::Stream(1, ErrorCode::PROTOCOL_ERROR));
        assert_eq!(subject.connection.counters().oversized_heads, 1);
        assert!(subject.connection.memory_bytes() < 64 * 1024);
    }
}

#[test]
fn answers_that_nobody_reads_end_at_their_bound() {
    let unbound = tollhouse_h2::Rate { burst: u32::MAX, per_second: 0 };
    let limits = Limits {
        pings: unbound,
        settings: unbound,
        resets: unbound,
        output_bytes_max: 4096,
        ..Limits::default()
    };
    let ping = |_| Script::default().frame(kind::PING, 0, 0, &[0; 8]);
    let (steps, subject) = flood(limits, ping, false);
    // The acknowledgement of SETTINGS waits too.
    assert_eq!(steps, 999);
    assert_eq!(subject.connection.counters().queued_control_frames_max, 1001);
    assert!(!subject.connection.wants_input());
    let settings = |_| Script::default().settings(&[]);
    assert_eq!(flood(limits, settings, false).0, 999);
    let resets = |n: u32| Script::default().head(2 * n + 1, 1, &block(&[("A", "b")]));
    assert_eq!(flood(limits, resets, false).0, 999);
}

#[test]
fn what_is_never_finished_ends_at_its_deadline() {
    let begun = Script::client().frame(kind::HEADERS, 0, 1, &request(&[]));
    let cut = Script(Script::client().get(1).0[..60].to_vec());
    for (name, script, deadline_ms, code) in [
        ("nothing", Script::default(), 10_000, ErrorCode::SETTINGS_TIMEOUT),
        ("no acknowledgement", Script::client(), 10_000, ErrorCode::SETTINGS_TIMEOUT),
        ("a block", begun.settings_ack_before(), 30_000, ErrorCode::ENHANCE_YOUR_CALM),
        ("a frame", cut.settings_ack_before(), 30_000, ErrorCode::ENHANCE_YOUR_CALM),
    ] {
        let mut subject = Subject::server(Limits::default());
        subject.feed(&script, usize::MAX);
        assert_eq!(subject.connection.tick(deadline_ms), Ok(None), "{name}");
        let error = subject.connection.tick(deadline_ms + 1).unwrap_err();
        assert_eq!(error.code, code, "{name}");
        assert_eq!(reaction(&subject.take_output()), Reaction::Connection(code), "{name}");
        assert!(subject.connection.is_finished(), "{name}");
    }
}

impl Script {
    /// The same with an acknowledgement of SETTINGS behind its own.
    fn settings_ack_before(&self) -> Script {
        let start = Script::client().0.len();
        Script::client().settings_ack().raw(&self.0[start..])
    }
}

#[test]
fn an_idle_connection_holds_little() {
    let mut subject = Subject::server(Limits::default());
    subject.feed(&Script::client().settings_ack(), usize::MAX);
    for number in 0..1000 {
        subject.feed(&Script::default().get(2 * number + 1), usize::MAX);
        let stream = subject.streams.pop().unwrap();
        subject.connection.respond(stream, 200, [], EndStream::No).unwrap();
        subject.connection.send_data(stream, &[0; 2000], EndStream::Yes).unwrap();
        subject.connection.release(stream);
        subject.take_output();
    }
    subject.connection.release_memory();
    let bytes = subject.connection.memory_bytes() + size_of_val(&subject.connection);
    assert!(bytes < 6 * 1024, "{bytes}");
}

#[test]
fn unread_bodies_take_from_the_budget_and_a_stream_without_room_is_reset() {
    let budget = MemoryBudget::new(256 << 10);
    let mut subject = Subject::server(Limits::default());
    subject.connection = Connection::server(Limits::default(), &budget, 0);
    subject.feed(&Script::client().settings_ack(), usize::MAX);
    let body = |n| (0..4).fold(post(n), |script, _| script.data(number(n), 0, &[0; 15_000]));
    // The first 64 KiB of a connection are free of charge, and the budget is asked for 64 KiB at a time.
    subject.feed(&body(0), usize::MAX);
    assert_eq!(budget.held(), 0);
    for n in 1..5 {
        subject.feed(&body(n), usize::MAX);
        subject.take_output();
    }
    assert_eq!(budget.held(), 256 << 10);
    subject.feed(&body(5), usize::MAX);
    let calm = ErrorCode::ENHANCE_YOUR_CALM;
    assert_eq!(reaction(&subject.take_output()), Reaction::Stream(number(5), calm));
    assert_eq!(subject.told.last(), Some(&Told::Reset { stream: number(5), code: calm }));
    assert_eq!(subject.error, None);
    assert_eq!(subject.connection.counters().unbudgeted_streams, 1);
    // Bytes that are read or released make room for others.
    subject.connection.release(subject.stream(number(5)));
    subject.connection.consume(subject.stream(1), 60_000);
    subject.feed(&body(6), usize::MAX);
    assert_eq!(reaction(&subject.take_output()), Reaction::Fine);
    for stream in std::mem::take(&mut subject.streams) {
        subject.connection.release(stream);
    }
    assert_eq!(budget.held(), 0);
}
