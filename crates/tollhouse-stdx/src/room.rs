//! Reusable memory for one future after another. A large future is placed here while it runs, so
//! that the awaiting type stays small, and no allocation is needed once the memory is large enough.
//!
//! `Box::pin` would allocate each time. The futures may borrow. Single-threaded.

#![expect(
    unsafe_code,
    reason = "a future is put into memory that outlives it, which a Box cannot do"
)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// Memory that has held a future and can hold another.
#[derive(Default)]
pub struct Room {
    memory: Option<(NonNull<u8>, Layout)>,
}

/// Future stored in a reused allocation.
#[must_use = "futures do nothing unless polled"]
pub struct OccupiedRoom<F> {
    room: Room,
    future: NonNull<F>,
}

impl Room {
    /// Places the future returned by `make` into the room. Allocates if the room is new or too
    /// small.
    pub fn occupy<F: Future>(mut self, make: impl FnOnce() -> F) -> OccupiedRoom<F> {
        let future = self.memory_for(Layout::new::<F>()).cast::<F>();
        // SAFETY: the memory has the layout of `F`, belongs to this room alone, and holds no value
        // to drop: a room is free whenever it is not inside an `OccupiedRoom`.
        unsafe { future.write(make()) };
        OccupiedRoom { room: self, future }
    }

    /// Returns memory that fits `wanted`; reuses the room's memory if it suffices.
    fn memory_for(&mut self, wanted: Layout) -> NonNull<u8> {
        if let Some((memory, layout)) = self.memory
            && layout.size() >= wanted.size()
            && layout.align() >= wanted.align()
        {
            return memory;
        }
        self.free();
        if wanted.size() == 0 {
            return wanted.dangling_ptr();
        }
        // SAFETY: the size of `wanted` is not zero.
        let memory = unsafe { alloc(wanted) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(wanted) };
        self.memory = Some((memory, wanted));
        memory
    }

    fn free(&mut self) {
        if let Some((memory, layout)) = self.memory.take() {
            // SAFETY: allocated by `memory_for` with this layout, and taken out so that it is freed
            // once.
            unsafe { dealloc(memory.as_ptr(), layout) };
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.free();
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Room({} bytes)", self.memory.map_or(0, |(_, layout)| layout.size()))
    }
}

impl<F> OccupiedRoom<F> {
    /// Drops the future, finished or not, and returns the room.
    pub fn vacate(mut self) -> Room {
        let room = std::mem::take(&mut self.room);
        drop(self);
        room
    }
}

impl<F> Drop for OccupiedRoom<F> {
    fn drop(&mut self) {
        // SAFETY: written by `occupy` and dropped only here; the memory is still allocated, because
        // the room is dropped after this, or was taken out by `vacate`, which keeps it until this
        // is done.
        unsafe { self.future.drop_in_place() };
    }
}

impl<F: Future> Future for OccupiedRoom<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future does not move until it is dropped: its memory is neither freed nor
        // written to before that, and no other reference to it exists.
        let future = unsafe { Pin::new_unchecked(self.future.as_mut()) };
        future.poll(context)
    }
}

// The future is pinned by its memory, not by the position of the handle.
impl<F> Unpin for OccupiedRoom<F> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;
    use std::task::Waker;

    fn poll_once<F: Future>(future: &mut OccupiedRoom<F>) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Ready the second time it is polled, with what it borrows.
    async fn slow(value: &Cell<u32>, _held: Rc<()>) -> u32 {
        let buffer = [value.get(); 64];
        let mut polled = false;
        std::future::poll_fn(|_| match std::mem::replace(&mut polled, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        value.set(value.get() + 1);
        buffer.iter().sum()
    }

    #[test]
    fn one_future_after_another_uses_the_same_memory() {
        let value = Cell::new(1);
        let held = Rc::new(());
        let mut room = Room::default();
        let mut memory = None;
        for expected in [64, 128, 192] {
            let mut occupied = room.occupy(|| slow(&value, Rc::clone(&held)));
            assert_eq!(poll_once(&mut occupied), Poll::Pending);
            assert_eq!(poll_once(&mut occupied), Poll::Ready(expected));
            room = occupied.vacate();
            let address = room.memory.map(|(memory, _)| memory);
            assert_eq!(*memory.get_or_insert(address), address);
            assert_eq!(Rc::strong_count(&held), 1);
        }
    }

    #[test]
    fn a_future_that_is_given_up_is_dropped_once() {
        let value = Cell::new(1);
        let held = Rc::new(());
        let mut occupied = Room::default().occupy(|| slow(&value, Rc::clone(&held)));
        assert_eq!(poll_once(&mut occupied), Poll::Pending);
        let room = occupied.vacate();
        assert_eq!((Rc::strong_count(&held), value.get()), (1, 1));
        drop(room.occupy(|| slow(&value, Rc::clone(&held))));
        assert_eq!(Rc::strong_count(&held), 1);
    }

    #[test]
    fn a_room_grows_for_a_larger_future_and_keeps_the_memory_for_smaller_ones() {
        let small = Room::default().occupy(|| std::future::ready(1_u8)).vacate();
        let mut large = small.occupy(|| std::future::ready([7_u64; 40]));
        assert_eq!(poll_once(&mut large), Poll::Ready([7; 40]));
        let room = large.vacate();
        let bytes = format!("{room:?}");
        let mut none = room.occupy(|| std::future::ready(()));
        assert_eq!(poll_once(&mut none), Poll::Ready(()));
        assert_eq!(format!("{:?}", none.vacate()), bytes);
    }
}
