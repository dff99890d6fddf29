//! The keeper against an authority that is not ours.

mod pebble;
mod pebble_server;
