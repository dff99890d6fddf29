//! Storage of counts: this process, Redis, or both.

use std::sync::Arc;
use std::time::Duration;

use tollhouse_plugin::{ConfError, Moment, Scope};

use crate::redis::{Servers, Unavailable};
use crate::shared::confs::identity::identity;

use super::delayed::DelayedCounts;
use super::local::LocalCounts;
use super::quota::Quota;
use super::remote::RemoteCounts;
use super::{Config, Limit, NO_SYNC_INTERVAL, WindowType};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Passes(Quota),
    Refused(Quota),
}

impl Verdict {
    /// Compares `used` requests, this one included, with the limit.
    pub(super) fn from_count(used: u64, limit: Limit, reset_ms: u64) -> Self {
        let quota =
            Quota { limit: limit.count, remaining: limit.count.saturating_sub(used), reset_ms };
        if used > limit.count { Verdict::Refused(quota) } else { Verdict::Passes(quota) }
    }

    pub(super) fn quota(self) -> Quota {
        match self {
            Verdict::Passes(quota) | Verdict::Refused(quota) => quota,
        }
    }
}

/// Storage of counts: this process, Redis, or this process with delayed writes to Redis.
#[derive(Debug)]
pub(super) enum Backend {
    Local(LocalCounts),
    /// Counts in Redis for each request. The local counts, if any, are used while Redis is down.
    Remote(Box<RemoteCounts>, Option<LocalCounts>),
    /// Counts in this process that are exchanged with Redis at intervals.
    Delayed(Arc<DelayedCounts>),
}

impl Backend {
    pub(super) fn open(config: &Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let owner = match &config.group {
            Some(group) => group.clone(),
            None => identity(scope),
        };
        let Some(servers) = Servers::parse(config.policy, scope.conf)? else {
            return Ok(Backend::Local(LocalCounts::new(&owner, config.window_type, scope)));
        };
        let counts = RemoteCounts::new(servers, &owner, config.window_type);
        if config.sync_interval == NO_SYNC_INTERVAL {
            return Ok(Backend::Remote(counts.into(), None));
        }
        // Sliding windows have no sum that gateways could exchange at intervals.
        if config.window_type == WindowType::Sliding {
            let alone = LocalCounts::new(&owner, config.window_type, scope);
            return Ok(Backend::Remote(counts.into(), Some(alone)));
        }
        let interval = Duration::from_secs_f64(config.sync_interval);
        let kept =
            scope.keep(&format!("limit-count {owner}"), || DelayedCounts::new(counts, interval));
        Ok(Backend::Delayed(kept))
    }

    /// Whether counting may wait for Redis.
    #[inline]
    pub(super) fn is_remote(&self) -> bool {
        !matches!(self, Backend::Local(_))
    }

    /// Counts a request without waiting. Only for local counts; use `ask` otherwise.
    #[inline]
    pub(super) fn count(&self, key: &[u8], limit: Limit, now: Moment) -> Verdict {
        match self {
            Backend::Local(counts) => counts.count(key, limit, now),
            // Unreachable: `access` waits for remote counts.
            Backend::Remote(..) | Backend::Delayed(_) => {
                Verdict::from_count(0, limit, limit.window_ms)
            }
        }
    }

    pub(super) async fn ask(
        &self,
        key: &[u8],
        limit: Limit,
        now: Moment,
    ) -> Result<Verdict, Unavailable> {
        match self {
            Backend::Local(counts) => Ok(counts.count(key, limit, now)),
            Backend::Remote(counts, alone) => {
                let counted = counts.count(key, limit, now).await;
                counted.or_else(|away| Ok(alone.as_ref().ok_or(away)?.count(key, limit, now)))
            }
            Backend::Delayed(counts) => Ok(counts.count(key, limit, now).await),
        }
    }
}
