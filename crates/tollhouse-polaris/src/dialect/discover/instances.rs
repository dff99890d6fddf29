//! The instances of a service: encoded once for each version, shared by all who ask.
//!
//! A service whose answer is short keeps it whole, beside its view. One whose answer is long keeps its
//! head alone and sends each instance's own bytes behind it, so that no version of it is ever copied
//! together. An alias has a head of its own before the same instances.

use std::sync::Arc;

use bytes::Bytes;
use tollhouse_registry::{Alias, Instance, ServiceRef, ServiceView, State};

use super::{HealthFilter, Question, Replied, refused};
use crate::answer::{Answer, Chunks};
use crate::code::Code;
use crate::wire::answer::{discover, put_discover_head};
use crate::wire::write::{put_nested, put_signed};
use crate::wire::{Direction, discovered_instance, put_discovered_service};

/// Longest answer that is kept in one piece: joining one costs less than sending it.
const JOINED_BYTES_MAX: usize = 1024 * 1024;

/// The type of these answers.
const INSTANCE: i32 = 1;

/// `DiscoverResponse.Direction`.
const DIRECTION: u32 = 29;

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
    let revision = match resolved.alias {
        Some(alias) => view.revision.with(alias.revision),
        None => view.revision,
    };
    if question.has(&revision.digits()) {
        return question.unchanged();
    }
    let only_healthy =
        filter == HealthFilter::Honoured && question.request.only_healthy == Some(true);
    let kept = Kept::of(view);
    let head = match resolved.alias {
        Some(alias) => alias_head(view, alias),
        None => kept.head(),
    };
    let tail = direction_field(question.request.direction);
    let answer = if only_healthy {
        healthy(view, head, tail)
    } else if let (Some(joined), None, true) = (kept.joined(), resolved.alias, tail.is_empty()) {
        Answer::shared(joined)
    } else {
        kept.chained(view, head, tail)
    };
    Replied { code: Code::ExecuteSuccess, answer }
}

/// What is kept beside a view: the head of the answer, the instances if they are few, and two numbers.
struct Kept<'a> {
    bytes: &'a Bytes,
    head_bytes: usize,
    total_bytes: usize,
}

/// Bytes of the numbers at the end.
const NUMBER_BYTES: usize = size_of::<u64>();

impl<'a> Kept<'a> {
    fn of(view: &'a ServiceView) -> Self {
        let bytes = view.encoded.get_or_encode(|| encode(view));
        let numbers = bytes.len() - 2 * NUMBER_BYTES;
        let number = |at: usize| {
            let digits = bytes[at..].first_chunk::<NUMBER_BYTES>();
            u64::from_le_bytes(*digits.expect("two numbers are at the end")) as usize
        };
        Self { bytes, head_bytes: number(numbers), total_bytes: number(numbers + NUMBER_BYTES) }
    }

    fn head(&self) -> Bytes {
        self.bytes.slice(..self.head_bytes)
    }

    /// The whole answer, if it is kept in one piece.
    fn joined(&self) -> Option<Bytes> {
        self.is_joined().then(|| self.bytes.slice(..self.total_bytes))
    }

    fn is_joined(&self) -> bool {
        self.bytes.len() - 2 * NUMBER_BYTES == self.total_bytes
    }

    /// An answer with another head, or something behind the instances.
    fn chained(&self, view: &Arc<ServiceView>, head: Bytes, tail: Bytes) -> Answer {
        let length = head.len() + self.total_bytes - self.head_bytes + tail.len();
        if self.is_joined() {
            let instances = self.bytes.slice(self.head_bytes..self.total_bytes);
            return Answer::chain(head, length, Pieces([instances, tail].into_iter()));
        }
        let instances = Instances { view: Arc::clone(view), next: 0, takes: |_| true };
        Answer::chain(head, length, Followed { instances, tail: Some(tail) })
    }
}

fn encode(view: &ServiceView) -> Bytes {
    let head = direct_head(view);
    let instances: usize = view.instances().map(|it| discovered_instance(it).len()).sum();
    let total = head.len() + instances;
    let is_joined = total <= JOINED_BYTES_MAX;
    let kept = if is_joined { total } else { head.len() };
    let mut out = Vec::with_capacity(kept + 2 * NUMBER_BYTES);
    out.extend_from_slice(&head);
    if is_joined {
        view.instances().for_each(|it| out.extend_from_slice(discovered_instance(it)));
    }
    for number in [head.len(), total] {
        out.extend_from_slice(&(number as u64).to_le_bytes());
    }
    out.into()
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

/// An answer with the healthy instances only.
fn healthy(view: &Arc<ServiceView>, head: Bytes, tail: Bytes) -> Answer {
    let takes: fn(&Instance) -> bool = |instance| instance.healthy;
    let taken = view.instances().filter(|instance| takes(instance));
    let instances: usize = taken.map(|instance| discovered_instance(instance).len()).sum();
    let length = head.len() + instances + tail.len();
    let instances = Instances { view: Arc::clone(view), next: 0, takes };
    Answer::chain(head, length, Followed { instances, tail: Some(tail) })
}

/// The encoded instances of a view, fetched one by one.
struct Instances {
    view: Arc<ServiceView>,
    next: u32,
    takes: fn(&Instance) -> bool,
}

/// Instances, and something behind them.
struct Followed {
    instances: Instances,
    tail: Option<Bytes>,
}

/// Two pieces.
struct Pieces(std::array::IntoIter<Bytes, 2>);

impl Chunks for Followed {
    fn next(&mut self) -> Option<Bytes> {
        let instances = &mut self.instances;
        while let Some(instance) = instances.view.instance(instances.next) {
            instances.next += 1;
            if (instances.takes)(instance) {
                return Some(discovered_instance(instance).clone());
            }
        }
        self.tail.take()
    }
}

impl Chunks for Pieces {
    fn next(&mut self) -> Option<Bytes> {
        self.0.next()
    }
}
