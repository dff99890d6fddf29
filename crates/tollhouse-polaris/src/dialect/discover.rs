//! `Discover`: one request, one response. Clients repeat requests every few seconds with the
//! revision that they have. Most responses say that nothing changed, and cost a look-up.
//!
//! Clients match a response to its request by type, name, namespace and direction, so that every
//! response echoes them. Every type of the protocol is answered, if only with an empty response,
//! because newer clients wait for types that older servers do not know.

mod instances;
mod kind;
mod routing;
mod rules;
mod services;

use tollhouse_registry::identity::Resource;
use tollhouse_registry::{DEFAULT_NAMESPACE, Revision, ServiceRef};

use super::meter::Method;
use super::{CallReply, Caller, Dialect, HEAD_BYTES_USUAL, Undecodable};
use crate::access::{Door, Gate};
use crate::code::Code;
use crate::wire::answer::{discover, put_discover_head, put_revision};
use crate::wire::write::{put_message, put_nested, put_text_value};
use crate::wire::{DiscoverRequest, ServiceRequest};
use kind::Kind;

/// Field numbers of `Service.name`, `Service.namespace` and `Service.revision`.
const SERVICE_FIELDS: [u32; 3] = [1, 2, 15];

/// Handling of the request's option for healthy instances only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthFilter {
    /// Unhealthy instances are sent too, over gRPC: clients choose themselves.
    Ignored,
    /// Unhealthy instances are left out if the client asks for it, over HTTP.
    Honoured,
}

/// A request with a known type and a service.
#[derive(Debug, Clone, Copy)]
struct Question<'a> {
    request: DiscoverRequest<'a>,
    service: ServiceRequest<'a>,
}

impl Dialect {
    /// Answers a request.
    ///
    /// # Errors
    /// If the message cannot be decoded as `DiscoverRequest`.
    pub fn discover(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
        filter: HealthFilter,
    ) -> Result<CallReply, Undecodable> {
        let timed = self.meter.start(Method::Discover);
        let request = DiscoverRequest::parse(message)?;
        let replied = match self.admit_question(caller, &request) {
            Ok(()) => self.answer(request, filter),
            Err(code) => refused(&request, code),
        };
        Ok(timed.end(replied))
    }

    /// Checks a request by the service or namespace that it asks about.
    fn admit_question(
        &self,
        caller: &Caller<'_>,
        request: &DiscoverRequest<'_>,
    ) -> Result<(), Code> {
        if self.access.gate(Door::Client) == Gate::Open {
            return Ok(());
        }
        let state = self.registry.state();
        let rights = self.rights(&state, Door::Client, caller);
        rights.admit()?;
        // Requests without these are refused for what they lack.
        let (Some(kind), Some(service)) = (Kind::from_number(request.kind), request.service) else {
            return Ok(());
        };
        let name = service.name.unwrap_or_default();
        let namespace = service.namespace.filter(|namespace| !namespace.is_empty());
        let function = kind.function();
        match kind {
            // All namespaces at once take a right to all.
            Kind::Services | Kind::Namespaces => {
                let namespace = namespace.filter(|_| kind == Kind::Services).unwrap_or("*");
                rights.check(function, &[Resource::namespace(namespace)])
            }
            Kind::Nothing => Ok(()),
            Kind::Instances | Kind::Rules(_) => {
                let namespace = namespace.unwrap_or(DEFAULT_NAMESPACE);
                rights.service(function, ServiceRef { namespace, name })
            }
        }
    }

    fn answer(&self, request: DiscoverRequest<'_>, filter: HealthFilter) -> CallReply {
        let Some(kind) = Kind::from_number(request.kind) else {
            return refused(&request, Code::InvalidDiscoverResource);
        };
        // Clients probe for supported types with such requests.
        let Some(service) = request.service else { return refused(&request, Code::EmptyRequest) };
        let question = Question { request, service };
        match kind {
            Kind::Services => services::list(&self.registry.state(), &question),
            Kind::Namespaces => services::namespaces(&self.registry.state(), &question),
            Kind::Instances => match question.name(Some(DEFAULT_NAMESPACE)) {
                Ok(name) => instances::answer(&self.registry.state(), &question, name, filter),
                Err(code) => refused(&request, code),
            },
            Kind::Nothing => question.nothing(),
            Kind::Rules(kind) => match question.name(None) {
                Ok(name) => rules::answer(&self.registry.state(), &question, kind, name),
                Err(code) => refused(&request, code),
            },
        }
    }
}

/// Creates a response with a code, which echoes type, direction and service.
fn refused(request: &DiscoverRequest<'_>, code: Code) -> CallReply {
    let service = request.service.map(|service| service.raw);
    let mut out = Vec::with_capacity(HEAD_BYTES_USUAL + service.map_or(0, <[u8]>::len));
    put_discover_head(&mut out, code, request.kind, request.direction);
    if let Some(service) = service {
        put_message(&mut out, discover::SERVICE, service);
    }
    CallReply::made(code, out)
}

impl<'a> Question<'a> {
    /// Returns the requested service; `namespace` is the default.
    fn name(&self, namespace: Option<&'a str>) -> Result<ServiceRef<'a>, Code> {
        let given = |text: Option<&'a str>| text.filter(|text| !text.is_empty());
        let name = given(self.service.name).ok_or(Code::InvalidServiceName)?;
        let namespace = given(self.service.namespace).or(namespace);
        Ok(ServiceRef { namespace: namespace.ok_or(Code::InvalidNamespaceName)?, name })
    }

    /// Whether the client has this revision already.
    fn has(&self, revision: &[u8]) -> bool {
        self.service.revision.is_some_and(|asked| asked.as_bytes() == revision)
    }

    /// Creates the response for an unchanged revision.
    fn unchanged(&self) -> CallReply {
        refused(&self.request, Code::DataNoChange)
    }

    /// Creates a successful response without contents.
    fn nothing(&self) -> CallReply {
        CallReply::made(Code::ExecuteSuccess, self.begin(None))
    }

    /// Starts a successful response: head, and the service as requested.
    fn begin(&self, revision: Option<Revision>) -> Vec<u8> {
        let mut out = Vec::with_capacity(4 * HEAD_BYTES_USUAL);
        let DiscoverRequest { kind, direction, .. } = self.request;
        put_discover_head(&mut out, Code::ExecuteSuccess, kind, direction);
        let [name, namespace, at] = SERVICE_FIELDS;
        put_nested(&mut out, discover::SERVICE, |out| {
            if let Some(text) = self.service.name {
                put_text_value(out, name, text);
            }
            if let Some(text) = self.service.namespace {
                put_text_value(out, namespace, text);
            }
            if let Some(revision) = revision {
                put_revision(out, at, &revision.digits());
            }
        });
        out
    }
}
