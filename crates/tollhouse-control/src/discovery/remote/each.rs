//! A task for each followed service, for registries that are asked about single services.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;

use super::catalogue::{Catalogue, RemoteInstance, ServiceName};

/// Longest pause after failures.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Time below which the answer to a waiting call is early.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// Early answers in a row after which a service is polled.
const EARLY_MAX: u32 = 3;

/// A task that ends with the value.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs `follow` for each followed service, as long as an upstream names it. A task that has ended,
/// by a panic for example, is started again within [`PAUSE_MAX`].
pub(crate) async fn follow_each<F>(catalogue: &Catalogue, mut follow: impl FnMut(ServiceName) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let mut wanted = catalogue.wanted();
    let mut tasks: BTreeMap<ServiceName, Task> = BTreeMap::new();
    loop {
        wanted.mark_unchanged();
        let services = catalogue.services();
        tasks.retain(|name, Task(handle)| {
            let has_ended = handle.is_finished();
            if has_ended {
                catalogue.fail(name, "the reading of the service has ended; it is started again");
            }
            services.contains(name) && !has_ended
        });
        for name in services {
            tasks.entry(name).or_insert_with_key(|name| Task(spawn_local(follow(name.clone()))));
        }
        if let Ok(Err(_)) = timeout(PAUSE_MAX, wanted.changed()).await {
            return;
        }
    }
}

/// Reads one service over and over with `read`, which also waits where the registry can wait for a
/// change. Between two readings there is the pause that `read` returns, and after failures a growing
/// one.
pub(crate) async fn read_on<R>(
    catalogue: Arc<Catalogue>,
    name: ServiceName,
    pause_min: Duration,
    mut read: R,
) where
    R: AsyncFnMut(&ServiceName) -> Result<Read, String>,
{
    let mut failures: u32 = 0;
    loop {
        let pause = match read(&name).await {
            Ok(Read { instances, pause }) => {
                failures = 0;
                catalogue.put(&name, instances);
                pause
            }
            Err(reason) => {
                catalogue.fail(&name, &reason);
                failures = failures.saturating_add(1);
                (pause_min * 2_u32.saturating_pow(failures.min(16))).min(PAUSE_MAX)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Result of a reading.
pub(crate) struct Read {
    /// Instances of the service; `None` if the registry has no such service.
    pub(crate) instances: Option<Vec<RemoteInstance>>,
    /// Pause until the next reading.
    pub(crate) pause: Duration,
}

/// Successive answers to waiting calls that arrived at once and without news, as from a server, or a
/// proxy before it, that does not let calls wait.
#[derive(Debug, Default)]
pub(crate) struct EarlyAnswers(u32);

impl EarlyAnswers {
    /// Counts an answer without news to a call that has waited for `waited`.
    pub(crate) fn note(&mut self, waited: Duration) {
        self.0 = if waited < WAIT_MIN { self.0.saturating_add(1) } else { 0 };
    }

    /// Begins anew after an answer with news.
    pub(crate) fn clear(&mut self) {
        self.0 = 0;
    }

    /// Whether there are so many that the service must be polled.
    pub(crate) fn are_many(&self) -> bool {
        self.0 >= EARLY_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use tokio::task::LocalSet;
    use tollhouse_model::upstream::{Discovery, DiscoverySource};

    use super::*;
    use crate::discovery::service_nodes::ServiceSource;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_has_ended_is_started_again() {
        let catalogue = Catalogue::default();
        let orders = Discovery::new(DiscoverySource::Consul, "", "orders");
        catalogue.follow("routes/1", &orders);
        let starts = Rc::new(Cell::new(0));
        let follow = |_| {
            starts.set(starts.get() + 1);
            let is_first = starts.get() == 1;
            async move { if is_first { panic!("a fault") } else { std::future::pending().await } }
        };
        let running = LocalSet::new();
        let follow = running.run_until(timeout(PAUSE_MAX * 3, follow_each(&catalogue, follow)));
        follow.await.expect_err("it does not end");
        assert_eq!(starts.get(), 2);
        let failure = catalogue.failure(&orders).expect("a failure");
        assert!(failure.reason.contains("started again"), "{}", failure.reason);
    }

    #[test]
    fn early_answers_without_news_count_until_one_is_late_or_new() {
        let mut answers = EarlyAnswers::default();
        let early = Duration::from_millis(900);
        for end in [EarlyAnswers::clear, |answers: &mut EarlyAnswers| answers.note(WAIT_MIN)] {
            let seen = [(); 4].map(|()| {
                answers.note(early);
                answers.are_many()
            });
            assert_eq!(seen, [false, false, true, true]);
            end(&mut answers);
            assert!(!answers.are_many());
        }
    }
}
