//! `Discover`: one question, one answer. Clients ask again every few seconds, with the revision they
//! have; most answers are that nothing changed, and cost a look-up.
//!
//! Clients find the question to an answer by type, name, namespace and direction, so that every answer
//! echoes them. Every type of the protocol is answered, if only to say that there is nothing: clients
//! of newer editions wait for types that older servers do not know.

mod instances;
mod kind;
mod routing;
mod rules;
mod services;

use tollhouse_registry::{DEFAULT_NAMESPACE, Revision, ServiceRef};

use super::meter::Method;
use super::{Caller, Dialect, HEAD_BYTES_USUAL, Replied, Undecodable};
use crate::code::Code;
use crate::wire::answer::{discover, put_discover_head, put_revision};
use crate::wire::write::{put_message, put_nested, put_text_value};
use crate::wire::{DiscoverRequest, ServiceRequest};
use kind::Kind;

/// `Service.name`, `Service.namespace`, `Service.revision`.
const SERVICE_FIELDS: [u32; 3] = [1, 2, 15];

/// Whether the wish for healthy instances only is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthFilter {
    /// No, as clients over gRPC expect: they choose among all.
    Ignored,
    /// Yes, as over HTTP.
    Honoured,
}

/// A question that can be answered.
#[derive(Debug, Clone, Copy)]
struct Question<'a> {
    request: DiscoverRequest<'a>,
    service: ServiceRequest<'a>,
}

impl Dialect {
    /// Answers a question.
    ///
    /// # Errors
    /// The message cannot be decoded as `DiscoverRequest`.
    pub fn discover(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
        filter: HealthFilter,
    ) -> Result<Replied, Undecodable> {
        let timed = self.meter.start(Method::Discover);
        let request = DiscoverRequest::parse(message)?;
        let replied = match self.admit(caller, None) {
            Ok(()) => self.answer(request, filter),
            Err(code) => refused(&request, code),
        };
        Ok(timed.end(replied))
    }

    fn answer(&self, request: DiscoverRequest<'_>, filter: HealthFilter) -> Replied {
        let Some(kind) = Kind::from_number(request.kind) else {
            return refused(&request, Code::InvalidDiscoverResource);
        };
        // Clients probe so for the types that are known.
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

/// A refusal, which echoes what there is to echo.
fn refused(request: &DiscoverRequest<'_>, code: Code) -> Replied {
    let service = request.service.map(|service| service.raw);
    let mut out = Vec::with_capacity(HEAD_BYTES_USUAL + service.map_or(0, <[u8]>::len));
    put_discover_head(&mut out, code, request.kind, request.direction);
    if let Some(service) = service {
        put_message(&mut out, discover::SERVICE, service);
    }
    Replied::made(code, out)
}

impl<'a> Question<'a> {
    /// The service that is asked for.
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

    /// The answer that nothing changed.
    fn unchanged(&self) -> Replied {
        refused(&self.request, Code::DataNoChange)
    }

    /// A good answer without anything.
    fn nothing(&self) -> Replied {
        Replied::made(Code::ExecuteSuccess, self.begin(None))
    }

    /// The beginning of a good answer: its head, and the service as it was asked for.
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
