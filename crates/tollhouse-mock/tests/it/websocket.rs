//! WebSockets: messages, fragments, pings and closes, seen by another implementation.

use std::io::{Read, Write};
use std::net::TcpStream;

use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{Frame, FrameHeader};
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket, client};
use tollhouse_mock::{Behaviour, Latency, Mock, Share};

use super::{connect, start};

fn open(mock: &Mock) -> WebSocket<TcpStream> {
    let url = format!("ws://{}/chat", mock.address());
    client(url, connect(mock)).expect("an upgrade").0
}

fn echo(socket: &mut WebSocket<TcpStream>, message: Message) -> Message {
    socket.send(message).expect("sent");
    socket.read().expect("a message")
}

#[test]
fn messages_come_back() {
    let latency = Latency::fixed(std::time::Duration::from_millis(2));
    for latency in [Latency::default(), latency] {
        let mock = start(Behaviour { latency, ..Behaviour::default() });
        let mut socket = open(&mock);
        for message in [
            Message::text("hello"),
            Message::text(""),
            Message::binary(vec![7; 126]),
            Message::binary(vec![8; 200_000]),
        ] {
            assert_eq!(echo(&mut socket, message.clone()), message);
        }
        let pong = echo(&mut socket, Message::Ping("are you there".into()));
        assert_eq!(pong, Message::Pong("are you there".into()));
        // The handshake and four messages.
        assert_eq!(mock.requests(), 5);
        let reason = CloseFrame { code: CloseCode::Away, reason: "enough".into() };
        socket.close(Some(reason.clone())).expect("sent");
        assert_eq!(socket.read().expect("a close"), Message::Close(Some(reason)));
        assert!(matches!(socket.read(), Err(Error::ConnectionClosed)));
    }
}

#[test]
fn a_message_may_come_in_fragments_with_a_ping_between() {
    let mock = start(Behaviour::default());
    let mut socket = open(&mock);
    for (opcode, is_final, text) in [
        (OpCode::Data(Data::Text), false, "one "),
        (OpCode::Data(Data::Continue), false, "two "),
        (OpCode::Control(Control::Ping), true, "p"),
        (OpCode::Data(Data::Continue), true, "three"),
    ] {
        let header =
            FrameHeader { is_final, opcode, mask: Some([1, 2, 3, 4]), ..Default::default() };
        let frame = Frame::from_payload(header, text.to_owned().into());
        socket.send(Message::Frame(frame)).expect("sent");
    }
    assert_eq!(socket.read().expect("a pong"), Message::Pong("p".into()));
    assert_eq!(socket.read().expect("a message"), Message::text("one two three"));
    assert_eq!(mock.requests(), 2);
}

#[test]
fn a_continuation_of_nothing_closes_the_connection() {
    let mock = start(Behaviour::default());
    let mut socket = open(&mock);
    let opcode = OpCode::Data(Data::Continue);
    let header = FrameHeader { opcode, mask: Some([1, 2, 3, 4]), ..Default::default() };
    socket.send(Message::Frame(Frame::from_payload(header, "x".into()))).expect("sent");
    let Message::Close(Some(frame)) = socket.read().expect("a close") else { panic!("no close") };
    assert_eq!(frame.code, CloseCode::Protocol);
}

#[test]
fn injected_errors_and_resets_end_the_connection() {
    for error_rate in [Share::new(1.0), Share::NONE] {
        let reset_rate = if error_rate == Share::NONE { Share::new(1.0) } else { Share::NONE };
        let mock = start(Behaviour { error_rate, reset_rate, ..Behaviour::default() });
        let url = format!("ws://{}/", mock.address());
        assert!(client(url, connect(&mock)).is_err());
        let totals = mock.totals();
        assert_eq!(totals.errors + totals.resets, 1);
    }
}

#[test]
fn an_upgrade_to_something_else_is_not_one() {
    let mock = start(Behaviour::default());
    let mut stream = connect(&mock);
    let head = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade, close\r\nupgrade: h2c\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}
