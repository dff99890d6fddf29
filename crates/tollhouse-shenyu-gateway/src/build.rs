//! Compiler of a namespace: builds the matching engine and the action of each rule.

use std::sync::Arc;

use hashbrown::HashMap;
use tollhouse_shenyu::Kind;
use tollhouse_shenyu::access::{BasicAuthRule, KeyAuthRule, WafModel, WafRule};
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::breaker::{Breaker, BreakerRule};
use tollhouse_shenyu::cache::CacheRule;
use tollhouse_shenyu::casdoor::CasdoorRule;
use tollhouse_shenyu::cryptor::{CryptorRule, Unusable};
use tollhouse_shenyu::divide::{DivideNode, DivideRule, SpringCloudSelector, divide_nodes};
use tollhouse_shenyu::jwt::JwtRule;
use tollhouse_shenyu::limiter::redis::RedisServers;
use tollhouse_shenyu::limiter::{Limiter, LimiterRule};
use tollhouse_shenyu::logging::RecordRule;
use tollhouse_shenyu::matching::{Engine, Objects, Problem, RpcType, protects};
use tollhouse_shenyu::mock::MockRule;
use tollhouse_shenyu::model::{
    AppAuth, DiscoveryUpstreams, Metadata, Plugin, ProxySelector, Rule, Selector,
};
use tollhouse_shenyu::oauth2::OAuth2Client;
use tollhouse_shenyu::paths::{ContextPathRule, RedirectRule, RewriteRule};
use tollhouse_shenyu::record_store::{KafkaTopic, RecordPlace, RecordStore, StoreKind};
use tollhouse_shenyu::rpc::dubbo::DubboRule;
use tollhouse_shenyu::shaping::{RequestRule, ResponseRule, read_parameter_mapping};
use tollhouse_shenyu::sign::{Applications, SignRule};

use crate::action::{Action, Refusals, SharedLimit};
use crate::actions::Actions;
use crate::actuator::{Actuator, Contents};
use crate::by_path::ByPath;
use crate::casdoor::CasdoorGate;
use crate::chain::{Chain, Link, Unmatched};
use crate::counts::Counts;
use crate::dubbo::DubboCaller;
use crate::engines::{Engines, RecordSink};
use crate::error::{BuildError, NodesError, not_built};
use crate::kept::{Inputs, Kept, Made, MadeApplications, MadeById};
use crate::local::LocalInterface;
use crate::record::Recorder;
use crate::sources::Terms;
use crate::target::{self, Again, Nodes, Target};
use crate::tcp;

/// Objects of one ShenYu namespace, by kind.
pub(crate) struct Parts {
    pub(crate) plugins: Vec<Arc<Plugin>>,
    pub(crate) selectors: Vec<Arc<Selector>>,
    pub(crate) rules: Vec<Arc<Rule>>,
    pub(crate) metadata: Vec<Arc<Metadata>>,
    pub(crate) app_auths: Vec<Arc<AppAuth>>,
    pub(crate) proxy_selectors: Vec<Arc<ProxySelector>>,
    pub(crate) discovery: Vec<Arc<DiscoveryUpstreams>>,
}

/// Plugins that are part of ShenYu's gateway and always active here.
const BUILT_IN: &[&str] =
    &["global", "uri", "webClient", "nettyHttpClient", "paramTransform", "response"];

/// Plugins that change responses of nodes.
const BEHIND_NODES: &[&str] = &["modifyResponse", "cryptorResponse"];

/// Connections to Redis and other servers, and the handler of calls to the gateway's own interface.
type Interfaces<'a> = (Option<&'a Arc<dyn Engines>>, &'a Option<Arc<dyn LocalInterface>>);

/// Compiles all objects, reusing what was compiled from unchanged ones. Faulty objects are
/// reported. In a protecting plugin, requests that a faulty object might match are refused.
pub(crate) fn compile(
    parts: &Parts,
    terms: Terms,
    kept: &mut Kept,
    (engines, local): Interfaces<'_>,
) -> (Arc<Chain>, Vec<Problem>) {
    let objects = Objects {
        plugins: &parts.plugins,
        selectors: &parts.selectors,
        rules: &parts.rules,
        metadata: &parts.metadata,
    };
    let before = kept.chain.take();
    let (engine, mut problems) =
        Engine::rebuild(objects, before.as_ref().map(|before| &before.engine));
    let (applications, refused) = applications(parts, kept);
    problems.extend(refused);
    let (tcp_targets, refused) = tcp::compile(parts, terms.opens_ports);
    problems.extend(refused);
    let counts_before = std::mem::take(&mut kept.counts);
    let made_before = std::mem::take(&mut kept.made);
    let counts_now = Counts { cache: counts_before.cache.clone(), ..Counts::default() };
    let mut builder = Builder {
        plugins: parts.plugins.iter().map(|plugin| (&*plugin.name, plugin)).collect(),
        discovery: parts.discovery.iter().map(|it| (&*it.selector_id, it)).collect(),
        made_before,
        made: MadeById::default(),
        target: None,
        rules: HashMap::default(),
        selectors: HashMap::default(),
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
        .partition::<Vec<Link>, _>(|link| BEHIND_NODES.contains(&&*link.name));
    // ShenYu runs the cache before all protecting plugins, so it would serve any client a response
    // meant for an authorised one.
    let links = before_proxies(links, "cache", |_, _| true);
    // Newer rows of ShenYu place it after the proxies, but it must decide whether a call is made.
    let links = before_proxies(links, "resilience4j", |proxy, named| proxy < named);
    let judges_paths = links.iter().chain(&answer_links).any(|link| protects(&link.name));
    let is_bare = !is_used(parts, &links);
    let actuator = terms.filters.actuator.then(|| Box::new(actuator(parts, &engine)));
    let mut chain = Chain {
        engine,
        links: links.into(),
        answer_links: answer_links.into(),
        targets: builder.targets.into(),
        tcp_targets: tcp_targets.into(),
        applications,
        filters: Some(terms.filters.clone()).filter(|filters| !filters.is_empty()).map(Box::new),
        is_bare,
        local: local.clone(),
        actuator,
        terms,
        by_path: ByPath::default(),
        judges_paths,
    };
    chain.by_path = ByPath::new(&chain);
    let chain = Arc::new(chain);
    let Builder { counts, made, problems, .. } = builder;
    kept.counts = counts;
    kept.made = made;
    kept.chain = Some(Arc::clone(&chain));
    (chain, problems)
}

/// Builds the pages below `/actuator/` for these objects.
fn actuator(parts: &Parts, engine: &Engine) -> Actuator {
    Actuator::new(Contents {
        plugins: parts.plugins.clone(),
        selectors: parts.selectors.clone(),
        rules: parts.rules.clone(),
        metadata: parts.metadata.clone(),
        order: engine.order().map(|(name, order)| (name, order.into())).collect(),
    })
}

/// Whether the chain needs to see requests: an enabled plugin has a selector, enabled or not, or a
/// plugin refuses requests that match no selector.
fn is_used(parts: &Parts, links: &[Link]) -> bool {
    let is_on = |name: &str| parts.plugins.iter().any(|it| it.enabled && it.name == name);
    links.iter().any(|link| matches!(link.unmatched, Unmatched::Refuse(_)))
        || parts.selectors.iter().any(|it| is_on(&it.plugin_name))
}

/// Compiles all applications, or reuses the previous result if none has changed.
fn applications(parts: &Parts, kept: &mut Kept) -> (Arc<Applications>, Vec<Problem>) {
    let known = kept.applications.take().filter(|known| known.is_of(&parts.app_auths));
    let made = kept.applications.insert(known.unwrap_or_else(|| {
        let sources = parts.app_auths.clone();
        let (applications, problems) = Applications::build(sources.iter().map(|auth| &**auth));
        MadeApplications { sources, applications: Arc::new(applications), problems }
    }));
    (Arc::clone(&made.applications), made.problems.clone())
}

struct Builder<'a> {
    plugins: HashMap<&'a str, &'a Arc<Plugin>>,
    /// Discovered nodes, by id of their selector.
    discovery: HashMap<&'a str, &'a Arc<DiscoveryUpstreams>>,
    /// Actions of rules by rule id.
    rules: HashMap<&'a str, Arc<Action>>,
    /// Actions of selectors that apply without rules, by selector id.
    selectors: HashMap<&'a str, Arc<Action>>,
    targets: Vec<Arc<Target>>,
    /// Target of the rule or selector being compiled.
    target: Option<Arc<Target>>,
    made_before: MadeById,
    made: MadeById,
    /// Upstreams by key, shared by several rules.
    upstreams: HashMap<Arc<str>, Arc<tollhouse_model::Upstream>>,
    problems: Vec<Problem>,
    engines: Option<&'a Arc<dyn Engines>>,
    counts_before: &'a Counts,
    counts: Counts,
}

/// Rule, or selector that applies without rules, together with the objects it depends on.
struct Place<'a> {
    plugin: &'a Arc<Plugin>,
    selector: &'a Arc<Selector>,
    rule: Option<&'a Arc<Rule>>,
    discovery: Option<&'a Arc<DiscoveryUpstreams>>,
}

impl Place<'_> {
    fn handle(&self) -> Option<&str> {
        self.rule.and_then(|rule| rule.handle.as_deref())
    }

    fn id(&self) -> &str {
        self.rule.map_or(&self.selector.id, |rule| &rule.id)
    }

    fn inputs(&self) -> Inputs {
        Inputs {
            plugin: Arc::clone(self.plugin),
            selector: Arc::clone(self.selector),
            rule: self.rule.cloned(),
            discovery: self.discovery.cloned(),
        }
    }

    fn wrong_selector(&self, reason: NodesError) -> BuildError {
        BuildError::Selector { id: self.selector.id.clone(), reason }
    }

    fn nodes(&self) -> Result<Vec<DivideNode>, BuildError> {
        let discovery = self.discovery.map(|discovery| &**discovery);
        divide_nodes(self.selector.handle.as_deref(), discovery)
            .map_err(|error| self.wrong_selector(error.into()))
    }
}

impl<'a> Builder<'a> {
    fn compile_actions(&mut self, parts: &'a Parts) {
        let mut by_selector: HashMap<&str, Vec<&Arc<Rule>>> = HashMap::default();
        for rule in parts.rules.iter().filter(|rule| rule.enabled) {
            by_selector.entry(&rule.selector_id).or_default().push(rule);
        }
        for selector in parts.selectors.iter().filter(|selector| selector.enabled) {
            let Some(&plugin) = self.plugins.get(&*selector.plugin_name) else { continue };
            if !plugin.enabled {
                continue;
            }
            let discovery = self.discovery.get(&*selector.id).copied();
            if !selector.continued {
                let action = self.action(&Place { plugin, selector, rule: None, discovery });
                self.selectors.insert(&selector.id, action);
                continue;
            }
            for &rule in by_selector.get(&*selector.id).map_or(&[][..], Vec::as_slice) {
                let place = Place { plugin, selector, rule: Some(rule), discovery };
                let action = self.action(&place);
                self.rules.insert(&rule.id, action);
            }
        }
    }

    /// Returns the action of a place, reusing the previous one if its objects are unchanged.
    fn action(&mut self, place: &Place<'_>) -> Arc<Action> {
        let before = match place.rule {
            Some(_) => self.made_before.rules.remove(place.id()),
            None => self.made_before.selectors.remove(place.id()),
        };
        let inputs = place.inputs();
        let made = match before.filter(|before| before.inputs.is_same(&inputs)) {
            Some(made) => self.put_back(place, made),
            None => self.make(place, inputs),
        };
        if let Some(reason) = &made.problem {
            let kind = if place.rule.is_some() { Kind::Rule } else { Kind::Selector };
            let reason = reason.clone();
            self.problems.push(Problem { kind, id: place.id().to_owned(), reason });
        }
        let action = Arc::clone(&made.action);
        match place.rule {
            Some(_) => self.made.rules.insert(place.id().to_owned(), made),
            None => self.made.selectors.insert(place.id().to_owned(), made),
        };
        action
    }

    /// Reuses a previous result: continues its counts, and gives its target an index among the
    /// current targets.
    fn put_back(&mut self, place: &Place<'_>, mut made: Made) -> Made {
        self.counts.take_over(self.counts_before, place.id());
        let Some(target) = &made.target else { return made };
        let at = self.targets.len();
        self.targets.push(Arc::clone(target));
        self.upstreams.insert(Arc::clone(&target.key), Arc::clone(&target.upstream));
        match &*made.action {
            Action::Proxy { target, .. } | Action::Grpc { target } if *target == at => {}
            Action::Proxy { rule, .. } => {
                made.action = Arc::new(Action::Proxy { rule: rule.clone(), target: at });
            }
            // Only `Grpc` remains; no other action has a target.
            _ => made.action = Arc::new(Action::Grpc { target: at }),
        }
        made
    }

    /// Compiles the action of a place, or a substitute if that fails.
    fn make(&mut self, place: &Place<'_>, inputs: Inputs) -> Made {
        let (action, problem) = match self.compile(place) {
            Ok(action) => (action, None),
            Err(reason) => {
                let name = &place.plugin.name;
                let action = match (&reason, carried_by(name)) {
                    (BuildError::Unusable { answer, .. }, _) => Action::Refuse(*answer),
                    (_, Some(_)) => Action::Refuse(Answer::UrlNotFound),
                    (_, None) if protects(name) => Action::Refuse(Answer::InternalException),
                    (_, None) => Action::Broken(reason.to_string()),
                };
                (action, Some(reason.to_string()))
            }
        };
        Made { inputs, action: Arc::new(action), target: self.target.take(), problem }
    }

    fn compile(&mut self, place: &Place<'_>) -> Result<Action, BuildError> {
        let handle = place.handle();
        Ok(match &*place.plugin.name {
            "waf" => Action::Waf(WafRule::read(handle)?),
            "sign" => Action::Sign { reads_body: SignRule::read(handle)?.sign_request_body },
            "keyAuth" => Action::KeyAuth(KeyAuthRule::read(handle)?),
            "basicAuth" => {
                let config = place.plugin.config.as_deref();
                Action::BasicAuth(BasicAuthRule::read(handle, config)?)
            }
            "jwt" => {
                let config = place.plugin.config.as_deref();
                Action::Jwt(JwtRule::read(handle, config)?)
            }
            "casdoor" => {
                let rule = CasdoorRule::read(place.plugin.config.as_deref())?;
                Action::Casdoor(Box::new(CasdoorGate::new(rule, self.engines.cloned())))
            }
            "oauth2" => {
                let client = OAuth2Client::read(place.plugin.config.as_deref())?;
                let engines = self.engines.ok_or(BuildError::NoConnections("providers"))?;
                Action::OAuth2(engines.logins(&client)?)
            }
            "rateLimiter" => {
                let rule = LimiterRule::read(handle)?;
                let servers = RedisServers::read(place.plugin.config.as_deref())?;
                if let Some(servers) = servers {
                    let engines = self.engines.ok_or(BuildError::NoConnections("Redis"))?;
                    let scripts = engines.redis(&servers)?;
                    let limit = SharedLimit::new(rule, place.id(), scripts);
                    return Ok(Action::LimitTogether(Box::new(limit)));
                }
                let before = &self.counts_before.limiters;
                Action::Limit(self.counts.limiters.get(before, place.id(), rule, Limiter::new))
            }
            "cache" => {
                let config = place.plugin.config.as_deref();
                let rule = CacheRule::read(handle, config)?;
                Action::Cache { rule, id: place.id().to_owned(), cache: self.counts.cache.clone() }
            }
            "hystrix" => {
                let rule = BreakerRule::read_hystrix(handle)?;
                self.breaker(place, rule, Refusals::HYSTRIX)
            }
            "sentinel" => {
                let rule = BreakerRule::read_sentinel(handle)?;
                self.breaker(place, rule, Refusals::SENTINEL)
            }
            "resilience4j" => {
                let rule = BreakerRule::read_resilience4j(handle)?;
                self.breaker(place, rule, Refusals::RESILIENCE4J)
            }
            // Handles of these plugins concern calls other than HTTP. Ports come from proxy
            // selectors.
            "generalContext" | "tcp" => Action::Pass,
            // The gateway's own metrics cover every object.
            "metrics" => Action::Pass,
            "divide" | "websocket" => self.proxy(place)?,
            "springCloud" => self.spring_cloud(place)?,
            "loggingElasticSearch" => self.record_in(StoreKind::Elasticsearch, place)?,
            "loggingClickHouse" => self.record_in(StoreKind::ClickHouse, place)?,
            "loggingKafka" => self.record_in_topic(place)?,
            "grpc" => self.grpc(place)?,
            "dubbo" => self.dubbo(place)?,
            name if BUILT_IN.contains(&name) => Action::Pass,
            _ => return compile_shaping(place),
        })
    }

    fn breaker(&mut self, place: &Place<'_>, rule: BreakerRule, refusals: Refusals) -> Action {
        let before = &self.counts_before.breakers;
        let breaker = self.counts.breakers.get(before, place.id(), rule, Breaker::new);
        Action::Break { breaker, refusals }
    }

    fn proxy(&mut self, place: &Place<'_>) -> Result<Action, BuildError> {
        let rule = DivideRule::read(place.handle())?;
        self.proxy_by(place, rule)
    }

    fn proxy_by(&mut self, place: &Place<'_>, rule: DivideRule) -> Result<Action, BuildError> {
        let nodes = place.nodes()?;
        if nodes.is_empty() {
            return Ok(Action::Refuse(Answer::NoHealthyUpstream));
        }
        self.target(place, rule, &Nodes::Listed(nodes))
    }

    fn dubbo(&self, place: &Place<'_>) -> Result<Action, BuildError> {
        let rule = DubboRule::read(place.handle())?;
        let nodes = place.nodes()?;
        let engines = self.engines.ok_or(BuildError::NoConnections("servers of Dubbo"))?;
        Ok(Action::Dubbo(Box::new(DubboCaller::new(rule, &nodes, Arc::clone(engines)))))
    }

    /// Records exchanges on a server that stores them.
    fn record_in(&self, kind: StoreKind, place: &Place<'_>) -> Result<Action, BuildError> {
        let store = RecordStore::read(kind, place.plugin.config.as_deref())?;
        let sink = self.sink(&RecordPlace::Store(store))?;
        Ok(recorder(place, read_rule(place)?, Some(sink)))
    }

    /// Records exchanges in a Kafka topic. Selectors may set the topic and the sampling rate.
    fn record_in_topic(&self, place: &Place<'_>) -> Result<Action, BuildError> {
        let config = place.plugin.config.as_deref();
        let (topic, rate) = KafkaTopic::read(config, place.selector.handle.as_deref())?;
        let rule = read_rule(place)?;
        let rule = match rate {
            Some(rate) => rule.with_rate(&rate)?,
            None => rule,
        };
        let sink = self.sink(&RecordPlace::Topic(topic))?;
        Ok(recorder(place, rule, Some(sink)))
    }

    fn sink(&self, place: &RecordPlace) -> Result<Arc<dyn RecordSink>, BuildError> {
        let engines = self.engines.ok_or(BuildError::NoConnections("servers of records"))?;
        Ok(engines.records(place))
    }

    fn grpc(&mut self, place: &Place<'_>) -> Result<Action, BuildError> {
        let rule = DivideRule::read_grpc(place.handle())?;
        Ok(match self.proxy_by(place, rule)? {
            Action::Proxy { target, .. } => Action::Grpc { target },
            other => other,
        })
    }

    fn spring_cloud(&mut self, place: &Place<'_>) -> Result<Action, BuildError> {
        let rule = DivideRule::read_spring_cloud(place.handle());
        let rule = rule?;
        let selector = place.selector;
        let discovery = place.discovery.map(|discovery| &**discovery);
        let read = SpringCloudSelector::read(selector.handle.as_deref(), discovery)
            .map_err(|error| place.wrong_selector(error.into()))?;
        let nodes = match read.nodes.is_empty() {
            false => Nodes::Listed(read.nodes),
            true => {
                Nodes::registered(&read.service_id).map_err(|error| place.wrong_selector(error))?
            }
        };
        self.target(place, rule, &nodes)
    }

    /// Creates a target for these nodes.
    fn target(
        &mut self,
        place: &Place<'_>,
        rule: DivideRule,
        nodes: &Nodes,
    ) -> Result<Action, BuildError> {
        let key: Arc<str> = format!(
            "shenyu/{}/{:?}/{:?}/{}/{}",
            place.selector.id,
            rule.load_balance,
            rule.retry_strategy,
            rule.retries,
            rule.timeout_ms
        )
        .into();
        // Rules that use a selector's nodes in the same way share balancing, health and
        // connections.
        let upstream = match self.upstreams.get(&key) {
            Some(upstream) => Arc::clone(upstream),
            None => {
                let carries = carried_by(&place.plugin.name).unwrap_or(RpcType::Http);
                let upstream = Arc::new(target::upstream(nodes, &rule, carries)?);
                self.upstreams.insert(Arc::clone(&key), Arc::clone(&upstream));
                upstream
            }
        };
        let carries = carried_by(&place.plugin.name).unwrap_or(RpcType::Http);
        let again = match carries {
            // Calls of gRPC are not retried.
            RpcType::Grpc => Again::Elsewhere,
            _ => Again::from_strategy(rule.retry_strategy),
        };
        let target = Arc::new(Target {
            id: place.id().to_owned(),
            key,
            upstream,
            carries,
            timeout: std::time::Duration::from_millis(rule.timeout_ms.into()),
            again,
        });
        self.target = Some(Arc::clone(&target));
        self.targets.push(target);
        Ok(Action::Proxy { rule, target: self.targets.len() - 1 })
    }

    /// Lists the plugins that may affect a request: those with an enabled selector, and those that
    /// also act without one.
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
            let action = |selector: &Selector, rule: Option<&Rule>| match rule {
                Some(rule) => self.rules.get(&*rule.id).cloned(),
                None => self.selectors.get(&*selector.id).cloned(),
            };
            links.extend(engine.place(&plugin.name).map(|place| Link {
                name: plugin.name.clone(),
                place,
                carries,
                unmatched,
                actions: Actions::new(engine, place, action),
            }));
        }
        links
    }

    fn waf_model(&mut self, plugin: &Plugin) -> Unmatched {
        let refused = WafModel::read(plugin.config.as_deref()).unwrap_or_else(|error| {
            self.problems.push(Problem {
                kind: Kind::Plugin,
                id: plugin.id.clone(),
                reason: format!("{error}; until then, requests that match nothing are refused"),
            });
            WafModel::Mixed
        });
        refused.unmatched().map_or(Unmatched::Pass, Unmatched::Refuse)
    }
}

/// Creates the action that records exchanges, in `sink` or in the gateway's own log.
fn recorder(place: &Place<'_>, rule: RecordRule, sink: Option<Arc<dyn RecordSink>>) -> Action {
    let (selector, id) = (place.selector.id.clone(), place.id().to_owned());
    let namespace = place.plugin.namespace_id.clone().unwrap_or_default();
    Action::Record(Box::new(Recorder { rule, sink, selector, id, namespace }))
}

fn read_rule(place: &Place<'_>) -> Result<RecordRule, BuildError> {
    Ok(RecordRule::read(place.handle(), place.plugin.config.as_deref())?)
}

/// Compiles actions that depend only on their rule: changes of requests and responses, redirects,
/// mocks and console records.
fn compile_shaping(place: &Place<'_>) -> Result<Action, BuildError> {
    let handle = place.handle();
    Ok(match &*place.plugin.name {
        "mock" => Action::Mock(MockRule::read(handle)?),
        "redirect" => Action::Redirect(RedirectRule::read(handle)?),
        "rewrite" => Action::Rewrite(RewriteRule::read(handle)?),
        "contextPath" => Action::ContextPath(ContextPathRule::read(handle)?),
        "paramMapping" => {
            let edits = read_parameter_mapping(handle)?;
            Action::MapParameters(Arc::new(edits))
        }
        "cryptorRequest" => {
            let rule = read_cryptor(place, Answer::CryptorRequestLacks)?;
            rule.map_or(Action::Pass, |rule| Action::CryptRequest(Arc::new(rule)))
        }
        "cryptorResponse" => {
            let rule = read_cryptor(place, Answer::CryptorResponseLacks)?;
            rule.map_or(Action::Pass, |rule| Action::CryptAnswer(Arc::new(rule)))
        }
        "loggingConsole" => recorder(place, read_rule(place)?, None),
        "request" => Action::Request(Box::new(RequestRule::read(handle)?)),
        "modifyResponse" => Action::ModifyAnswer(Arc::new(ResponseRule::read(handle)?)),
        name => return Err(not_built(name)),
    })
}

/// Reads the rule of `cryptorRequest` or `cryptorResponse`; `None` for a blank handle, which ShenYu
/// skips.
fn read_cryptor(
    place: &Place<'_>,
    lacks: fn(&'static str) -> Answer,
) -> Result<Option<CryptorRule>, BuildError> {
    // A selector that applies without rules has a handle without members.
    let handle = if place.rule.is_some() { place.handle() } else { Some("{}") };
    CryptorRule::read(handle).map_err(|reason| {
        let answer = match &reason {
            Unusable::Handle(_) => Answer::InternalException,
            Unusable::Lacks(member) => lacks(member),
            Unusable::Decryption(_) => Answer::DecryptionFailed,
            Unusable::Encryption(_) => Answer::EncryptionFailed,
        };
        BuildError::Unusable { answer, reason: reason.to_string() }
    })
}

/// Moves the plugin `name` directly before the proxies, if `is_moved` accepts their current
/// positions.
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
        // Removing it has shifted later links by one.
        links.insert(if named < proxy { proxy - 1 } else { proxy }, link);
    }
    links
}

/// Returns the RPC type that a proxy plugin serves; `None` for other plugins.
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
