//! The instances of a service: encoded chunk by chunk, once for each version of a chunk, shared by all
//! who ask. A change among ten thousand instances encodes its neighbours again and nobody else.
//!
//! A service of few instances keeps its whole answer in one piece, beside its view. One of many keeps its
//! head and sends the chunks behind it, so that no version of it is ever copied together. An alias has a
//! head of its own before the same chunks.

use std::sync::Arc;

use bytes::Bytes;
use tollhouse_registry::{Alias, CHUNK_OBJECTS, Chunk, Instance, ServiceRef, ServiceView, State};

use super::{HealthFilter, Question, Replied, refused};
use crate::answer::{Answer, Chunks};
use crate::code::Code;
use crate::wire::answer::{discover, put_discover_head};
use crate::wire::write::{put_nested, put_signed};
use crate::wire::{Direction, put_discovered_instance, put_discovered_service};

/// The type of these answers.
const INSTANCE: i32 = 1;

/// `DiscoverResponse.Direction`.
const DIRECTION: u32 = 29;

/// Which instances are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    Healthy,
}

/// Answers with the instances of a service.
pub(super) fn answer(
    state: &State,
    question: &Question<'_>,
    name: ServiceRef<'_>,
    filter: HealthFilter,
) -> Replied {
    let Some(resolved) = state.resolve(name) else {
        return refused(&question.request, Code::NotFoundResource);
    };
    let view = resolved.view;
    // The alias counts: pointed to another service, the same name must not look unchanged.
    let revision = match resolved.alias {
        Some(alias) => view.revision.with(alias.revision),
        None => view.revision,
    };
    if question.has(&revision.digits()) {
        return question.unchanged();
    }
    let only_healthy =
        filter == HealthFilter::Honoured && question.request.only_healthy == Some(true);
    let which = if only_healthy { Which::Healthy } else { Which::All };
    let tail = direction_field(question.request.direction);
    let answer = match resolved.alias {
        Some(alias) => chained(view, alias_head(view, alias), which, tail),
        // What most clients ask of most services: one piece, encoded once for all of them.
        None if which == Which::All && is_short(view) && tail.is_empty() => {
            Answer::shared(view.encoded.get_or_encode(|| whole(view)).clone())
        }
        None if is_short(view) => chained(view, direct_head(view).into(), which, tail),
        None => {
            let head = view.encoded.get_or_encode(|| direct_head(view).into());
            chained(view, head.clone(), which, tail)
        }
    };
    Replied { code: Code::ExecuteSuccess, answer }
}

/// Whether the whole answer is kept, and not the head alone.
fn is_short(view: &ServiceView) -> bool {
    view.members.len() as usize <= CHUNK_OBJECTS
}

/// The whole answer for who asks by the service's own name.
fn whole(view: &ServiceView) -> Bytes {
    let mut out = direct_head(view);
    view.instances().for_each(|instance| put_discovered_instance(&mut out, instance));
    out.into_boxed_slice().into()
}

/// An answer of a head, the chunks behind it, and what follows them.
fn chained(view: &Arc<ServiceView>, head: Bytes, which: Which, tail: Bytes) -> Answer {
    // Outside of any lock: whoever asks meanwhile waits for a chunk at most.
    let chunks = view.members.chunks();
    let instances: usize = chunks.map(|chunk| discovered_instances(chunk, which).len()).sum();
    let length = head.len() + instances + tail.len();
    Answer::chain(head, length, Pieces { view: Arc::clone(view), next: 0, which, tail: Some(tail) })
}

/// The instances of a chunk as they stand in answers; made at most once for each version of it.
fn discovered_instances(chunk: &Chunk<Instance>, which: Which) -> &Bytes {
    let encode = |takes: fn(&Instance) -> bool| {
        let mut out = Vec::new();
        for instance in chunk.objects().iter().filter(|instance| takes(instance)) {
            put_discovered_instance(&mut out, instance);
        }
        Bytes::from(out.into_boxed_slice())
    };
    match which {
        Which::All => chunk.encoded.get_or_encode(|| encode(|_| true)),
        Which::Healthy => chunk.selected.get_or_encode(|| {
            if chunk.objects().iter().all(|instance| instance.healthy) {
                discovered_instances(chunk, Which::All).clone()
            } else {
                encode(|instance| instance.healthy)
            }
        }),
    }
}

/// Chunks of a view, fetched one by one, and something behind them.
struct Pieces {
    view: Arc<ServiceView>,
    next: u32,
    which: Which,
    tail: Option<Bytes>,
}

impl Chunks for Pieces {
    fn next(&mut self) -> Option<Bytes> {
        let Some(chunk) = self.view.members.chunk(self.next) else { return self.tail.take() };
        self.next += 1;
        Some(discovered_instances(chunk, self.which).clone())
    }
}

/// The head for who asks by the service's own name.
fn direct_head(view: &ServiceView) -> Vec<u8> {
    let service = &*view.service;
    head(|out| put_discovered_service(out, service, service.key.borrowed(), view.revision), view)
}

fn alias_head(view: &ServiceView, alias: &Alias) -> Bytes {
    let service = &*view.service;
    let revision = view.revision.with(alias.revision);
    let asked = alias.key.borrowed();
    head(|out| put_discovered_service(out, service, asked, revision), view).into()
}

fn head(put_service: impl FnOnce(&mut Vec<u8>), view: &ServiceView) -> Vec<u8> {
    let service = &*view.service;
    let mut out = Vec::new();
    put_discover_head(&mut out, Code::ExecuteSuccess, INSTANCE, Direction::CALLEE);
    put_nested(&mut out, discover::SERVICE, put_service);
    put_nested(&mut out, discover::ALIAS_FOR, |out| {
        put_discovered_service(out, service, service.key.borrowed(), service.revision);
    });
    out
}

/// The direction, where it is not the usual one that needs no bytes.
fn direction_field(direction: Direction) -> Bytes {
    let mut out = Vec::new();
    put_signed(&mut out, DIRECTION, i64::from(direction.0));
    out.into()
}

#[cfg(test)]
mod tests;
