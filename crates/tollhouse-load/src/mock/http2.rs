//! HTTP/2.
use super::worker::{Wire, Worker};
pub(super) async fn serve<S: Wire>(_: &Worker, _: S) {}
