//! Plugin `dubbo`: converts a request to a generic call of the method registered for its path, and
//! the result to the response.

pub(crate) mod method;

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tollhouse_dubbo::Invocation;
use tollhouse_plugin as plugin;
use tollhouse_plugin::{AnswerBody, RequestContext};
use tollhouse_shenyu::matching::RpcType;
use tollhouse_shenyu::model::Metadata;
use tollhouse_stdx::Reservation;

use self::method::{Arguments, DubboMethod, DubboRule};
use crate::engines::{CallError, CallResult, Engines};
use crate::plugin::prelude::*;
use crate::shared::nodes::DivideNode;
use crate::turn::Turn;

/// Largest request body: half of the default limit of Dubbo servers.
const BODY_BYTES_MAX: u64 = 4 << 20;

/// Rule of `dubbo` with the servers to call in turn.
#[derive(Debug)]
pub(crate) struct DubboCaller {
    rule: DubboRule,
    /// Servers in calling order; each occurs in proportion to its weight, within limits.
    turns: Vec<String>,
    next: AtomicUsize,
    engines: Arc<dyn Engines>,
}

/// Response text together with its reservation in the shared memory budget.
struct ResponseText {
    text: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for ResponseText {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// Maximum number of occurrences of a server in the calling order, so that large weights cost no
/// memory.
const TURNS_MAX: u32 = 100;

impl ShenyuPlugin for DubboCaller {
    const ROW: Row = Row::harmless("dubbo", 310).at(Stage::Proxy(RpcType::Dubbo)).with(
        Seed::new("6", "Proxy").config(r#"{"multiSelectorHandle":"1","threadpool":"shared"}"#),
    );

    fn compile(place: &Place<'_>, resources: &mut Resources<'_>) -> CompileResult<Self> {
        let rule = DubboRule::read(place.handle())?;
        let nodes = place.nodes()?;
        let engines = resources.engines("servers of Dubbo")?;
        Ok(Self::new(rule, &nodes, Arc::clone(engines)).into())
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(DubboRule::read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        let metadata = run.turn.metadata(run.engine);
        match self.call(metadata, run.cx, run.turn).await {
            Ok(mut answer) => {
                for edit in &run.turn.aftermath.answer_edits {
                    edit.edit_answer(run.terms.statuses, &mut answer);
                }
                Verdict::answered(answer)
            }
            Err(answer) => Verdict::Refused(answer),
        }
    }

    fn explain(&self, preview: &mut Preview<'_>) -> Prediction {
        match self.method(preview.turn.metadata(preview.engine)) {
            Some(_) => Prediction::Next(Effect::Acts),
            None => Prediction::Refused(Answer::MetadataError),
        }
    }

    fn creates_response(&self) -> bool {
        true
    }
}

impl DubboCaller {
    pub(crate) fn new(rule: DubboRule, nodes: &[DivideNode], engines: Arc<dyn Engines>) -> Self {
        let heaviest = nodes.iter().map(|node| node.weight).max().unwrap_or(0).max(1);
        let scaled = |weight: u32| match heaviest {
            0..=TURNS_MAX => weight,
            _ => (u64::from(weight) * u64::from(TURNS_MAX) / u64::from(heaviest)).max(1) as u32,
        };
        let has_weight = nodes.iter().any(|node| node.weight > 0);
        let turns = |node: &DivideNode| if has_weight { scaled(node.weight) } else { 1 };
        // Distributed in rounds, so that calls to a heavy server are not consecutive.
        let rounds = 0..nodes.iter().map(turns).max().unwrap_or(0);
        let turns = rounds.flat_map(|round| {
            nodes.iter().filter(move |node| turns(node) > round).map(|node| node.url.clone())
        });
        Self { rule, turns: turns.collect(), next: AtomicUsize::new(0), engines }
    }

    /// Returns the method of a path, or `None` if the metadata are invalid.
    pub(crate) fn method(&self, metadata: Option<&Metadata>) -> Option<DubboMethod> {
        DubboMethod::read(metadata?, self.rule)
    }

    /// Calls the method.
    ///
    /// # Errors
    ///
    /// The answer if the call has no result.
    pub(crate) async fn call<'o>(
        &self,
        metadata: Option<&Metadata>,
        cx: &mut RequestContext<'_>,
        turn: &mut Turn,
    ) -> Result<plugin::Answer<'o>, Answer> {
        let method = self.method(metadata).ok_or(Answer::MetadataError)?;
        let mut arguments = Arguments::default();
        if method.has_parameters() {
            let body = cx.read_body(BODY_BYTES_MAX).await;
            if body.map_err(|_| Answer::RequestTooLarge)?.trim_ascii().is_empty() {
                return Err(Answer::DubboBodyMissing);
            }
            let read = method.clone();
            let found = cx.examine_body(move |body| read.arguments(body)).await;
            arguments =
                found.map_err(|_| Answer::RequestTooLarge)?.ok_or(Answer::ParameterError)?;
        }
        let result = self.ask(&method, &arguments).await;
        let (status, now_ms) = (if result.is_ok() { 200 } else { 500 }, cx.now().unix_ms);
        for call in turn.aftermath.calls.drain(..) {
            call.end(Some(status), now_ms);
        }
        let CallResult { value, mut held } = result?;
        let text = value.to_string().into_bytes();
        drop(value);
        // JSON escapes may have lengthened the text. It exists already, so a failed resize is
        // ignored.
        let _ = held.resize(text.len() as u64);
        let body = AnswerBody::Shared(Bytes::from_owner(ResponseText { text, _reservation: held }));
        let answer = plugin::Answer { body, ..plugin::Answer::status(200) };
        Ok(answer.with_header("Content-Type", &b"application/json"[..]))
    }

    /// Tries one server after the other as long as they cannot be reached.
    async fn ask(&self, method: &DubboMethod, arguments: &Arguments) -> Result<CallResult, Answer> {
        let call = Invocation {
            service: &method.service,
            version: &method.version,
            group: &method.group,
            method: &method.method,
            types: &arguments.types,
            arguments: &arguments.values,
            timeout_ms: u64::try_from(method.timeout.as_millis()).unwrap_or(u64::MAX),
            attachments: &[],
        };
        let mut last = None;
        for _ in 0..=method.retries {
            let Some(server) = self.server(method, last) else {
                return Err(Answer::NoHealthyUpstream);
            };
            match self.engines.call_dubbo(server, &call).await {
                Ok(result) => return Ok(result),
                Err(CallError::Unreachable(reason)) => {
                    tracing::debug!(server, reason, "a server of Dubbo cannot be reached");
                    last = Some(server);
                }
                // The server may have executed the call, so it is not repeated.
                Err(CallError::TimedOut) => return Err(Answer::RpcTimeout),
                Err(CallError::Failed(reason)) => {
                    tracing::debug!(server, reason, "a call of Dubbo has failed");
                    return Err(Answer::RpcFailed);
                }
            }
        }
        Err(Answer::RpcFailed)
    }

    /// Returns the server whose turn it is, but another one than `last` if possible.
    fn server<'s>(&'s self, method: &'s DubboMethod, last: Option<&str>) -> Option<&'s str> {
        if self.turns.is_empty() {
            return method.address.as_deref();
        }
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let count = self.turns.len();
        let mut others = (0..count).map(|step| &*self.turns[(start.wrapping_add(step)) % count]);
        let other = others.find(|server| Some(*server) != last);
        other.or(self.turns.first().map(String::as_str))
    }
}
