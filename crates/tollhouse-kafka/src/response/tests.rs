//! Answers as brokers write them, and what is none.

use proptest::prelude::*;

use super::*;
use crate::wire::Put;

/// An answer to request 7.
fn answer(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.put_i32(7);
    fill(&mut frame);
    frame
}

fn list<T>(frame: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    frame.put_i32(items.len().try_into().expect("few"));
    items.iter().for_each(|item| put(frame, item));
}

fn metadata(code: i16, topic: &str, partitions: &[(i32, i32)]) -> Vec<u8> {
    answer(|frame| {
        list(frame, &[(1, "a.example", 9092), (2, "::1", 9093)], |frame, (id, host, port)| {
            frame.put_i32(*id);
            frame.put_text(host);
            frame.put_i32(*port);
            frame.put_i16(-1);
        });
        frame.put_i32(1);
        list(frame, &[topic], |frame, topic| {
            frame.put_i16(code);
            frame.put_text(topic);
            frame.put_i8(0);
            list(frame, partitions, |frame, (index, leader)| {
                frame.put_i16(if *leader < 0 { 5 } else { 0 });
                frame.put_i32(*index);
                frame.put_i32(*leader);
                list(frame, &[1, 2], |frame, replica| frame.put_i32(*replica));
                list(frame, &[1], |frame, replica| frame.put_i32(*replica));
            });
        });
    })
}

fn produced(topic: &str, partition: i32, code: i16) -> Vec<u8> {
    answer(|frame| {
        list(frame, &[topic], |frame, topic| {
            frame.put_text(topic);
            list(frame, &[partition], |frame, partition| {
                frame.put_i32(*partition);
                frame.put_i16(code);
                frame.put_i64(41);
                frame.put_i64(-1);
            });
        });
        frame.put_i32(0);
    })
}

#[test]
fn partitions_come_in_the_order_of_their_numbers_with_their_leaders() {
    let frame = metadata(0, "logs", &[(1, -1), (0, 2)]);
    let read = Metadata::read(&frame, 7, "logs").expect("it is one");
    let partition = |index, leader| Partition { index, leader };
    assert_eq!(read.partitions, [partition(0, Some(2)), partition(1, None)]);
    assert_eq!((read.brokers.len(), &*read.brokers[1].host), (2, "::1"));
    assert_eq!(Metadata::read(&metadata(3, "logs", &[]), 7, "logs").map(|it| it.code), Ok(Code(3)));
    assert_eq!(Metadata::read(&frame, 7, "other"), Err(Malformed::Silent));
}

#[test]
fn an_answer_to_something_else_is_none() {
    let frame = produced("logs", 2, 6);
    assert_eq!(read_produce_code(&frame, 7, "logs", 2), Ok(Code(6)));
    let wrong = Malformed::Correlation { asked: 8, answered: 7 };
    assert_eq!(read_produce_code(&frame, 8, "logs", 2), Err(wrong));
    assert_eq!(read_produce_code(&frame, 7, "logs", 1), Err(Malformed::Silent));
    assert_eq!(read_produce_code(&frame, 7, "log", 2), Err(Malformed::Silent));
    let longer = [&frame[..], b"x"].concat();
    assert_eq!(read_produce_code(&longer, 7, "logs", 2), Err(Malformed::Long(1)));
}

#[test]
fn an_old_broker_does_not_serve_what_is_spoken() {
    let versions = |newest| {
        answer(|frame| {
            frame.put_i16(0);
            list(frame, &[0, 3, 17, 18, 36], |frame, key| {
                frame.put_i16(*key);
                frame.put_i16(0);
                frame.put_i16(newest);
            });
        })
    };
    let read = |newest| ApiVersions::read(&versions(newest), 7).expect("it is one");
    assert!(Api::ALL.iter().all(|api| read(3).serves(*api)));
    assert!(!read(2).serves(Api::Produce) && read(2).serves(Api::Metadata));
}

#[test]
fn log_ins_are_answered_with_words() {
    let refused = answer(|frame| {
        frame.put_i16(58);
        frame.put_text("no such user");
        frame.put_i32(-1);
    });
    let read = SaslResponse::read(&refused, 7).expect("it is one");
    assert_eq!((read.code, &*read.reason, &*read.message), (Code(58), "no such user", &b""[..]));
    let offered = answer(|frame| {
        frame.put_i16(33);
        list(frame, &["PLAIN", "SCRAM-SHA-512"], |frame, name| frame.put_text(name));
    });
    let (code, names) = read_sasl_handshake(&offered, 7).expect("it is one");
    assert_eq!((code, names), (Code(33), vec!["PLAIN".to_owned(), "SCRAM-SHA-512".to_owned()]));
}

#[test]
fn a_length_beyond_the_answer_is_refused_before_room_is_made_for_it() {
    for count in [i32::MAX, 1 << 20, -2] {
        let hostile = answer(|frame| frame.put_i32(count));
        assert!(Metadata::read(&hostile, 7, "t").is_err(), "{count}");
        assert!(read_produce_code(&hostile, 7, "t", 0).is_err(), "{count}");
        let hostile = answer(|frame| {
            frame.put_i16(0);
            frame.put_i32(count);
        });
        assert!(ApiVersions::read(&hostile, 7).is_err(), "{count}");
        assert!(read_sasl_handshake(&hostile, 7).is_err(), "{count}");
    }
    let hostile = metadata(0, "t", &[(0, 1)]);
    for end in 0..hostile.len() {
        assert!(Metadata::read(&hostile[..end], 7, "t").is_err(), "cut at {end}");
    }
}

proptest! {
    #[test]
    fn no_bytes_end_a_reader_otherwise_than_with_its_word(bytes: Vec<u8>) {
        let frame = [&[0, 0, 0, 7][..], &bytes].concat();
        let _ = Metadata::read(&frame, 7, "t");
        let _ = ApiVersions::read(&frame, 7);
        let _ = read_produce_code(&frame, 7, "t", 0);
        let _ = read_sasl_handshake(&frame, 7);
        let _ = SaslResponse::read(&frame, 7);
    }

    #[test]
    fn what_is_written_is_what_is_read(
        topic in "[a-z.]{1,20}",
        partitions in proptest::collection::vec(-1..9_i32, 0..20),
    ) {
        let leaders: Vec<(i32, i32)> = (0..).zip(partitions).collect();
        let read = Metadata::read(&metadata(0, &topic, &leaders), 7, &topic).expect("it is one");
        let read: Vec<_> = read.partitions.iter().map(|it| (it.index, it.leader.unwrap_or(-1))).collect();
        prop_assert_eq!(read, leaders);
    }
}
