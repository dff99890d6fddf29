//! Lists: the services of a namespace or of all, and the namespaces.

use tollhouse_registry::{Revision, State};

use super::{Question, Replied};
use crate::code::Code;
use crate::wire::answer::discover;
use crate::wire::write::put_nested;
use crate::wire::{put_listed_service, put_namespace};

/// The services of the namespace that is asked for, or of all if it is none. What clients may name
/// beside the namespace does not matter.
pub(super) fn list(state: &State, question: &Question<'_>) -> Replied {
    let namespace = question.service.namespace.filter(|name| !name.is_empty());
    let revision = match namespace {
        None => all_services_revision(state),
        Some(name) => match state.namespace(name) {
            Some(view) => view.services_revision,
            None => return question.nothing(),
        },
    };
    if question.has(&revision.digits()) {
        return question.unchanged();
    }
    let mut out = question.begin(Some(revision));
    match namespace.and_then(|name| state.namespace(name)) {
        None => put_services(&mut out, state, None),
        Some(view) => out.extend_from_slice(view.encoded.get_or_encode(|| {
            let mut listed = Vec::new();
            put_services(&mut listed, state, namespace);
            listed.into_boxed_slice().into()
        })),
    }
    Replied::made(Code::ExecuteSuccess, out)
}

/// All namespaces.
pub(super) fn namespaces(state: &State, question: &Question<'_>) -> Replied {
    let revisions = state.namespaces().map(|view| view.namespace.revision);
    let revision = revisions.fold(Revision::default(), Revision::with);
    if question.has(&revision.digits()) {
        return question.unchanged();
    }
    let mut out = question.begin(Some(revision));
    for view in state.namespaces() {
        put_nested(&mut out, discover::NAMESPACES, |out| put_namespace(out, view));
    }
    Replied::made(Code::ExecuteSuccess, out)
}

fn all_services_revision(state: &State) -> Revision {
    let revisions = state.namespaces().map(|view| view.services_revision);
    revisions.fold(Revision::default(), Revision::with)
}

fn put_services(out: &mut Vec<u8>, state: &State, namespace: Option<&str>) {
    let services = state.services().map(|view| &view.service);
    for service in services.filter(|it| namespace.is_none_or(|name| *it.key.namespace == *name)) {
        put_nested(out, discover::SERVICES, |out| put_listed_service(out, service));
    }
}
