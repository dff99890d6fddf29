//! Lists: the services of a namespace or of all, aliases among them, and the namespaces. What is listed of services
//! is kept encoded with their namespace, chunk by chunk, and shared by all who ask.

use std::sync::Arc;

use bytes::Bytes;
use tollhouse_registry::{Alias, Chunk, NamespaceView, Service, State};

use super::{CallReply, Question};
use crate::answer::{Answer, Chunks};
use crate::code::Code;
use crate::wire::answer::discover;
use crate::wire::write::put_nested;
use crate::wire::{put_listed_alias, put_listed_service, put_namespace};

/// Lists the services of the requested namespace, or of all if none is given. Other fields of the
/// request are ignored.
pub(super) fn list(state: &State, question: &Question<'_>) -> CallReply {
    let namespace = question.service.namespace.filter(|name| !name.is_empty());
    let (revision, namespaces): (_, Vec<_>) = match namespace {
        None => (state.names_revision(), state.namespaces().cloned().collect()),
        Some(name) => match state.namespace(name) {
            Some(view) => (view.names_revision(), vec![Arc::clone(view)]),
            None => return question.nothing(),
        },
    };
    if question.has(&revision.digits()) {
        return question.unchanged();
    }
    let head = Bytes::from(question.begin(Some(revision)));
    let lengths = namespaces.iter().map(|view| {
        let services = view.services.chunks().map(|chunk| listed_services(chunk).len());
        let aliases = view.aliases.chunks().map(|chunk| listed_aliases(chunk).len());
        services.chain(aliases).sum::<usize>()
    });
    let length = head.len() + lengths.sum::<usize>();
    let names = Names { namespaces: namespaces.into_iter(), current: None };
    CallReply { code: Code::ExecuteSuccess, answer: Answer::chain(head, length, names) }
}

pub(super) fn namespaces(state: &State, question: &Question<'_>) -> CallReply {
    let revision = state.namespaces_revision();
    if question.has(&revision.digits()) {
        return question.unchanged();
    }
    let mut out = question.begin(Some(revision));
    for view in state.namespaces() {
        put_nested(&mut out, discover::NAMESPACES, |out| put_namespace(out, view));
    }
    CallReply::made(Code::ExecuteSuccess, out)
}

/// Returns the encoded services of a chunk; computed at most once per version of the chunk.
fn listed_services(chunk: &Chunk<Service>) -> &Bytes {
    chunk.encoded.get_or_encode(|| {
        let mut out = Vec::new();
        for service in chunk.objects() {
            put_nested(&mut out, discover::SERVICES, |out| put_listed_service(out, service));
        }
        out.into_boxed_slice().into()
    })
}

/// Returns the encoded form of a chunk of aliases in answers; computed at most once for each
/// version of the chunk.
fn listed_aliases(chunk: &Chunk<Alias>) -> &Bytes {
    chunk.encoded.get_or_encode(|| {
        let mut out = Vec::new();
        for alias in chunk.objects() {
            put_nested(&mut out, discover::SERVICES, |out| put_listed_alias(out, alias));
        }
        out.into_boxed_slice().into()
    })
}

/// The encoded services and aliases of namespaces, fetched chunk by chunk.
struct Names {
    namespaces: std::vec::IntoIter<Arc<NamespaceView>>,
    /// The namespace that is being listed, and its next chunk: of services first, of aliases behind them.
    current: Option<(Arc<NamespaceView>, NamePosition)>,
}

#[derive(Clone, Copy)]
enum NamePosition {
    Service(u32),
    Alias(u32),
}

impl Chunks for Names {
    fn next(&mut self) -> Option<Bytes> {
        loop {
            let Some((view, place)) = &mut self.current else {
                self.current = Some((self.namespaces.next()?, NamePosition::Service(0)));
                continue;
            };
            let chunk = match *place {
                NamePosition::Service(number) => {
                    view.services.chunk(number).map(|it| listed_services(it))
                }
                NamePosition::Alias(number) => {
                    view.aliases.chunk(number).map(|it| listed_aliases(it))
                }
            };
            let chunk = chunk.cloned();
            match (chunk.is_some(), *place) {
                (true, NamePosition::Service(number)) => *place = NamePosition::Service(number + 1),
                (true, NamePosition::Alias(number)) => *place = NamePosition::Alias(number + 1),
                (false, NamePosition::Service(_)) => *place = NamePosition::Alias(0),
                (false, NamePosition::Alias(_)) => self.current = None,
            }
            if chunk.is_some() {
                return chunk;
            }
        }
    }
}
