//! How far what a store holds is in service, for those who answer a write once the next request meets it. Who puts it
//! there is not known here.

use std::time::Duration;

use tokio::sync::watch;

use crate::entry::Revision;

/// Longest wait of a write: whoever puts things into service may have the lowest priority of a busy machine, and clients
/// wait longer than this.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(5);

/// The revision up to which everything is in service. Clones tell the same.
#[derive(Debug, Clone)]
pub struct InService(watch::Receiver<Revision>);

impl InService {
    /// As whoever puts it there tells; once nobody tells any more, nothing is waited for.
    pub fn new(told: watch::Receiver<Revision>) -> Self {
        Self(told)
    }

    /// The revision.
    pub fn revision(&self) -> Revision {
        *self.0.borrow()
    }

    /// Waits until a revision is in service, for so long; whether it is. Any number may wait for the same one.
    pub async fn reaches(&self, revision: Revision, longest: Duration) -> bool {
        let mut told = self.0.clone();
        let reached = told.wait_for(|reached| *reached >= revision);
        tokio::time::timeout(longest, reached).await.is_ok()
    }

    /// Waits until what a write made is in service, for a while: it is written all the same, and the log says so where
    /// it is answered before.
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
