//! What an exchange makes of its answer while it arrives. The connection's driver hands over what it reads, so
//! that nothing is copied or kept on the way.

use super::fields::Fields;
use crate::failure::Failure;

/// Takes an answer in as it arrives, piece by piece.
pub(in crate::protocol) trait Intake {
    /// Forgets the answer before.
    fn begin(&mut self);

    /// Whether the fields of heads and trailers are looked at.
    fn wants_fields(&self) -> bool;

    /// The final head.
    ///
    /// # Errors
    /// The answer cannot be used.
    fn head(&mut self, status: u16, fields: &Fields) -> Result<Flow, Failure>;

    /// A piece of the body.
    ///
    /// # Errors
    /// The answer cannot be used.
    fn data(&mut self, data: &[u8]) -> Result<Flow, Failure>;

    /// The end of the message, with its trailers where it has them.
    ///
    /// # Errors
    /// The answer cannot be used.
    fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Failure>;
}

/// What an intake wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::protocol) enum Flow {
    More,
    /// More, and that its exchange looks at what is there.
    Look,
    /// Nothing: the exchange is over.
    Enough,
}
