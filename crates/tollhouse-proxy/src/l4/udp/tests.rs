//! Turns of a listener during a flood of new sources.

use std::net::Ipv4Addr;

use serde_json::json;
use tollhouse_model::{Id, Kind};
use tollhouse_plugin::Catalogue;

use super::arrivals::{STARTS_PER_TURN, WAITING_SESSIONS_MAX};
use super::sessions::State;
use super::*;
use crate::l4::listener::{HeaderIn, HeaderOut, StreamTls};
use crate::{Change, testing};

/// Worker whose stream route takes every datagram.
fn worker(sessions_max: usize) -> Rc<Worker> {
    let mut settings = testing::settings();
    settings.streams.udp_sessions_per_worker = sessions_max;
    let upstream = json!({ "type": "roundrobin", "scheme": "udp", "nodes": { "127.0.0.1:9": 1 } });
    let route = Change::Upsert {
        kind: Kind::StreamRoute,
        id: Id::new("all"),
        value: Ok(json!({ "upstream": upstream })),
        path: "stream_routes[0]".to_owned(),
    };
    Worker::new(testing::parts_with(settings, Catalogue::new([]), [route])).0
}

fn client() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port")
}

/// Runs `test` with a listener; no task of a session runs meanwhile.
fn run(sessions_max: usize, test: impl AsyncFnOnce(Listener)) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    let worker = worker(sessions_max);
    runtime.expect("a runtime").block_on(async {
        let socket = client();
        socket.set_nonblocking(true).expect("an open socket");
        let (socket, local) = register(socket).expect("a reactor");
        let (header_in, header_out) = (HeaderIn::Absent, HeaderOut::Absent);
        let options = StreamOptions { tls: StreamTls::Off, header_in, header_out };
        test(Listener { worker, socket, local, number: 0, options }).await;
    });
}

/// Receives what the clients have sent, in one turn.
async fn receive(listener: &Listener, arrivals: &mut Arrivals) {
    let ready = listener.socket.readable().await.expect("datagrams have arrived");
    listener.pass_some(ready, &mut vec![0; DATAGRAM_BYTES_MAX], arrivals);
}

/// Numbers of sessions that the next turns start.
fn starts(arrivals: &mut Arrivals) -> Vec<usize> {
    let mut turns = Vec::new();
    while !arrivals.is_empty() {
        turns.push(arrivals.take_some().count());
    }
    turns
}

#[test]
fn a_turn_starts_few_sessions_and_forwards_datagrams_of_all_others() {
    run(1000, async |listener| {
        let mut arrivals = Arrivals::default();
        let known = client();
        let key = SessionKey { listener: 0, client: known.local_addr().expect("bound") };
        let place = SessionSlot::take(&listener.worker, key, 1).expect("there is room");
        let sources: Vec<UdpSocket> = (0..2 * STARTS_PER_TURN + 1).map(|_| client()).collect();
        for source in sources.iter().chain([&known]) {
            source.send_to(b"x", listener.local).expect("sent");
        }
        receive(&listener, &mut arrivals).await;
        assert_eq!(listener.worker.sessions.len(), sources.len() + 1, "each has its place");
        let State::Opening { waiting, .. } = &*place.session().state.borrow() else {
            panic!("it has no node yet")
        };
        assert_eq!(waiting.len(), 1, "the datagram behind the flood has passed it");
        assert_eq!(starts(&mut arrivals), [STARTS_PER_TURN, STARTS_PER_TURN, 1]);
    });
}

#[test]
fn the_newest_session_starts_first_and_the_oldest_of_too_many_is_dropped() {
    run(WAITING_SESSIONS_MAX + 8, async |listener| {
        let mut arrivals = Arrivals::default();
        let sources: Vec<SocketAddr> = (0..=WAITING_SESSIONS_MAX)
            .map(|number| {
                let [.., high, low] = number.to_be_bytes();
                SocketAddr::from((Ipv4Addr::new(127, 9, high, low), 1))
            })
            .collect();
        for source in &sources {
            listener.pass(b"x", *source, &mut arrivals);
        }
        let order: Vec<SocketAddr> = arrivals.take_all().map(|new| new.place.client()).collect();
        assert_eq!(order, sources[1..].iter().rev().copied().collect::<Vec<_>>());
        assert_eq!(listener.worker.sessions.len(), 0, "the places are free again");
    });
}

#[test]
fn datagrams_of_a_session_that_waits_for_its_start_wait_with_it() {
    run(1000, async |listener| {
        let mut arrivals = Arrivals::default();
        let source = client();
        for text in [b"one", b"two"] {
            source.send_to(text, listener.local).expect("sent");
        }
        receive(&listener, &mut arrivals).await;
        let new: Vec<NewSession> = arrivals.take_some().collect();
        assert_eq!(new.len(), 1);
        let FirstBytes::Datagram(first) = &new[0].first else { panic!("it is a datagram") };
        assert_eq!(&**first, b"one");
        let State::Opening { waiting, .. } = &*new[0].place.session().state.borrow() else {
            panic!("it has no node yet")
        };
        assert_eq!(&*waiting[0], b"two");
    });
}

#[test]
fn sessions_that_are_displaced_before_their_start_cost_no_start() {
    const SESSIONS_MAX: usize = 3;
    run(SESSIONS_MAX, async |listener| {
        let mut arrivals = Arrivals::default();
        let sources: Vec<UdpSocket> = (0..3 * STARTS_PER_TURN).map(|_| client()).collect();
        for source in &sources {
            source.send_to(b"x", listener.local).expect("sent");
        }
        receive(&listener, &mut arrivals).await;
        assert_eq!(starts(&mut arrivals), [SESSIONS_MAX]);
        let failed = listener.worker.metrics.stream_failed.get(ErrorCode::ConnectionLimit).value();
        assert_eq!(failed, (sources.len() - SESSIONS_MAX) as u64);
        assert_eq!(listener.worker.sessions.len(), 0, "the places are free again");
    });
}
