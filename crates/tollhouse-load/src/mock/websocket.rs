//! An echo over a WebSocket.
use super::worker::{Wire, Worker};
pub(super) async fn serve<S: Wire>(_: &Worker, _: S, _: Vec<u8>, _: &str) {}
