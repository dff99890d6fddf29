//! Fetched value with a single fetch for concurrent callers. The last value stays valid until a
//! newer one is available. The time is an argument.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::Unavailable;

/// Pause after a failed first fetch; callers get the error immediately during that time.
const RETRY_PAUSE_MS: u64 = 1_000;

/// Pause after a failed refresh. Also the shortest time between two refreshes caused by unknown key
/// ids, which anyone can send.
const REFRESH_PAUSE_MS: u64 = 10_000;

/// Value fetched from the provider, kept and refreshed when it is old.
#[derive(Debug)]
pub(crate) struct Cached<T> {
    state: Mutex<State<T>>,
    /// Lock that the fetching caller holds.
    flight: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State<T> {
    value: Option<Arc<T>>,
    fetched_ms: u64,
    /// Time and error of the last attempt, if it failed.
    failure: Option<(u64, Unavailable)>,
    attempts: u64,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        let state = State { value: None, fetched_ms: 0, failure: None, attempts: 0 };
        Self { state: Mutex::new(state), flight: tokio::sync::Mutex::default() }
    }
}

impl<T> Cached<T> {
    /// Returns the value, refreshed with `fetch` if it is older than `age_max_ms`. If no refresh is
    /// needed, `fetch` is not awaited.
    ///
    /// # Errors
    /// If no value exists, and the last attempt has failed.
    pub(crate) async fn get(
        &self,
        now_ms: u64,
        age_max_ms: u64,
        fetch: impl Future<Output = Result<T, Unavailable>>,
    ) -> Result<Arc<T>, Unavailable> {
        let (value, attempts) = {
            let state = self.state();
            let age_ms = now_ms.saturating_sub(state.fetched_ms);
            let failed = state.failure.as_ref();
            let is_within = |pause: u64| failed.filter(|(ms, _)| now_ms < ms.saturating_add(pause));
            match &state.value {
                Some(value) if age_ms < age_max_ms || is_within(REFRESH_PAUSE_MS).is_some() => {
                    return Ok(Arc::clone(value));
                }
                None => match is_within(RETRY_PAUSE_MS) {
                    Some((_, failure)) => return Err(failure.clone()),
                    None => (None, state.attempts),
                },
                Some(value) => (Some(Arc::clone(value)), state.attempts),
            }
        };
        let Some(stale) = value else { return self.first(now_ms, attempts, fetch).await };
        // One caller refreshes; all others continue with the old value.
        let Ok(_flight) = self.flight.try_lock() else { return Ok(stale) };
        Ok(self.fetch(now_ms, fetch).await.unwrap_or(stale))
    }

    /// Returns a newer value than `seen`, because an entry is missing in it; `None` if none is
    /// available.
    pub(crate) async fn newer(
        &self,
        seen: &Arc<T>,
        now_ms: u64,
        fetch: impl Future<Output = Result<T, Unavailable>>,
    ) -> Option<Arc<T>> {
        let attempts = {
            let state = self.state();
            if let Some(value) = state.other_than(seen) {
                return Some(value);
            }
            let last_ms = state.failure.as_ref().map_or(0, |(ms, _)| *ms).max(state.fetched_ms);
            if now_ms < last_ms.saturating_add(REFRESH_PAUSE_MS) {
                return None;
            }
            state.attempts
        };
        let _flight = self.flight.lock().await;
        {
            let state = self.state();
            if state.attempts != attempts {
                return state.other_than(seen);
            }
        }
        self.fetch(now_ms, fetch).await.ok()
    }

    /// Fetches the first value; all callers wait for it.
    async fn first(
        &self,
        now_ms: u64,
        attempts: u64,
        fetch: impl Future<Output = Result<T, Unavailable>>,
    ) -> Result<Arc<T>, Unavailable> {
        let _flight = self.flight.lock().await;
        {
            let state = self.state();
            match (&state.value, &state.failure) {
                (Some(value), _) => return Ok(Arc::clone(value)),
                // The failure applies to all waiting callers. Otherwise each would wait for another
                // attempt in turn.
                (None, Some((_, failure))) if state.attempts != attempts => {
                    return Err(failure.clone());
                }
                _ => {}
            }
        }
        self.fetch(now_ms, fetch).await
    }

    async fn fetch(
        &self,
        now_ms: u64,
        fetch: impl Future<Output = Result<T, Unavailable>>,
    ) -> Result<Arc<T>, Unavailable> {
        let fetched = fetch.await;
        let mut state = self.state();
        state.attempts += 1;
        match fetched {
            Ok(value) => {
                let value = Arc::new(value);
                state.value = Some(Arc::clone(&value));
                (state.fetched_ms, state.failure) = (now_ms, None);
                Ok(value)
            }
            Err(error) => {
                tracing::warn!(%error, is_kept = state.value.is_some(), "an identity provider does not answer");
                state.failure = Some((now_ms, error.clone()));
                Err(error)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    fn other_than(&self, seen: &Arc<T>) -> Option<Arc<T>> {
        self.value.as_ref().filter(|value| !Arc::ptr_eq(value, seen)).map(Arc::clone)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(future)
    }

    fn away() -> std::future::Ready<Result<u32, Unavailable>> {
        ready(Err(Unavailable::new("keys", "away")))
    }

    #[test]
    fn what_was_fetched_last_stays_good_while_nothing_newer_is_to_be_had() {
        run(async {
            let cached = Cached::default();
            assert!(cached.get(0, 100, away()).await.is_err());
            // Within the pause after a failure.
            assert!(cached.get(999, 100, ready(Ok(1))).await.is_err());
            assert_eq!(*cached.get(1_000, 100, ready(Ok(1))).await.expect("it is there"), 1);
            assert_eq!(*cached.get(1_099, 100, ready(Ok(2))).await.expect("it is young"), 1);
            assert_eq!(*cached.get(1_100, 100, away()).await.expect("it is kept"), 1);
            assert_eq!(*cached.get(11_099, 100, ready(Ok(3))).await.expect("it is kept"), 1);
            assert_eq!(*cached.get(11_100, 100, ready(Ok(4))).await.expect("it is newer"), 4);
        });
    }

    #[test]
    fn a_missing_key_has_the_keys_fetched_anew_every_so_often_and_no_oftener() {
        run(async {
            let cached = Cached::default();
            let first = cached.get(0, 100_000, ready(Ok(1))).await.expect("it is there");
            assert_eq!(cached.newer(&first, 9_999, ready(Ok(2))).await, None);
            let second = cached.newer(&first, 10_000, ready(Ok(2))).await.expect("it is time");
            assert_eq!(*second, 2);
            // A caller with the older value gets the current one.
            assert_eq!(cached.newer(&first, 10_001, away()).await.as_deref(), Some(&2));
            assert_eq!(cached.newer(&second, 20_000, away()).await, None);
            assert_eq!(cached.newer(&second, 29_999, ready(Ok(3))).await, None);
            assert_eq!(cached.newer(&second, 30_000, ready(Ok(3))).await.as_deref(), Some(&3));
        });
    }

    #[test]
    fn one_fetches_for_all_who_ask_at_the_same_time() {
        run(async {
            for succeeds in [true, false] {
                let (cached, fetched) = (Cached::default(), Cell::new(0));
                let fetch = || async {
                    fetched.set(fetched.get() + 1);
                    tokio::task::yield_now().await;
                    if succeeds { Ok(7) } else { Err(Unavailable::new("keys", "away")) }
                };
                let (one, two, three) = tokio::join!(
                    cached.get(0, 9, fetch()),
                    cached.get(0, 9, fetch()),
                    cached.get(0, 9, fetch())
                );
                for got in [one, two, three] {
                    assert_eq!(got.is_ok(), succeeds);
                }
                assert_eq!(fetched.get(), 1);
            }
        });
    }

    #[test]
    fn who_gives_up_while_fetching_leaves_it_to_the_next() {
        run(async {
            let cached: Cached<u32> = Cached::default();
            let mut never = Box::pin(cached.get(0, 9, std::future::pending()));
            assert!(futures_poll(&mut never).await);
            drop(never);
            assert_eq!(*cached.get(0, 9, ready(Ok(5))).await.expect("it is there"), 5);
        });
    }

    /// Polls once. Returns whether the future is still pending.
    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|cx| {
            let pending = std::pin::Pin::new(&mut *future).poll(cx).is_pending();
            std::task::Poll::Ready(pending)
        })
        .await
    }
}
