//! Whether etcd answers, for whoever reports it. Nothing here retries or stops anything.

use tokio::sync::watch;

/// Why etcd is away; absent while it answers.
pub(crate) struct Outages(watch::Sender<Option<String>>);

impl Outages {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<String>> {
        self.0.subscribe()
    }

    /// It does not answer, and why.
    pub(crate) fn begin(&self, reason: &str) {
        self.0.send_if_modified(|now| {
            let is_new = now.as_deref() != Some(reason);
            if is_new {
                *now = Some(reason.to_owned());
            }
            is_new
        });
    }

    /// It answers.
    pub(crate) fn end(&self) {
        self.0.send_if_modified(|now| now.take().is_some());
    }
}
