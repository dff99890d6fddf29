//! `Discover` of instances: encoded per chunk, once for each version of a chunk, and shared by all
//! clients. A change of one in ten thousand instances encodes one chunk again.
//!
//! A service of few instances caches its whole response in one piece. A larger service caches the
//! head, and sends the chunks after it, so that a response is never copied whole. An alias has a
//! separate head before the chunks of its target.

use std::sync::Arc;

use bytes::Bytes;
use tollhouse_registry::{Alias, CHUNK_OBJECTS, Chunk, Instance, ServiceRef, ServiceView, State};

use super::{CallReply, HealthFilter, Question, refused};
use crate::answer::{Answer, Chunks};
use crate::code::Code;
use crate::wire::answer::{discover, put_discover_head};
use crate::wire::write::{put_nested, put_signed};
use crate::wire::{Direction, put_discovered_instance, put_discovered_service};

/// Number of the response type "instances".
const INSTANCE: i32 = 1;

/// Field number of `DiscoverResponse.Direction`.
const DIRECTION: u32 = 29;

/// Selection of instances by health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InstanceFilter {
    All,
    Healthy,
}

/// Answers with the instances of a service.
pub(super) fn answer(
    state: &State,
    question: &Question<'_>,
    name: ServiceRef<'_>,
    filter: HealthFilter,
) -> CallReply {
    let Some(resolved) = state.resolve(name) else {
        return refused(&question.request, Code::NotFoundResource);
    };
    let view = resolved.view;
    // The alias is included, because an alias that was redirected must not look unchanged.
    let revision = match resolved.alias {
        Some(alias) => view.revision.with(alias.revision),
        None => view.revision,
    };
    if question.has(&revision.digits()) {
        return question.unchanged();
    }
    let only_healthy =
        filter == HealthFilter::Honoured && question.request.only_healthy == Some(true);
    let which = if only_healthy { InstanceFilter::Healthy } else { InstanceFilter::All };
    let tail = direction_field(question.request.direction);
    let answer = match resolved.alias {
        Some(alias) => chained(view, alias_head(view, alias), which, tail),
        // The most frequent case: one piece, encoded once for all clients.
        None if which == InstanceFilter::All && is_short(view) && tail.is_empty() => {
            Answer::shared(view.encoded.get_or_encode(|| whole(view)).clone())
        }
        None if is_short(view) => chained(view, direct_head(view).into(), which, tail),
        None => {
            let head = view.encoded.get_or_encode(|| direct_head(view).into());
            chained(view, head.clone(), which, tail)
        }
    };
    CallReply { code: Code::ExecuteSuccess, answer }
}

/// Whether the whole response is cached, rather than its head alone.
fn is_short(view: &ServiceView) -> bool {
    view.members.len() as usize <= CHUNK_OBJECTS
}

/// Encodes the whole response for the service's own name.
fn whole(view: &ServiceView) -> Bytes {
    let mut out = direct_head(view);
    view.instances().for_each(|instance| put_discovered_instance(&mut out, instance));
    out.into_boxed_slice().into()
}

/// Creates a response from a head, the chunks, and a tail.
fn chained(view: &Arc<ServiceView>, head: Bytes, which: InstanceFilter, tail: Bytes) -> Answer {
    // No lock is held: a concurrent reader waits for the encoding of one chunk at most.
    let chunks = view.members.chunks();
    let instances: usize = chunks.map(|chunk| discovered_instances(chunk, which).len()).sum();
    let length = head.len() + instances + tail.len();
    Answer::chain(
        head,
        length,
        ViewChunks { view: Arc::clone(view), next: 0, which, tail: Some(tail) },
    )
}

/// Returns the encoded instances of a chunk; computed at most once per version of the chunk.
fn discovered_instances(chunk: &Chunk<Instance>, which: InstanceFilter) -> &Bytes {
    let encode = |takes: fn(&Instance) -> bool| {
        let mut out = Vec::new();
        for instance in chunk.objects().iter().filter(|instance| takes(instance)) {
            put_discovered_instance(&mut out, instance);
        }
        Bytes::from(out.into_boxed_slice())
    };
    match which {
        InstanceFilter::All => chunk.encoded.get_or_encode(|| encode(|_| true)),
        InstanceFilter::Healthy => chunk.selected.get_or_encode(|| {
            if chunk.objects().iter().all(|instance| instance.healthy) {
                discovered_instances(chunk, InstanceFilter::All).clone()
            } else {
                encode(|instance| instance.healthy)
            }
        }),
    }
}

/// Iterator over the chunks of a view, then the tail.
struct ViewChunks {
    view: Arc<ServiceView>,
    next: u32,
    which: InstanceFilter,
    tail: Option<Bytes>,
}

impl Chunks for ViewChunks {
    fn next(&mut self) -> Option<Bytes> {
        let Some(chunk) = self.view.members.chunk(self.next) else { return self.tail.take() };
        self.next += 1;
        Some(discovered_instances(chunk, self.which).clone())
    }
}

/// Encodes the head for the service's own name.
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

/// Encodes the direction; empty for the default, which needs no bytes.
fn direction_field(direction: Direction) -> Bytes {
    let mut out = Vec::new();
    put_signed(&mut out, DIRECTION, i64::from(direction.0));
    out.into()
}

#[cfg(test)]
mod tests;
