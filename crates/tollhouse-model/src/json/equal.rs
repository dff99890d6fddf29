//! Equality of values of documents. Numbers compare by value (`1` equals `1.0`); the order of
//! members does not matter. Also finds the first duplicate in a list.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use hashbrown::HashTable;
use serde_json::{Number, Value};

use super::piece::{Kind, Piece};

impl Piece<'_> {
    /// Whether the value equals a tree.
    pub fn equals(&self, tree: &Value) -> bool {
        match (self.kind(), tree) {
            (Kind::Null, Value::Null) => true,
            (Kind::Boolean, Value::Bool(other)) => (self.raw() == "true") == *other,
            (Kind::Number, Value::Number(other)) => numbers_equal(&self.exact_number(), other),
            (Kind::Text, Value::String(other)) => self.is_text(other),
            (Kind::List, Value::Array(others)) => {
                let mut items = self.items();
                others.iter().all(|other| items.next().is_some_and(|item| item.equals(other)))
                    && items.next().is_none()
            }
            (Kind::Object, Value::Object(others)) => {
                let mut left = others.len();
                let all = self.members().all(|(name, value)| {
                    left = left.wrapping_sub(1);
                    let other = name.text().and_then(|name| others.get(&*name));
                    other.is_some_and(|other| value.equals(other))
                });
                all && left == 0
            }
            _ => false,
        }
    }

    /// Returns the first item that equals an earlier one, as (earlier, later). Allocates some bytes
    /// per item.
    pub fn first_repeated_item(&self) -> Option<(usize, usize)> {
        let state = RandomState::new();
        let mut seen: HashTable<(u32, Piece<'_>)> = HashTable::new();
        for (index, item) in self.items().enumerate() {
            let hash = state.hash_one(PieceKey { piece: item, state: &state });
            if let Some((earlier, _)) = seen.find(hash, |(_, other)| other.is_same(&item, &state)) {
                return Some((*earlier as usize, index));
            }
            // A document has fewer items than bytes, and fewer than 4 Gi bytes.
            seen.insert_unique(hash, (index as u32, item), |(_, item)| {
                state.hash_one(PieceKey { piece: *item, state: &state })
            });
        }
        None
    }

    fn is_same(&self, other: &Piece<'_>, state: &RandomState) -> bool {
        match (self.kind(), other.kind()) {
            (Kind::Number, Kind::Number) => {
                numbers_equal(&self.exact_number(), &other.exact_number())
            }
            (Kind::Text, Kind::Text) => self.text() == other.text(),
            (Kind::List, Kind::List) => {
                let mut others = other.items();
                let mut has_same = |item: Piece<'_>| {
                    others.next().is_some_and(|other| item.is_same(&other, state))
                };
                self.items().all(&mut has_same) && others.next().is_none()
            }
            (Kind::Object, Kind::Object) => {
                let (own, others) = (self.by_name(state), other.by_name(state));
                own.len() == others.len()
                    && own.iter().zip(&others).all(|((name, value), (other_name, other))| {
                        name == other_name && value.is_same(other, state)
                    })
            }
            (one, two) => one == two && self.raw() == other.raw(),
        }
    }

    /// Returns the members of an object, sorted by the seeded hash of their names. Two names share
    /// a hash only by a random collision, because the seed is secret.
    fn by_name(&self, state: &RandomState) -> Vec<(u64, Piece<'_>)> {
        let mut members: Vec<(u64, Piece<'_>)> =
            self.members().map(|(name, value)| (state.hash_one(name.text()), value)).collect();
        members.sort_unstable_by_key(|(hash, _)| *hash);
        members
    }

    fn exact_number(&self) -> Number {
        serde_json::from_str(self.raw()).unwrap_or_else(|_| Number::from(0))
    }
}

/// Whether two numbers are equal, integers exactly.
pub(crate) fn numbers_equal(one: &Number, other: &Number) -> bool {
    // Integers that a float cannot represent exactly are compared exactly.
    one == other || (one.as_f64() == other.as_f64() && (one.is_f64() || other.is_f64()))
}

/// A value as the key of a set.
struct PieceKey<'d, 's> {
    piece: Piece<'d>,
    /// Hasher of single members. Their hashes are summed, because members have no order.
    state: &'s RandomState,
}

impl Hash for PieceKey<'_, '_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let state = self.state;
        match self.piece.kind() {
            Kind::Null => 0u8.hash(hasher),
            Kind::Boolean => self.piece.raw().hash(hasher),
            // Adding zero turns -0.0 into 0.0.
            Kind::Number => {
                (self.piece.number().unwrap_or_default() + 0.0).to_bits().hash(hasher);
            }
            Kind::Text => self.piece.text().hash(hasher),
            Kind::List => {
                self.piece.items().for_each(|item| PieceKey { piece: item, state }.hash(hasher))
            }
            Kind::Object => {
                let hash = |(name, value): (Piece<'_>, Piece<'_>)| {
                    state.hash_one((name.text(), PieceKey { piece: value, state }))
                };
                self.piece.members().map(hash).fold(0u64, u64::wrapping_add).hash(hasher);
            }
        }
    }
}
