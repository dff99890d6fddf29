//! Interface between the validator and a value, which is either a tree or a piece of JSON text.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Verdict;
use crate::json::Kind;
use crate::schema::equal::{equal, first_repeated};

/// A value that is validated and receives defaults.
///
/// An empty list counts as an empty object too, because an empty Lua table is encoded as either.
/// Adding a member turns it into an object.
pub(in crate::schema) trait Instance: Sized {
    /// State of the value to which `undo` returns.
    type Mark;

    fn shape(&self) -> Kind;
    /// Whether a list or object is empty.
    fn is_empty(&self) -> bool;
    /// Returns the text of a string; `None` for other kinds.
    fn text(&self) -> Option<Cow<'_, str>>;
    /// Returns the numeric value; `None` for other kinds.
    fn number(&self) -> Option<f64>;
    /// Returns the number of items of a list or members of an object.
    fn count(&self) -> usize;
    /// Visits the items of a list; stops at the first error and returns it.
    fn each_item(&mut self, visit: &mut dyn FnMut(usize, &mut Self) -> Verdict) -> Verdict;
    /// Visits the members of an object; stops at the first error and returns it.
    fn each_member(&mut self, visit: &mut dyn FnMut(&str, &mut Self) -> Verdict) -> Verdict;
    /// Announces the members that will be looked up, so that one pass can find them all.
    fn expect_members(&mut self, _names: &mut dyn Iterator<Item = &str>) {}
    fn has(&self, name: &str) -> bool;
    /// Runs `work` on a member. `None` if the member is missing.
    fn with_member(
        &mut self,
        name: &str,
        work: &mut dyn FnMut(&mut Self) -> Verdict,
    ) -> Option<Verdict>;
    /// Adds a member. The caller has checked that it is missing.
    fn add_member(&mut self, name: &str, value: Value);
    /// Whether the value equals a tree; `1` equals `1.0`.
    fn equals(&self, tree: &Value) -> bool;
    /// Returns the first item that equals an earlier one, as (earlier, later).
    fn first_repeated(&self) -> Option<(usize, usize)>;
    /// Returns the current state, to be passed to `undo`.
    fn mark(&self) -> Self::Mark;
    /// Removes everything that was added since `mark`.
    fn undo(&mut self, mark: Self::Mark);
    /// Returns the tree of an added default, if the value itself is a piece of text.
    fn added_mut(&mut self) -> Option<&mut Value> {
        None
    }
}

impl Instance for Value {
    type Mark = Value;

    fn shape(&self) -> Kind {
        match self {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Boolean,
            Value::Number(_) => Kind::Number,
            Value::String(_) => Kind::Text,
            Value::Array(_) => Kind::List,
            Value::Object(_) => Kind::Object,
        }
    }

    fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn text(&self) -> Option<Cow<'_, str>> {
        self.as_str().map(Cow::Borrowed)
    }

    fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(number.as_f64().unwrap_or(f64::INFINITY)),
            _ => None,
        }
    }

    fn count(&self) -> usize {
        match self {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        }
    }

    fn each_item(&mut self, visit: &mut dyn FnMut(usize, &mut Self) -> Verdict) -> Verdict {
        let items = self.as_array_mut().into_iter().flatten();
        items.enumerate().try_for_each(|(index, item)| visit(index, item))
    }

    fn each_member(&mut self, visit: &mut dyn FnMut(&str, &mut Self) -> Verdict) -> Verdict {
        let fields = self.as_object_mut().into_iter().flatten();
        fields.into_iter().try_for_each(|(name, field)| visit(name, field))
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn with_member(
        &mut self,
        name: &str,
        work: &mut dyn FnMut(&mut Self) -> Verdict,
    ) -> Option<Verdict> {
        self.get_mut(name).map(work)
    }

    fn add_member(&mut self, name: &str, value: Value) {
        if self.is_array() {
            *self = Value::Object(Map::new());
        }
        if let Value::Object(fields) = self {
            fields.insert(name.to_owned(), value);
        }
    }

    fn equals(&self, tree: &Value) -> bool {
        equal(tree, self)
    }

    fn first_repeated(&self) -> Option<(usize, usize)> {
        first_repeated(self.as_array()?)
    }

    fn mark(&self) -> Value {
        self.clone()
    }

    fn undo(&mut self, mark: Value) {
        *self = mark;
    }
}
