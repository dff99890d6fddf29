//! Compiles the objects of a namespace: the engine that matches, and what each rule does.

use std::sync::Arc;

use hashbrown::HashMap;
use tollhouse_shenyu::Kind;
use tollhouse_shenyu::access::{BasicAuthRule, KeyAuthRule, WafModel, WafRule};
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::breaker::{Breaker, BreakerRule};
use tollhouse_shenyu::cache::CacheRule;
use tollhouse_shenyu::divide::{DivideRule, SpringCloudSelector, divide_nodes};
use tollhouse_shenyu::jwt::JwtRule;
use tollhouse_shenyu::limiter::redis::RedisServers;
use tollhouse_shenyu::limiter::{Limiter, LimiterRule};
use tollhouse_shenyu::matching::{Engine, Objects, Problem, RpcType, protects};
use tollhouse_shenyu::mock::MockRule;
use tollhouse_shenyu::model::{
    AppAuth, DiscoveryUpstreams, Metadata, Plugin, ProxySelector, Rule, Selector,
};
use tollhouse_shenyu::paths::{ContextPathRule, RedirectRule, RewriteRule};
use tollhouse_shenyu::rpc::dubbo::DubboRule;
use tollhouse_shenyu::shaping::{RequestRule, ResponseRule, read_parameter_mapping};
use tollhouse_shenyu::sign::{Applications, SignRule};

use crate::action::{Action, Refusals, SharedLimit};
use crate::chain::{ById, Chain, Link, Unmatched};
use crate::counts::Counts;
use crate::dubbo::DubboCaller;
use crate::engines::Engines;
use crate::sources::Terms;
use crate::target::{self, Again, Nodes, Target};

/// The objects of one namespace.
pub(crate) struct Parts {
    pub(crate) plugins: Vec<Plugin>,
    pub(crate) selectors: Vec<Selector>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) metadata: Vec<Metadata>,
    pub(crate) app_auths: Vec<AppAuth>,
    pub(crate) proxy_selectors: Vec<ProxySelector>,
    pub(crate) discovery: Vec<DiscoveryUpstreams>,
}

/// Rows that ShenYu has for parts of its gateway that are always here.
const BUILT_IN: &[&str] =
    &["global", "uri", "webClient", "nettyHttpClient", "paramTransform", "response"];

/// Compiles everything. What cannot be compiled is reported; of plugins that protect, it refuses what it
/// could be meant for.
pub(crate) fn compile(
    parts: &Parts,
    terms: Terms,
    counts: &mut Counts,
    engines: Option<&Arc<dyn Engines>>,
) -> (Chain, Vec<Problem>) {
    let objects = Objects {
        plugins: &parts.plugins,
        selectors: &parts.selectors,
        rules: &parts.rules,
        metadata: &parts.metadata,
    };
    let (engine, mut problems) = Engine::build(objects);
    let (applications, refused) = Applications::build(&parts.app_auths);
    problems.extend(refused);
    let tcp = parts.proxy_selectors.iter().map(|selector| Problem {
        kind: Kind::ProxySelector,
        id: selector.id.clone(),
        reason: "listeners of `tcp` are not opened by ShenYu's objects; use stream routes"
            .to_owned(),
    });
    problems.extend(tcp);
    let counts_before = std::mem::take(counts);
    let counts_now = Counts { cache: counts_before.cache.clone(), ..Counts::default() };
    let mut builder = Builder {
        plugins: parts.plugins.iter().map(|plugin| (&*plugin.name, plugin)).collect(),
        discovery: parts.discovery.iter().map(|it| (&*it.selector_id, it)).collect(),
        rules: ById::default(),
        selectors: ById::default(),
        targets: Vec::new(),
        upstreams: HashMap::default(),
        problems,
        engines,
        counts_before: &counts_before,
        counts: counts_now,
    };
    builder.compile_actions(parts);
    let (answer_links, links) = builder
        .links(&engine, parts)
        .into_iter()
        .partition::<Vec<Link>, _>(|link| link.name == "modifyResponse");
    // In ShenYu it stands before all that protects, and gives to anybody what was answered to somebody.
    let links = before_proxies(links, "cache", |_, _| true);
    // ShenYu's later rows have it behind the proxies, and it is to decide whether a call is made.
    let links = before_proxies(links, "resilience4j", |proxy, named| proxy < named);
    let chain = Chain {
        engine,
        links: links.into(),
        answer_links: answer_links.into(),
        rules: builder.rules,
        selectors: builder.selectors,
        targets: builder.targets.into(),
        applications,
        terms,
    };
    let Builder { counts: kept, problems, .. } = builder;
    *counts = kept;
    (chain, problems)
}

struct Builder<'a> {
    plugins: HashMap<&'a str, &'a Plugin>,
    /// By the id of the selector.
    discovery: HashMap<&'a str, &'a DiscoveryUpstreams>,
    rules: ById<Action>,
    selectors: ById<Action>,
    targets: Vec<Target>,
    /// Those that several rules share, by key.
    upstreams: HashMap<Arc<str>, Arc<tollhouse_model::Upstream>>,
    problems: Vec<Problem>,
    engines: Option<&'a Arc<dyn Engines>>,
    counts_before: &'a Counts,
    counts: Counts,
}

/// A rule, or a selector that no rule is asked of.
struct Place<'a> {
    plugin: &'a Plugin,
    selector: &'a Selector,
    rule: Option<&'a Rule>,
}

impl Place<'_> {
    fn handle(&self) -> Option<&str> {
        self.rule.and_then(|rule| rule.handle.as_deref())
    }

    fn id(&self) -> &str {
        self.rule.map_or(&self.selector.id, |rule| &rule.id)
    }
}

impl<'a> Builder<'a> {
    fn compile_actions(&mut self, parts: &'a Parts) {
        let mut by_selector: HashMap<&str, Vec<&Rule>> = HashMap::default();
        for rule in parts.rules.iter().filter(|rule| rule.enabled) {
            by_selector.entry(&rule.selector_id).or_default().push(rule);
        }
        for selector in parts.selectors.iter().filter(|selector| selector.enabled) {
            let Some(&plugin) = self.plugins.get(&*selector.plugin_name) else { continue };
            if !plugin.enabled {
                continue;
            }
            if !selector.continued {
                let action = self.action(&Place { plugin, selector, rule: None });
                self.selectors.insert(selector.id.clone(), action);
                continue;
            }
            for &rule in by_selector.get(&*selector.id).map_or(&[][..], Vec::as_slice) {
                let action = self.action(&Place { plugin, selector, rule: Some(rule) });
                self.rules.insert(rule.id.clone(), action);
            }
        }
    }

    /// What is done, or what stands in its place where that cannot be.
    fn action(&mut self, place: &Place<'_>) -> Action {
        match self.compile(place) {
            Ok(action) => action,
            Err(reason) => {
                let kind = if place.rule.is_some() { Kind::Rule } else { Kind::Selector };
                self.problems.push(Problem { kind, id: place.id().to_owned(), reason });
                let name = &place.plugin.name;
                match carried_by(name) {
                    Some(_) => Action::Refuse(Answer::UrlNotFound),
                    None if protects(name) => Action::Refuse(Answer::InternalException),
                    None => Action::Pass,
                }
            }
        }
    }

    fn compile(&mut self, place: &Place<'_>) -> Result<Action, String> {
        fn text(error: impl std::fmt::Display) -> String {
            error.to_string()
        }
        let handle = place.handle();
        Ok(match &*place.plugin.name {
            "waf" => Action::Waf(WafRule::read(handle).map_err(text)?),
            "sign" => Action::Sign { reads_body: SignRule::read(handle)?.sign_request_body },
            "keyAuth" => Action::KeyAuth(KeyAuthRule::read(handle).map_err(text)?),
            "basicAuth" => {
                let config = place.plugin.config.as_deref();
                Action::BasicAuth(BasicAuthRule::read(handle, config).map_err(text)?)
            }
            "contextPath" => Action::ContextPath(ContextPathRule::read(handle).map_err(text)?),
            "rewrite" => Action::Rewrite(RewriteRule::read(handle).map_err(text)?),
            "redirect" => Action::Redirect(RedirectRule::read(handle).map_err(text)?),
            "mock" => Action::Mock(MockRule::read(handle).map_err(text)?),
            "jwt" => {
                let config = place.plugin.config.as_deref();
                Action::Jwt(JwtRule::read(handle, config).map_err(text)?)
            }
            "rateLimiter" => {
                let rule = LimiterRule::read(handle).map_err(text)?;
                let servers = RedisServers::read(place.plugin.config.as_deref()).map_err(text)?;
                if let Some(servers) = servers {
                    let engines = self.engines.ok_or("nothing here can connect to Redis")?;
                    let scripts = engines.redis(&servers)?;
                    let limit = SharedLimit::new(rule, place.id(), scripts);
                    return Ok(Action::LimitTogether(Box::new(limit)));
                }
                let before = &self.counts_before.limiters;
                Action::Limit(self.counts.limiters.get(before, place.id(), rule, Limiter::new))
            }
            "cache" => {
                let config = place.plugin.config.as_deref();
                let rule = CacheRule::read(handle, config).map_err(text)?;
                Action::Cache { rule, id: place.id().to_owned(), cache: self.counts.cache.clone() }
            }
            "hystrix" => {
                let rule = BreakerRule::read_hystrix(handle).map_err(text)?;
                self.breaker(place, rule, Refusals::HYSTRIX)
            }
            "sentinel" => {
                let rule = BreakerRule::read_sentinel(handle).map_err(text)?;
                self.breaker(place, rule, Refusals::SENTINEL)
            }
            "resilience4j" => {
                let rule = BreakerRule::read_resilience4j(handle).map_err(text)?;
                self.breaker(place, rule, Refusals::RESILIENCE4J)
            }
            "paramMapping" => {
                let edits = read_parameter_mapping(handle).map_err(text)?;
                Action::MapParameters(Arc::new(edits))
            }
            "request" => Action::Request(Box::new(RequestRule::read(handle).map_err(text)?)),
            "modifyResponse" => {
                Action::ModifyAnswer(Arc::new(ResponseRule::read(handle).map_err(text)?))
            }
            // What it says is for calls that are no HTTP.
            "generalContext" => Action::Pass,
            // Everything that objects take is counted, on the gateway's own page.
            "metrics" => Action::Pass,
            "divide" | "websocket" => self.proxy(place)?,
            "springCloud" => self.spring_cloud(place)?,
            "grpc" => self.grpc(place)?,
            "dubbo" => self.dubbo(place)?,
            name if BUILT_IN.contains(&name) => Action::Pass,
            name => return Err(format!("the plugin `{name}` is not built into this gateway")),
        })
    }

    fn breaker(&mut self, place: &Place<'_>, rule: BreakerRule, refusals: Refusals) -> Action {
        let before = &self.counts_before.breakers;
        let breaker = self.counts.breakers.get(before, place.id(), rule, Breaker::new);
        Action::Break { breaker, refusals }
    }

    fn proxy(&mut self, place: &Place<'_>) -> Result<Action, String> {
        let rule = DivideRule::read(place.handle()).map_err(|error| error.to_string())?;
        self.proxy_by(place, rule)
    }

    fn proxy_by(&mut self, place: &Place<'_>, rule: DivideRule) -> Result<Action, String> {
        let selector = place.selector;
        let discovery = self.discovery.get(&*selector.id).copied();
        let nodes = divide_nodes(selector.handle.as_deref(), discovery);
        let nodes = nodes.map_err(|error| format!("selector `{}`: {error}", selector.id))?;
        if nodes.is_empty() {
            return Ok(Action::Refuse(Answer::NoHealthyUpstream));
        }
        self.target(place, rule, &Nodes::Listed(nodes))
    }

    fn dubbo(&self, place: &Place<'_>) -> Result<Action, String> {
        let rule = DubboRule::read(place.handle()).map_err(|error| error.to_string())?;
        let selector = place.selector;
        let discovery = self.discovery.get(&*selector.id).copied();
        let nodes = divide_nodes(selector.handle.as_deref(), discovery);
        let nodes = nodes.map_err(|error| format!("selector `{}`: {error}", selector.id))?;
        let engines = self.engines.ok_or("nothing here can connect to servers of Dubbo")?;
        Ok(Action::Dubbo(Box::new(DubboCaller::new(rule, &nodes, Arc::clone(engines)))))
    }

    fn grpc(&mut self, place: &Place<'_>) -> Result<Action, String> {
        let rule = DivideRule::read_grpc(place.handle()).map_err(|error| error.to_string())?;
        Ok(match self.proxy_by(place, rule)? {
            Action::Proxy { target, .. } => Action::Grpc { target },
            other => other,
        })
    }

    fn spring_cloud(&mut self, place: &Place<'_>) -> Result<Action, String> {
        let rule = DivideRule::read_spring_cloud(place.handle());
        let rule = rule.map_err(|error| error.to_string())?;
        let selector = place.selector;
        let discovery = self.discovery.get(&*selector.id).copied();
        let read = SpringCloudSelector::read(selector.handle.as_deref(), discovery)
            .map_err(|error| format!("selector `{}`: {error}", selector.id))?;
        let nodes = match read.nodes.is_empty() {
            false => Nodes::Listed(read.nodes),
            true => Nodes::registered(&read.service_id)
                .map_err(|error| format!("selector `{}`: {error}", selector.id))?,
        };
        self.target(place, rule, &nodes)
    }

    /// Sends requests to these nodes, which rules of a selector that use them alike share.
    fn target(
        &mut self,
        place: &Place<'_>,
        rule: DivideRule,
        nodes: &Nodes,
    ) -> Result<Action, String> {
        let key: Arc<str> = format!(
            "shenyu/{}/{:?}/{:?}/{}/{}",
            place.selector.id,
            rule.load_balance,
            rule.retry_strategy,
            rule.retries,
            rule.timeout_ms
        )
        .into();
        let upstream = match self.upstreams.get(&key) {
            Some(upstream) => Arc::clone(upstream),
            None => {
                let carries = carried_by(&place.plugin.name).unwrap_or(RpcType::Http);
                let upstream = Arc::new(target::upstream(nodes, &rule, carries)?);
                self.upstreams.insert(Arc::clone(&key), Arc::clone(&upstream));
                upstream
            }
        };
        self.targets.push(Target {
            id: place.id().to_owned(),
            key,
            upstream,
            carries: carried_by(&place.plugin.name).unwrap_or(RpcType::Http),
            timeout: std::time::Duration::from_millis(rule.timeout_ms.into()),
            again: Again::from_strategy(rule.retry_strategy),
        });
        Ok(Action::Proxy { rule, target: self.targets.len() - 1 })
    }

    /// The plugins that could have to do with a request: those with a selector, and those that answer
    /// without.
    fn links(&mut self, engine: &Engine, parts: &Parts) -> Vec<Link> {
        let enabled = parts.selectors.iter().filter(|selector| selector.enabled);
        let in_use: hashbrown::HashSet<&str> = enabled.map(|it| &*it.plugin_name).collect();
        let mut links = Vec::new();
        for plugin in engine.chain() {
            let carries = carried_by(&plugin.name);
            let unmatched = match &*plugin.name {
                "waf" => self.waf_model(plugin),
                _ if carries.is_some() => Unmatched::Named,
                _ => Unmatched::Pass,
            };
            if unmatched == Unmatched::Pass && !in_use.contains(&*plugin.name) {
                continue;
            }
            links.extend(engine.place(&plugin.name).map(|place| Link {
                name: plugin.name.clone(),
                place,
                carries,
                unmatched,
            }));
        }
        links
    }

    fn waf_model(&mut self, plugin: &Plugin) -> Unmatched {
        let refused = WafModel::read(plugin.config.as_deref()).unwrap_or_else(|error| {
            self.problems.push(Problem {
                kind: Kind::Plugin,
                id: plugin.id.clone(),
                reason: format!("{error}; until it says so, what matches nothing is refused"),
            });
            WafModel::Mixed
        });
        refused.unmatched().map_or(Unmatched::Pass, Unmatched::Refuse)
    }
}

/// The links with that one right before the proxies, where its place and theirs ask for it.
fn before_proxies(
    mut links: Vec<Link>,
    name: &str,
    is_moved: fn(proxy: usize, named: usize) -> bool,
) -> Vec<Link> {
    let proxy = links.iter().position(|link| link.carries.is_some());
    let named = links.iter().position(|link| link.name == name);
    if let (Some(proxy), Some(named)) = (proxy, named)
        && is_moved(proxy, named)
    {
        let link = links.remove(named);
        // Those behind it have moved up.
        links.insert(if named < proxy { proxy - 1 } else { proxy }, link);
    }
    links
}

/// What a proxy carries; `None` for other plugins.
fn carried_by(plugin: &str) -> Option<RpcType> {
    Some(match plugin {
        "divide" => RpcType::Http,
        "websocket" => RpcType::WebSocket,
        "springCloud" => RpcType::SpringCloud,
        "grpc" => RpcType::Grpc,
        "dubbo" => RpcType::Dubbo,
        _ => return None,
    })
}
