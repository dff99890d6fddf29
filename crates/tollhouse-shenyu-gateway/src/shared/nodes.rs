//! Handles of selectors and rules of `divide` and the other proxies: the nodes, load balancing,
//! retries and limits.
//!
//! Up to ShenYu 2.6.0 the selector's handle lists the nodes, since 2.6.1 the discovery data does.
//! Discovery data takes precedence. The choice of a node for a request happens elsewhere.

use serde::Deserialize;
use tollhouse_plugin::{Exchange, RequestContext};
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::lenient;
use tollhouse_shenyu::model::DiscoveryUpstreams;

use crate::handle::{self, HandleError};

/// Default weight of a node, as in ShenYu's forms.
const DEFAULT_WEIGHT: u32 = 50;

/// Default warm-up of a discovered node in milliseconds: practically none.
const DISCOVERY_WARM_UP_MS: u64 = 10;

/// Maximum number of retries that a rule may request, so that one request cannot become a flood.
const RETRIES_MAX: i64 = 100;

/// Maximum timeout of an attempt in milliseconds: one hour.
const TIMEOUT_MS_MAX: i64 = 3_600_000;

/// Node of `divide`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DivideNode {
    /// Host and port of the node.
    pub url: String,
    /// Whether the node is reached over TLS.
    pub tls: bool,
    /// Relative share of requests. If all nodes have weight 0, they share equally.
    pub weight: u32,
    /// Time over which the weight rises, in milliseconds.
    pub warm_up_ms: u64,
    /// Start time in milliseconds since 1970; 0 if unknown, which counts as long ago.
    pub started_ms: i64,
    /// Whether this is a gray (canary) node. If any node is gray, only gray nodes are used.
    pub gray: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HandleNode {
    protocol: Option<String>,
    /// Address of the node; called `url` by `websocket`.
    #[serde(alias = "url", deserialize_with = "lenient::or_default")]
    upstream_url: String,
    #[serde(deserialize_with = "lenient::hint")]
    weight: Option<i64>,
    /// Whether the node is enabled; enabled if absent.
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

/// Returns the nodes in use: those that are enabled, and only the gray ones if there are enabled
/// gray nodes.
///
/// # Errors
///
/// If the handle or an enabled node cannot be read. An unreachable node is never skipped silently.
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

/// Keeps only the gray nodes if there are any.
pub(crate) fn gray_alone(mut nodes: Vec<DivideNode>) -> Vec<DivideNode> {
    if nodes.iter().any(|node| node.gray) {
        nodes.retain(|node| node.gray);
    }
    nodes
}

pub(crate) fn in_handle(nodes: &[HandleNode]) -> Result<Vec<DivideNode>, HandleError> {
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

pub(crate) fn discovered(discovery: &DiscoveryUpstreams) -> Result<Vec<DivideNode>, HandleError> {
    let all = (1..).zip(&discovery.upstream_data_list);
    all.filter(|(_, node)| node.is_healthy())
        .map(|(index, node)| {
            // All properties are optional, so an unreadable text must not disable the selector.
            let properties: DiscoveryProperties =
                handle::read(node.props.as_deref()).unwrap_or_default();
            let warm_up_ms = properties.warmup.and_then(|warm_up| warm_up.try_into().ok());
            Ok(DivideNode {
                url: address(index, &node.url, node.protocol.as_deref())?,
                tls: tls(index, node.protocol.as_deref())?,
                weight: weight(node.weight),
                warm_up_ms: warm_up_ms.unwrap_or(DISCOVERY_WARM_UP_MS),
                // Text dates depend on the admin's time zone. Only milliseconds are unambiguous.
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

/// Returns host and port of a node. A host without a port gets the default port of its protocol.
fn address(index: usize, url: &str, protocol: Option<&str>) -> Result<String, HandleError> {
    let url = url.trim();
    // The colons of an IPv6 address are inside brackets.
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

/// Returns the default port of a protocol, if it has one.
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

/// Load balancing algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadBalance {
    /// Random picks in proportion to the weights.
    #[default]
    Random,
    /// Picks in turn, in proportion to the weights.
    RoundRobin,
    /// Picks by the hash of the client's address.
    Hash,
    /// The node with the fewest open requests.
    LeastActive,
    /// The less loaded of two random nodes.
    P2c,
    /// The node with the shortest response time.
    ShortestResponse,
}

/// Destination and pause of a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryStrategy {
    /// Retry on the same node, after a pause that grows from 20 ms to 20 s.
    #[default]
    Current,
    /// Retry on another node, without a pause.
    Failover,
    /// Retry on the same node, after 2 s.
    Fixed,
    /// Retry on the same node, after a pause that grows from 500 ms to 5 s.
    Exponential,
}

/// Handle of a `divide` rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DivideRule {
    pub load_balance: LoadBalance,
    pub retry_strategy: RetryStrategy,
    /// Number of retries after the first attempt.
    pub retries: u32,
    /// Timeout of each attempt until the response head, in milliseconds.
    pub timeout_ms: u32,
    /// Maximum size of all request header values together in bytes; 0 means no limit.
    pub header_bytes_max: u64,
    /// Maximum size of the request body in bytes; 0 means no limit.
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
    /// Reads a rule's handle; a blank one yields the defaults.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object, names an unknown algorithm, or has a number out of range.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let Some(handle) = handle.map(str::trim).filter(|handle| !handle.is_empty()) else {
            return Ok(Self::default());
        };
        // Derived deserializers would also accept a JSON array with the members in order.
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

    /// Whether the rule limits the size of requests.
    pub fn limits_size(&self) -> bool {
        self.header_bytes_max > 0 || self.request_bytes_max > 0
    }

    /// Returns the maximum size of the request body in bytes; `None` if it is not limited.
    pub fn bytes_max(&self) -> Option<u64> {
        (self.request_bytes_max > 0).then_some(self.request_bytes_max)
    }

    /// Returns the refusal of a request that is too large according to its head; `content_length`
    /// is the declared length. The actual body must be counted as well, up to [`Self::bytes_max`].
    /// ShenYu does not count chunked bodies.
    pub fn refuse(&self, header_value_bytes: u64, content_length: Option<u64>) -> Option<Answer> {
        let exceeds = |bytes: u64, most: u64| most > 0 && bytes > most;
        if exceeds(header_value_bytes, self.header_bytes_max) {
            return Some(Answer::HeadersTooLarge);
        }
        let length = content_length.unwrap_or(0);
        exceeds(length, self.request_bytes_max).then_some(Answer::RequestTooLarge)
    }

    /// Enforces the size limits of this rule: refuses a request whose headers or declared body
    /// length are too large, and limits the body while it arrives.
    pub(crate) fn limit_size(&self, cx: &mut RequestContext<'_>) -> Option<Answer> {
        let refusal = self.refuse_size(cx.exchange());
        if let (None, Some(bytes_max)) = (refusal, self.bytes_max()) {
            let other = cx.edits().body_bytes_max.unwrap_or(u64::MAX);
            cx.edits().body_bytes_max = Some(bytes_max.min(other));
        }
        refusal
    }

    /// Returns the refusal of a request whose headers or declared body length exceed the limits of
    /// this rule; `None` if they are within the limits.
    pub(crate) fn refuse_size(&self, exchange: &dyn Exchange) -> Option<Answer> {
        // Most rules have no limits, so header sizes are only summed if needed.
        let mut value_bytes = 0;
        if self.header_bytes_max > 0 {
            exchange.each_client_header(&mut |_, value| value_bytes += value.len() as u64);
        }
        let declared = || {
            let length = exchange.client_header(b"content-length")?;
            std::str::from_utf8(length).ok()?.trim().parse().ok()
        };
        let length = if self.request_bytes_max > 0 { declared() } else { None };
        self.refuse(value_bytes, length)
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
        // Includes `custom`, which ShenYu offers but never implemented.
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
