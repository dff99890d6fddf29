//! Body filters: a fixed body, and replacements in a complete body.

use std::sync::Arc;

use tollhouse_plugin::{BodyFilter, FilterFailure, HeldBody, Piece};

use super::{Filter, Reach};
use crate::shared::confs::substitute;
use crate::shared::messages::compression::Encoding;

/// Filter that replaces the whole body.
pub(super) struct FixedBody(pub Arc<[u8]>);

impl BodyFilter for FixedBody {
    fn filter(&mut self, _input: &[u8], piece: Piece, out: &mut Vec<u8>) {
        if piece.is_last() {
            out.extend_from_slice(&self.0);
        }
    }
}

/// Filter that collects the body and applies the replacements at its end.
pub(super) struct Filters {
    filters: Arc<[Filter]>,
    encoding: Option<Encoding>,
    body: HeldBody,
    bytes_max: u64,
    is_unreadable: bool,
}

impl Filters {
    pub(super) fn new(
        filters: Arc<[Filter]>,
        encoding: Option<Encoding>,
        body: HeldBody,
        bytes_max: u64,
    ) -> Filters {
        Filters { filters, encoding, body, bytes_max, is_unreadable: false }
    }

    /// Applies all replacements; `None` if a search takes too long.
    fn rewritten(&self, mut body: Vec<u8>) -> Option<Vec<u8>> {
        let bytes_max = usize::try_from(self.bytes_max).unwrap_or(usize::MAX);
        for Filter { pattern, replacement, reach } in self.filters.iter() {
            let next = match reach {
                Reach::Once => substitute::first(pattern, &body, replacement)
                    .map(|found| found.map(|(body, _)| body)),
                Reach::Global => {
                    substitute::every(pattern, &body, replacement, bytes_max).map(Some)
                }
            };
            if let Some(next) = next.ok()? {
                body = next;
            }
        }
        Some(body)
    }
}

impl BodyFilter for Filters {
    fn filter(&mut self, input: &[u8], piece: Piece, out: &mut Vec<u8>) {
        self.is_unreadable |= (self.body.len() + input.len()) as u64 > self.bytes_max;
        if self.is_unreadable {
            return;
        }
        self.body.push(input);
        if !piece.is_last() || self.body.has_failed() {
            return;
        }
        let body = self.body.take();
        let body = match self.encoding {
            // An empty body is empty in any encoding.
            Some(encoding) if !body.is_empty() => encoding.decode(&body, self.bytes_max),
            _ => Some(body),
        };
        match body.and_then(|body| self.rewritten(body)) {
            Some(body) => out.extend(body),
            None => self.is_unreadable = true,
        }
    }

    fn work_bytes(&self, input_bytes: usize, piece: Piece) -> usize {
        match self.encoding {
            _ if !piece.is_last() => 0,
            // A compressed body may be of any length.
            Some(_) => usize::try_from(self.bytes_max).unwrap_or(usize::MAX),
            None => self.body.len() + input_bytes,
        }
    }

    fn failure(&self) -> Option<FilterFailure> {
        match self.is_unreadable {
            true => Some(FilterFailure::Unreadable),
            false => self.body.has_failed().then_some(FilterFailure::NoMemory),
        }
    }

    fn holds_body(&self) -> bool {
        true
    }
}
