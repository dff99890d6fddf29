//! Console calls for instances, including edits and isolation, which clients do not do.

use super::services::has_labels;
use super::{Get, List, ObjectPage, Plan, Write};
use crate::code::Code;
use crate::http::failure::Failure;
use crate::http::query::{Query, allows, lists};
use crate::registration;
use crate::wire::answer::response;
use crate::wire::write::{put_entry, put_message, put_nested, put_text};
use crate::wire::{InstanceRequest, Reader, put_identity, put_instance};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tollhouse_registry::{
    Command, Instance, InstanceChange, InstancePage, Metadata, Outcome, ServiceRef, ServiceView,
    State, limits,
};

const MESSAGE: &str = "v1.Instance";
/// Metadata key under which the console receives the time of the last heartbeat on request.
const LAST_HEARTBEAT_LABEL: &str = "last-heartbeat-timestamp";

pub(in crate::http) static CREATE: Write = Write::whole(MESSAGE, response::INSTANCE, plan_create);
pub(in crate::http) static UPDATE: Write = Write::whole(MESSAGE, response::INSTANCE, plan_update);
pub(in crate::http) static DELETE: Write = Write::whole(MESSAGE, response::INSTANCE, plan_delete);
pub(in crate::http) static DELETE_HOST: Write =
    Write::whole(MESSAGE, response::INSTANCE, plan_delete_host);
pub(in crate::http) static ISOLATE_HOST: Write =
    Write::whole(MESSAGE, response::INSTANCE, plan_isolate_host);
pub(in crate::http) static LIST: List = List {
    function: "DescribeInstances",
    keys: &[
        "id",
        "service",
        "namespace",
        "host",
        "port",
        "protocol",
        "version",
        "healthy",
        "health_status",
        "isolate",
        "weight",
        "priority",
        "logic_set",
        "cmdb_region",
        "cmdb_zone",
        "cmdb_idc",
        "keys",
        "values",
        "show_last_heartbeat",
    ],
    find,
};
/// Filters that apply to single instances.
const INSTANCE_KEYS: [&str; 16] = [
    "id",
    "host",
    "port",
    "protocol",
    "version",
    "healthy",
    "health_status",
    "isolate",
    "weight",
    "priority",
    "logic_set",
    "cmdb_region",
    "cmdb_zone",
    "cmdb_idc",
    "keys",
    "values",
];
pub(in crate::http) static COUNT: List =
    List { function: "DescribeInstancesCount", keys: &[], find: count };
pub(in crate::http) static LABELS: Get =
    Get { function: "DescribeInstanceLabels", keys: &["service", "namespace"], find: find_labels };

/// Decodes an item; fails if a text is not UTF-8.
fn read(item: &[u8]) -> Result<InstanceRequest<'_>, Failure> {
    InstanceRequest::parse(item)
        .map_err(|error| Failure::with(Code::ParseException, error.to_string()))
}

/// Checks an instance in the order of Polaris, so that a list is refused before anything is
/// written.
fn check(request: &InstanceRequest<'_>) -> Result<(), Failure> {
    check_labels(request)?;
    registration::check_lengths(request)?;
    super::services::check_name(request.service, Code::InvalidServiceName)?;
    super::services::check_name(request.namespace, Code::InvalidNamespaceName)?;
    if request.host.unwrap_or_default().trim().is_empty() {
        return Err(Code::InvalidInstanceHost.into());
    }
    request.port.map(|_| ()).ok_or_else(|| Code::InvalidInstancePort.into())
}

fn check_labels(request: &InstanceRequest<'_>) -> Result<(), Failure> {
    let too_many = request.metadata.len() + request.labels_dropped > limits::METADATA_PAIRS_MAX;
    let too_long = request.metadata.iter().any(|(key, value)| {
        key.chars().nth(limits::METADATA_KEY_CHARS_MAX).is_some()
            || value.chars().nth(limits::METADATA_VALUE_CHARS_MAX).is_some()
    });
    if too_many || too_long { Err(Code::InvalidMetadata.into()) } else { Ok(()) }
}

/// Returns the explicit id of an item, or the one derived from its address.
fn id_of(request: &InstanceRequest<'_>) -> Result<String, Failure> {
    match request.id {
        Some("") => Err(Code::InvalidInstanceID.into()),
        Some(id) => Ok(id.to_owned()),
        None => {
            check(request)?;
            Ok(registration::computed_id(request))
        }
    }
}

fn plan_create(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let request = read(item)?;
    check(&request)?;
    let service = ServiceRef {
        namespace: request.namespace.unwrap_or_default(),
        name: request.service.unwrap_or_default(),
    };
    if state.alias(service).is_some() {
        return Err(Code::NotAllowAliasCreateInstance.into());
    }
    // An instance that is registered already is replaced, as by a client.
    let new = registration::new_instance(&request);
    Ok(Plan::command(Command::Register(Box::new(new))).answering(identity))
}

fn identity(outcome: &Outcome) -> Option<Vec<u8>> {
    let Outcome::Instance(instance) = outcome else {
        return None;
    };
    let mut out = Vec::new();
    put_identity(&mut out, instance);
    Some(out)
}

fn plan_update(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let request = read(item)?;
    check_labels(&request)?;
    registration::check_lengths(&request)?;
    let id = id_of(&request)?;
    let instance = state.instance(&id).ok_or(Code::NotFoundInstance)?;
    let id = Arc::clone(&instance.id);
    Ok(Plan::command(Command::UpdateInstance(id, Box::new(change_of(&request)))))
}

/// Returns a change of all fields that the item contains.
fn change_of(request: &InstanceRequest<'_>) -> InstanceChange {
    let speaks_of_health =
        request.health_check.is_some() || request.enable_health_check == Some(false);
    InstanceChange {
        protocol: request.protocol.map(Into::into),
        version: request.version.map(Into::into),
        priority: request.priority,
        weight: request.weight,
        ttl_seconds: speaks_of_health.then(|| registration::ttl_seconds(request)),
        healthy: request.healthy,
        isolated: request.isolate,
        location: request.location.as_ref().map(registration::location_of),
        metadata: (!request.metadata.is_empty()).then(|| registration::metadata_of(request)),
        logic_set: request.logic_set.map(Into::into),
    }
}

fn plan_delete(_: &State, item: &[u8]) -> Result<Plan, Failure> {
    let id = id_of(&read(item)?)?;
    Ok(Plan::command(Command::Deregister(id.into())))
}

/// Returns all instances of an item's service and host, on any port.
fn instances_of_host<'a>(
    state: &'a State,
    request: &InstanceRequest<'_>,
) -> Result<impl Iterator<Item = &'a Arc<Instance>> + use<'a>, Failure> {
    let name = super::services::check_name(request.service, Code::InvalidServiceName)?;
    let namespace = super::services::check_name(request.namespace, Code::InvalidNamespaceName)?;
    let host = request.host.unwrap_or_default().trim().to_owned();
    if host.is_empty() {
        return Err(Code::InvalidInstanceHost.into());
    }
    let view = state.service(ServiceRef { namespace, name });
    let all = view.into_iter().flat_map(|view| view.instances());
    Ok(all.filter(move |instance| *instance.host == *host))
}

fn plan_delete_host(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let request = read(item)?;
    let found = instances_of_host(state, &request)?;
    Ok(Plan::commands(found.map(|i| Command::Deregister(Arc::clone(&i.id))).collect()))
}

fn plan_isolate_host(state: &State, item: &[u8]) -> Result<Plan, Failure> {
    let request = read(item)?;
    let isolated = request.isolate.ok_or(Code::InvalidInstanceIsolate)?;
    let found: Vec<_> = instances_of_host(state, &request)?.collect();
    if found.is_empty() {
        return Err(Code::NotFoundInstance.into());
    }
    // Instances that already have this isolation are skipped, because a change without effect is
    // refused.
    let changed = found.into_iter().filter(|instance| instance.isolated != isolated);
    let commands: Vec<Command> = changed
        .map(|instance| {
            let change = InstanceChange { isolated: Some(isolated), ..InstanceChange::default() };
            Command::UpdateInstance(Arc::clone(&instance.id), Box::new(change))
        })
        .collect();
    if commands.is_empty() {
        return Ok(Plan::nothing_changes());
    }
    Ok(Plan::commands(commands))
}

/// Conditions of a query on the instance list.
struct Filter<'a> {
    query: &'a Query,
    labels: Vec<(&'a str, &'a str)>,
    port: Option<u32>,
    weight: Option<u32>,
    priority: Option<u32>,
    healthy: Option<bool>,
    isolated: Option<bool>,
}

impl<'a> Filter<'a> {
    fn parse(query: &'a Query) -> Result<Self, Failure> {
        if query.is_empty() {
            return Err(Code::EmptyQueryParameter.into());
        }
        Ok(Self {
            query,
            labels: query.labels("keys", "values")?,
            port: query.number("port")?,
            weight: query.number("weight")?,
            priority: query.number("priority")?,
            // If both names are given, the newer one decides, as in Polaris.
            healthy: match query.flag("healthy")? {
                None => query.flag("health_status")?,
                healthy => healthy,
            },
            isolated: query.flag("isolate")?,
        })
    }

    /// Returns the services to search, sorted.
    fn services<'s>(&self, state: &'s State) -> Vec<&'s ServiceView> {
        let (namespace, name) = (self.query.get("namespace"), self.query.get("service"));
        if let (Some(namespace), Some(name)) = (namespace, name)
            && !namespace.contains('*')
            && !name.contains('*')
        {
            let found = state.resolve(ServiceRef { namespace, name });
            return found.into_iter().map(|found| &**found.view).collect();
        }
        let allowed = state.services().map(|view| &**view).filter(|view| {
            let key = &view.service.key;
            allows(namespace, &key.namespace) && allows(name, &key.name)
        });
        let mut found: Vec<_> = allowed.collect();
        found.sort_unstable_by(|one, other| one.service.key.cmp(&other.service.key));
        found
    }

    /// Whether all instances of the selected services match.
    fn allows_all(&self) -> bool {
        !INSTANCE_KEYS.iter().any(|key| self.query.get(key).is_some())
    }

    fn allows(&self, instance: &Instance) -> bool {
        let [region, zone, campus] = place_of(instance);
        let texts = [
            ("id", &*instance.id),
            ("protocol", &*instance.protocol),
            ("version", &*instance.version),
            ("logic_set", &*instance.logic_set),
            ("cmdb_region", region),
            ("cmdb_zone", zone),
            ("cmdb_idc", campus),
        ];
        texts.iter().all(|(key, text)| allows(self.query.get(key), text))
            && lists(self.query.get("host"), &instance.host)
            && self.port.is_none_or(|port| port == u32::from(instance.port))
            && self.weight.is_none_or(|weight| weight == u32::from(instance.weight))
            && self.priority.is_none_or(|priority| priority == instance.priority)
            && self.healthy.is_none_or(|healthy| healthy == instance.healthy)
            && self.isolated.is_none_or(|isolated| isolated == instance.isolated)
            && has_labels(&instance.metadata, &self.labels)
    }
}

/// Returns region, zone and campus; empty if unknown.
fn place_of(instance: &Instance) -> [&str; 3] {
    let location = instance.location.as_ref();
    location.map_or([""; 3], |it| [&*it.region, &*it.zone, &*it.campus])
}

fn find(state: &State, query: &Query) -> Result<ObjectPage, Failure> {
    let filter = Filter::parse(query)?;
    let shows_beats = query.flag("show_last_heartbeat")?.unwrap_or(false);
    let page = query.page()?;
    let mut found = InstancePage::new(page.offset, page.limit);
    let shows_all = filter.allows_all();
    let mut services = filter.services(state);
    services.retain(|view| query.viewer.sees_service(state, &view.service.key));
    for view in services {
        if shows_all {
            found.add(view);
        } else {
            found.add_some(view, |instance| filter.allows(instance));
        }
    }
    let (instances, amount) = found.finish();
    let mut fields = Vec::new();
    for instance in &instances {
        put_nested(&mut fields, 7, |out| {
            put_instance(out, instance, Reader::Console);
            let beat = instance.pulse.last_heartbeat();
            if shows_beats && beat.count > 0 {
                put_entry(out, 14, LAST_HEARTBEAT_LABEL, &(beat.at_ms / 1_000).to_string());
            }
        });
    }
    Ok(ObjectPage { amount, size: instances.len(), fields })
}

fn count(state: &State, query: &Query) -> Result<ObjectPage, Failure> {
    let viewer = &query.viewer;
    let amount = match viewer.is_unlimited() {
        true => state.totals().instances.total as usize,
        false => {
            let seen = state.services().filter(|it| viewer.sees_service(state, &it.service.key));
            seen.map(|view| view.counts.total as usize).sum()
        }
    };
    Ok(ObjectPage { amount, size: 0, fields: Vec::new() })
}

/// Returns all labels of a service's instances with all their values, and the fields that rules can
/// use like labels.
fn find_labels(state: &State, query: &Query) -> Result<Vec<u8>, Failure> {
    let name = query.required("service", Code::InvalidServiceName)?;
    let namespace = query.required("namespace", Code::InvalidNamespaceName)?;
    let found = state.resolve(ServiceRef { namespace, name }).ok_or(Code::NotFoundService)?;
    if !query.viewer.sees_service(state, &found.view.service.key) {
        return Err(Code::NotAllowedAccess.into());
    }
    // Sorted, so that equal states give equal bytes.
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for instance in found.view.instances() {
        let metadata: &Metadata = &instance.metadata;
        let own = metadata.iter().map(|(key, value)| (&**key, &**value));
        let [region, zone, campus] = place_of(instance);
        let fields = [
            ("version", &*instance.version),
            ("protocol", &*instance.protocol),
            ("region", region),
            ("zone", zone),
            ("campus", campus),
        ];
        for (key, value) in own.chain(fields.into_iter().filter(|(_, value)| !value.is_empty())) {
            labels.entry(key).or_default().insert(value);
        }
    }
    let mut out = Vec::new();
    put_nested(&mut out, response::INSTANCE_LABELS, |out| {
        for (key, values) in &labels {
            put_nested(out, 1, |out| {
                put_message(out, 1, key.as_bytes());
                put_nested(out, 2, |out| {
                    for value in values {
                        put_message(out, 1, value.as_bytes());
                    }
                });
            });
        }
        put_text(out, 2, namespace);
        put_text(out, 3, name);
        put_text(out, 4, &found.view.service.id);
    });
    Ok(out)
}
