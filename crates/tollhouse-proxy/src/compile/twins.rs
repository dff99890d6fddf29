//! Equal inline upstreams of routes. Many routes of one application name the same node, each in an
//! upstream of its own; they share the configuration and the node.
//!
//! Only upstreams of a single node without health checks and slow start are shared: their requests
//! need nothing but an address, so that no route notices the others.

use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

use hashbrown::{DefaultHashBuilder, HashMap};
use tollhouse_model::Upstream;
use tollhouse_upstream::UpstreamState;

/// Shared upstreams, by a hash of their configuration. An upstream whose hash another one has is not
/// shared.
#[derive(Debug, Default)]
pub(super) struct Twins {
    by_hash: HashMap<u64, Twin>,
    hasher: DefaultHashBuilder,
}

/// An upstream that others may equal. Weak, because routes own both.
#[derive(Debug)]
struct Twin {
    conf: Weak<Upstream>,
    state: Weak<UpstreamState>,
}

impl Twins {
    /// Returns the earlier configuration that equals `upstream`; stores a new one.
    pub(super) fn conf(&mut self, upstream: Arc<Upstream>) -> Arc<Upstream> {
        if !may_be_shared(&upstream) {
            return upstream;
        }
        let hash = self.hash(&upstream);
        let earlier = self.by_hash.get(&hash).and_then(|twin| twin.conf.upgrade());
        if let Some(earlier) = earlier {
            return if *earlier == *upstream { earlier } else { upstream };
        }
        // Unused entries are swept whenever the map has doubled.
        if self.by_hash.len().is_power_of_two() {
            self.by_hash.retain(|_, twin| twin.conf.strong_count() > 0);
        }
        let twin = Twin { conf: Arc::downgrade(&upstream), state: Weak::new() };
        self.by_hash.insert(hash, twin);
        upstream
    }

    /// Returns the state of an upstream with this shared configuration.
    pub(super) fn state(&self, upstream: &Arc<Upstream>) -> Option<Arc<UpstreamState>> {
        if !may_be_shared(upstream) {
            return None;
        }
        let twin = self.by_hash.get(&self.hash(upstream))?;
        let is_same = std::ptr::eq(twin.conf.as_ptr(), Arc::as_ptr(upstream));
        twin.state.upgrade().filter(|_| is_same)
    }

    /// Records the state that upstreams with this shared configuration share from now on.
    pub(super) fn note(&mut self, upstream: &Arc<Upstream>, state: &Arc<UpstreamState>) {
        if !may_be_shared(upstream) {
            return;
        }
        let hash = self.hash(upstream);
        let twin = self.by_hash.get_mut(&hash);
        let is_same = |twin: &&mut Twin| std::ptr::eq(twin.conf.as_ptr(), Arc::as_ptr(upstream));
        if let Some(twin) = twin.filter(is_same) {
            twin.state = Arc::downgrade(state);
        }
    }

    /// Hashes the fields in which upstreams usually differ.
    fn hash(&self, upstream: &Upstream) -> u64 {
        let Upstream { nodes, scheme, pass_host, retries, timeout, name, desc, labels, .. } =
            upstream;
        self.hasher.hash_one((nodes, scheme, pass_host, retries, timeout, name, desc, labels))
    }
}

/// Whether requests need nothing of the upstream but the address of its node.
fn may_be_shared(upstream: &Upstream) -> bool {
    upstream.nodes.len() == 1
        && upstream.discovery.is_none()
        && upstream.checks.is_none()
        && upstream.warm_up.is_none()
        && upstream.tls.is_none()
        && upstream.keepalive_pool.is_none()
}
