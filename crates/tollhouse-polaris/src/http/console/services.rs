//! Console calls for services.

use super::{Get, List, ObjectPage, Plan, Write, page_of};
use crate::access::random_digits;
use crate::code::Code;
use crate::dialect::rights::grantees;
use crate::http::failure::Failure;
use crate::http::query::{Query, allows, lists};
use crate::v1;
use crate::wire::answer::response;
use crate::wire::write::{put_nested, put_number_value, put_text_value};
use crate::wire::{put_console_service, put_listed_service};
use prost::Message;
use std::collections::HashMap;
use std::sync::Arc;
use tollhouse_registry::{
    Command, DetailsChange, Metadata, Outcome, RuleKind, ServiceChange, ServiceKey, ServiceRef,
    ServiceView, State, is_namespace_name, is_service_name,
};

/// Random bytes of a token, which has 32 hex digits.
pub(super) const TOKEN_BYTES: usize = 16;

const MESSAGE: &str = "v1.Service";

/// Kinds of rules that prevent the deletion of their service, with the code of the refusal.
const OWN_RULES: [(RuleKind, Code); 2] = [
    (RuleKind::RoutingV1, Code::ServiceExistedRoutings),
    (RuleKind::RateLimit, Code::ServiceExistedRateLimits),
];

pub(in crate::http) static CREATE: Write = Write::whole(MESSAGE, response::SERVICE, plan_create);
pub(in crate::http) static UPDATE: Write = Write::whole(MESSAGE, response::SERVICE, plan_update);
pub(in crate::http) static DELETE: Write = Write::whole(MESSAGE, response::SERVICE, plan_delete);
pub(in crate::http) static RENEW_TOKEN: Write =
    Write::whole(MESSAGE, response::SERVICE, plan_token);
/// Query parameters that filter services.
const KEYS: &[&str] = &[
    "name",
    "namespace",
    "business",
    "department",
    "owner",
    "host",
    "port",
    "keys",
    "values",
    "instance_keys",
    "instance_values",
    "only_exist_health_instance",
    "id",
    "cmdb_mod1",
    "cmdb_mod2",
    "cmdb_mod3",
    "platform_id",
];
pub(in crate::http) static LIST: List = List { function: "DescribeServices", keys: KEYS, find };
pub(in crate::http) static ALL: List =
    List { function: "DescribeAllServices", keys: &["name", "namespace"], find: find_all };
pub(in crate::http) static COUNT: List =
    List { function: "DescribeServicesCount", keys: KEYS, find: count };
/// Callers may send the token that they know, as to Polaris; it is not needed.
pub(in crate::http) static GET_TOKEN: Get = Get {
    function: "DescribeServiceToken",
    keys: &["name", "namespace", "token"],
    find: find_token,
};
pub(in crate::http) static GET_OWNER: Get =
    Get { function: "DescribeServiceOwner", keys: &["name", "namespace"], find: find_owner };

/// Checks that a name is present and valid.
pub(super) fn check_name(name: Option<&str>, code: Code) -> Result<&str, Failure> {
    let is_good = match code {
        Code::InvalidNamespaceName => is_namespace_name,
        _ => is_service_name,
    };
    name.filter(|name| is_good(name)).ok_or_else(|| code.into())
}

pub(super) fn labels_of(labels: &HashMap<String, String>) -> Metadata {
    labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
}

fn read(item: &[u8]) -> Result<(ServiceKey, v1::Service), Failure> {
    let service = v1::Service::decode(item).map_err(|_| Code::ParseException)?;
    let name = check_name(service.name.as_deref(), Code::InvalidServiceName)?;
    let namespace = check_name(service.namespace.as_deref(), Code::InvalidNamespaceName)?;
    Ok((ServiceKey::new(namespace, name), service))
}

/// Returns a change of all fields that the item contains; others stay as they are.
fn change_of(service: v1::Service) -> ServiceChange {
    let details = DetailsChange {
        ports: service.ports,
        business: service.business,
        department: service.department,
        cmdb_mod: [service.cmdb_mod1, service.cmdb_mod2, service.cmdb_mod3],
        comment: service.comment,
        owners: service.owners,
        platform_id: service.platform_id,
        export_to: (!service.export_to.is_empty()).then_some(service.export_to),
    };
    ServiceChange {
        metadata: (!service.metadata.is_empty()).then(|| labels_of(&service.metadata)),
        details,
        token: None,
    }
}

fn plan_create(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let (key, service) = read(item)?;
    if state.service(key.borrowed()).is_some() || state.alias(key.borrowed()).is_some() {
        return Err(Code::ExistedResource.into());
    }
    let grantees = grantees(state, &service.user_ids, &service.group_ids)?;
    let mut change = change_of(service);
    // A service created by the console without owners has none, rather than the default owner.
    change.details.owners.get_or_insert_default();
    let create = Plan::command(Command::CreateService(key, Box::new(change)));
    Ok(create.answering(with_token).granted_to(grantees))
}

fn plan_update(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let (key, service) = read(item)?;
    known(state, key.borrowed())?;
    Ok(Plan::command(Command::UpdateService(key, Box::new(change_of(service)))))
}

fn plan_delete(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let (key, _) = read(item)?;
    // Deleting a missing object succeeds.
    if state.service(key.borrowed()).is_none() {
        return Ok(Plan::commands(Vec::new()));
    }
    // Rules for this service alone would become useless.
    for (kind, code) in OWN_RULES {
        let rules = state.rules_for(kind, key.borrowed()).rules;
        if rules.iter().any(|rule| rule.targets.contains(&key)) {
            return Err(code.into());
        }
    }
    Ok(Plan::command(Command::DeleteService(key)))
}

fn plan_token(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let (key, _) = read(item)?;
    known(state, key.borrowed())?;
    let token = Some(random_digits::<TOKEN_BYTES>());
    let change = ServiceChange { token, ..ServiceChange::default() };
    Ok(Plan::command(Command::UpdateService(key, Box::new(change))).answering(with_token))
}

fn known<'a>(state: &'a State, key: ServiceRef<'_>) -> Result<&'a Arc<ServiceView>, Failure> {
    if state.alias(key).is_some() {
        return Err(Code::NotAllowAliasUpdate.into());
    }
    state.service(key).ok_or_else(|| Code::NotFoundService.into())
}

fn with_token(outcome: &Outcome) -> Option<Vec<u8>> {
    let Outcome::Service(service) = outcome else {
        return None;
    };
    let mut out = Vec::new();
    put_text_value(&mut out, 1, &service.key.name);
    put_text_value(&mut out, 2, &service.key.namespace);
    put_text_value(&mut out, 12, &service.token);
    put_text_value(&mut out, 21, &service.id);
    Some(out)
}

/// Returns the service that a query names.
fn named<'a>(state: &'a State, query: &Query) -> Result<&'a Arc<ServiceView>, Failure> {
    let name = query.required("name", Code::InvalidServiceName)?;
    let namespace = query.required("namespace", Code::InvalidNamespaceName)?;
    if !query.viewer.sees_service(state, &ServiceKey::new(namespace, name)) {
        return Err(Code::NotAllowedAccess.into());
    }
    let found = state.service(ServiceRef { namespace, name });
    found.ok_or_else(|| Code::NotFoundService.into())
}

fn find_token(state: &State, query: &Query) -> Result<Vec<u8>, Failure> {
    let view = named(state, query)?;
    Ok(one_text(view, 12, &view.service.token))
}

fn find_owner(state: &State, query: &Query) -> Result<Vec<u8>, Failure> {
    let view = named(state, query)?;
    Ok(one_text(view, 11, &view.service.details.owners))
}

fn one_text(view: &ServiceView, number: u32, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_nested(&mut out, response::SERVICE, |out| {
        put_text_value(out, 1, &view.service.key.name);
        put_text_value(out, 2, &view.service.key.namespace);
        put_text_value(out, number, text);
    });
    out
}

/// Conditions of a query on the service list.
struct Filter<'a> {
    query: &'a Query,
    labels: Vec<(&'a str, &'a str)>,
    instance_labels: Vec<(&'a str, &'a str)>,
    port: Option<u32>,
    only_healthy: bool,
}

impl<'a> Filter<'a> {
    fn parse(query: &'a Query) -> Result<Self, Failure> {
        Ok(Self {
            query,
            labels: query.labels("keys", "values")?,
            instance_labels: query.labels("instance_keys", "instance_values")?,
            port: query.number("port")?,
            only_healthy: query.flag("only_exist_health_instance")?.unwrap_or(false),
        })
    }

    fn allows(&self, view: &ServiceView) -> bool {
        let (service, details) = (&view.service, &view.service.details);
        let texts = [
            ("name", &*service.key.name),
            ("namespace", &*service.key.namespace),
            ("id", &service.id),
            ("business", &details.business),
            ("department", &details.department),
            ("owner", &details.owners),
            ("cmdb_mod1", &details.cmdb_mod[0]),
            ("cmdb_mod2", &details.cmdb_mod[1]),
            ("cmdb_mod3", &details.cmdb_mod[2]),
            ("platform_id", &details.platform_id),
        ];
        texts.iter().all(|(key, text)| allows(self.query.get(key), text))
            && has_labels(&service.metadata, &self.labels)
            && (!self.only_healthy || view.counts.healthy > 0)
            && self.allows_instances(view)
    }

    /// Whether at least one instance matches all filters for instances.
    fn allows_instances(&self, view: &ServiceView) -> bool {
        let host = self.query.get("host");
        if host.is_none() && self.port.is_none() && self.instance_labels.is_empty() {
            return true;
        }
        view.instances().any(|instance| {
            lists(host, &instance.host)
                && self.port.is_none_or(|port| port == u32::from(instance.port))
                && has_labels(&instance.metadata, &self.instance_labels)
        })
    }
}

/// Whether an object has all these labels.
pub(super) fn has_labels(labels: &Metadata, wanted: &[(&str, &str)]) -> bool {
    wanted.iter().all(|(key, value)| labels.get(*key).is_some_and(|given| **given == **value))
}

fn find(state: &State, query: &Query) -> Result<ObjectPage, Failure> {
    let filter = Filter::parse(query)?;
    let sees = |view: &ServiceView| query.viewer.sees_service(state, &view.service.key);
    let found: Vec<_> = state.services().filter(|view| filter.allows(view) && sees(view)).collect();
    page_of(
        query,
        found,
        6,
        |view| view.service.key.clone(),
        |out, view| {
            let functions = ["UpdateServices", "DeleteServices"];
            let permits = query.viewer.service_permits(state, functions, &view.service.key);
            put_console_service(out, &view.service, view.counts, permits);
        },
    )
}

/// Returns all services on one page, for selection lists.
fn find_all(state: &State, query: &Query) -> Result<ObjectPage, Failure> {
    let (name, namespace) = (query.get("name"), query.get("namespace"));
    let allows_key =
        |key: &ServiceKey| allows(name, &key.name) && allows(namespace, &key.namespace);
    let mut found: Vec<_> = state
        .services()
        .filter(|view| allows_key(&view.service.key))
        .filter(|view| query.viewer.sees_service(state, &view.service.key))
        .collect();
    found.sort_by(|a, b| a.service.key.cmp(&b.service.key));
    let mut fields = Vec::new();
    for view in &found {
        put_nested(&mut fields, 6, |out| {
            put_listed_service(out, &view.service);
            put_number_value(out, 17, view.counts.total);
            put_number_value(out, 18, view.counts.healthy);
        });
    }
    Ok(ObjectPage { amount: found.len(), size: found.len(), fields })
}

fn count(state: &State, query: &Query) -> Result<ObjectPage, Failure> {
    let amount = match query.has_filters() || !query.viewer.is_unlimited() {
        false => state.totals().services,
        true => {
            let filter = Filter::parse(query)?;
            let sees = |view: &ServiceView| query.viewer.sees_service(state, &view.service.key);
            state.services().filter(|view| filter.allows(view) && sees(view)).count()
        }
    };
    Ok(ObjectPage { amount, size: 0, fields: Vec::new() })
}
