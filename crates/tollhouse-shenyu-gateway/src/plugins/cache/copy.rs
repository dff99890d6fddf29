//! Copy of a response for the cache, made while the response passes.

use bytes::Bytes;
use tollhouse_plugin::{HeldBody, Piece};
use tollhouse_plugin::identity::Unexplained;
use tollhouse_plugin::response::{BodyFilter, Effect, ResponseContext, Source};

use super::store::{ANSWER_BYTES_MAX, CachedResponse};
use crate::counts::SharedCache;

/// Response to be stored when its body is complete.
#[derive(Debug, Clone)]
pub(crate) struct PendingCopy {
    pub(super) cache: SharedCache,
    pub(super) key: Vec<u8>,
    pub(super) lifetime_ms: u64,
    pub(super) unexplained: Unexplained,
    /// Number of identities when the key was made.
    pub(super) identities: usize,
}

impl PendingCopy {
    /// Starts copying the body of a response, if it may be stored.
    pub(crate) fn watch(self, cx: &mut ResponseContext<'_>) {
        let is_same_user = cx.request().edits().identities.len() == self.identities;
        if !is_same_user || !may_be_kept(cx, self.unexplained) {
            return;
        }
        let content_type = cx.header("content-type").map(<[u8]>::to_vec);
        let ends_ms = cx.now().monotonic_ms.saturating_add(self.lifetime_ms);
        let watch = Watch { copy: self, content_type, ends_ms, held: Some(cx.hold_body()) };
        cx.filter_body(Effect::Observes, Box::new(watch));
    }
}

fn may_be_kept(cx: &ResponseContext<'_>, unexplained: Unexplained) -> bool {
    let facts = cx.facts();
    let directives = cx.header_list("cache-control").unwrap_or_default().to_ascii_lowercase();
    let says = |name: &str| {
        let mut names = directives.split(|byte| *byte == b',').map(|directive| {
            directive.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii()
        });
        names.any(|known| known == name.as_bytes())
    };
    let is_private = ["no-store", "no-cache", "private"].into_iter().any(says);
    unexplained.may_be_shared(says, |_| false)
        && facts.source == Source::Upstream
        && facts.status == 200
        && facts.has_body
        && facts.content_length.is_none_or(|bytes| bytes <= ANSWER_BYTES_MAX as u64)
        && !is_private
        && ["set-cookie", "content-encoding", "vary"].iter().all(|name| cx.header(name).is_none())
}

/// Copies a body as it passes, and stores it once complete.
struct Watch {
    copy: PendingCopy,
    content_type: Option<Vec<u8>>,
    ends_ms: u64,
    /// Copied part of the body; `None` after it became too long. If memory for the copy is
    /// exhausted, nothing is stored either. The response passes in both cases.
    held: Option<HeldBody>,
}

impl BodyFilter for Watch {
    fn filter(&mut self, input: &[u8], piece: Piece, _out: &mut Vec<u8>) {
        let Some(held) = &mut self.held else { return };
        if held.len() + input.len() > ANSWER_BYTES_MAX {
            self.held = None;
            return;
        }
        held.push(input);
        if piece.is_last() && !held.has_failed() {
            let body = Bytes::from(held.take());
            let response = CachedResponse { content_type: self.content_type.take(), body };
            self.copy.cache.keep(&self.copy.key, response, self.ends_ms);
        }
    }
}
