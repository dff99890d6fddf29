//! `Discover` of lists: the services of one or all namespaces, and the namespaces. The encoded
//! services are cached per chunk with their namespace, and shared by all clients.

use std::sync::Arc;

use bytes::Bytes;
use tollhouse_registry::{Chunk, NamespaceView, Service, State};

use super::{Question, Replied};
use crate::answer::{Answer, Chunks};
use crate::code::Code;
use crate::wire::answer::discover;
use crate::wire::write::put_nested;
use crate::wire::{put_listed_service, put_namespace};

/// Lists the services of the requested namespace, or of all if none is given. Other fields of the
/// request are ignored.
pub(super) fn list(state: &State, question: &Question<'_>) -> Replied {
    let namespace = question.service.namespace.filter(|name| !name.is_empty());
    let (revision, namespaces): (_, Vec<_>) = match namespace {
        None => (state.services_revision(), state.namespaces().cloned().collect()),
        Some(name) => match state.namespace(name) {
            Some(view) => (view.services_revision, vec![Arc::clone(view)]),
            None => return question.nothing(),
        },
    };
    if question.has(&revision.digits()) {
        return question.unchanged();
    }
    let head = Bytes::from(question.begin(Some(revision)));
    let chunks = namespaces.iter().flat_map(|view| view.services.chunks());
    let length = head.len() + chunks.map(|chunk| listed_services(chunk).len()).sum::<usize>();
    let services = Services { namespaces: namespaces.into_iter(), current: None };
    Replied { code: Code::ExecuteSuccess, answer: Answer::chain(head, length, services) }
}

pub(super) fn namespaces(state: &State, question: &Question<'_>) -> Replied {
    let revision = state.namespaces_revision();
    if question.has(&revision.digits()) {
        return question.unchanged();
    }
    let mut out = question.begin(Some(revision));
    for view in state.namespaces() {
        put_nested(&mut out, discover::NAMESPACES, |out| put_namespace(out, view));
    }
    Replied::made(Code::ExecuteSuccess, out)
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

/// Iterator over the encoded services of namespaces.
struct Services {
    namespaces: std::vec::IntoIter<Arc<NamespaceView>>,
    /// Current namespace, and the index of its next chunk.
    current: Option<(Arc<NamespaceView>, u32)>,
}

impl Chunks for Services {
    fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some((view, place)) = &mut self.current
                && let Some(chunk) = view.services.chunk(*place)
            {
                *place += 1;
                return Some(listed_services(chunk).clone());
            }
            self.current = Some((self.namespaces.next()?, 0));
        }
    }
}
