//! Shared answers in transmission. Each costs its memory once, however many clients get it, but a
//! version that is no longer the newest stays alive only for clients that have not read it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::limits::PINNED_BYTES_MAX;
use super::status::{Code, Status};

/// Shared answers of a thread that are being sent.
#[derive(Debug, Default)]
pub(super) struct SharedAnswers {
    answers: RefCell<HashMap<usize, SharedAnswer>>,
    bytes: Cell<usize>,
}

#[derive(Debug)]
struct SharedAnswer {
    readers: usize,
    bytes: usize,
}

/// A client's reference to a shared answer.
#[derive(Debug)]
pub(super) struct Pin {
    pinned: Rc<SharedAnswers>,
    place: usize,
}

impl SharedAnswers {
    /// Adds a reference to the answer whose memory begins at `place`; `bytes` is its size.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if too many distinct answers are in transmission.
    pub(super) fn hold(self: &Rc<Self>, place: usize, bytes: usize) -> Result<Pin, Status> {
        let mut answers = self.answers.borrow_mut();
        match answers.get_mut(&place) {
            Some(answer) => answer.readers += 1,
            None => {
                let all = self.bytes.get() + bytes;
                if all > PINNED_BYTES_MAX {
                    let message = "too many answers are not read by those who asked for them";
                    return Err(Status::new(Code::ResourceExhausted, message));
                }
                self.bytes.set(all);
                answers.insert(place, SharedAnswer { readers: 1, bytes });
            }
        }
        Ok(Pin { pinned: Rc::clone(self), place })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut answers = self.pinned.answers.borrow_mut();
        let Some(answer) = answers.get_mut(&self.place) else { return };
        answer.readers -= 1;
        if answer.readers == 0 {
            self.pinned.bytes.set(self.pinned.bytes.get() - answer.bytes);
            answers.remove(&self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_once_however_many_read_it() {
        let pinned = Rc::new(SharedAnswers::default());
        let half = PINNED_BYTES_MAX / 2;
        let readers: Vec<_> = (0..100).map(|_| pinned.hold(1, half).expect("shared")).collect();
        let other = pinned.hold(2, half).expect("room");
        assert_eq!(pinned.hold(3, 1).err().map(|it| it.code), Some(Code::ResourceExhausted));
        pinned.hold(1, half).expect("it is there anyway");
        drop(readers);
        pinned.hold(3, half).expect("room again");
        drop(other);
        assert_eq!(pinned.bytes.get(), 0);
        assert!(pinned.answers.borrow().is_empty());
    }
}
