//! View of the request for a running script, and its changes of it, in each phase.
//!
//! The contexts of the plugin contract are borrowed, while the functions of the gateway in a state
//! live as long as the state. The current context is therefore in a scoped slot of the thread for
//! the time of a run.

use std::borrow::Cow;

use tollhouse_model::variable::{Lookup, Variable};
use tollhouse_plugin::exchange::MatchedObject;
use tollhouse_plugin::response::Source;
use tollhouse_plugin::user::{ExternalUser, TokenPayload};
use tollhouse_plugin::{
    Identity, LogContext, Moment, RequestContext, RequestEdits, ResponseContext,
};

/// Name under which identities are noted that scripts read from requests.
pub(crate) const IDENTITY_SOURCE: &str = "lua";

/// Request, answer or finished exchange behind a running script. By default a phase has nothing.
pub(crate) trait Access {
    /// Name of the phase, as `ngx.get_phase` returns it.
    fn phase(&self) -> &'static str;
    fn lookup(&self) -> Option<&dyn Lookup> {
        None
    }
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        self.lookup()?.variable(variable)
    }
    fn method(&self) -> Vec<u8> {
        self.variable(&Variable::RequestMethod).unwrap_or_default().into_owned()
    }
    fn each_header(&self, _visit: &mut dyn FnMut(&[u8], &[u8])) {}
    fn header(&self, _name: &str) -> Option<Vec<u8>> {
        None
    }
    fn edits(&mut self) -> Option<&mut RequestEdits> {
        None
    }
    /// Path with its escapes, and query.
    fn target(&self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        None
    }
    fn rewrite(&mut self, _path: &[u8], _query: Option<&[u8]>) -> Result<(), &'static str> {
        Err("the request cannot be changed in this phase")
    }
    fn body(&self) -> Option<Vec<u8>> {
        None
    }
    fn now(&self) -> Option<Moment> {
        None
    }
    fn matched(&self, _kind: MatchedObject) -> Option<serde_json::Value> {
        None
    }
    /// Name, group and labels of the consumer.
    fn consumer(&self) -> Option<serde_json::Value> {
        None
    }
    /// Fact that a plugin has shared, by the name that it has in the context of scripts.
    fn fact(&mut self, _name: &str) -> Option<serde_json::Value> {
        None
    }
    fn note_identity(&mut self, _name: &[u8], _grant: &[u8]) {}
    /// Notes that a decision may depend on a credential of the request that no identity explains.
    fn note_nameless(&mut self) {}
    /// Answer, once its head is known.
    fn answer(&mut self) -> Option<&mut dyn AnswerAccess> {
        None
    }
}

/// Head of an answer.
pub(crate) trait AnswerAccess {
    fn status(&self) -> u16;
    fn set_status(&mut self, status: u16);
    fn header(&self, name: &str) -> Option<Vec<u8>>;
    fn each_header(&self, visit: &mut dyn FnMut(&[u8], &[u8]));
    fn set_header(&mut self, name: &str, values: &[Vec<u8>]);
    fn add_header(&mut self, name: &str, value: &[u8]);
    fn source(&self) -> &'static str;
}

scoped_tls_hkt::scoped_thread_local!(
    pub(crate) static mut CURRENT: for<'a> &'a mut (dyn Access + 'a)
);

/// Request in its rewrite, access or before_proxy phase.
pub(crate) struct InRequest<'c, 'r> {
    pub(crate) cx: &'c mut RequestContext<'r>,
    pub(crate) phase: &'static str,
}

impl Access for InRequest<'_, '_> {
    fn phase(&self) -> &'static str {
        self.phase
    }

    fn lookup(&self) -> Option<&dyn Lookup> {
        Some(self.cx.variables())
    }

    fn method(&self) -> Vec<u8> {
        match self.cx.exchange().edits().method {
            Some(method) => method.as_bytes().to_vec(),
            None => self.cx.method().to_vec(),
        }
    }

    fn each_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.cx.each_header(visit);
    }

    fn header(&self, name: &str) -> Option<Vec<u8>> {
        self.cx.header(name).map(|value| value.into_owned())
    }

    fn edits(&mut self) -> Option<&mut RequestEdits> {
        Some(self.cx.edits())
    }

    fn target(&self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        Some((self.cx.escaped_path().into_owned(), self.cx.query().map(<[u8]>::to_vec)))
    }

    fn rewrite(&mut self, path: &[u8], query: Option<&[u8]>) -> Result<(), &'static str> {
        self.cx.rewrite_target(path, query).map_err(|_| {
            "the path is invalid, or servers read it in different ways (escaped slashes, dot \
             segments, parameters)"
        })
    }

    fn body(&self) -> Option<Vec<u8>> {
        let body = self.cx.body();
        (!body.is_empty()).then(|| body.to_vec())
    }

    fn now(&self) -> Option<Moment> {
        Some(self.cx.now())
    }

    fn matched(&self, kind: MatchedObject) -> Option<serde_json::Value> {
        self.cx.matched_object(kind)
    }

    fn consumer(&self) -> Option<serde_json::Value> {
        let consumer = self.cx.consumer()?;
        Some(serde_json::json!({
            "username": consumer.username,
            "consumer_name": consumer.username,
            "group_id": consumer.group_id,
            "labels": consumer.labels,
        }))
    }

    fn fact(&mut self, name: &str) -> Option<serde_json::Value> {
        match name {
            "external_user" => self.cx.shared().map(|ExternalUser(user)| user.clone()),
            "jwt_auth_payload" => self.cx.shared().map(|TokenPayload(it)| it.clone().into()),
            _ => None,
        }
    }

    fn note_identity(&mut self, name: &[u8], grant: &[u8]) {
        self.cx.note_identity(Identity { by: IDENTITY_SOURCE, name, grant });
        let identities = &mut self.cx.edits().identities;
        identities.explain(tollhouse_plugin::Carrier::Authorization);
        identities.explain(tollhouse_plugin::Carrier::Cookie);
    }

    fn note_nameless(&mut self) {
        if self.cx.consumer().is_none() && self.cx.exchange().edits().identities.is_empty() {
            self.cx.edits().identities.note_nameless();
        }
    }
}

/// Request whose answer is about to be sent.
pub(crate) struct InResponse<'c, 'r>(pub(crate) &'c mut ResponseContext<'r>);

impl Access for InResponse<'_, '_> {
    fn phase(&self) -> &'static str {
        "header_filter"
    }

    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        let variables = self.0.variables();
        let value = variables.variable(variable)?;
        Some(Cow::Owned(value.into_owned()))
    }

    fn each_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        tollhouse_plugin::each_header(self.0.request(), visit);
    }

    fn header(&self, name: &str) -> Option<Vec<u8>> {
        self.0.request_header(name).map(|value| value.into_owned())
    }

    fn now(&self) -> Option<Moment> {
        Some(self.0.now())
    }

    fn fact(&mut self, name: &str) -> Option<serde_json::Value> {
        match name {
            "external_user" => self.0.shared().map(|ExternalUser(user)| user.clone()),
            "jwt_auth_payload" => self.0.shared().map(|TokenPayload(it)| it.clone().into()),
            _ => None,
        }
    }

    fn answer(&mut self) -> Option<&mut dyn AnswerAccess> {
        Some(self)
    }
}

impl AnswerAccess for InResponse<'_, '_> {
    fn status(&self) -> u16 {
        self.0.status()
    }

    fn set_status(&mut self, status: u16) {
        self.0.set_status(status);
    }

    fn header(&self, name: &str) -> Option<Vec<u8>> {
        self.0.header(name).map(<[u8]>::to_vec)
    }

    fn each_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.0.each_header(visit);
    }

    fn set_header(&mut self, name: &str, values: &[Vec<u8>]) {
        self.0.remove_header(name);
        values.iter().for_each(|value| self.0.add_header(name, value));
    }

    fn add_header(&mut self, name: &str, value: &[u8]) {
        self.0.add_header(name, value);
    }

    fn source(&self) -> &'static str {
        match self.0.source() {
            Source::Upstream => "upstream",
            Source::Gateway => "apisix",
        }
    }
}

/// Exchange that has ended.
pub(crate) struct InLog<'c, 'r>(pub(crate) &'c mut LogContext<'r>);

impl Access for InLog<'_, '_> {
    fn phase(&self) -> &'static str {
        "log"
    }

    fn lookup(&self) -> Option<&dyn Lookup> {
        Some(self.0.variables())
    }

    fn each_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        tollhouse_plugin::each_header(self.0.request(), visit);
    }

    fn header(&self, name: &str) -> Option<Vec<u8>> {
        self.0.request().header(name.as_bytes()).map(|value| value.into_owned())
    }

    fn now(&self) -> Option<Moment> {
        Some(self.0.now())
    }

    fn answer(&mut self) -> Option<&mut dyn AnswerAccess> {
        Some(self)
    }
}

impl AnswerAccess for InLog<'_, '_> {
    fn status(&self) -> u16 {
        self.0.transfer().status
    }

    fn set_status(&mut self, _status: u16) {}

    fn header(&self, name: &str) -> Option<Vec<u8>> {
        let name = format!("sent_http_{}", name.to_ascii_lowercase().replace('-', "_"));
        self.0.variables().variable(&Variable::Named(name)).map(|value| value.into_owned())
    }

    fn each_header(&self, _visit: &mut dyn FnMut(&[u8], &[u8])) {}

    fn set_header(&mut self, _name: &str, _values: &[Vec<u8>]) {}

    fn add_header(&mut self, _name: &str, _value: &[u8]) {}

    fn source(&self) -> &'static str {
        if self.0.transfer().is_upstream_answer { "upstream" } else { "apisix" }
    }
}

/// Body of an answer that passes. The filter outlives the context of the head, so that it has a
/// copy of a few facts.
pub(crate) struct InBody<'f> {
    pub(crate) facts: &'f BodyFacts,
}

/// Facts of request and answer that functions of the body phase can read.
#[derive(Debug, Clone)]
pub(crate) struct BodyFacts {
    pub(crate) status: u16,
    pub(crate) source: &'static str,
    pub(crate) variables: Vec<(&'static str, Vec<u8>)>,
    pub(crate) headers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Variables that functions of the body phase can read.
pub(crate) const BODY_VARIABLES: [&str; 11] = [
    "uri",
    "request_uri",
    "args",
    "host",
    "scheme",
    "request_method",
    "remote_addr",
    "route_id",
    "consumer_name",
    "server_port",
    "upstream_uri",
];

impl Access for InBody<'_> {
    fn phase(&self) -> &'static str {
        "body_filter"
    }

    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        let named = |name: &&str| Variable::parse(name) == *variable;
        let found = self.facts.variables.iter().find(|(name, _)| named(name));
        found.map(|(_, value)| Cow::Borrowed(value.as_slice()))
    }

    fn answer(&mut self) -> Option<&mut dyn AnswerAccess> {
        Some(self)
    }
}

impl AnswerAccess for InBody<'_> {
    fn status(&self) -> u16 {
        self.facts.status
    }

    fn set_status(&mut self, _status: u16) {}

    fn header(&self, name: &str) -> Option<Vec<u8>> {
        let mut lines = self.facts.headers.iter();
        let found = lines.find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, value)| value.clone())
    }

    fn each_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.facts.headers.iter().for_each(|(name, value)| visit(name, value));
    }

    fn set_header(&mut self, _name: &str, _values: &[Vec<u8>]) {}

    fn add_header(&mut self, _name: &str, _value: &[u8]) {}

    fn source(&self) -> &'static str {
        self.facts.source
    }
}

/// Request that is being matched to routes.
pub(crate) struct InMatching<'l>(pub(crate) &'l dyn Lookup);

impl Access for InMatching<'_> {
    fn phase(&self) -> &'static str {
        "rewrite"
    }

    fn lookup(&self) -> Option<&dyn Lookup> {
        Some(self.0)
    }

    fn header(&self, name: &str) -> Option<Vec<u8>> {
        let variable = Variable::Header(name.to_ascii_lowercase().replace('_', "-"));
        self.variable(&variable).map(Cow::into_owned)
    }
}

/// No request: a text that is loaded, or a timer.
pub(crate) struct NoRequest(pub(crate) &'static str);

impl Access for NoRequest {
    fn phase(&self) -> &'static str {
        self.0
    }
}
