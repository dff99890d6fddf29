//! The life of a gateway's process: its serving threads, what only one process may hold, and how both
//! go over to a successor.

pub mod cores;
pub mod duty;
pub mod handover;
