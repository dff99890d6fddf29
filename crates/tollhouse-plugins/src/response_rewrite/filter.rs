//! What happens to the bytes of a body: all of them are replaced, or some, once all are there.

use std::sync::Arc;

use tollhouse_plugin::{BodyFilter, HeldBody};

use super::{Filter, Reach};
use crate::shared::confs::substitute;
use crate::shared::messages::compression::Encoding;

/// A body instead of the one that there is.
pub(super) struct FixedBody(pub Arc<[u8]>);

impl BodyFilter for FixedBody {
    fn filter(&mut self, _input: &[u8], is_last: bool, out: &mut Vec<u8>) {
        if is_last {
            out.extend_from_slice(&self.0);
        }
    }
}

/// Replacements in a body that is kept until it is whole.
pub(super) struct Filters {
    filters: Arc<[Filter]>,
    encoding: Option<Encoding>,
    body: HeldBody,
    bytes_max: u64,
}

impl Filters {
    pub(super) fn new(
        filters: Arc<[Filter]>,
        encoding: Option<Encoding>,
        body: HeldBody,
        bytes_max: u64,
    ) -> Filters {
        Filters { filters, encoding, body, bytes_max }
    }

    /// Replaces what each filter finds; a search that takes too long finds nothing.
    fn rewritten(&self, mut body: Vec<u8>) -> Vec<u8> {
        let bytes_max = usize::try_from(self.bytes_max).unwrap_or(usize::MAX);
        for Filter { pattern, replacement, reach } in self.filters.iter() {
            let next = match reach {
                Reach::Once => substitute::first(pattern, &body, replacement)
                    .map(|found| found.map(|(body, _)| body)),
                Reach::Global => {
                    substitute::every(pattern, &body, replacement, bytes_max).map(Some)
                }
            };
            match next {
                Ok(Some(next)) => body = next,
                Ok(None) => {}
                Err(_) => tracing::debug!("a filter of response-rewrite took too long"),
            }
        }
        body
    }
}

impl BodyFilter for Filters {
    fn filter(&mut self, input: &[u8], is_last: bool, out: &mut Vec<u8>) {
        let room = self.bytes_max.saturating_sub(self.body.len() as u64);
        let taken = usize::try_from(room).unwrap_or(usize::MAX).min(input.len());
        self.body.push(&input[..taken]);
        if !is_last || self.body.has_failed() {
            return;
        }
        let body = self.body.take();
        let body = match self.encoding {
            Some(encoding) => match encoding.decode(&body, self.bytes_max) {
                Some(decoded) => decoded,
                None => {
                    tracing::debug!("a body is not in the encoding that its head names");
                    body
                }
            },
            None => body,
        };
        out.extend(self.rewritten(body));
    }

    fn work_bytes(&self, input_bytes: usize, is_last: bool) -> usize {
        if is_last { self.body.len() + input_bytes } else { 0 }
    }

    fn has_failed(&self) -> bool {
        self.body.has_failed()
    }
}
