//! Body that a filter collects until it is complete. The memory for its bytes is reserved from a
//! shared budget.

use std::sync::Arc;

use tollhouse_stdx::{MemoryBudget, Reservation};

/// Body that is collected piece by piece, with its memory reserved from a budget.
#[derive(Debug)]
pub struct HeldBody {
    bytes: Vec<u8>,
    memory: Arc<MemoryBudget>,
    /// Reservation for the capacity of `bytes`; `None` before the first byte.
    held: Option<Reservation>,
    has_failed: bool,
}

impl HeldBody {
    /// Returns an empty body. Memory is reserved from `memory` as the bytes arrive.
    pub fn new(memory: Arc<MemoryBudget>) -> Self {
        Self { bytes: Vec::new(), memory, held: None, has_failed: false }
    }

    /// Appends a piece. If the budget is exhausted, all bytes are dropped and later pieces are
    /// ignored.
    pub fn push(&mut self, piece: &[u8]) {
        if self.has_failed {
            return;
        }
        if self.reserve(self.bytes.len() + piece.len()) {
            self.bytes.extend_from_slice(piece);
        } else {
            (self.bytes, self.held) = (Vec::new(), None);
            self.has_failed = true;
        }
    }

    /// Makes room for `bytes` bytes in total, and reserves the whole new capacity from the budget.
    /// The capacity at least doubles, as in any vector. Returns false if the budget is exhausted.
    fn reserve(&mut self, bytes: usize) -> bool {
        if bytes <= self.bytes.capacity() {
            return true;
        }
        let room = bytes.max(self.bytes.capacity().saturating_mul(2));
        let fits = match &mut self.held {
            Some(held) => held.resize(room as u64),
            None => {
                self.held = self.memory.take(room as u64);
                self.held.is_some()
            }
        };
        if fits {
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        fits
    }

    /// Returns the length of the collected body in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no bytes have been collected.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether the memory budget was exhausted, so that the collected bytes were dropped.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Takes the bytes out. The reservation lasts until this value is dropped, because data derived
    /// from the bytes counts too.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_counts_until_it_is_let_go() {
        let memory = MemoryBudget::new(1_000);
        let mut body = HeldBody::new(Arc::clone(&memory));
        body.push(b"");
        assert_eq!((body.is_empty(), memory.held()), (true, 0));
        body.push(&[1; 300]);
        body.push(&[2; 100]);
        assert_eq!((body.len(), memory.held()), (400, 600), "room is counted, too");
        let mut other = HeldBody::new(Arc::clone(&memory));
        other.push(&[3; 401]);
        assert!(other.has_failed() && other.is_empty());
        other.push(&[3; 1]);
        assert!(other.is_empty(), "a part of it is of no use");
        assert_eq!(body.take().len(), 400);
        assert_eq!(memory.held(), 600);
        drop(body);
        assert_eq!(memory.held(), 0);
    }
}
