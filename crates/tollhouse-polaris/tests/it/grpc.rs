//! gRPC itself, with methods made for the tests.

mod bounds;
mod calls;
mod ends;
mod suites;
mod tools;

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Notify;
use tollhouse_polaris::answer::Answer;
use tollhouse_polaris::grpc::{Call, Reply, Services};

use crate::server::Server;

/// Gives back what it gets.
fn echo(_: &Rc<Call>, message: Bytes) -> Reply {
    Reply::Now(Ok(message.into()))
}

/// Gives back what it gets, but `late…` only on a later turn and `panic` never.
fn moody(call: &Rc<Call>, message: Bytes) -> Reply {
    assert_ne!(&*message, b"panic", "asked for");
    if !message.starts_with(b"late") {
        return echo(call, message);
    }
    Reply::later(async move {
        tokio::task::yield_now().await;
        Ok(message.into())
    })
}

/// The methods of most tests.
fn usual() -> Services {
    Services::new()
        .unary("/test.Test/Echo", moody)
        .each("/test.Test/Each", moody)
        .unary("/test.Test/Never", |_: &Rc<Call>, _| Reply::later(std::future::pending()))
}

/// A server with the usual methods.
fn start() -> Server {
    Server::start(usual)
}

/// A server with a method that answers when it is told to, and the means to tell.
fn start_gated() -> (Server, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let opened = Arc::clone(&gate);
    let server = Server::start(move || {
        usual().unary("/test.Test/Gated", move |_: &Rc<Call>, message| {
            let opened = Arc::clone(&opened);
            Reply::later(async move {
                opened.notified().await;
                Ok(Answer::from(message))
            })
        })
    });
    (server, gate)
}
