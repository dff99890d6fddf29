//! A body that a filter keeps until it is whole: its bytes are taken from the memory that all who hold bodies share.
//! What is done with the body is not known here.

use std::sync::Arc;

use tollhouse_stdx::{MemoryBudget, Reservation};

/// See the module.
#[derive(Debug)]
pub struct HeldBody {
    bytes: Vec<u8>,
    memory: Arc<MemoryBudget>,
    /// What the bytes take; `None` before there are any.
    held: Option<Reservation>,
    has_failed: bool,
}

impl HeldBody {
    /// Nothing yet, within this memory.
    pub fn new(memory: Arc<MemoryBudget>) -> Self {
        Self { bytes: Vec::new(), memory, held: None, has_failed: false }
    }

    /// Adds a piece. Where there is no memory for it everything is let go of, and nothing more is kept.
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

    /// Room grows by doubling, as that of any vector: what it takes is counted, not only what fills it.
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

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether there was no memory for all of it.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Takes the bytes out. They count until this is dropped, with what is made of them.
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
