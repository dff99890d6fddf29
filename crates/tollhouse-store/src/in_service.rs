//! Progress of the configuration in service, for callers that answer a write once the next request
//! is served with it.

use std::time::Duration;

use tokio::sync::watch;

use crate::entry::Revision;

/// Maximum wait of a write until its change is in service. The publisher may run at the lowest
/// priority of a busy machine, and clients wait longer than this.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(5);

/// The revision up to which everything is in service. Clones share it.
#[derive(Debug, Clone)]
pub struct InService(watch::Receiver<Revision>);

impl InService {
    /// Follows the revision of the publisher. After the publisher has ended, waits return at once.
    pub fn new(told: watch::Receiver<Revision>) -> Self {
        Self(told)
    }

    pub fn revision(&self) -> Revision {
        *self.0.borrow()
    }

    /// Waits up to `longest` until a revision is in service; returns whether it is. Any number of
    /// callers may wait for one revision.
    pub async fn reaches(&self, revision: Revision, longest: Duration) -> bool {
        let mut told = self.0.clone();
        let reached = told.wait_for(|reached| *reached >= revision);
        tokio::time::timeout(longest, reached).await.is_ok()
    }

    /// Waits for a limited time until a write is in service. On timeout the write is still valid; a
    /// warning is logged.
    pub async fn meets_write(&self, revision: Revision) {
        if !self.reaches(revision, WRITE_WAIT_MAX).await {
            tracing::warn!(revision = revision.0, "a write is answered before it serves");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_for_a_revision_go_on_together_and_nobody_waits_for_ever() {
        let (tell, told) = watch::channel(Revision(1));
        let in_service = InService::new(told);
        assert_eq!(in_service.revision(), Revision(1));
        in_service.meets_write(Revision(1)).await;
        let waiting = || async {
            in_service.meets_write(Revision(3)).await;
            in_service.revision()
        };
        let (one, other, ()) = tokio::join!(waiting(), waiting(), async {
            tell.send_replace(Revision(2));
            tokio::time::sleep(Duration::from_millis(10)).await;
            tell.send_replace(Revision(4));
        });
        assert_eq!([one, other], [Revision(4); 2]);
        assert!(!in_service.reaches(Revision(5), Duration::from_millis(1)).await);
        let began = tokio::time::Instant::now();
        in_service.meets_write(Revision(5)).await;
        assert_eq!(began.elapsed(), WRITE_WAIT_MAX);
        drop(tell);
        in_service.meets_write(Revision(5)).await;
        assert_eq!(began.elapsed(), WRITE_WAIT_MAX, "nobody puts anything into service any more");
    }
}
