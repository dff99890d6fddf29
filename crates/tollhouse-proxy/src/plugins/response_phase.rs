//! Response phase: plugins see the response head, change it, and install body filters.

use tollhouse_http::ResponseHead as ParsedHead;
use tollhouse_plugin::edits::length_bit;
use tollhouse_plugin::response::ResponseFacts;
use tollhouse_plugin::{HeaderEdits, Phases, ResponseContext, ResponseHead};
use tollhouse_telemetry::ErrorCode;

use super::chains::Chains;
use super::state::put_back;
use super::timing::Timing;
use crate::exchange::Exchange;

#[derive(Clone, Copy)]
pub(crate) enum HeadView<'a> {
    /// The node's head in the exchange's state, with the bytes that it was parsed from.
    OfNode(&'a [u8]),
    Other(&'a dyn ResponseHead),
}

/// Runs the phase. Edits and filters are left in the exchange's state; the returned facts contain
/// the changes of plugins.
///
/// # Errors
/// If a plugin must read the body and cannot; all edits are discarded then.
pub(crate) fn run(
    exchange: &mut Exchange<'_>,
    chains: &Chains<'_>,
    head: HeadView<'_>,
    facts: ResponseFacts,
) -> Result<ResponseFacts, ErrorCode> {
    if !chains.has(Phases::RESPONSE) {
        return Ok(facts);
    }
    exchange.state.plugins.has_seen_answer = true;
    // Moved out of the exchange while plugins borrow both.
    let mut edits = std::mem::take(&mut exchange.state.plugins.response_edits);
    let mut filters = std::mem::take(&mut exchange.state.plugins.filters);
    let mut memory = std::mem::take(&mut exchange.state.plugins.memory);
    let timing = Timing::new(exchange);
    let (facts, is_refused) = {
        let exchange = &*exchange;
        let of_node;
        let head = match head {
            HeadView::OfNode(bytes) => {
                of_node = NodeHead { head: &exchange.state.response, bytes };
                &of_node
            }
            HeadView::Other(head) => head,
        };
        let mut cx =
            ResponseContext::new(exchange, head, &mut edits, &mut filters, &mut memory, facts);
        let mut index = 0;
        while let Some(step) = chains.step(index) {
            let takes_part = step.phases.intersects(Phases::RESPONSE);
            if takes_part && chains.runs(step, index, &cx.variables()) {
                cx.enter(step.instance());
                let timed = timing.begin(Phases::RESPONSE);
                step.handler.response(&mut cx);
                if let Some(timed) = timed {
                    timed.end(exchange.worker, step, Some(&exchange.state.trace));
                }
            }
            index += 1;
        }
        (cx.facts(), cx.is_refused())
    };
    let plugins = &mut exchange.state.plugins;
    put_back(&mut plugins.response_edits, edits);
    put_back(&mut plugins.filters, filters);
    put_back(&mut plugins.memory, memory);
    if is_refused {
        plugins.forget_answer();
        return Err(ErrorCode::AnswerUnreadable);
    }
    Ok(facts)
}

/// Asks plugins for an answer in the place of a node's, or of the failure that `facts` have the status of. The first
/// one that is given is prepared in the exchange's state; returns whether there is one.
pub(crate) fn replace(
    exchange: &mut Exchange<'_>,
    chains: &Chains<'_>,
    head: HeadView<'_>,
    facts: ResponseFacts,
) -> bool {
    let (mut edits, mut filters) = (HeaderEdits::default(), Vec::new());
    let mut memory = std::mem::take(&mut exchange.state.plugins.memory);
    let mut replaced = None;
    {
        let exchange = &*exchange;
        let of_node;
        let head = match head {
            HeadView::OfNode(bytes) => {
                of_node = NodeHead { head: &exchange.state.response, bytes };
                &of_node
            }
            HeadView::Other(head) => head,
        };
        let mut cx =
            ResponseContext::new(exchange, head, &mut edits, &mut filters, &mut memory, facts);
        let mut index = 0;
        while let Some(step) = chains.step(index).filter(|_| replaced.is_none()) {
            let takes_part = step.phases.intersects(Phases::REPLACE);
            if takes_part && chains.runs(step, index, &cx.variables()) {
                cx.enter(step.instance());
                let answer = step.handler.replace(&mut cx);
                replaced = answer.map(|answer| (answer, step.error_response.as_ref()));
            }
            index += 1;
        }
    }
    let plugins = &mut exchange.state.plugins;
    put_back(&mut plugins.memory, memory);
    let Some((answer, error_response)) = replaced else { return false };
    plugins.prepared.fill(&answer, error_response);
    true
}

/// A node's head, as plugins see it.
struct NodeHead<'a> {
    head: &'a ParsedHead,
    /// Bytes that `head` was parsed from.
    bytes: &'a [u8],
}

impl ResponseHead for NodeHead<'_> {
    fn find(&self, name: &[u8]) -> Option<&[u8]> {
        self.head.fields.find(name, self.bytes)
    }

    fn each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        for field in self.head.fields.visible() {
            visit(field.name().bytes_in(self.bytes), field.value().bytes_in(self.bytes));
        }
    }

    fn name_lengths(&self) -> u64 {
        let lengths = self.head.fields.visible().map(|field| field.name().len as usize);
        lengths.fold(0, |bits, bytes| bits | length_bit(bytes))
    }
}

/// Head of a response of the gateway's own, as plugins see it.
pub(crate) struct PreparedHead<'a> {
    /// `Content-Type`; empty if `headers` contains it or none is sent.
    pub content_type: &'a str,
    pub headers: &'a HeaderEdits,
}

impl ResponseHead for PreparedHead<'_> {
    fn find(&self, name: &[u8]) -> Option<&[u8]> {
        if !self.content_type.is_empty() && name.eq_ignore_ascii_case(b"content-type") {
            return Some(self.content_type.as_bytes());
        }
        self.headers.find(name)
    }

    fn each(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        if !self.content_type.is_empty() {
            visit(b"Content-Type", self.content_type.as_bytes());
        }
        self.headers.lines().for_each(|(name, value)| visit(name, value));
    }
}
