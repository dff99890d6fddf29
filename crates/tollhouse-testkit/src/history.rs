//! Linearizability checks: histories of concurrent operations on registers at several nodes, and
//! the search for one order of all operations that explains every response.
//!
//! The search is Wing and Gong's, with memoisation of visited states. A read changes nothing, so a
//! matching read is placed at once, and only the order of writes is searched. An operation with
//! unknown outcome may have taken effect at any time after its call, or never.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Content of a register: a value, or none.
pub type Value = Option<u64>;

/// Operation of a client on a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Write(Value),
    /// Reads the register, which returned this value.
    Read(Value),
}

/// Consistency that a read must satisfy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// The read sees everything that any node had confirmed before it.
    Everywhere,
    /// The read must see all that this node had confirmed or shown before. Operations at other
    /// nodes may become visible later, but in one order for all nodes.
    OfItsNode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Done,
    /// The client does not know whether the write took effect.
    Unknown,
    /// The write certainly had no effect.
    Refused,
}

/// Operation with its times, as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    pub deed: Deed,
    /// Index of the node that was called.
    pub node: usize,
    pub sight: Sight,
    /// Time of the call, on a logical clock that never repeats.
    pub called: u64,
    /// Time of the response; `None` if the outcome is unknown.
    pub answered: Option<u64>,
}

/// Operations on several registers, timed by the one process that calls.
#[derive(Debug, Default)]
pub struct History {
    time: AtomicU64,
    registers: Mutex<BTreeMap<usize, Vec<Operation>>>,
}

/// Register whose history has no valid order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disorder {
    pub register: usize,
    /// Value of the register at the deepest point of the search.
    pub value: Value,
    /// Operations by time of call, each with whether the deepest search could place it.
    pub operations: Vec<(Operation, bool)>,
}

impl History {
    /// Performs a write and records its times and outcome.
    pub fn write(
        &self,
        register: usize,
        node: usize,
        value: Value,
        ask: impl FnOnce() -> Ending,
    ) -> Ending {
        let called = self.call();
        let ending = ask();
        self.end_write((register, node), value, called, ending);
        ending
    }

    /// Returns the time of a call whose end is recorded later.
    pub fn call(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    /// Records a write that was called at `called` and has just ended.
    pub fn end_write(
        &self,
        (register, node): (usize, usize),
        value: Value,
        called: u64,
        ending: Ending,
    ) {
        let answered = (ending == Ending::Done).then(|| self.call());
        if ending != Ending::Refused {
            let (deed, sight) = (Deed::Write(value), Sight::Everywhere);
            self.push(register, Operation { deed, node, sight, called, answered });
        }
    }

    /// Records a read, unless it got no response.
    pub fn read(
        &self,
        register: usize,
        node: usize,
        sight: Sight,
        ask: impl FnOnce() -> Option<Value>,
    ) -> Option<Value> {
        let called = self.call();
        let found = ask()?;
        let answered = Some(self.call());
        self.push(register, Operation { deed: Deed::Read(found), node, sight, called, answered });
        Some(found)
    }

    pub fn len(&self) -> usize {
        self.lock().values().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks that each register, initially empty, has a valid order of its operations.
    ///
    /// # Errors
    ///
    /// The first register without a valid order.
    pub fn check(&self) -> Result<(), Disorder> {
        for (register, operations) in &*self.lock() {
            check(*register, operations)?;
        }
        Ok(())
    }

    fn push(&self, register: usize, operation: Operation) {
        self.lock().entry(register).or_default().push(operation);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, Vec<Operation>>> {
        self.registers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Operation {
    /// Whether this operation precedes another one in every valid order.
    fn precedes(&self, other: &Self) -> bool {
        let is_over = self.answered.is_some_and(|answered| answered < other.called);
        let is_heard_of = match (self.deed, other.deed) {
            // A read cannot see later calls, and a write takes effect between its call and its
            // response.
            (_, Deed::Write(_)) => true,
            (_, Deed::Read(_)) => other.sight == Sight::Everywhere || other.node == self.node,
        };
        is_over && is_heard_of
    }
}

/// Searches for a valid order of the operations on one register.
fn check(register: usize, operations: &[Operation]) -> Result<(), Disorder> {
    let was_read =
        |value: Value| operations.iter().any(|operation| operation.deed == Deed::Read(value));
    // An unconfirmed write that no read saw may be treated as never done.
    let matters = |operation: &&Operation| match operation.deed {
        Deed::Write(value) => operation.answered.is_some() || was_read(value),
        Deed::Read(_) => true,
    };
    let mut operations: Vec<Operation> = operations.iter().filter(matters).copied().collect();
    operations.sort_by_key(|operation| operation.called);
    let mut search = Search::new(&operations);
    if search.go_on(Places::none(operations.len()), None) {
        return Ok(());
    }
    let (done, value) = search.farthest;
    let placed = operations.iter().enumerate().map(|(place, it)| (*it, done.has(place)));
    Err(Disorder { register, value, operations: placed.collect() })
}

/// Set of operations that have been placed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Places(Box<[u64]>);

impl Places {
    fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)].into())
    }

    fn has(&self, place: usize) -> bool {
        self.0[place / 64] & (1 << (place % 64)) != 0
    }

    fn add(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    /// Lists the operations that are not placed yet.
    fn missing(&self, count: usize) -> impl Iterator<Item = usize> {
        let words = self.0.iter().enumerate().filter(|(_, word)| **word != u64::MAX);
        let places = words.flat_map(|(at, word)| {
            (0..64).filter(move |bit| word & (1 << bit) == 0).map(move |bit| at * 64 + bit)
        });
        places.take_while(move |place| *place < count)
    }

    fn has_all(&self, others: &Self) -> bool {
        self.0.iter().zip(&*others.0).all(|(own, other)| own & other == *other)
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|places| places.count_ones()).sum()
    }
}

struct Search<'a> {
    /// Operations in the order of their calls.
    operations: &'a [Operation],
    /// For each operation, the operations that precede it in every valid order.
    before: Vec<Places>,
    /// Operations with a response, which must be placed.
    answered: Places,
    /// States that were searched without success.
    tried: HashSet<(Places, Value)>,
    farthest: (Places, Value),
}

impl<'a> Search<'a> {
    fn new(operations: &'a [Operation]) -> Self {
        let those = |is_one: &dyn Fn(&Operation) -> bool| {
            let mut places = Places::none(operations.len());
            let found = operations.iter().enumerate().filter(|(_, it)| is_one(it));
            found.for_each(|(place, _)| places.add(place));
            places
        };
        Self {
            operations,
            before: operations.iter().map(|it| those(&|other| other.precedes(it))).collect(),
            answered: those(&|it| it.answered.is_some()),
            tried: HashSet::new(),
            farthest: (Places::none(operations.len()), None),
        }
    }

    /// Searches for an order of the remaining operations, from the state `done` and `value`.
    fn go_on(&mut self, mut done: Places, value: Value) -> bool {
        for place in done.clone().missing(self.operations.len()) {
            // In order of their calls, so that everything that precedes a read has been placed
            // before it.
            if self.operations[place].deed == Deed::Read(value) && self.may_come(place, &done) {
                done.add(place);
            }
        }
        if done.has_all(&self.answered) {
            return true;
        }
        if done.count() > self.farthest.0.count() {
            self.farthest = (done.clone(), value);
        }
        if !self.tried.insert((done.clone(), value)) {
            return false;
        }
        // Confirmed writes first, because the others need not have taken effect.
        for is_answered in [true, false] {
            for place in done.missing(self.operations.len()) {
                let operation = &self.operations[place];
                let Deed::Write(written) = operation.deed else { continue };
                if operation.answered.is_some() != is_answered || !self.may_come(place, &done) {
                    continue;
                }
                let mut next = done.clone();
                next.add(place);
                if self.go_on(next, written) {
                    return true;
                }
            }
        }
        false
    }

    fn may_come(&self, place: usize, done: &Places) -> bool {
        !done.has(place) && done.has_all(&self.before[place])
    }
}

impl fmt::Display for Disorder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = name(self.value);
        writeln!(out, "register {} has no order; no way leads on from {held}:", self.register)?;
        for (operation, is_placed) in &self.operations {
            let mark = if *is_placed { ' ' } else { '!' };
            let deed = match operation.deed {
                Deed::Write(value) => format!("write {}", name(value)),
                Deed::Read(value) => format!("read {}", name(value)),
            };
            let end = operation.answered.map_or("?".to_owned(), |answered| answered.to_string());
            writeln!(out, "{mark} {}..{end} at node {}: {deed}", operation.called, operation.node)?;
        }
        Ok(())
    }
}

fn name(value: Value) -> String {
    value.map_or("nothing".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests;
