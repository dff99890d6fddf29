//! What judging asks of a value, be it a tree or a piece of a text that has been read.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Verdict;
use crate::json::Kind;
use crate::schema::equal::{equal, first_repeated};

/// A value that is checked, and that defaults are filled into.
///
/// A list without items is an object without members as well: the two look alike to Lua, and
/// clients that speak to it write either. It becomes an object with the first member that it gets.
pub(in crate::schema) trait Instance: Sized {
    /// What undoing needs.
    type Mark;

    /// What it is.
    fn shape(&self) -> Kind;
    /// Whether a list or object has nothing inside.
    fn is_empty(&self) -> bool;
    /// What a text says.
    fn text(&self) -> Option<Cow<'_, str>>;
    /// What a number is worth.
    fn number(&self) -> Option<f64>;
    /// How many items or members.
    fn count(&self) -> usize;
    /// Shows the items of a list, until one is refused.
    fn each_item(&mut self, visit: &mut dyn FnMut(usize, &mut Self) -> Verdict) -> Verdict;
    /// Shows the members of an object, until one is refused.
    fn each_member(&mut self, visit: &mut dyn FnMut(&str, &mut Self) -> Verdict) -> Verdict;
    /// Says which members will be asked for, where that helps to find them.
    fn expect_members(&mut self, _names: &mut dyn Iterator<Item = &str>) {}
    /// Whether there is a member of that name.
    fn has(&self, name: &str) -> bool;
    /// Works on the member of that name.
    fn with_member(
        &mut self,
        name: &str,
        work: &mut dyn FnMut(&mut Self) -> Verdict,
    ) -> Option<Verdict>;
    /// Adds a member that is not there.
    fn add_member(&mut self, name: &str, value: Value);
    /// Whether it is worth the same as a tree.
    fn equals(&self, tree: &Value) -> bool;
    /// The first item that equals an earlier one, as (earlier, later).
    fn first_repeated(&self) -> Option<(usize, usize)>;
    /// It as it is now.
    fn mark(&self) -> Self::Mark;
    /// Takes back what has been filled in since.
    fn undo(&mut self, mark: Self::Mark);
    /// The tree that it is, where it was filled into something that is none.
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
