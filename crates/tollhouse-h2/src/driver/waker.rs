//! Place for the waker of the one task that waits for something.

use std::task::Waker;

/// Waker of a task, if one has registered.
#[derive(Debug, Default)]
pub struct WakerSlot(Option<Waker>);

impl WakerSlot {
    /// Registers a task in place of the previous one; clones the waker only if the task differs.
    #[inline]
    pub fn register(&mut self, waker: &Waker) {
        if !self.0.as_ref().is_some_and(|registered| registered.will_wake(waker)) {
            self.0 = Some(waker.clone());
        }
    }

    /// Wakes the registered task, which stays registered.
    #[inline]
    pub fn wake(&self) {
        if let Some(waker) = &self.0 {
            waker.wake_by_ref();
        }
    }

    /// Removes the task.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}
