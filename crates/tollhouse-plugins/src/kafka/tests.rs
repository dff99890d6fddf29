//! What a producer does with brokers that answer as a test says: a few bytes at a time, wrongly, or not at all.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};

use tollhouse_kafka::login::Digest;

use super::*;

/// What a broker does when it is asked for something.
#[derive(Debug, Clone)]
pub(crate) enum Does {
    /// Answers with these bytes, behind the number of the request.
    Answers(Vec<u8>),
    /// The same, byte by byte.
    AnswersInPieces(Vec<u8>),
    /// Sends these bytes in the place of a frame.
    Sends(Vec<u8>),
    /// Closes the connection.
    Hangs,
    /// Says nothing, and keeps the connection.
    Waits,
}

/// A broker of a test: what it does comes from a list for each kind of request, whose last stays.
#[derive(Debug)]
pub(crate) struct TestBroker {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    script: Vec<(i16, VecDeque<Does>)>,
    /// Kinds of requests, and what followed their heads.
    requests: Vec<(i16, Vec<u8>)>,
    connections: usize,
}

const PRODUCE: i16 = 0;
const METADATA: i16 = 3;
const HANDSHAKE: i16 = 17;
const VERSIONS: i16 = 18;
const AUTHENTICATE: i16 = 36;

impl TestBroker {
    /// One that serves everything, and leads the only partition of `logs`.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                lock(&shared).connections += 1;
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        let broker = Self { address, seen };
        broker
            .does(VERSIONS, [Does::Answers(versions(9))])
            .does(METADATA, [Does::Answers(broker.metadata(&[(0, 1)]))])
            .does(PRODUCE, [Does::Answers(produced(0, 0))]);
        broker
    }

    /// What it does when it is asked for this, one after the other.
    fn does<const COUNT: usize>(&self, kind: i16, script: [Does; COUNT]) -> &Self {
        let mut seen = lock(&self.seen);
        seen.script.retain(|(other, _)| *other != kind);
        seen.script.push((kind, VecDeque::from(script)));
        self
    }

    /// Has it refuse records with these codes, one after the other.
    pub(crate) fn refuses<const COUNT: usize>(&self, codes: [i16; COUNT]) {
        self.does(PRODUCE, codes.map(|code| Does::Answers(produced(0, code))));
    }

    /// Where it is, of a cluster in which it has the number 1.
    fn metadata(&self, partitions: &[(i32, i32)]) -> Vec<u8> {
        metadata(&[(1, self.address.port())], partitions)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    fn settings(&self) -> Settings {
        settings(self.address.port(), None)
    }

    /// How often it was asked for each: versions, metadata, records.
    fn asked(&self) -> [usize; 3] {
        let seen = lock(&self.seen);
        [VERSIONS, METADATA, PRODUCE]
            .map(|kind| seen.requests.iter().filter(|(other, _)| *other == kind).count())
    }

    /// What it was sent to keep, as whole requests.
    pub(crate) fn kept(&self) -> Vec<Vec<u8>> {
        let seen = lock(&self.seen);
        let kept = seen.requests.iter().filter(|(kind, _)| *kind == PRODUCE);
        kept.map(|(_, body)| body.clone()).collect()
    }
}

fn lock(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut stream: TcpStream, seen: &Mutex<Seen>) {
    let mut length = [0; 4];
    while stream.read_exact(&mut length).is_ok() {
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        if stream.read_exact(&mut frame).is_err() {
            return;
        }
        let kind = i16::from_be_bytes([frame[0], frame[1]]);
        let does = {
            let mut seen = lock(seen);
            // The head: kind, version, number, and the client's name.
            seen.requests.push((kind, frame.split_off(8 + 2 + "tollhouse".len())));
            let script = seen.script.iter_mut().find(|(other, _)| *other == kind);
            let Some((_, script)) = script else { return };
            let next = if script.len() > 1 { script.pop_front() } else { script.front().cloned() };
            next.unwrap_or(Does::Hangs)
        };
        let framed = |answer: Vec<u8>| {
            let length = u32::try_from(answer.len() + 4).expect("it is short");
            [&length.to_be_bytes()[..], &frame[4..8], &answer].concat()
        };
        let sent = match does {
            Does::Answers(answer) => stream.write_all(&framed(answer)),
            Does::AnswersInPieces(answer) => {
                framed(answer).into_iter().try_for_each(|byte| stream.write_all(&[byte]))
            }
            Does::Sends(bytes) => stream.write_all(&bytes),
            Does::Hangs => return,
            Does::Waits => Ok(()),
        };
        if sent.is_err() {
            return;
        }
    }
}

fn settings(port: u16, login: Option<(Mechanism, &str)>) -> Settings {
    let login = login.map(|(mechanism, password)| {
        Arc::new(Login { mechanism, user: "user".into(), password: password.into() })
    });
    Settings {
        brokers: vec![Address {
            host: "127.0.0.1".to_owned(),
            port,
            security: Security { tls: None, login },
        }],
        topic: "logs".to_owned(),
        acks: Acks::All,
        step_time_max: Duration::from_secs(10),
        believed_for: Duration::from_secs(60),
    }
}

fn text(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("it is short");
    [&length.to_be_bytes()[..], text.as_bytes()].concat()
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    let count = u32::try_from(items.len()).expect("they are few");
    [&count.to_be_bytes()[..], &items.concat()].concat()
}

fn versions(newest: i16) -> Vec<u8> {
    let api = |key: i16| [key.to_be_bytes(), [0, 0], newest.to_be_bytes()].concat();
    [vec![0, 0], list(&[0, 3, 17, 18, 36].map(api))].concat()
}

fn metadata(brokers: &[(i32, u16)], partitions: &[(i32, i32)]) -> Vec<u8> {
    let broker = |(id, port): &(i32, u16)| {
        let port = u32::from(*port).to_be_bytes();
        [&id.to_be_bytes()[..], &text("127.0.0.1"), &port, &[255, 255]].concat()
    };
    let partition = |(index, leader): &(i32, i32)| {
        let (index, leader) = (index.to_be_bytes(), leader.to_be_bytes());
        [&[0, 0][..], &index, &leader, &list(&[]), &list(&[])].concat()
    };
    let brokers: Vec<_> = brokers.iter().map(broker).collect();
    let partitions: Vec<_> = partitions.iter().map(partition).collect();
    let topic = [vec![0, 0], text("logs"), vec![0], list(&partitions)].concat();
    [list(&brokers), vec![0; 4], list(&[topic])].concat()
}

fn produced(partition: i32, code: i16) -> Vec<u8> {
    let kept = [&partition.to_be_bytes()[..], &code.to_be_bytes(), &[0; 16]].concat();
    let topic = [text("logs"), list(&[kept])].concat();
    [list(&[topic]), vec![0; 4]].concat()
}

fn say(code: i16, message: &[u8]) -> Does {
    let length = u32::try_from(message.len()).expect("it is short").to_be_bytes();
    Does::Answers([&code.to_be_bytes()[..], &[255, 255], &length, message].concat())
}

/// Runs on a thread of its own: what a test waits for has a deadline.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a runtime");
    runtime.block_on(future)
}

async fn send(producer: &Producer, key: Option<&[u8]>) -> Result<(), KafkaError> {
    producer.send(&[Record { key, value: b"entry" }], key, 1_700_000_000_000).await
}

fn error(settings: Settings) -> String {
    let producer = Producer::new(settings);
    wait(send(&producer, None)).expect_err("it cannot work").to_string()
}

#[test]
fn a_leader_is_asked_for_once_and_kept() {
    let broker = TestBroker::start();
    let producer = Producer::new(broker.settings());
    wait(async {
        for _ in 0..3 {
            send(&producer, None).await.expect("it is kept");
        }
    });
    assert_eq!(broker.asked(), [1, 1, 3], "one connection, one question");
    let batch = batch::encode(&[Record { key: None, value: b"entry" }], 1_700_000_000_000);
    let head = b"\xff\xff\xff\xff\x00\x00\x27\x10\x00\x00\x00\x01\x00\x04logs\x00\x00\x00\x01\x00\x00\x00\x00";
    let length = u32::try_from(batch.len()).expect("it is short").to_be_bytes();
    assert_eq!(broker.kept()[0], [&head[..], &length, &batch].concat());
}

#[test]
fn an_answer_may_come_byte_by_byte() {
    let broker = TestBroker::start();
    broker
        .does(VERSIONS, [Does::AnswersInPieces(versions(9))])
        .does(METADATA, [Does::AnswersInPieces(broker.metadata(&[(0, 1)]))])
        .does(PRODUCE, [Does::AnswersInPieces(produced(0, 0))]);
    let producer = Producer::new(broker.settings());
    wait(send(&producer, None)).expect("it is kept");
}

#[test]
fn where_leaders_have_moved_the_new_one_gets_the_records() {
    let (old, new) = (TestBroker::start(), TestBroker::start());
    let brokers = [(1, old.port()), (2, new.port())];
    old.does(
        METADATA,
        [
            Does::Answers(metadata(&brokers, &[(0, 1)])),
            Does::Answers(metadata(&brokers, &[(0, 2)])),
        ],
    );
    old.does(PRODUCE, [Does::Answers(produced(0, 0)), Does::Answers(produced(0, 6))]);
    let producer = Producer::new(old.settings());
    wait(async {
        send(&producer, None).await.expect("the first leader takes it");
        send(&producer, None).await.expect("the second leader takes it");
    });
    assert_eq!((old.asked()[1], old.kept().len(), new.kept().len()), (2, 2, 1));
}

#[test]
fn one_that_is_always_told_to_ask_another_gives_up() {
    let broker = TestBroker::start();
    broker.refuses([6]);
    let producer = Producer::new(broker.settings());
    wait(async {
        for asked in [1, 2] {
            let error = send(&producer, None).await.expect_err("nobody leads").to_string();
            assert!(error.contains("NOT_LEADER_OR_FOLLOWER"), "{error}");
            assert_eq!(broker.kept().len(), asked, "what is fresh is not asked for again");
        }
    });
}

#[test]
fn a_connection_that_the_broker_has_closed_is_opened_anew() {
    let broker = TestBroker::start();
    broker
        .does(PRODUCE, [Does::Answers(produced(0, 0)), Does::Hangs, Does::Answers(produced(0, 0))]);
    let producer = Producer::new(broker.settings());
    wait(async {
        send(&producer, None).await.expect("it is kept");
        send(&producer, None).await.expect("it is kept over another connection");
    });
    assert_eq!(broker.asked(), [2, 2, 3]);
}

#[test]
fn records_without_a_key_take_turns_and_a_key_stays_where_it_belongs() {
    let broker = TestBroker::start();
    broker.does(METADATA, [Does::Answers(broker.metadata(&[(0, 1), (1, -1), (2, 1)]))]);
    let places = |kept: &[Vec<u8>]| -> Vec<u8> { kept.iter().map(|body| body[25]).collect() };
    broker.does(PRODUCE, [0, 2, 0].map(|partition| Does::Answers(produced(partition, 0))));
    let producer = Producer::new(broker.settings());
    wait(async {
        for _ in 0..3 {
            send(&producer, None).await.expect("it is kept");
        }
    });
    assert_eq!(places(&broker.kept()), [0, 2, 0], "who has no leader is passed over");
    // Of three partitions the key has the one without a leader.
    let key = (0_u8..).find(|key| partition::for_key(&[*key], 3) == 1).expect("some have");
    let error = wait(send(&producer, Some(&[key]))).expect_err("nobody leads").to_string();
    assert!(error.contains("no partition with a leader"), "{error}");
    let key = (0_u8..).find(|key| partition::for_key(&[*key], 3) == 2).expect("some have");
    broker.does(PRODUCE, [Does::Answers(produced(2, 0))]);
    wait(send(&producer, Some(&[key]))).expect("it is kept");
    assert_eq!(places(&broker.kept()).last(), Some(&2));
}

#[test]
fn what_is_no_answer_costs_no_more_than_it_may() {
    let frame = |length: i32, rest: &[u8]| [&length.to_be_bytes()[..], rest].concat();
    for (does, part) in [
        (Does::Sends(frame(i32::MAX, b"")), "announces an answer of 2147483647 bytes"),
        (Does::Sends(frame(-1, b"")), "announces an answer of -1 bytes"),
        (Does::Sends(frame(0, b"")), "announces an answer of 0 bytes"),
        (Does::Sends(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), "announces an answer of"),
        (Does::Sends(frame(4, b"\0\0\0\x07")), "was answered by the answer to request 7"),
        (Does::Answers(b"\x7f\xff\xff\xff".to_vec()), "the answer is cut off"),
        (Does::Answers([produced(0, 0), vec![0]].concat()), "1 bytes follow the answer"),
        (Does::Answers(produced(5, 0)), "lacks the requested topic or partition"),
        (Does::Hangs, "the connection broke"),
    ] {
        let broker = TestBroker::start();
        broker.does(PRODUCE, [does.clone()]);
        let error = error(broker.settings());
        assert!(error.contains(part), "{does:?}: {error}");
    }
}

#[test]
fn a_broker_that_says_nothing_is_given_up() {
    for kind in [VERSIONS, METADATA, PRODUCE] {
        let broker = TestBroker::start();
        broker.does(kind, [Does::Waits]);
        let mut settings = broker.settings();
        settings.step_time_max = Duration::from_millis(30);
        let error = error(settings);
        assert!(error.contains("no answer in time"), "{kind}: {error}");
    }
}

#[test]
fn an_old_broker_is_told_from_a_new_one() {
    let broker = TestBroker::start();
    broker.does(VERSIONS, [Does::Answers(versions(2))]);
    let error = error(broker.settings());
    assert!(error.contains("version 3 of Produce; Kafka 0.11 and later do"), "{error}");
}

#[test]
fn log_ins_are_made_and_refused() {
    let plain = |password| Some((Mechanism::Plain, password));
    let broker = TestBroker::start();
    broker.does(HANDSHAKE, [Does::Answers([vec![0, 0], list(&[text("PLAIN")])].concat())]);
    broker.does(AUTHENTICATE, [say(0, b"")]);
    let producer = Producer::new(settings(broker.port(), plain("secret")));
    wait(send(&producer, None)).expect("it is kept");
    let message =
        lock(&broker.seen).requests.iter().find(|(kind, _)| *kind == AUTHENTICATE).cloned();
    assert_eq!(message.expect("it logs in").1, b"\0\0\0\x0c\0user\0secret");

    broker.does(AUTHENTICATE, [say(58, b"")]);
    let error_of = |login| error(settings(broker.port(), login));
    let refused = error_of(plain("wrong"));
    assert!(refused.contains("SASL_AUTHENTICATION_FAILED: check user and password"), "{refused}");
    assert!(!refused.contains("wrong"), "{refused}");

    broker.does(HANDSHAKE, [Does::Answers([vec![0, 33], list(&[text("GSSAPI")])].concat())]);
    let other = error_of(plain("secret"));
    assert!(other.contains("does not support PLAIN; it offers: GSSAPI"), "{other}");
}

#[test]
fn a_broker_that_does_not_know_the_password_gets_no_records() {
    let broker = TestBroker::start();
    let scram = Some((Mechanism::Scram(Digest::Sha256), "pencil"));
    broker.does(HANDSHAKE, [Does::Answers([vec![0, 0], list(&[text("SCRAM-SHA-256")])].concat())]);
    for (answer, part) in [
        (&b"r=made-up,s=AAAA,i=4096"[..], "nonce does not begin with the client's"),
        (b"r=made-up,s=AAAA", "not a SCRAM message"),
        (b"", "not a SCRAM message"),
    ] {
        broker.does(AUTHENTICATE, [say(0, answer)]);
        let error = error(settings(broker.port(), scram));
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(broker.asked()[1..], [0, 0]);
}

#[test]
fn brokers_that_the_cluster_told_of_are_asked_where_those_of_the_conf_are_away() {
    let (first, second) = (TestBroker::start(), TestBroker::start());
    let brokers = [(1, first.port()), (2, second.port())];
    let told = Does::Answers(metadata(&brokers, &[(0, 2)]));
    first
        .does(METADATA, [told.clone(), Does::Hangs])
        .does(VERSIONS, [Does::Answers(versions(9)), Does::Hangs]);
    second.does(METADATA, [told]);
    second.does(
        PRODUCE,
        [
            Does::Answers(produced(0, 0)),
            Does::Answers(produced(0, 6)),
            Does::Answers(produced(0, 0)),
        ],
    );
    let producer = Producer::new(first.settings());
    wait(async {
        send(&producer, None).await.expect("it is kept");
        send(&producer, None).await.expect("the second tells who leads");
    });
    assert_eq!((second.asked()[1], second.kept().len()), (1, 3));
}

#[test]
fn what_was_known_holds_while_nobody_can_be_asked() {
    let broker = TestBroker::start();
    broker.does(METADATA, [Does::Answers(broker.metadata(&[(0, 1)])), Does::Hangs]);
    let mut settings = broker.settings();
    settings.believed_for = Duration::ZERO;
    let producer = Producer::new(settings);
    wait(async {
        send(&producer, None).await.expect("it is kept");
        send(&producer, None).await.expect("the leader is still there");
    });
    assert_eq!(broker.kept().len(), 2);
}

#[test]
fn a_topic_that_can_be_none_is_said_without_asking() {
    let closed = tollhouse_testkit::ClosedPort::new();
    let port = closed.address().port();
    let settings = Settings { topic: "a b".to_owned(), ..settings(port, None) };
    assert!(error(settings).contains("invalid topic name \"a b\""));
    let error = error(self::settings(port, None));
    assert!(error.contains("no broker returned") && error.contains("failed to connect"), "{error}");
}
