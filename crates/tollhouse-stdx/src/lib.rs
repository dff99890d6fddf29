//! Additions to the standard library: copy-on-write collections, addresses of IP and Unix sockets,
//! a coarse clock, a timer wheel, human sizes and counts, budgets of memory, waits between tries.
//!
//! The crate is independent of the product. It starts no threads and performs no I/O, except to
//! query the kernel about the process and to flush a folder. Every module can be understood and
//! tested alone. Types marked "single-threaded" are not `Send` and cost no atomic operations.

pub mod arrival_queue;
pub mod backoff;
mod blocks;
pub mod budget;
pub mod byte_room;
pub mod bytes_size;
pub mod civil;
pub mod clock;
pub mod control_bytes;
pub mod cow_map;
pub mod duration;
pub mod edit_distance;
pub mod endpoint;
pub mod files;
pub mod fine_duration;
pub mod header_name;
pub mod hex;
pub mod log_limit;
pub mod lost_datagrams;
pub mod plain_bytes;
pub mod plural;
pub mod priority;
pub mod random;
pub mod raw_text;
pub mod resident;
pub mod room;
pub mod slots;
pub mod target_bytes;
pub mod wheel;
pub mod word_bytes;
pub mod yaml;

pub use arrival_queue::{ArrivalQueue, Ticket};
pub use backoff::Backoff;
pub use budget::{MemoryBudget, Reservation};
pub use byte_room::ByteRoom;
pub use clock::CoarseClock;
pub use cow_map::{CowMap, Equivalent};
pub use edit_distance::nearest;
pub use endpoint::{Endpoint, UnixPath, UnixPathError};
pub use log_limit::LogLimit;
pub use lost_datagrams::lost_datagrams;
pub use random::Random;
pub use room::Room;
pub use slots::CowVec;
pub use wheel::{Timer, Wheel};
