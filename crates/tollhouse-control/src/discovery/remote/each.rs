//! A task for each followed service, for registries that are asked about single services.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_local};

use super::catalogue::{Catalogue, RemoteInstance, ServiceName};

/// Longest pause after failures.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A task that ends with the value.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs `follow` for each followed service, as long as an upstream names it.
pub(crate) async fn follow_each<F>(catalogue: &Catalogue, mut follow: impl FnMut(ServiceName) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let mut wanted = catalogue.wanted();
    let mut tasks: BTreeMap<ServiceName, Task> = BTreeMap::new();
    loop {
        wanted.mark_unchanged();
        let services = catalogue.services();
        tasks.retain(|name, _| services.contains(name));
        for name in services {
            tasks.entry(name).or_insert_with_key(|name| Task(spawn_local(follow(name.clone()))));
        }
        if wanted.changed().await.is_err() {
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
