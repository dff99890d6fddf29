//! Reachability of etcd, for reporting. Does not affect retries.

use tokio::sync::watch;

/// Why etcd is not reachable; `None` while it is.
pub(crate) struct Outages(watch::Sender<Option<String>>);

impl Outages {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<String>> {
        self.0.subscribe()
    }

    /// Reports that etcd is not reachable.
    pub(crate) fn begin(&self, reason: &str) {
        self.0.send_if_modified(|now| {
            let is_new = now.as_deref() != Some(reason);
            if is_new {
                *now = Some(reason.to_owned());
            }
            is_new
        });
    }

    pub(crate) fn end(&self) {
        self.0.send_if_modified(|now| now.take().is_some());
    }
}
