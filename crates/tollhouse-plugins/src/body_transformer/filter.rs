//! Body filter that collects the body of an answer and transforms it at its end.

use tollhouse_plugin::{BodyFilter, FilterFailure, HeldBody, Piece};

use super::transform::Job;
use crate::shared::messages::compression::Encoding;

pub(super) struct Transformer {
    pub job: Job,
    pub encoding: Option<Encoding>,
    pub body: HeldBody,
    pub bytes_max: u64,
    /// Whether a body that cannot be transformed is sent as it is.
    pub keeps_unreadable: bool,
    pub is_unreadable: bool,
}

impl BodyFilter for Transformer {
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
        let sent_bytes = body.len();
        let decoded = match self.encoding {
            // An empty body is empty in any encoding.
            Some(encoding) if !body.is_empty() => encoding.decode(&body, self.bytes_max),
            _ => Some(body),
        };
        let Some(body) = decoded else {
            self.is_unreadable = true;
            return;
        };
        match self.job.run(&body, sent_bytes) {
            Ok(made) => out.extend_from_slice(&made),
            Err(failure) if self.keeps_unreadable => {
                tracing::debug!(?failure, "an answer of the gateway is not transformed");
                out.extend_from_slice(&body);
            }
            Err(failure) => {
                tracing::warn!(?failure, "the body of an answer cannot be transformed");
                self.is_unreadable = true;
            }
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
