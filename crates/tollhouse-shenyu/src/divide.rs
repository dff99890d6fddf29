//! What selectors and rules of `divide`, `websocket` and `springCloud` say: which nodes, how they are chosen,
//! tried again and limited.
//!
//! Up to 2.6.0 the nodes stand in the selector's handle, since 2.6.1 in discovery's data; where there are
//! discovery's, they count. Choosing among the nodes is not done here.

use serde::Deserialize;

use crate::answer::Answer;
use crate::handle::Malformed;
use crate::model::DiscoveryUpstreams;
use crate::{handle, lenient};

/// The weight of a node that has none: that of ShenYu's forms.
const DEFAULT_WEIGHT: u32 = 50;

/// Of a node of discovery that does not say, in milliseconds: practically none.
const DISCOVERY_WARM_UP_MS: u64 = 10;

/// Attempts beyond the first: what a rule may ask for at most, so that one request cannot become a flood.
const RETRIES_MAX: i64 = 100;

/// Milliseconds of one attempt, at most: an hour.
const TIMEOUT_MS_MAX: i64 = 3_600_000;

/// Milliseconds that a node of `grpc` may be silent; the call itself ends with the time of its method, which may
/// be as long.
const CALL_TIMEOUT_MS: u32 = 3_600_000;

/// A node of `divide`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DivideNode {
    /// Host and port.
    pub url: String,
    /// Whether it is asked over TLS.
    pub tls: bool,
    /// Its share; 0 where all others have none either is as good as 1.
    pub weight: u32,
    /// How long its weight rises, in milliseconds.
    pub warm_up_ms: u64,
    /// Since when it runs, in milliseconds since 1970; 0 where nobody knows, which is long ago.
    pub started_ms: i64,
    /// Whether it is there for a try: where one is, only such nodes are asked.
    pub gray: bool,
}

/// Why a handle cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// It is no JSON of this shape.
    #[error("the handle cannot be read: {0}")]
    Malformed(String),
    /// A node has no address.
    #[error("node {0} has no address: expected host:port, or the host alone for http and https")]
    Address(usize),
    /// A node is asked over something that `divide` does not speak.
    #[error(
        "node {index} has the protocol `{protocol}`; `http://`, `https://`, `ws://`, `wss://`, `grpc://`, `grpcs://`, `dubbo://` and `tcp://` are possible"
    )]
    Protocol {
        /// Its place in the list, from 1.
        index: usize,
        /// What it says.
        protocol: String,
    },
    /// A way to choose or to try again that does not exist.
    #[error("there is no {member} `{value}`; possible are {possible}")]
    Name {
        /// The member.
        member: &'static str,
        /// What it says.
        value: String,
        /// What it could say.
        possible: &'static str,
    },
    /// A number beyond its bounds.
    #[error("{member} is {value}; it may be from {least} to {most}")]
    Bounds {
        /// The member.
        member: &'static str,
        /// What it says.
        value: i64,
        /// At least.
        least: i64,
        /// At most.
        most: i64,
    },
}

impl From<Malformed> for HandleError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error.to_string())
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HandleNode {
    protocol: Option<String>,
    /// `websocket` calls it `url`.
    #[serde(alias = "url", deserialize_with = "lenient::or_default")]
    upstream_url: String,
    #[serde(deserialize_with = "lenient::hint")]
    weight: Option<i64>,
    /// Whether it is on; an absent one is.
    #[serde(deserialize_with = "lenient::flag")]
    status: Option<bool>,
    #[serde(deserialize_with = "lenient::hint")]
    timestamp: Option<i64>,
    #[serde(deserialize_with = "lenient::hint")]
    warmup: Option<i64>,
    #[serde(deserialize_with = "lenient::flag")]
    gray: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct DiscoveryProperties {
    #[serde(deserialize_with = "lenient::hint")]
    warmup: Option<i64>,
    #[serde(deserialize_with = "lenient::flag")]
    gray: Option<bool>,
}

/// The nodes that may be asked: those that are on, and of these only the gray ones where there are any.
///
/// # Errors
/// When the handle or a node that is on cannot be read; a node that nobody can reach is not left out
/// silently.
pub fn divide_nodes(
    handle: Option<&str>,
    discovery: Option<&DiscoveryUpstreams>,
) -> Result<Vec<DivideNode>, HandleError> {
    let handle = handle.map(str::trim).filter(|handle| !handle.is_empty());
    let nodes = match (discovery, handle) {
        (Some(discovery), _) => discovered(discovery)?,
        (None, Some(handle)) => in_handle(&read::<Vec<HandleNode>>(handle)?)?,
        (None, None) => Vec::new(),
    };
    Ok(gray_alone(nodes))
}

/// Only the gray nodes where there are any.
fn gray_alone(mut nodes: Vec<DivideNode>) -> Vec<DivideNode> {
    if nodes.iter().any(|node| node.gray) {
        nodes.retain(|node| node.gray);
    }
    nodes
}

/// What a selector of `springCloud` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpringCloudSelector {
    /// The service whose instances are asked where no nodes are known; blank where none is named.
    pub service_id: String,
    /// The nodes that services have registered by themselves, or that stand in the handle. They count
    /// before the service's.
    pub nodes: Vec<DivideNode>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SpringCloudHandle {
    #[serde(deserialize_with = "lenient::or_default")]
    service_id: String,
    /// Whether gray nodes are preferred.
    #[serde(deserialize_with = "lenient::flag")]
    gray: Option<bool>,
    #[serde(deserialize_with = "lenient::or_default")]
    divide_upstreams: Vec<HandleNode>,
}

impl SpringCloudSelector {
    /// Reads a selector's handle, beside what discovery has for it.
    ///
    /// # Errors
    /// When the handle or a node that is on cannot be read.
    pub fn read(
        handle: Option<&str>,
        discovery: Option<&DiscoveryUpstreams>,
    ) -> Result<Self, HandleError> {
        let written: SpringCloudHandle = handle::read(handle)?;
        let nodes = match discovery.filter(|found| !found.upstream_data_list.is_empty()) {
            Some(discovery) => discovered(discovery)?,
            None => in_handle(&written.divide_upstreams)?,
        };
        let nodes = if written.gray == Some(true) { gray_alone(nodes) } else { nodes };
        Ok(Self { service_id: written.service_id.trim().to_owned(), nodes })
    }
}

fn in_handle(nodes: &[HandleNode]) -> Result<Vec<DivideNode>, HandleError> {
    let on = (1..).zip(nodes).filter(|(_, node)| node.status.unwrap_or(true));
    on.map(|(index, node)| {
        Ok(DivideNode {
            url: address(index, &node.upstream_url, node.protocol.as_deref())?,
            tls: tls(index, node.protocol.as_deref())?,
            weight: weight(node.weight),
            warm_up_ms: node.warmup.and_then(|it| it.try_into().ok()).unwrap_or(0),
            started_ms: node.timestamp.unwrap_or(0),
            gray: node.gray.unwrap_or(false),
        })
    })
    .collect()
}

fn discovered(discovery: &DiscoveryUpstreams) -> Result<Vec<DivideNode>, HandleError> {
    let all = (1..).zip(&discovery.upstream_data_list);
    all.filter(|(_, node)| node.is_healthy())
        .map(|(index, node)| {
            // All that they say is optional, and none of it worth a selector.
            let properties: DiscoveryProperties =
                handle::read(node.props.as_deref()).unwrap_or_default();
            let warm_up_ms = properties.warmup.and_then(|warm_up| warm_up.try_into().ok());
            Ok(DivideNode {
                url: address(index, &node.url, node.protocol.as_deref())?,
                tls: tls(index, node.protocol.as_deref())?,
                weight: weight(node.weight),
                warm_up_ms: warm_up_ms.unwrap_or(DISCOVERY_WARM_UP_MS),
                // Times of discovery are text in the zone of the admin; only milliseconds are sure.
                started_ms: node
                    .started_ms
                    .or_else(|| node.date_created.as_deref()?.parse().ok())
                    .unwrap_or(0),
                gray: properties.gray.unwrap_or(false),
            })
        })
        .collect()
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, HandleError> {
    serde_json::from_str(text).map_err(|error| HandleError::Malformed(error.to_string()))
}

/// Host and port of a node; a host alone has the port of its protocol.
fn address(index: usize, url: &str, protocol: Option<&str>) -> Result<String, HandleError> {
    let url = url.trim();
    // The colons of an IPv6 address are in brackets.
    let is_alone = url.ends_with(']') || !url.contains(':');
    let default = if is_alone { default_port(protocol) } else { None };
    let url = default.map_or_else(|| url.to_owned(), |port| format!("{url}:{port}"));
    let is_address = url.rsplit_once(':').is_some_and(|(host, port)| {
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty()
            && !host.contains(['/', '@', ' '])
            && (is_bracketed || !host.contains(':'))
            && port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if is_address { Ok(url) } else { Err(HandleError::Address(index)) }
}

/// The port of a protocol that has one.
fn default_port(protocol: Option<&str>) -> Option<u16> {
    match protocol.map(|protocol| protocol.trim().trim_end_matches("://")) {
        None | Some("" | "http" | "ws") => Some(80),
        Some("https" | "wss") => Some(443),
        Some(_) => None,
    }
}

fn tls(index: usize, protocol: Option<&str>) -> Result<bool, HandleError> {
    match protocol.map(str::trim) {
        None
        | Some(
            "" | "http" | "http://" | "ws" | "ws://" | "grpc" | "grpc://" | "dubbo" | "dubbo://"
            | "tcp" | "tcp://",
        ) => Ok(false),
        Some("https" | "https://" | "wss" | "wss://" | "grpcs" | "grpcs://") => Ok(true),
        Some(other) => Err(HandleError::Protocol { index, protocol: other.to_owned() }),
    }
}

fn weight(written: Option<i64>) -> u32 {
    written.map_or(DEFAULT_WEIGHT, |weight| weight.clamp(0, i64::from(u32::MAX)) as u32)
}

impl DivideNode {
    /// Its weight at a time in milliseconds since 1970: it rises with the time that the node has run, from 1.
    pub fn weight_at(&self, now_ms: i64) -> u32 {
        let Ok(uptime_ms) = u64::try_from(now_ms.saturating_sub(self.started_ms)) else {
            return self.weight.min(1);
        };
        if self.weight == 0 || uptime_ms >= self.warm_up_ms {
            return self.weight;
        }
        let risen = u128::from(uptime_ms) * u128::from(self.weight) / u128::from(self.warm_up_ms);
        u32::try_from(risen).map_or(self.weight, |risen| risen.clamp(1, self.weight))
    }
}

/// How the node of a request is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadBalance {
    /// By weight, at random.
    #[default]
    Random,
    /// By weight, in turns.
    RoundRobin,
    /// By the client's address.
    Hash,
    /// The one with the fewest requests under way.
    LeastActive,
    /// The less loaded of two at random.
    P2c,
    /// The one that answers fastest.
    ShortestResponse,
}

/// Where a request goes that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryStrategy {
    /// To the same node, after a pause that grows from 20 ms to 20 s.
    #[default]
    Current,
    /// To another node, at once.
    Failover,
    /// To the same node, after 2 s.
    Fixed,
    /// To the same node, after a pause that grows from 500 ms to 5 s.
    Exponential,
}

/// What a rule of `divide` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DivideRule {
    /// How the node is chosen.
    pub load_balance: LoadBalance,
    /// Where a failed request goes.
    pub retry_strategy: RetryStrategy,
    /// Attempts beyond the first.
    pub retries: u32,
    /// Of each attempt, until the head of the answer, in milliseconds.
    pub timeout_ms: u32,
    /// Bytes of all header values together; 0 is no limit.
    pub header_bytes_max: u64,
    /// Bytes of the body; 0 is no limit.
    pub request_bytes_max: u64,
}

impl Default for DivideRule {
    fn default() -> Self {
        Self {
            load_balance: LoadBalance::default(),
            retry_strategy: RetryStrategy::default(),
            retries: 3,
            timeout_ms: 3000,
            header_bytes_max: 0,
            request_bytes_max: 0,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HandleRule {
    load_balance: Option<String>,
    retry_strategy: Option<String>,
    #[serde(deserialize_with = "lenient::integer")]
    retry: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    timeout: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    header_max_size: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    request_max_size: Option<i64>,
}

impl DivideRule {
    /// Reads the handle of a rule of `grpc`, whose calls are made once and have times of their own.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_grpc(handle: Option<&str>) -> Result<Self, HandleError> {
        Ok(Self { retries: 0, timeout_ms: CALL_TIMEOUT_MS, ..Self::read(handle)? })
    }

    /// Reads the handle of a rule of `springCloud`, whose calls are made once.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_spring_cloud(handle: Option<&str>) -> Result<Self, HandleError> {
        Ok(Self { retries: 0, ..Self::read(handle)? })
    }

    /// Reads a rule's handle; a blank one has the defaults.
    ///
    /// # Errors
    /// When it is no JSON object, or a member is unknown to `divide` or beyond its bounds.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let Some(handle) = handle.map(str::trim).filter(|handle| !handle.is_empty()) else {
            return Ok(Self::default());
        };
        // Derived readers would take a list for the members in their order.
        if !handle.starts_with('{') {
            return Err(HandleError::Malformed("expected a JSON object".to_owned()));
        }
        let written: HandleRule = read(handle)?;
        let default = Self::default();
        let number = |member, written: Option<i64>, least: i64, most: i64| match written {
            Some(value) if !(least..=most).contains(&value) => {
                Err(HandleError::Bounds { member, value, least, most })
            }
            written => Ok(written.and_then(|value| u64::try_from(value).ok())),
        };
        let small = |member, written, least, most, default: u32| {
            let number = number(member, written, least, most)?;
            Ok::<_, HandleError>(
                number.and_then(|value| u32::try_from(value).ok()).unwrap_or(default),
            )
        };
        Ok(Self {
            load_balance: load_balance(written.load_balance.as_deref().unwrap_or_default())?,
            retry_strategy: retry_strategy(written.retry_strategy.as_deref().unwrap_or_default())?,
            retries: small("retry", written.retry, 0, RETRIES_MAX, default.retries)?,
            timeout_ms: small("timeout", written.timeout, 1, TIMEOUT_MS_MAX, default.timeout_ms)?,
            header_bytes_max: number("headerMaxSize", written.header_max_size, 0, i64::MAX)?
                .unwrap_or(default.header_bytes_max),
            request_bytes_max: number("requestMaxSize", written.request_max_size, 0, i64::MAX)?
                .unwrap_or(default.request_bytes_max),
        })
    }

    /// Whether requests may be too large for it.
    pub fn limits_size(&self) -> bool {
        self.header_bytes_max > 0 || self.request_bytes_max > 0
    }

    /// Most bytes that a body may have, where that is limited.
    pub fn bytes_max(&self) -> Option<u64> {
        (self.request_bytes_max > 0).then_some(self.request_bytes_max)
    }

    /// The answer to a request whose headers or body are too large, as far as its head tells: `content_length` is
    /// what it declares. Whatever comes is counted besides ([`Self::bytes_max`]); ShenYu counts no chunks.
    pub fn refuse(&self, header_value_bytes: u64, content_length: Option<u64>) -> Option<Answer> {
        let exceeds = |bytes: u64, most: u64| most > 0 && bytes > most;
        if exceeds(header_value_bytes, self.header_bytes_max) {
            return Some(Answer::HeadersTooLarge);
        }
        let length = content_length.unwrap_or(0);
        exceeds(length, self.request_bytes_max).then_some(Answer::RequestTooLarge)
    }
}

fn load_balance(name: &str) -> Result<LoadBalance, HandleError> {
    Ok(match name {
        "" | "random" => LoadBalance::Random,
        "roundRobin" => LoadBalance::RoundRobin,
        "hash" => LoadBalance::Hash,
        "leastActive" => LoadBalance::LeastActive,
        "p2c" => LoadBalance::P2c,
        "shortestResponse" => LoadBalance::ShortestResponse,
        other => {
            return Err(HandleError::Name {
                member: "loadBalance",
                value: other.to_owned(),
                possible: "random, roundRobin, hash, leastActive, p2c, shortestResponse",
            });
        }
    })
}

fn retry_strategy(name: &str) -> Result<RetryStrategy, HandleError> {
    Ok(match name {
        "" | "current" => RetryStrategy::Current,
        "failover" => RetryStrategy::Failover,
        "fixed" => RetryStrategy::Fixed,
        "exponential" => RetryStrategy::Exponential,
        // `custom` among them, which ShenYu offers and never built.
        other => {
            return Err(HandleError::Name {
                member: "retryStrategy",
                value: other.to_owned(),
                possible: "current, failover, fixed, exponential",
            });
        }
    })
}

#[cfg(test)]
mod tests;
