//! Byte buffer whose memory returns to the operating system on drop, whatever its size.
//!
//! Allocators keep the memory of freed large blocks, or return it late. Buffers from
//! [`MAPPED_BYTES_MIN`] on are separate mappings: they use no memory until written, grow without
//! copying, and are unmapped on drop.

#![expect(unsafe_code, reason = "memory is asked of the system, and given back to it")]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Minimum size in bytes of a buffer with a separate mapping.
pub const MAPPED_BYTES_MIN: usize = 256 * 1024;

/// Byte buffer on the heap, initially zero.
#[derive(Debug)]
pub struct ByteRoom {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the buffer owns its bytes exclusively, like a boxed slice.
unsafe impl Send for ByteRoom {}
// SAFETY: a shared buffer is only read, like a boxed slice.
unsafe impl Sync for ByteRoom {}

impl ByteRoom {
    /// Allocates a buffer of this size; `None` if the system has no memory left.
    pub fn new(bytes: usize) -> Option<ByteRoom> {
        if bytes < MAPPED_BYTES_MIN {
            let boxed = Box::leak(vec![0_u8; bytes].into_boxed_slice());
            return Some(ByteRoom { start: NonNull::from(boxed).cast(), bytes });
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address chosen by the kernel touches no other memory.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
        Some(ByteRoom { start: NonNull::new(mapped.ok()?.cast())?, bytes })
    }

    /// Enlarges the buffer; new bytes are zero. Returns `false`, without a change, if the system
    /// has no memory left.
    #[must_use]
    pub fn grow(&mut self, bytes: usize) -> bool {
        if bytes <= self.bytes {
            return true;
        }
        if self.bytes >= MAPPED_BYTES_MIN
            && let Some(start) = self.remapped(bytes)
        {
            // The old range is part of the new mapping or unmapped, so that nothing is left to
            // drop.
            std::mem::forget(std::mem::replace(self, ByteRoom { start, bytes }));
            return true;
        }
        let Some(mut larger) = ByteRoom::new(bytes) else { return false };
        larger[..self.bytes].copy_from_slice(self);
        *self = larger;
        true
    }

    #[cfg(target_os = "linux")]
    fn remapped(&self, bytes: usize) -> Option<NonNull<u8>> {
        let flags = rustix::mm::MremapFlags::MAYMOVE;
        // SAFETY: the range is a mapping of our own of exactly that length, and it is not borrowed
        // elsewhere, because the caller holds a mutable borrow.
        let moved =
            unsafe { rustix::mm::mremap(self.start.as_ptr().cast(), self.bytes, bytes, flags) };
        NonNull::new(moved.ok()?.cast())
    }

    #[cfg(not(target_os = "linux"))]
    fn remapped(&self, _bytes: usize) -> Option<NonNull<u8>> {
        None
    }
}

impl Default for ByteRoom {
    /// Creates an empty buffer without allocation.
    fn default() -> Self {
        ByteRoom { start: NonNull::dangling(), bytes: 0 }
    }
}

impl Deref for ByteRoom {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to a boxed slice or a mapping of `bytes` initialised bytes, owned
        // by this value; it is dangling if `bytes` is zero.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for ByteRoom {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for ByteRoom {
    fn drop(&mut self) {
        if self.bytes >= MAPPED_BYTES_MIN {
            // SAFETY: the range is the whole of a mapping of our own, which is no longer borrowed.
            // The result is ignored, because unmapping a range returned by the kernel does not
            // fail.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
            return;
        }
        let bytes = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.bytes);
        // SAFETY: leaked from a box of that length in `new`; with zero bytes, no memory is freed.
        drop(unsafe { Box::from_raw(bytes) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_and_keeps_what_it_holds() {
        let mut room = ByteRoom::new(4).expect("room");
        room.copy_from_slice(b"abcd");
        for bytes in [8, MAPPED_BYTES_MIN - 1, MAPPED_BYTES_MIN, 8 * MAPPED_BYTES_MIN, 1] {
            assert!(room.grow(bytes));
            assert_eq!(&room[..4], b"abcd");
            assert!(room.len() >= bytes);
            let last = room.len() - 1;
            room[last] = b'z';
        }
        assert_eq!(room.len(), 8 * MAPPED_BYTES_MIN);
        assert_eq!(room[5], 0);
    }

    #[test]
    fn no_room_is_room_for_nothing() {
        let mut room = ByteRoom::default();
        assert!(room.is_empty() && room.grow(0));
        assert!(room.grow(10) && room.len() == 10);
        assert!(ByteRoom::new(0).expect("room").is_empty());
    }
}
