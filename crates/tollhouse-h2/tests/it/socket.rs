//! A server over sockets, the least that the codec needs around it: it answers every request with 200
//! and a body.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollhouse_h2::{Connection, EndStream, Event, Field, Limits, StreamId};
use tollhouse_stdx::MemoryBudget;

/// What every answer carries.
pub const BODY: &[u8] = b"hello";

/// Serves on a thread of its own until the test ends.
pub fn serve(limits: Limits) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            let budget = MemoryBudget::new(64 << 20);
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(connection(socket, limits, Arc::clone(&budget)));
            }
        });
    });
    address
}

/// An answer of which not everything was sent.
struct Answer {
    stream: StreamId,
    left: usize,
    has_request: bool,
}

/// Serves one connection; errors of the socket end it.
async fn connection(mut socket: TcpStream, limits: Limits, budget: Arc<MemoryBudget>) {
    let mut connection = Connection::server(limits, &budget, 0);
    let mut answers: Vec<Answer> = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        while !connection.output().is_empty() {
            let Ok(count) = socket.write(connection.output()).await else { return };
            connection.written(count);
            send_ready(&mut connection, &mut answers);
        }
        if connection.failure().is_some() || connection.is_finished() {
            // What the peer has sent meanwhile must not make the kernel throw the last words away.
            let _ = socket.shutdown().await;
            while socket.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
            return;
        }
        let Ok(count @ 1..) = socket.read(&mut buffer).await else { return };
        let mut input = &buffer[..count];
        while let Ok(Some(event)) = connection.receive(&mut input, 0, &mut ()) {
            take(&mut connection, &mut answers, event);
        }
        send_ready(&mut connection, &mut answers);
    }
}

fn take(connection: &mut Connection, answers: &mut Vec<Answer>, event: Event<'_>) {
    match event {
        Event::Request { stream, ends } => {
            answers.push(Answer { stream, left: BODY.len(), has_request: ends });
            if ends {
                answer(connection, answers, stream);
            }
        }
        Event::Data { stream, data, ends } => {
            connection.consume(stream, data.len());
            if ends {
                answer(connection, answers, stream);
            }
        }
        Event::Trailers { stream } => answer(connection, answers, stream),
        Event::Reset { stream, .. } => {
            answers.retain(|answer| answer.stream != stream);
            connection.release(stream);
        }
        _ => {}
    }
}

fn answer(connection: &mut Connection, answers: &mut Vec<Answer>, stream: StreamId) {
    let Some(answer) = answers.iter_mut().find(|answer| answer.stream == stream) else { return };
    answer.has_request = true;
    let fields = [Field::new(b"content-type", b"text/plain"), Field::new(b"server", b"test")];
    connection.respond(stream, 200, fields, EndStream::No).unwrap();
    send(connection, answers, stream);
}

fn send_ready(connection: &mut Connection, answers: &mut Vec<Answer>) {
    while let Some(stream) = connection.next_ready() {
        send(connection, answers, stream);
    }
}

fn send(connection: &mut Connection, answers: &mut Vec<Answer>, stream: StreamId) {
    let Some(position) = answers.iter().position(|answer| answer.stream == stream) else { return };
    let answer = &mut answers[position];
    let body = &BODY[BODY.len() - answer.left..];
    answer.left -= connection.send_data(stream, body, EndStream::Yes).unwrap();
    if answer.left == 0 {
        connection.release(stream);
        answers.swap_remove(position);
    }
}
