//! Receiver of a response. The connection's driver passes on the bytes it reads, so that they are
//! neither copied nor buffered.

use super::fields::Fields;
use crate::failure::Failure;

/// Receiver of a response, piece by piece.
pub(in crate::protocol) trait Intake {
    /// Resets the receiver for a new response.
    fn begin(&mut self);

    /// Whether the receiver needs the fields of heads and trailers.
    fn wants_fields(&self) -> bool;

    /// Receives the final head.
    ///
    /// # Errors
    /// If the response is unusable.
    fn head(&mut self, status: u16, fields: &Fields) -> Result<Flow, Failure>;

    /// Receives a piece of the body.
    ///
    /// # Errors
    /// If the response is unusable.
    fn data(&mut self, data: &[u8]) -> Result<Flow, Failure>;

    /// Receives the end of the message, with its trailers if present.
    ///
    /// # Errors
    /// If the response is unusable.
    fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Failure>;
}

/// Decision of a receiver about the rest of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::protocol) enum Flow {
    More,
    /// Continue, and wake the exchange to process the data.
    Look,
    /// The exchange is complete; stop reading.
    Enough,
}
