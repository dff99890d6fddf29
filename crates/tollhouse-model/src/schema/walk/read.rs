//! Validation of a value in place, in its JSON text. The text is not changed; defaults are recorded
//! beside it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::Value;

use super::Verdict;
use super::instance::Instance;
use crate::json::{Additions, Kind, Piece};

/// Log of the members added to objects of a document, newest last; `undo` truncates it.
#[derive(Debug, Default)]
pub(in crate::schema) struct Fills {
    log: Vec<(usize, Box<str>, Value)>,
    /// Indices into the log, keyed by the byte offset at which the object begins.
    by_object: HashMap<usize, Vec<usize>>,
}

impl Fills {
    /// Returns the newest value of an added member.
    fn get(&self, object: usize, name: &str) -> Option<&Value> {
        let places = self.by_object.get(&object)?;
        let newest = places.iter().rev().map(|place| &self.log[*place]);
        newest.into_iter().find(|(_, other, _)| **other == *name).map(|(.., value)| value)
    }

    fn put(&mut self, object: usize, name: &str, value: Value) {
        self.by_object.entry(object).or_default().push(self.log.len());
        self.log.push((object, name.into(), value));
    }

    /// Returns the names of the members added to an object, each once, in order of addition.
    fn names(&self, object: usize) -> Vec<Box<str>> {
        let mut names: Vec<Box<str>> = Vec::new();
        for place in self.by_object.get(&object).into_iter().flatten() {
            let name = &self.log[*place].1;
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    fn truncate(&mut self, length: usize) {
        while self.log.len() > length {
            let Some((object, ..)) = self.log.pop() else { return };
            if let Some(places) = self.by_object.get_mut(&object) {
                places.pop();
            }
        }
    }

    /// Converts the log to the final added members of each object.
    pub(in crate::schema) fn into_additions(self) -> Additions {
        let objects = self.by_object.keys().copied().collect::<Vec<_>>();
        let members = |object: &usize| {
            let names = self.names(*object);
            let newest = |name: Box<str>| {
                let value = self.get(*object, &name).cloned();
                value.map(|value| (name, value))
            };
            names.into_iter().filter_map(newest).collect::<Vec<_>>()
        };
        let all = objects.iter().map(|object| (*object, members(object)));
        all.filter(|(_, members)| !members.is_empty()).collect()
    }
}

/// A value of the document, or a default that was added to it.
pub(in crate::schema) struct Read<'d> {
    place: ValueSource<'d>,
    fills: &'d RefCell<Fills>,
    /// Members announced by `expect_members`, found in one pass over the object.
    expected: HashMap<Box<str>, Option<Piece<'d>>>,
}

enum ValueSource<'d> {
    Piece(Piece<'d>),
    Added(Value),
}

impl<'d> Read<'d> {
    pub(in crate::schema) fn new(piece: Piece<'d>, fills: &'d RefCell<Fills>) -> Self {
        Self { place: ValueSource::Piece(piece), fills, expected: HashMap::new() }
    }

    fn added(value: Value, fills: &'d RefCell<Fills>) -> Self {
        Self { place: ValueSource::Added(value), fills, expected: HashMap::new() }
    }

    fn piece(&self) -> Option<Piece<'d>> {
        match &self.place {
            ValueSource::Piece(piece) => Some(*piece),
            ValueSource::Added(_) => None,
        }
    }

    fn read_member(&self, name: &str) -> Option<Piece<'d>> {
        match self.expected.get(name) {
            Some(found) => *found,
            None => self.piece()?.member(name),
        }
    }

    fn names_added(&self) -> Vec<Box<str>> {
        let object = self.piece().map(|piece| piece.begin());
        object.map_or(Vec::new(), |object| self.fills.borrow().names(object))
    }

    /// Runs `work` on a copy of an added member and records the copy if it changed.
    fn with_added(
        &mut self,
        name: &str,
        work: &mut dyn FnMut(&mut Self) -> Verdict,
    ) -> Option<Verdict> {
        let object = self.piece()?.begin();
        let value = self.fills.borrow().get(object, name)?.clone();
        let mut member = Self::added(value, self.fills);
        let verdict = work(&mut member);
        if let ValueSource::Added(value) = member.place
            && self.fills.borrow().get(object, name) != Some(&value)
        {
            self.fills.borrow_mut().put(object, name, value);
        }
        Some(verdict)
    }
}

impl Instance for Read<'_> {
    /// Length of the log of added members.
    type Mark = usize;

    fn shape(&self) -> Kind {
        match &self.place {
            // An empty list that received members counts as an object from then on.
            ValueSource::Piece(piece)
                if piece.kind() == Kind::List && !self.names_added().is_empty() =>
            {
                Kind::Object
            }
            ValueSource::Piece(piece) => piece.kind(),
            ValueSource::Added(value) => value.shape(),
        }
    }

    fn is_empty(&self) -> bool {
        match &self.place {
            ValueSource::Piece(piece) => piece.is_empty() && self.names_added().is_empty(),
            ValueSource::Added(value) => Instance::is_empty(value),
        }
    }

    fn text(&self) -> Option<Cow<'_, str>> {
        match &self.place {
            ValueSource::Piece(piece) => piece.text(),
            ValueSource::Added(value) => value.text(),
        }
    }

    fn number(&self) -> Option<f64> {
        match &self.place {
            ValueSource::Piece(piece) => piece.number(),
            ValueSource::Added(value) => value.number(),
        }
    }

    fn count(&self) -> usize {
        match &self.place {
            ValueSource::Piece(piece) if piece.kind() == Kind::List => {
                piece.items().count() + self.names_added().len()
            }
            ValueSource::Piece(piece) => piece.members().count() + self.names_added().len(),
            ValueSource::Added(value) => value.count(),
        }
    }

    fn each_item(&mut self, visit: &mut dyn FnMut(usize, &mut Self) -> Verdict) -> Verdict {
        let items = self.piece().into_iter().flat_map(|piece| piece.items());
        let fills = self.fills;
        items.enumerate().try_for_each(|(index, item)| visit(index, &mut Self::new(item, fills)))
    }

    fn each_member(&mut self, visit: &mut dyn FnMut(&str, &mut Self) -> Verdict) -> Verdict {
        let Some(piece) = self.piece() else { return Ok(()) };
        for (name, value) in piece.members() {
            visit(&name.text().unwrap_or_default(), &mut Self::new(value, self.fills))?;
        }
        for name in self.names_added() {
            let visited = self.with_added(&name, &mut |member| visit(&name, member));
            visited.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    fn expect_members(&mut self, names: &mut dyn Iterator<Item = &str>) {
        let Some(piece) = self.piece() else { return };
        let mut sought: HashMap<Box<str>, Option<Piece<'_>>> =
            names.map(|name| (name.into(), None)).collect();
        if sought.len() < 2 {
            return;
        }
        for (name, value) in piece.members() {
            if let Some(found) = name.text().and_then(|name| sought.get_mut(&*name)) {
                *found = Some(value);
            }
        }
        self.expected = sought;
    }

    fn has(&self, name: &str) -> bool {
        let object = self.piece().map(|piece| piece.begin());
        self.read_member(name).is_some()
            || object.is_some_and(|object| self.fills.borrow().get(object, name).is_some())
    }

    fn with_member(
        &mut self,
        name: &str,
        work: &mut dyn FnMut(&mut Self) -> Verdict,
    ) -> Option<Verdict> {
        match self.read_member(name) {
            Some(piece) => Some(work(&mut Self::new(piece, self.fills))),
            None => self.with_added(name, work),
        }
    }

    fn add_member(&mut self, name: &str, value: Value) {
        if let Some(piece) = self.piece() {
            self.fills.borrow_mut().put(piece.begin(), name, value);
        }
    }

    fn equals(&self, tree: &Value) -> bool {
        let Some(piece) = self.piece() else { return false };
        if self.fills.borrow().log.is_empty() {
            return piece.equals(tree);
        }
        // A value with more parts than `tree` cannot be equal to it.
        self.tree_up_to(size_of_tree(tree)).is_some_and(|own| own.equals(tree))
    }

    fn first_repeated(&self) -> Option<(usize, usize)> {
        self.piece()?.first_repeated_item()
    }

    fn mark(&self) -> usize {
        self.fills.borrow().log.len()
    }

    fn undo(&mut self, mark: usize) {
        self.fills.borrow_mut().truncate(mark);
    }

    fn added_mut(&mut self) -> Option<&mut Value> {
        match &mut self.place {
            ValueSource::Added(value) => Some(value),
            ValueSource::Piece(_) => None,
        }
    }
}

impl Read<'_> {
    /// Builds the value as a tree, added members included. `None` if it has more than `parts`
    /// values.
    fn tree_up_to(&self, parts: usize) -> Option<Value> {
        let mut left = parts;
        self.tree(&mut left)
    }

    fn tree(&self, left: &mut usize) -> Option<Value> {
        *left = left.checked_sub(1)?;
        let piece = self.piece()?;
        if self.shape() == Kind::List {
            let item = |item| Read::new(item, self.fills).tree(left);
            return piece.items().map(item).collect::<Option<Vec<_>>>().map(Value::Array);
        }
        if self.shape() != Kind::Object {
            return Some(piece.to_value());
        }
        let mut fields = serde_json::Map::new();
        for (name, value) in piece.members() {
            let value = Read::new(value, self.fills).tree(left)?;
            fields.insert(name.text()?.into_owned(), value);
        }
        for name in self.names_added() {
            let value = self.fills.borrow().get(piece.begin(), &name)?.clone();
            fields.insert(name.into(), value);
        }
        Some(Value::Object(fields))
    }
}

/// Returns the number of values in a tree, the root included.
fn size_of_tree(tree: &Value) -> usize {
    1 + match tree {
        Value::Array(items) => items.iter().map(size_of_tree).sum::<usize>(),
        Value::Object(fields) => fields.values().map(size_of_tree).sum::<usize>(),
        _ => 0,
    }
}
