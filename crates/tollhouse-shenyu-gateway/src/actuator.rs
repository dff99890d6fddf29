//! JSON pages below `/actuator/` with the objects that the chain was compiled from, as ShenYu's
//! gateway has them. Secrets are masked.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tollhouse_plugin as plugin;
use tollhouse_shenyu::model::{Metadata, Plugin, Rule, Selector};
use tollhouse_shenyu::sealing::cover;

/// Page of the actuator, by the objects that it lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Plugins,
    PluginData,
    SelectorData,
    RuleData,
    Metadata,
}

const PAGES: [(&str, Page); 5] = [
    ("/actuator/plugins", Page::Plugins),
    ("/actuator/pluginData", Page::PluginData),
    ("/actuator/selectorData", Page::SelectorData),
    ("/actuator/ruleData", Page::RuleData),
    ("/actuator/metadata", Page::Metadata),
];

/// Package of the classes of ShenYu's plugins.
const CLASSES: &str = "org.apache.shenyu.plugin.";

/// Name of a plugin, and its class in ShenYu, below [`CLASSES`].
const CLASS_BY_NAME: [(&str, &str); 31] = [
    ("basicAuth", "basic.auth.BasicAuthPlugin"),
    ("cache", "cache.CachePlugin"),
    ("casdoor", "casdoor.CasdoorPlugin"),
    ("contextPath", "context.path.ContextPathPlugin"),
    ("cryptorRequest", "cryptor.plugin.CryptorRequestPlugin"),
    ("cryptorResponse", "cryptor.plugin.CryptorResponsePlugin"),
    ("divide", "divide.DividePlugin"),
    ("dubbo", "apache.dubbo.ApacheDubboPlugin"),
    ("generalContext", "general.context.GeneralContextPlugin"),
    ("grpc", "grpc.GrpcPlugin"),
    ("hystrix", "hystrix.HystrixPlugin"),
    ("jwt", "jwt.JwtPlugin"),
    ("keyAuth", "key.auth.KeyAuthPlugin"),
    ("loggingConsole", "logging.console.LoggingConsolePlugin"),
    ("loggingKafka", "logging.kafka.LoggingKafkaPlugin"),
    ("metrics", "metrics.MetricsPlugin"),
    ("mock", "mock.MockPlugin"),
    ("modifyResponse", "modify.response.ModifyResponsePlugin"),
    ("oauth2", "oauth2.OAuth2Plugin"),
    ("paramMapping", "param.mapping.ParamMappingPlugin"),
    ("rateLimiter", "ratelimiter.RateLimiterPlugin"),
    ("redirect", "redirect.RedirectPlugin"),
    ("request", "request.RequestPlugin"),
    ("resilience4j", "resilience4j.Resilience4JPlugin"),
    ("rewrite", "rewrite.RewritePlugin"),
    ("sentinel", "sentinel.SentinelPlugin"),
    ("sign", "sign.SignPlugin"),
    ("springCloud", "springcloud.SpringCloudPlugin"),
    ("tcp", "tcp.TcpPlugin"),
    ("waf", "waf.WafPlugin"),
    ("websocket", "websocket.WebSocketPlugin"),
];

/// Returns the name under which ShenYu lists a plugin: its class, or else the plugin's own name.
fn listed_name(name: &str) -> String {
    let class = CLASS_BY_NAME.iter().find(|(known, _)| *known == name);
    class.map_or_else(|| name.to_owned(), |(_, class)| format!("{CLASSES}{class}"))
}

/// Objects that the pages show.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) plugins: Vec<Arc<Plugin>>,
    pub(crate) selectors: Vec<Arc<Selector>>,
    pub(crate) rules: Vec<Arc<Rule>>,
    pub(crate) metadata: Vec<Arc<Metadata>>,
    /// Order of enabled plugins in the chain, by name.
    pub(crate) order: Map<String, Value>,
}

/// Actuator pages of one chain. Each page is rendered when it is first requested.
#[derive(Debug)]
pub(crate) struct Actuator {
    contents: Contents,
    made: [OnceLock<Bytes>; PAGES.len()],
}

impl Actuator {
    pub(crate) fn new(contents: Contents) -> Self {
        Self { contents, made: Default::default() }
    }

    /// Returns the page at a path, if one exists.
    pub(crate) fn answer<'a>(&self, path: &str) -> Option<plugin::Answer<'a>> {
        let at = PAGES.iter().position(|(page, _)| *page == path)?;
        let (_, page) = PAGES[at];
        let body = self.made[at].get_or_init(|| Bytes::from(self.page(page).to_string()));
        let answer = plugin::Answer {
            body: plugin::AnswerBody::Shared(body.clone()),
            ..plugin::Answer::status(200)
        };
        Some(answer.with_header("Content-Type", &b"application/json"[..]))
    }

    /// Renders a page: a list with one object, the form in which ShenYu serialises a stream of one.
    fn page(&self, page: Page) -> Value {
        let mut members = Map::new();
        let Contents { plugins, selectors, rules, metadata, order } = &self.contents;
        match page {
            Page::Plugins => {
                let listed = order.iter().map(|(name, order)| (listed_name(name), order.clone()));
                members.extend(listed);
            }
            Page::PluginData => {
                let named = plugins.iter().map(|it| (it.name.clone(), written(&**it)));
                members.extend(named);
            }
            Page::SelectorData => {
                selectors
                    .iter()
                    .for_each(|it| append(&mut members, &it.plugin_name, written(&**it)));
            }
            Page::RuleData => {
                rules.iter().for_each(|it| append(&mut members, &it.selector_id, written(&**it)));
            }
            Page::Metadata => {
                let named = metadata.iter().map(|it| (it.path.clone(), written(&**it)));
                members.extend(named);
            }
        }
        json!([members])
    }
}

fn append(members: &mut Map<String, Value>, name: &str, object: Value) {
    let list = members.entry(name).or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut() {
        list.push(object);
    }
}

/// Serialises an object as gateways receive it, with its secrets masked.
fn written<T: Serialize>(object: &T) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    for member in ["config", "handle"] {
        let settings = value.get(member).and_then(Value::as_str);
        if let Some(covered) = settings.and_then(cover) {
            value[member] = covered.into();
        }
    }
    value
}
