//! Histories of registers: what clients asked several nodes for at once, what they were told, and whether there is one
//! order of all of it in which everybody saw what was there.
//!
//! The search is Wing and Gong's, which remembers where it has been. A read changes nothing, so one that fits is taken
//! at once; only the order of writes is tried. What nobody knows the outcome of may have been done at any time after it
//! was asked for, or never.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a register holds: nothing, or a value.
pub type Value = Option<u64>;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// That it hold this from now on.
    Write(Value),
    /// What it holds; this was the answer.
    Read(Value),
}

/// What a read has to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Everything that any node had answered before.
    Everywhere,
    /// Everything that the asked node had answered or shown before. What others did may reach it later, in the one
    /// order of all.
    OfItsNode,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was said to be done.
    Done,
    /// Nobody knows.
    Unknown,
    /// It cannot have been done.
    Refused,
}

/// One thing that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What.
    pub deed: Deed,
    /// Which node was asked.
    pub node: usize,
    /// What it had to show, where it is a read.
    pub sight: Sight,
    /// When, on a clock that never stands still.
    pub called: u64,
    /// When the answer was there; `None` where nobody knows what became of it.
    pub answered: Option<u64>,
}

/// What happened to several registers, in the time of the one process that asked.
#[derive(Debug, Default)]
pub struct History {
    time: AtomicU64,
    registers: Mutex<BTreeMap<usize, Vec<Operation>>>,
}

/// A register whose history has no order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disorder {
    /// Which one.
    pub register: usize,
    /// What it held where no order leads on.
    pub value: Value,
    /// What could be put in order, as far as the search came, and what could not; by when it was asked for.
    pub operations: Vec<(Operation, bool)>,
}

impl History {
    /// Records a write.
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

    /// The time of a call that ends later, for whoever cannot wait for it in one piece.
    pub fn call(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    /// Records a write that was called then and has just ended.
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

    /// Records a read, if there was an answer.
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

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.lock().values().map(Vec::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether each register, which held nothing at first, has an order of all that was done to it.
    ///
    /// # Errors
    /// The first that has none.
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
    /// Whether it comes before another one in every order.
    fn precedes(&self, other: &Self) -> bool {
        let is_over = self.answered.is_some_and(|answered| answered < other.called);
        let is_heard_of = match (self.deed, other.deed) {
            // Nobody sees what has not been asked for yet, and writes take effect while they are asked for.
            (_, Deed::Write(_)) => true,
            (_, Deed::Read(_)) => other.sight == Sight::Everywhere || other.node == self.node,
        };
        is_over && is_heard_of
    }
}

/// Whether there is an order of all that was done to one register.
fn check(register: usize, operations: &[Operation]) -> Result<(), Disorder> {
    let was_read =
        |value: Value| operations.iter().any(|operation| operation.deed == Deed::Read(value));
    // A write that nobody saw and that was not answered may be taken for one that was never done.
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

/// Which operations have been put in order.
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

    /// Those that are missing.
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
    /// By when they were asked for.
    operations: &'a [Operation],
    /// What comes before each in every order.
    before: Vec<Places>,
    /// What was answered and so has to have a place.
    answered: Places,
    /// Where the search has been, in vain.
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

    /// Whether what is left has an order after what is done, with the register at this value.
    fn go_on(&mut self, mut done: Places, value: Value) -> bool {
        for place in done.clone().missing(self.operations.len()) {
            // By the time of their calls: whatever comes before a read has been looked at before it.
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
        // What was answered first: what was not need not have been done.
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
