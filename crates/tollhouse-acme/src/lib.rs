//! Automatic certificates (ACME, RFC 8555).
//!
//! Everything that must survive a process is in the store: the account, orders with the keys of
//! their certificates, challenges, the state of each certificate, and the certificates as `ssls`
//! objects. Therefore any node can answer a challenge, and any node can finish the work of another.
//! Only one node orders at a time: the holder of a lease, which fences every write.
//!
//! [`Renewer`] does the work; [`Listing`] shows its state. Serving the certificates and answering
//! the authority ([`ChallengeResponder`]) are left to the caller. Network and time are
//! provided through [`Transport`] and [`Clock`].

#![forbid(unsafe_code)]

mod account;
mod alpn;
mod attempt;
mod authority;
mod certificate;
mod challenge;
mod clock;
mod failure;
mod keeper;
mod keys;
mod lease;
mod listing;
mod records;
mod schedule;
mod settings;
mod shared;
mod transport;

pub use alpn::{ACME_TLS_ALPN, challenge_certificate};
pub use challenge::{ChallengeResponder, PendingChallenge, follow};
pub use clock::{Clock, SystemClock};
pub use failure::{Code, Failure};
pub use keeper::{Parts, Renewer};
pub use keys::{certificate_id, objects_folder};
pub use listing::{CertificateView, Listing, State};
pub use settings::{ChallengeKind, ExternalAccount, LETS_ENCRYPT, LETS_ENCRYPT_STAGING, Settings};
pub use transport::{Exchange, HttpsTransport, Transport, TransportError};

#[cfg(test)]
mod tests;
