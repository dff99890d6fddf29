//! HTTP/2 of a mock: each stream is answered when its time comes, whatever the others do.
//!
//! Calls of gRPC go to `grpc.rs`. A request without a body that needs no waiting is answered without a
//! task of its own. A stream that fails is its client's affair and ends silently.

use std::future::poll_fn;
use std::rc::Rc;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{Method, Request, Response, header};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;

use super::answers::Answer;
use super::grpc;
use super::worker::{ECHO_BYTES_MAX, Outcome, Standing, Worker};

/// Streams that a client may have open at once on a connection; more than any generator asks for.
const STREAMS_MAX: u32 = 4_096;

/// Bytes that a client may send ahead on one stream: usual bodies come without waiting.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;

/// The same for all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 24;

/// Serves a connection until the client ends it.
pub(super) async fn serve<S>(worker: &Rc<Worker>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handshake = Builder::new()
        .max_concurrent_streams(STREAMS_MAX)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .handshake::<_, Bytes>(stream);
    let Ok(mut connection) = handshake.await else {
        return worker.counts().malformed.add_one();
    };
    while let Some(asked) = connection.accept().await {
        match asked {
            Ok((request, respond)) => begin(worker, request, respond),
            Err(error) => {
                if !error.is_io() && !error.is_go_away() {
                    worker.counts().malformed.add_one();
                }
                return;
            }
        }
    }
}

fn begin(worker: &Rc<Worker>, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
    worker.counts().requests.add_one();
    if grpc::is_call(&request) {
        spawn_local(grpc::call(Rc::clone(worker), request, respond));
        return;
    }
    if request.body().is_end_stream() && !worker.is_slow() {
        // An error means that the client has gone.
        let _ = answer(worker, &request, respond, Kept::default());
        return;
    }
    let worker = Rc::clone(worker);
    spawn_local(async move { exchange(&worker, request, respond).await });
}

async fn exchange(
    worker: &Worker,
    mut request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let kept = receive(worker, request.body_mut()).await?;
    if worker.until(worker.due_ns()).await.is_err() {
        return Ok(());
    }
    answer(worker, &request, respond, kept)
}

/// What is kept of a request's body.
#[derive(Debug, Default)]
struct Kept {
    body: Vec<u8>,
    is_too_large: bool,
}

/// Takes a body to its end.
async fn receive(worker: &Worker, body: &mut RecvStream) -> Result<Kept, h2::Error> {
    let mut kept = Kept::default();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        if !worker.shared.is_echo || kept.is_too_large {
            continue;
        }
        if kept.body.len() + data.len() > ECHO_BYTES_MAX {
            kept = Kept { body: Vec::new(), is_too_large: true };
        } else {
            kept.body.extend_from_slice(&data);
        }
    }
    Ok(kept)
}

fn answer(
    worker: &Worker,
    request: &Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    kept: Kept,
) -> Result<(), h2::Error> {
    let shared = &*worker.shared;
    let is_other = shared.path.as_ref().is_some_and(|path| path != request.uri().path());
    let standing = match (is_other, kept.is_too_large) {
        (true, _) => Standing::NotFound,
        (false, true) => Standing::TooLarge,
        (false, false) => Standing::Good,
    };
    let is_head = request.method() == Method::HEAD;
    match shared.outcome(worker, worker.verdict(), standing) {
        Outcome::Reset => {
            respond.send_reset(Reason::INTERNAL_ERROR);
            Ok(())
        }
        Outcome::Asked(answer) if shared.is_echo => {
            let kind = request.headers().get(header::CONTENT_TYPE);
            let kind = kind.map(header::HeaderValue::as_bytes);
            let answer = shared.answers.echo(answer.status, kind, kept.body.into());
            send(&answer, is_head, &mut respond)
        }
        Outcome::Asked(answer) | Outcome::Other(answer) => send(answer, is_head, &mut respond),
    }
}

/// Sends a whole answer. The body is shared and not copied, so that all of it may wait in the stream.
fn send(
    answer: &Answer,
    is_head: bool,
    respond: &mut SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let mut response = Response::new(());
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.fields.clone();
    let is_all = is_head || answer.body.is_empty();
    let mut stream = respond.send_response(response, is_all)?;
    if !is_all {
        stream.send_data(answer.body.clone(), true)?;
    }
    Ok(())
}

/// Sends `bytes` as the client makes room for them.
pub(super) async fn send_data(
    stream: &mut SendStream<Bytes>,
    mut bytes: Bytes,
) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let room = poll_fn(|context| stream.poll_capacity(context)).await;
        let room = room.unwrap_or_else(|| Err(Reason::STREAM_CLOSED.into()))?;
        stream.send_data(bytes.split_to(room.min(bytes.len())), false)?;
    }
    Ok(())
}
