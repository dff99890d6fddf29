//! WebSocket that gateways follow: it sends all groups on request, then each change as it is
//! committed.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};
use tollhouse_shenyu::Kind;
use tollhouse_shenyu::model::DEFAULT_NAMESPACE;
use tollhouse_web::Peer;

use super::permits::FollowerPermit;
use super::{group, synced};
use crate::admin::ShenyuAdmin;
use crate::answer::Refusal;
use crate::instances::Reporter;
use crate::limits::{
    GATEWAY_MESSAGE_BYTES_MAX, GATEWAY_PING_INTERVAL, GATEWAY_SILENCE_MAX, STALL_MAX,
};
use crate::tables::{RowChange, namespace};
use crate::writer::Change;

/// Header with the token of a gateway (ShenYu since 2.7.2).
const TOKEN: &str = "X-Shenyu-Sync-Token";

/// Checks a gateway's request and upgrades its connection.
pub(crate) fn accept(admin: &ShenyuAdmin, mut request: Request) -> Response {
    let headers = request.headers();
    let is_websocket = headers
        .get(header::UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
    let (true, true, Some(key)) = (is_websocket, asks_to_upgrade(headers), key) else {
        return Refusal::error("expected a WebSocket handshake").into_response();
    };
    if has_origin_of_page(headers) {
        return StatusCode::FORBIDDEN.into_response();
    }
    if !admin.lets_follow(headers.get(TOKEN).map(HeaderValue::as_bytes)) {
        return Refusal::token().into_response();
    }
    let peer = request.extensions().get::<Peer>().copied();
    let permit = if admin.asks_followers() {
        admin.follower_permits.authenticated()
    } else {
        admin.follower_permits.anonymous(peer)
    };
    let Some(permit) = permit else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let wanted = request.headers().get("namespaceId").and_then(|value| value.to_str().ok());
    let namespace = wanted.filter(|it| !it.is_empty()).unwrap_or(DEFAULT_NAMESPACE).to_owned();
    let reporter = Reporter::new(peer, request.headers(), "ClientPort", namespace);
    // The task owns the connection. It ends when the connection or the store is closed.
    tokio::spawn(follow(admin.clone(), reporter, upgrade, permit));
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(key) = HeaderValue::from_str(&key) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, key);
    }
    answer
}

/// Whether `Connection` lists `upgrade`. Without it the header `Upgrade` has no meaning.
fn asks_to_upgrade(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONNECTION).iter();
    let mut words = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"upgrade"))
}

/// Whether a request carries the valid gateway token; `false` if none is configured.
pub(crate) fn shows_token(admin: &ShenyuAdmin, headers: &HeaderMap) -> bool {
    let token = headers.get(TOKEN).map(HeaderValue::as_bytes);
    token.is_some() && admin.asks_followers() && admin.lets_follow(token)
}

/// Whether a browser sends the request for a page of another origin, which could otherwise read
/// every secret.
fn has_origin_of_page(headers: &HeaderMap) -> bool {
    headers.contains_key("sec-fetch-site")
        && headers.get("sec-fetch-site").is_none_or(|site| site != "same-origin")
}

async fn follow(
    admin: ShenyuAdmin,
    reporter: Reporter,
    upgrade: OnUpgrade,
    _permit: FollowerPermit,
) {
    let Ok(stream) = upgrade.await else { return };
    let mut gateway = Gateway::over(admin, reporter, TokioIo::new(stream)).await;
    let mut ending = gateway.admin.ending.subscribe();
    let outcome = tokio::select! {
        outcome = gateway.run() => outcome,
        _ = ending.wait_for(|is_ending| *is_ending) => Ok(()),
    };
    if let Err(error) = outcome {
        tracing::debug!(?error, "a gateway of ShenYu's has gone");
    }
}

struct Gateway<S> {
    admin: ShenyuAdmin,
    reporter: Reporter,
    socket: WebSocketStream<S>,
    changes: Receiver<Change>,
    /// Whether the gateway has received the whole state, so that changes may follow.
    has_asked: bool,
}

#[derive(Debug)]
enum End {
    Stalled,
    Socket(#[expect(dead_code, reason = "it is logged")] Box<tungstenite::Error>),
    StoreClosed,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Gateway<S> {
    async fn over(admin: ShenyuAdmin, reporter: Reporter, stream: S) -> Self {
        let mut config = WebSocketConfig::default();
        config.max_message_size = Some(GATEWAY_MESSAGE_BYTES_MAX);
        config.max_frame_size = Some(GATEWAY_MESSAGE_BYTES_MAX);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        let changes = admin.book.subscribe();
        Self { admin, reporter, socket, changes, has_asked: false }
    }

    async fn run(&mut self) -> Result<(), End> {
        let mut pings = interval_at(Instant::now() + GATEWAY_PING_INTERVAL, GATEWAY_PING_INTERVAL);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = Instant::now();
        loop {
            tokio::select! {
                _ = pings.tick() => {
                    if heard.elapsed() >= GATEWAY_SILENCE_MAX {
                        return Err(End::Stalled);
                    }
                    self.send_message(Message::Ping(Bytes::new())).await?;
                }
                message = self.socket.next() => match message {
                    Some(Ok(message)) => {
                        heard = Instant::now();
                        self.answer(message).await?;
                    }
                    Some(Err(error)) => return Err(End::Socket(Box::new(error))),
                    None => return Ok(()),
                },
                change = self.changes.recv() => match change {
                    Ok(change) => self.pass_on(change).await?,
                    // The gateway lags behind by more changes than are buffered, so everything is
                    // sent again.
                    Err(RecvError::Lagged(_)) => self.send_groups(&Kind::ALL, "REFRESH").await?,
                    Err(RecvError::Closed) => return Err(End::StoreClosed),
                },
            }
        }
    }

    async fn answer(&mut self, message: Message) -> Result<(), End> {
        let Message::Text(text) = message else { return Ok(()) };
        match text.as_str() {
            "MYSELF" => {
                self.has_asked = true;
                self.send_groups(&Kind::ALL, "MYSELF").await
            }
            "RUNNING_MODE" => {
                let mode = json!({"eventType": "RUNNING_MODE", "isMaster": true,
                    "runningMode": "STANDALONE", "masterUrl": ""});
                self.send(&mode).await
            }
            text => {
                // Keep-alives contain no self-description.
                if let Some(info) = reported(text) {
                    self.reporter.report(&self.admin.instances, &info);
                }
                Ok(())
            }
        }
    }

    async fn pass_on(&mut self, change: Change) -> Result<(), End> {
        if !self.has_asked {
            return Ok(());
        }
        match change {
            Change::Everything => self.send_groups(&Kind::ALL, "REFRESH").await,
            Change::Refresh(kinds) => self.send_groups(kinds, "REFRESH").await,
            Change::Rows(rows) => {
                for message in messages(&rows, &self.reporter.namespace) {
                    self.send(&message).await?;
                }
                Ok(())
            }
        }
    }

    async fn send_groups(&mut self, kinds: &[Kind], event: &str) -> Result<(), End> {
        for kind in kinds {
            let objects = group(&self.admin.book.read(), *kind, &self.reporter.namespace);
            let message = json!({"groupType": kind.group(), "eventType": event, "data": objects});
            self.send(&message).await?;
        }
        Ok(())
    }

    async fn send(&mut self, message: &Value) -> Result<(), End> {
        self.send_message(Message::text(message.to_string())).await
    }

    async fn send_message(&mut self, message: Message) -> Result<(), End> {
        let sent = timeout(STALL_MAX, self.socket.send(message)).await;
        sent.map_err(|_| End::Stalled)?.map_err(|error| End::Socket(Box::new(error)))
    }
}

/// Returns the self-description of a gateway as JSON, if the message contains one.
fn reported(text: &str) -> Option<String> {
    let message: Value = serde_json::from_str(text).ok()?;
    message.get("bootstrapInstanceInfo").map(Value::to_string)
}

/// Converts a commit to messages. Consecutive rows of one group with the same event share a
/// message.
fn messages(rows: &[RowChange], wanted: &str) -> Vec<Value> {
    let mut messages: Vec<(Kind, &str, Vec<Value>)> = Vec::new();
    for written in rows {
        let Some(kind) = written.table.kind() else { continue };
        let (event, row) = match (&written.before, &written.after) {
            (None, Some(row)) => ("CREATE", row),
            (Some(_), Some(row)) => ("UPDATE", row),
            (Some(row), None) => ("DELETE", row),
            (None, None) => continue,
        };
        if namespace(row) != wanted {
            continue;
        }
        let Some(object) = synced(kind, row) else { continue };
        match messages.last_mut() {
            Some((last, known, data)) if *last == kind && *known == event => data.push(object),
            _ => messages.push((kind, event, vec![object])),
        }
    }
    let to_json = |(kind, event, data): (Kind, &str, Vec<Value>)| json!({"groupType": kind.group(), "eventType": event, "data": data});
    messages.into_iter().map(to_json).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollhouse_store::Location;

    use super::*;
    use crate::tests::options;

    #[tokio::test(start_paused = true)]
    async fn a_gateway_that_answers_no_ping_gives_its_place_back_and_one_that_does_stays() {
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        let admin = ShenyuAdmin::open(store, options()).await.expect("it opens");
        let long = GATEWAY_SILENCE_MAX * 10;
        for answers in [false, true] {
            let (near, far) = tokio::io::duplex(1 << 20);
            let mut gateway = Gateway::over(admin.clone(), Reporter::default(), near).await;
            let mut client = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
            let began = Instant::now();
            let reads = async {
                if answers {
                    while client.next().await.is_some() {}
                }
                std::future::pending::<()>().await;
            };
            let ended = tokio::select! {
                ended = timeout(long, gateway.run()) => ended,
                () = reads => unreachable!("it pends"),
            };
            assert_eq!(ended.is_err(), answers, "{ended:?}");
            let expected = if answers { long } else { GATEWAY_SILENCE_MAX };
            assert!(began.elapsed() < expected + Duration::from_secs(1), "{:?}", began.elapsed());
        }
    }
}
