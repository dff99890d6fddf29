//! Client of an admin over WebSocket: requests the whole state, then receives each change.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Bytes, Message};
use tollhouse_net::Stream;
use tollhouse_shenyu::Kind;

use super::mirror::{self, Event};
use super::{
    ANSWER_BYTES_MAX, ANSWER_TIME_MAX, Address, FollowError, Following, Replica, Security,
    instance_info,
};

/// Interval of pings to the admin, as in ShenYu's gateways.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum time without a message of the admin, pongs included; then the session ends.
const SILENCE_MAX: Duration = Duration::from_secs(35);

/// Maximum gap between two groups of the initial state; after it the state counts as complete.
/// Older admins have fewer groups, and no message marks the last one.
const NEXT_GROUP_TIME_MAX: Duration = Duration::from_secs(1);

/// Message of the admin, with the objects of one group still as JSON text.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(default)]
    group_type: Option<String>,
    event_type: String,
    #[serde(borrow, default)]
    data: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    is_master: Option<bool>,
    #[serde(default)]
    master_url: Option<String>,
}

/// Follows an admin until the connection ends.
pub(super) async fn follow(
    address: &Address,
    following: &Following,
    replica: &mut Replica<'_>,
) -> Result<(), FollowError> {
    let mut socket = connect(address, following).await?;
    // A slave answers `RUNNING_MODE` with its master. Releases without a cluster ignore this word.
    for word in ["RUNNING_MODE", "MYSELF"] {
        send(&mut socket, Message::text(word)).await?;
    }
    let mut state = State { security: Some(address.security), ..State::default() };
    let mut pings = interval(PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let begun = Instant::now();
    let mut heard = begun;
    loop {
        let is_due = async {
            match state.due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = socket.next() => {
                heard = Instant::now();
                match message {
                    Some(Ok(Message::Text(text))) => state.take(text.as_str(), replica)?,
                    Some(Ok(Message::Close(_))) | None => {
                        return Err(FollowError::Connection("it was closed".to_owned()));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(failed(error)),
                }
                if state.is_whole() {
                    state.due = None;
                    replica.commit().await?;
                }
            }
            () = is_due => {
                state.end_waiting();
                replica.commit().await?;
            }
            _ = pings.tick() => {
                if heard.elapsed() > SILENCE_MAX {
                    return Err(FollowError::Silent);
                }
                if state.groups.is_empty() && begun.elapsed() > ANSWER_TIME_MAX {
                    return Err(FollowError::Answer("it does not send its configuration".to_owned()));
                }
                send(&mut socket, Message::Ping(Bytes::new())).await?;
                let report = json!({"bootstrapInstanceInfo": instance_info()});
                send(&mut socket, Message::text(report.to_string())).await?;
            }
        }
    }
}

/// Groups of the initial state received so far.
#[derive(Debug, Default)]
struct State {
    groups: BTreeSet<Kind>,
    has_all: bool,
    /// Deadline after which the initial state counts as complete although groups are missing.
    due: Option<Instant>,
    /// Encryption of the connection to the admin, used for its master too; `None` counts as plain.
    security: Option<Security>,
}

impl State {
    fn take(&mut self, text: &str, replica: &mut Replica<'_>) -> Result<(), FollowError> {
        let wrong = |error: serde_json::Error| FollowError::Answer(error.to_string());
        let message: Envelope<'_> = serde_json::from_str(text).map_err(wrong)?;
        if message.event_type == "RUNNING_MODE" {
            let master = message.master_url.filter(|url| !url.is_empty());
            return match (message.is_master, master) {
                (Some(false), Some(master)) => {
                    let security = self.security.unwrap_or(Security::Plain);
                    Err(FollowError::Slave(websocket_address(security, &master)))
                }
                _ => Ok(()),
            };
        }
        // Groups and events of later ShenYu releases do not concern the objects served here.
        let kind = message.group_type.as_deref().and_then(mirror::kind);
        let event = serde_json::from_value::<Event>(message.event_type.into());
        let (Some(kind), Ok(event)) = (kind, event) else { return Ok(()) };
        replica.mirror.take(kind, event, &message.data.unwrap_or_default());
        if event == Event::Myself {
            self.groups.insert(kind);
            if self.groups.len() == Kind::ALL.len() {
                self.has_all = true;
            }
        }
        if !self.has_all && !self.groups.is_empty() {
            self.due = Some(Instant::now() + NEXT_GROUP_TIME_MAX);
        }
        Ok(())
    }

    fn end_waiting(&mut self) {
        self.has_all = true;
        self.due = None;
    }

    /// Whether the initial state is complete, so that changes may be written.
    const fn is_whole(&self) -> bool {
        self.has_all
    }
}

/// Returns the WebSocket address of the master, which admins announce as the address of their REST
/// interface.
fn websocket_address(security: Security, master: &str) -> String {
    let rest = master.split_once("://").map_or(master, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    // The address is logged, and a password in it would be.
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let scheme = match security {
        Security::Plain => "ws",
        // Never a downgrade: the password or token must not be sent in plain text.
        Security::Tls => "wss",
    };
    format!("{scheme}://{authority}")
}

async fn connect(
    address: &Address,
    following: &Following,
) -> Result<WebSocketStream<Stream>, FollowError> {
    let authority = &address.authority;
    let mut request =
        format!("ws://{authority}/websocket").into_client_request().map_err(failed)?;
    let header = |text: &str| {
        let wrong = |_| FollowError::Answer(format!("invalid header value {text:?}"));
        HeaderValue::from_str(text).map_err(wrong)
    };
    let headers = request.headers_mut();
    headers.insert("namespaceId", header(following.namespace())?);
    headers.insert("origin", header(&following.origin)?);
    // Admins since 2.7.0.3 answer 500 without this header.
    headers.insert("ClientPort", HeaderValue::from(following.port));
    if let Some(token) = &following.token {
        let mut token = header(token)?;
        token.set_sensitive(true);
        headers.insert("X-Shenyu-Sync-Token", token);
    }
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(ANSWER_BYTES_MAX);
    config.max_frame_size = Some(ANSWER_BYTES_MAX);
    let connected = timeout(ANSWER_TIME_MAX, async {
        let stream = address.connect(following).await?;
        let socket =
            tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await;
        socket.map(|(socket, _)| socket).map_err(|error| refused(error, following))
    });
    connected.await.map_err(|_| FollowError::Silent)?
}

async fn send(socket: &mut WebSocketStream<Stream>, message: Message) -> Result<(), FollowError> {
    let sent = timeout(ANSWER_TIME_MAX, socket.send(message)).await;
    sent.map_err(|_| FollowError::Silent)?.map_err(failed)
}

/// Turns a failed handshake into an error that tells operators how to fix it.
fn refused(error: tungstenite::Error, following: &Following) -> FollowError {
    match &error {
        tungstenite::Error::Http(answer) if answer.status() == 403 => {
            FollowError::Origin(following.origin.clone())
        }
        tungstenite::Error::Http(answer) if answer.status() == 401 => {
            FollowError::Login("its shenyu.sync.websocket.token is not shenyu.follow.token".into())
        }
        _ => failed(error),
    }
}

fn failed(error: tungstenite::Error) -> FollowError {
    FollowError::Connection(error.to_string())
}

#[cfg(test)]
mod tests {
    use tollhouse_store::Location;

    use super::super::mirror::Mirror;
    use super::*;

    #[tokio::test]
    async fn a_state_is_whole_with_all_groups_or_once_no_other_comes() {
        let store = tollhouse_store::open(&Location::Memory).unwrap();
        let mirror = Mirror::new(store.limits());
        let mut replica = Replica { store: store.as_ref(), mirror };
        let mut state = State::default();
        for kind in Kind::ALL {
            assert!(!state.is_whole());
            let group = kind.group();
            let text = format!(r#"{{"groupType":"{group}","eventType":"MYSELF","data":null}}"#);
            state.take(&text, &mut replica).unwrap();
        }
        assert!(state.is_whole());
        let mut state = State::default();
        // A change before the initial state does not complete it, and later releases have more
        // groups and events.
        for text in [
            r#"{"groupType":"PLUGIN","eventType":"UPDATE","data":[{"id":"1"}]}"#,
            r#"{"groupType":"AI_PROXY_API_KEY","eventType":"MYSELF","data":[{}]}"#,
            r#"{"groupType":"PLUGIN","eventType":"EXPIRE","data":[{}]}"#,
        ] {
            state.take(text, &mut replica).unwrap();
            assert!(!state.is_whole() && state.due.is_none(), "{text}");
        }
        let text = r#"{"groupType":"PLUGIN","eventType":"MYSELF","data":[{"id":"1"}]}"#;
        state.take(text, &mut replica).unwrap();
        assert!(!state.is_whole() && state.due.is_some());
        state.end_waiting();
        assert!(state.is_whole() && state.due.is_none());
    }

    #[test]
    fn a_master_is_found_where_it_listens_for_gateways() {
        for url in [
            "http://a:9095",
            "http://a:9095/",
            "a:9095",
            "ws://a:9095/websocket",
            "http://user:secret@a:9095/",
        ] {
            assert_eq!(websocket_address(Security::Plain, url), "ws://a:9095", "{url}");
            assert_eq!(websocket_address(Security::Tls, url), "wss://a:9095", "{url}");
        }
    }
}
