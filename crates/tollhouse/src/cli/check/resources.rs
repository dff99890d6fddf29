//! Check of a resource document: each object by the model, then references between them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tollhouse_config::declarative::ShenyuItem;
use tollhouse_config::{Document, Format, Item, declarative};
use tollhouse_model::secret::{EnvironmentSource, SecretRef, resolve_in};
use tollhouse_model::{
    Consumer, ConsumerGroup, Credential, GlobalRule, Id, Kind, PluginConfig, PluginSet, Problem,
    Problems, Proto, Route, Service, StreamRoute, Upstream,
};
use tollhouse_plugin::validation::{self, ObjectPlugins, Role, Surroundings};
use tollhouse_plugin::{Catalogue, Services};
use tollhouse_proxy::compile::{keeper_without_effect, refusal_notice};
use tollhouse_transcode::Definition;

use super::Environment;
use super::references::References;

/// Last line of a complete YAML document.
const END: &str = "#END";

/// Objects and problems of a checked document.
#[derive(Debug, Default)]
pub(super) struct CheckResult {
    /// Number of objects by kind, invalid ones included.
    pub(super) counts: BTreeMap<Kind, usize>,
    /// Objects of ShenYu in the document. They are checked later, by compiling all of them
    /// together.
    pub(super) shenyu: Vec<ShenyuItem>,
    /// Path and `server_port` of each stream route.
    pub(super) stream_routes: Vec<(String, Option<u16>)>,
    /// Problems of the document, in its order.
    pub(super) problems: Problems,
}

/// Environment and settings of the gateway that will serve a document.
#[derive(Clone, Copy)]
pub(super) struct Surrounding<'a> {
    /// Variables that the file's text may contain as `${{NAME}}`.
    pub(super) environment: Environment<'a>,
    /// Variables that objects may refer to as `$env://NAME`, which the gateway must list in
    /// `secrets.env`.
    pub(super) listed: Environment<'a>,
    /// Names of plugins that are accepted although this build does not contain them.
    pub(super) skipped_plugins: &'a [String],
}

/// Checks the text of a document.
pub(super) fn check(text: &str, format: Format, surrounding: Surrounding<'_>) -> CheckResult {
    let Surrounding { environment, listed, skipped_plugins } = surrounding;
    let mut problems = match declarative::parse(text, format, environment) {
        Ok(document) => return check_document(document, skipped_plugins, listed),
        Err(problems) => problems,
    };
    // A document without its last line is checked as if it had one, so that this error does not
    // hide others.
    let ended = match format {
        Format::Yaml => declarative::parse(&format!("{text}\n{END}\n"), format, environment),
        Format::Json => Err(problems.clone()),
    };
    match ended {
        Ok(document) => {
            let mut checked = check_document(document, skipped_plugins, listed);
            problems.extend(std::mem::take(&mut checked.problems));
            CheckResult { problems, ..checked }
        }
        Err(others) => {
            if others != problems {
                problems.extend(others);
            }
            CheckResult { problems, ..CheckResult::default() }
        }
    }
}

fn check_document(
    mut document: Document,
    skipped_plugins: &[String],
    environment: Environment<'_>,
) -> CheckResult {
    let shenyu = document.shenyu.take().unwrap_or_default();
    let mut counts = BTreeMap::new();
    let withheld = document.withheld.iter().map(|withheld| withheld.kind);
    for kind in document.items.iter().map(|item| item.kind).chain(withheld) {
        *counts.entry(kind).or_default() += 1;
    }
    let problems = check_beside(&document, &document, skipped_plugins, Some(environment));
    let stream_routes = document.items.iter().filter_map(|item| {
        let is_stream_route = item.kind == Kind::StreamRoute;
        let value = is_stream_route.then(|| item.value().ok()).flatten()?;
        let route = StreamRoute::parse(item.id.clone(), &value, &item.path).0?;
        Some((item.path.clone(), route.server_port))
    });
    CheckResult { counts, shenyu, stream_routes: stream_routes.collect(), problems }
}

/// Checks a document; its references may point to any object in `all`. Without an environment,
/// references to variables are not checked.
pub(super) fn check_beside(
    document: &Document,
    all: &Document,
    skipped_plugins: &[String],
    environment: Option<Environment<'_>>,
) -> Problems {
    let checker = Checker {
        references: References::from_document(all),
        services: tollhouse_control::plugins::bare_services(skipped_plugins),
        environment,
    };
    let mut problems = document.problems.clone();
    for item in &document.items {
        problems.extend(checker.item_problems(item));
    }
    // The problems of withheld objects are reported already; this adds the consequence for their
    // requests.
    for withheld in &document.withheld {
        let notice = refusal_notice(withheld.kind, &withheld.id, &withheld.rest(), &withheld.path);
        problems.extend(notice.into_iter().collect());
    }
    problems
}

/// Checks objects one by one against the document that they belong to.
struct Checker<'a> {
    references: References,
    services: Arc<Services>,
    /// Variables that objects may refer to; `None` if such references are not checked.
    environment: Option<Environment<'a>>,
}

impl Checker<'_> {
    fn item_problems(&self, item: &Item) -> Problems {
        let value = match item.value() {
            Ok(value) => value,
            Err(problem) => return Problems::from_iter([problem]),
        };
        // Sealed plugin confs that cannot be opened are not checked by the plugin; one problem reports
        // it.
        match validation::unopened_beside_plugins(&value, &item.path) {
            Some(problem) => {
                let notice = refusal_notice(item.kind, &item.id, &value, &item.path);
                [problem].into_iter().chain(notice).collect()
            }
            None => self.object_problems(item, value),
        }
    }

    fn object_problems(&self, item: &Item, value: Value) -> Problems {
        let references = &self.references;
        let (id, path) = (item.id.clone(), item.path.as_str());
        let notice = || refusal_notice(item.kind, &item.id, &value, path).into_iter().collect();
        let plugin_problems = |plugins: &PluginSet, role| self.plugin_problems(plugins, role, item);
        let with_plugins = |mut problems: Problems, plugins: Option<PluginSet>, role| {
            problems
                .extend(plugins.map(|plugins| plugin_problems(&plugins, role)).unwrap_or_default());
            problems
        };
        match item.kind {
            Kind::Route => {
                let (route, mut problems) = Route::parse(id, &value, path);
                if let Some(route) = &route {
                    references.route(route, path, &mut problems);
                    problems.extend(plugin_problems(&route.plugins, Role::Verifier));
                } else {
                    problems.extend(notice());
                }
                problems
            }
            Kind::Service => {
                let (service, mut problems) = Service::parse(id, &value, path);
                if let Some(service) = &service {
                    references.service(service, path, &mut problems);
                    problems.extend(plugin_problems(&service.plugins, Role::Verifier));
                }
                problems
            }
            Kind::Upstream => {
                let (upstream, mut problems) = Upstream::parse(Some(id), &value, path);
                upstream.iter().for_each(|it| references.upstream(it, path, &mut problems));
                problems
            }
            Kind::PluginConfig => {
                let (config, problems) = PluginConfig::parse(id, &value, path);
                with_plugins(problems, config.map(|it| it.plugins), Role::Verifier)
            }
            Kind::GlobalRule => {
                let (rule, problems) = GlobalRule::parse(id, &value, path);
                with_plugins(problems, rule.map(|it| it.plugins), Role::Verifier)
            }
            Kind::Consumer => {
                let (consumer, problems) = Consumer::parse(id, &value, path);
                with_plugins(problems, consumer.map(|it| it.plugins), Role::Identity)
            }
            Kind::Credential => {
                let (credential, problems) = Credential::parse(id, &value, path);
                with_plugins(problems, credential.map(|it| it.plugins), Role::Identity)
            }
            Kind::ConsumerGroup => {
                let (group, problems) = ConsumerGroup::parse(id, &value, path);
                with_plugins(problems, group.map(|it| it.plugins), Role::Identity)
            }
            Kind::PluginMetadata => item.kind.problems_of(id, &value, path),
            Kind::Ssl => self.ssl_problems(item, value),
            Kind::StreamRoute => {
                let (route, mut problems) = StreamRoute::parse(id, &value, path);
                match &route {
                    Some(route) => references.stream_route(route, path, &mut problems),
                    None => problems.extend(notice()),
                }
                with_plugins(problems, route.map(|it| it.plugins), Role::Connection)
            }
            Kind::Proto => proto_problems(id, &value, path),
            Kind::Secret => {
                let mut problems = item.kind.problems_of(id.clone(), &value, path);
                problems.extend(keeper_without_effect(&id, path).into_iter().collect());
                problems
            }
        }
    }

    /// Checks a certificate and its names. References to the environment are resolved as in the
    /// gateway, but missing variables are only warnings, because the environment of the checking
    /// machine may differ.
    fn ssl_problems(&self, item: &Item, mut value: Value) -> Problems {
        let mut unanswered = Problems::new();
        if let Some(environment) = self.environment {
            let source = EnvironmentSource::new(environment);
            for missing in resolve_in(&mut value, Some(&source)) {
                let reference = SecretRef::parse(&missing.reference);
                // References to secret managers such as Vault are not resolved, because this
                // command contacts no server.
                if !matches!(reference, Some(SecretRef::Environment { .. })) {
                    continue;
                }
                let reason = format!("{} here", missing.reason());
                let path = format!("{}.{}", item.path, missing.field);
                let hint = "the gateway serves the certificate only where its environment has it, and secrets.env of \
                            its bootstrap file lists it";
                unanswered.push(Problem::warning(path, reason).with_hint(hint));
            }
        }
        let mut problems = item.kind.problems_of(item.id.clone(), &value, &item.path);
        problems.extend(unanswered);
        self.references.ssl(&item.id, &value, &item.path, &mut problems);
        problems
    }

    /// Checks the plugins of an object.
    fn plugin_problems(&self, plugins: &PluginSet, role: Role, item: &Item) -> Problems {
        // Static, so that the schemas are compiled once.
        static CATALOGUE: LazyLock<Arc<Catalogue>> =
            LazyLock::new(tollhouse_control::plugins::catalogue);
        let surroundings = Surroundings {
            catalogue: &CATALOGUE,
            services: &self.services,
            metadata: self.references.metadata(),
            protos: self.references.protos(),
        };
        let owner = format!("{}/{}", item.kind, item.id);
        let object = ObjectPlugins { plugins, role, owner: &owner, path: &item.path };
        let mut problems = validation::validate(object, surroundings);
        self.references.transcoding(plugins, &item.path, &mut problems);
        problems
    }
}

/// Checks a definition of gRPC services.
fn proto_problems(id: Id, value: &Value, path: &str) -> Problems {
    let (proto, mut problems) = Proto::parse(id, value, path);
    let compiled = proto.map_or(Ok(()), |proto| Definition::compile(&proto.content).map(drop));
    if let Err(error) = compiled {
        problems.push(Problem::error(format!("{path}.content"), error.to_string()));
    }
    problems
}
