//! Connections that have warmed up serve calls without touching the heap: heads, DATA, trailers, window
//! updates, both roles. One test only: the count belongs to the process.

#![expect(unsafe_code, reason = "an allocator that counts can be installed in no other way")]

#[path = "../examples/unary/pair.rs"]
mod pair;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pair::Pair;

/// Calls before counting: buffers and tables have then grown.
const WARM_UP_CALLS: u64 = 200;

/// Calls that are counted: enough for windows to be updated.
const COUNTED_CALLS: u64 = 6000;

thread_local! {
    /// Allocations of this thread. Const and without a destructor, so that the allocator may count at
    /// any time.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is handed to `System` with the caller's arguments as they are, and its result is
// returned as it is; what is done beside that does not touch the memory in question.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract, which is that of `System`.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract, which is that of `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[test]
fn calls_allocate_nothing_once_warm() {
    let mut pair = Pair::new();
    for number in 0..WARM_UP_CALLS {
        pair.call(number);
    }
    let before = ALLOCATIONS.get();
    let mut bytes = 0;
    for number in WARM_UP_CALLS..WARM_UP_CALLS + COUNTED_CALLS {
        bytes += pair.call(number);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    // What was counted is calls: two messages of a hundred bytes each, and frames around them.
    assert!(bytes > COUNTED_CALLS as usize * 250, "{bytes}");
}
