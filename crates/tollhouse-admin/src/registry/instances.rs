//! `/registry/v1/instances`, and the instances of a service.

use std::sync::Arc;

use hyper::{Method, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use tollhouse_registry::{
    Command, DEFAULT_NAMESPACE, HeartbeatOutcome, Instance, InstancePage, Noun, Outcome,
    ServiceRef, ServiceView,
};

use super::incoming::InstanceIn;
use super::listing::{self, Label, Page, Sort, SortKey, reply};
use super::outgoing::InstanceOut;
use super::request::Request;
use super::search::Words;
use super::{bulk, refused, services, watch};
use crate::arguments::Arguments;
use crate::body;
use crate::limits::OBJECTS_PER_TURN;
use crate::reply::Reply;

/// Filters of a list; an instance must pass all.
struct Filters<'a> {
    arguments: &'a Arguments,
    healthy: Option<bool>,
    isolated: Option<bool>,
    label: Label,
    words: Words,
    /// Sort order; with `None`, instances are sorted by service and id.
    sort: Option<Sort<'a>>,
}

/// Values of the argument `sort`, by which the list can be sorted.
const SORTS: [&str; 8] =
    ["service", "id", "host", "version", "weight", "healthy", "isolated", "changed"];

impl<'a> Filters<'a> {
    fn parse(arguments: &'a Arguments) -> Result<Self, Reply> {
        Ok(Self {
            arguments,
            healthy: listing::flag(arguments, "healthy")?,
            isolated: listing::flag(arguments, "isolated")?,
            label: Label::parse(arguments),
            words: Words::parse(arguments)?,
            sort: arguments
                .get("sort")
                .filter(|sort| !sort.is_empty())
                .map(|_| Sort::parse(arguments, &SORTS))
                .transpose()?,
        })
    }

    fn admit_service(&self, view: &ServiceView) -> bool {
        let key = &view.service.key;
        listing::is(self.arguments, "namespace", &key.namespace)
            && listing::is(self.arguments, "service", &key.name)
    }

    /// Whether all instances of an admitted service pass, because no filter concerns single
    /// instances.
    fn admit_all(&self) -> bool {
        let says = |name: &&str| self.arguments.get(name).is_some_and(|text| !text.is_empty());
        self.words.is_empty()
            && !["healthy", "isolated", "host", "protocol", "version", "port", "label"]
                .iter()
                .any(says)
    }

    fn admit(&self, instance: &Instance) -> bool {
        let is = |name: &str, value: &str| listing::is(self.arguments, name, value);
        let port = self.arguments.get("port").filter(|port| !port.is_empty());
        self.healthy.is_none_or(|healthy| instance.healthy == healthy)
            && self.isolated.is_none_or(|isolated| instance.isolated == isolated)
            && is("host", &instance.host)
            && is("protocol", &instance.protocol)
            && is("version", &instance.version)
            && port.is_none_or(|port| port.parse() == Ok(instance.port))
            && self.label.admits(&instance.metadata)
            && self.words.admit(|| texts(instance))
    }
}

/// Returns the fields of an instance that a search compares with its words.
fn texts(instance: &Instance) -> impl Iterator<Item = &str> {
    let own = [
        &*instance.id,
        &*instance.host,
        &*instance.version,
        &*instance.protocol,
        &*instance.service.name,
        &*instance.service.namespace,
    ];
    let pairs = instance.metadata.iter().flat_map(|(key, value)| [&**key, &**value]);
    own.into_iter().chain(pairs)
}

fn key_of<'i>(instance: &'i Instance, by: &str) -> SortKey<'i> {
    match by {
        "service" => SortKey::from(&*instance.service.name),
        "host" => SortKey::from(&*instance.host),
        "version" => SortKey::from(&*instance.version),
        "weight" => u32::from(instance.weight).into(),
        "healthy" => u32::from(!instance.healthy).into(),
        "isolated" => u32::from(!instance.isolated).into(),
        "changed" => SortKey::Number(instance.modified_at),
        _ => SortKey::from(&*instance.id),
    }
}

pub(super) async fn collection(request: &Request<'_>) -> Result<Reply, Reply> {
    match request.call.method {
        Method::GET => {
            let filters = Filters::parse(&request.call.arguments)?;
            let state = request.part.registry.state_full();
            let matching = state.services().filter(|view| filters.admit_service(view));
            let mut views: Vec<_> = matching.cloned().collect();
            views.sort_unstable_by(|first, second| first.service.key.cmp(&second.service.key));
            list(request, &views, &filters).await
        }
        Method::POST => register(request, request.read()?, None).await,
        Method::PATCH => bulk::patch(request).await,
        _ => Err(request.wrong_method("GET, POST or PATCH")),
    }
}

pub(super) async fn service_instances(
    request: &Request<'_>,
    name: ServiceRef<'_>,
) -> Result<Reply, Reply> {
    match request.call.method {
        Method::GET if request.call.arguments.is("watch", "true") => {
            watch::start(request, name.to_key())
        }
        Method::GET => {
            let filters = Filters::parse(&request.call.arguments)?;
            let resolved =
                request.part.registry.state().resolve(name).map(|it| Arc::clone(it.view));
            let view = resolved.ok_or_else(services::not_found)?;
            list(request, &[view], &filters).await
        }
        Method::POST => {
            let mut new: InstanceIn = request.read()?;
            new.namespace.get_or_insert_with(|| name.namespace.into());
            new.service.get_or_insert_with(|| name.name.into());
            let is_other = new.namespace.as_deref() != Some(name.namespace)
                || new.service.as_deref() != Some(name.name);
            if is_other {
                return Err(body::invalid("namespace and service are not the path's"));
            }
            register(request, new, None).await
        }
        _ => Err(request.wrong_method("GET or POST")),
    }
}

/// Returns a page of the services' instances, in order.
async fn list(
    request: &Request<'_>,
    views: &[Arc<ServiceView>],
    filters: &Filters<'_>,
) -> Result<Reply, Reply> {
    let page = Page::parse(&request.call.arguments)?;
    if let Some(sort) = filters.sort {
        let (list, total) = sorted(views, filters, page, sort).await;
        return Ok(page.reply(request, list, total));
    }
    let mut builder = InstancePage::new(page.start(), page.size());
    let mut seen = 0;
    for view in views {
        if filters.admit_all() {
            builder.add(view);
            seen += 1;
        } else {
            builder.add_some(view, |instance| filters.admit(instance));
            seen += 1 + view.counts.total as usize;
        }
        if seen >= OBJECTS_PER_TURN {
            seen = 0;
            tokio::task::yield_now().await;
        }
    }
    let (instances, total) = builder.finish();
    let list = instances.into_iter().map(|instance| InstanceOut::from_instance(instance)).collect();
    Ok(page.reply(request, list, total))
}

/// Returns a page in the requested sort order, and the number of all matching instances. All of
/// them are collected to be sorted.
async fn sorted<'v>(
    views: &'v [Arc<ServiceView>],
    filters: &Filters<'_>,
    page: Page,
    sort: Sort<'_>,
) -> (Vec<InstanceOut<'v>>, usize) {
    let mut instances: Vec<&Arc<Instance>> = Vec::new();
    let mut seen = 0;
    for view in views {
        instances.extend(view.instances().filter(|instance| filters.admit(instance)));
        seen += 1 + view.counts.total as usize;
        if seen >= OBJECTS_PER_TURN {
            seen = 0;
            tokio::task::yield_now().await;
        }
    }
    let total = instances.len();
    // Equal sort keys are ordered by id, so that pages are consistent.
    let rows = page.sort_and_cut(instances, |instance| {
        let instance: &Instance = instance;
        (sort.directed(key_of(instance, sort.by)), &*instance.id)
    });
    (rows.into_iter().map(|instance| InstanceOut::from_instance(instance)).collect(), total)
}

pub(super) async fn one(request: &Request<'_>, id: &str) -> Result<Reply, Reply> {
    match request.call.method {
        Method::GET => {
            let found = request.part.registry.state().instance(id).cloned();
            let instance = found.ok_or_else(not_found)?;
            Ok(reply(StatusCode::OK, &InstanceOut::from_instance(&instance)))
        }
        Method::PUT => {
            let new: InstanceIn = request.read()?;
            if new.id.as_deref().is_some_and(|said| said != id) {
                return Err(body::invalid("id is not the path's"));
            }
            register(request, new, Some(id.into())).await
        }
        Method::PATCH => {
            let new: InstanceIn = request.read()?;
            new.check()?;
            if new.id.as_deref().is_some_and(|said| said != id) {
                return Err(body::invalid("id is not the path's"));
            }
            let change = Box::new(new.change()?);
            match request.submit(Command::UpdateInstance(id.into(), change)).await? {
                Some(Outcome::Instance(instance)) => {
                    Ok(reply(StatusCode::OK, &InstanceOut::from_instance(&instance)))
                }
                // Without any change, the reply contains the instance as it is.
                _ => {
                    let found = request.part.registry.state().instance(id).cloned();
                    let instance = found.ok_or_else(not_found)?;
                    Ok(reply(StatusCode::OK, &InstanceOut::from_instance(&instance)))
                }
            }
        }
        Method::DELETE => match request.submit(Command::Deregister(id.into())).await? {
            Some(Outcome::Deregistered(Some(instance))) => {
                Ok(reply(StatusCode::OK, &InstanceOut::from_instance(&instance)))
            }
            _ => Err(not_found()),
        },
        _ => Err(request.wrong_method("GET, PUT, PATCH or DELETE")),
    }
}

async fn register(
    request: &Request<'_>,
    mut new: InstanceIn,
    id: Option<Arc<str>>,
) -> Result<Reply, Reply> {
    new.check()?;
    let namespace = new.namespace.get_or_insert_with(|| DEFAULT_NAMESPACE.into()).clone();
    let id = id.or_else(|| new.id.take()).filter(|id| !id.is_empty()).unwrap_or_else(|| {
        let name = new.service.as_deref().unwrap_or_default();
        let service = ServiceRef { namespace: &namespace, name };
        let vpc_id = new.vpc_id.as_deref().unwrap_or_default();
        let host = new.host.as_deref().unwrap_or_default();
        let port = new.port.unwrap_or_default();
        request.part.dialect.instance_id(service, vpc_id, host, port).into()
    });
    let is_known = request.part.registry.state().instance(&id).is_some();
    let command = Command::Register(Box::new(new.register(id)));
    let Some(Outcome::Instance(instance)) = request.submit(command).await? else {
        return Err(not_found());
    };
    let status = if is_known { StatusCode::OK } else { StatusCode::CREATED };
    Ok(reply(status, &InstanceOut::from_instance(&instance)))
}

/// Answer to a heartbeat.
#[derive(JsonSchema, Serialize)]
pub(super) struct BeatOut<'a> {
    id: &'a str,
    at_ms: u64,
}

/// `POST …/heartbeat`. Unlike in the Polaris protocol, an unknown instance is answered with 404.
pub(super) fn heartbeat(request: &Request<'_>, id: &str) -> Result<Reply, Reply> {
    if request.call.method != Method::POST {
        return Err(request.wrong_method("POST"));
    }
    if request.part.registry.state().instance(id).is_none() {
        return Err(not_found());
    }
    match request.part.registry.heartbeat(id) {
        HeartbeatOutcome::Recorded => {
            let at_ms = request.part.registry.now_ms();
            Ok(reply(StatusCode::OK, &BeatOut { id, at_ms }))
        }
        HeartbeatOutcome::Tolerated | HeartbeatOutcome::Unknown | HeartbeatOutcome::BadId => {
            Err(not_found())
        }
    }
}

fn not_found() -> Reply {
    refused::not_found(Noun::Instance)
}
