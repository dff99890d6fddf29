//! Client of an admin over HTTP: fetches every group once, then long-polls for the groups that have
//! changed and fetches those.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{Request, StatusCode};
use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};
use tollhouse_shenyu::Kind;
use tollhouse_web::Session;

use super::mirror::{self, Event};
use super::{ANSWER_TIME_MAX, Address, FollowError, Following, Replica, instance_info};

/// Timeout of a long poll; admins hold one for a minute.
const POLL_TIME_MAX: Duration = Duration::from_secs(90);

/// Minimum time between two polls. Admins hold a poll while nothing changes. An admin that does
/// not, or a proxy that answers in its place, would otherwise be polled as fast as the network
/// permits.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Group that admins since 2.7.0.3 require gateways to poll. Its objects are not served here.
const UNSERVED_GROUP: &str = "AI_PROXY_API_KEY";

/// Latest checksum and time of each group by name, as sent by the admin.
type GroupChecksums = BTreeMap<String, String>;

/// Content of a group in a fetch answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group<'a> {
    #[serde(default)]
    md5: Option<String>,
    #[serde(default)]
    last_modify_time: Option<Value>,
    #[serde(borrow, default)]
    data: Option<Vec<&'a RawValue>>,
}

/// JSON object in which ShenYu wraps every answer.
#[derive(Debug, Deserialize)]
struct Wrapper<'a> {
    code: i64,
    #[serde(default)]
    message: Option<String>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

/// Decodes an answer and returns the data in its wrapper.
fn read<'a, T>(status: StatusCode, body: &'a [u8]) -> Result<T, FollowError>
where
    T: Deserialize<'a> + Default,
{
    let wrong = |reason: String| FollowError::Answer(format!("{reason} (status {status})"));
    let wrapper: Wrapper<'a> =
        serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
    let message = wrapper.message.unwrap_or_default();
    if status == StatusCode::UNAUTHORIZED {
        return Err(FollowError::Login(message));
    }
    match (wrapper.code, wrapper.data) {
        (200, None) => Ok(T::default()),
        (200, Some(data)) => {
            serde_json::from_str(data.get()).map_err(|error| wrong(error.to_string()))
        }
        (404, _) => {
            Err(wrong(format!("{message}; set shenyu.sync.http.enabled at the admin to poll it")))
        }
        _ => Err(wrong(message)),
    }
}

/// Follows an admin until it stops answering or gives an unexpected answer.
pub(super) async fn follow(
    address: &Address,
    following: &Following,
    replica: &mut Replica<'_>,
) -> Result<(), FollowError> {
    let mut client = Poller::log_in(address, following).await?;
    let mut checksums = GroupChecksums::new();
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.group()).collect();
    client.fetch(&names, &mut checksums, replica).await?;
    // Older admins lack this group and do not require it.
    match client.fetch(&[UNSERVED_GROUP], &mut checksums, replica).await {
        Ok(()) | Err(FollowError::Answer(_)) => {}
        Err(error) => return Err(error),
    }
    replica.commit().await?;
    loop {
        let next = Instant::now() + POLL_INTERVAL_MIN;
        let changed = client.listen(&checksums).await?;
        if !changed.is_empty() {
            let names: Vec<&str> = changed.iter().map(String::as_str).collect();
            client.fetch(&names, &mut checksums, replica).await?;
            replica.commit().await?;
        }
        sleep_until(next).await;
    }
}

struct Poller<'a> {
    following: &'a Following,
    namespace: String,
    token: String,
    session: Session,
}

impl<'a> Poller<'a> {
    async fn log_in(address: &Address, following: &'a Following) -> Result<Self, FollowError> {
        let session = Session::new(address.client(following).await?, address.server()?);
        let namespace = encode(following.namespace());
        let mut client = Self { following, namespace, token: String::new(), session };
        let (user, password) = (encode(&following.user), encode(&following.password));
        let path = format!("/platform/login?userName={user}&password={password}");
        let (_, body) = client.ask("GET", &path, String::new(), ANSWER_TIME_MAX).await?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let token = answer["data"]["token"].as_str();
        let reason = || answer["message"].as_str().unwrap_or("the answer is not JSON").to_owned();
        client.token = token.ok_or_else(|| FollowError::Login(reason()))?.to_owned();
        Ok(client)
    }

    /// Fetches groups as a whole and applies them to the mirror.
    async fn fetch(
        &mut self,
        names: &[&str],
        checksums: &mut GroupChecksums,
        replica: &mut Replica<'_>,
    ) -> Result<(), FollowError> {
        let keys: Vec<String> = names.iter().map(|name| format!("groupKeys={name}")).collect();
        let path = format!("/configs/fetch?{}&namespaceId={}", keys.join("&"), self.namespace);
        let (status, body) = self.ask("GET", &path, String::new(), ANSWER_TIME_MAX).await?;
        let groups: BTreeMap<String, Group<'_>> = read(status, &body)?;
        for (name, group) in groups {
            let modified = group.last_modify_time.unwrap_or_default();
            let sum = format!("{},{modified}", group.md5.unwrap_or_default());
            if let Some(kind) = mirror::kind(&name) {
                replica.mirror.take(kind, Event::Myself, &group.data.unwrap_or_default());
            }
            checksums.insert(name, sum);
        }
        Ok(())
    }

    /// Waits until groups change and returns their names; empty when the admin's hold time ends
    /// without a change.
    async fn listen(&mut self, checksums: &GroupChecksums) -> Result<Vec<String>, FollowError> {
        let mut form = format!("namespaceId={}", self.namespace);
        for (name, sum) in checksums {
            form.push_str(&format!("&{name}={}", encode(sum)));
        }
        let (status, body) = self.ask("POST", "/configs/listener", form, POLL_TIME_MAX).await?;
        let names: Vec<String> = read(status, &body)?;
        // Drops groups of later ShenYu releases, which were not polled for.
        Ok(names.into_iter().filter(|name| checksums.contains_key(name)).collect())
    }

    async fn ask(
        &mut self,
        method: &str,
        path: &str,
        form: String,
        time: Duration,
    ) -> Result<(StatusCode, Bytes), FollowError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("x-access-token", &self.token)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("X-Real-PORT", self.following.port)
            .header("bootstrapInstanceInfo", instance_info())
            .body(Bytes::from(form))
            .map_err(|error| FollowError::Answer(error.to_string()))?;
        let (head, body) = self.session.send_within(time, request).await?.into_parts();
        Ok((head.status, body))
    }
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
