//! Certificates that get and renew themselves (ACME, RFC 8555).
//!
//! Everything that must outlive a process lies in the store: the account, orders with the key that their
//! certificate will have, challenges, how each certificate stands, and the certificates as `ssls` objects.
//! So any node answers a challenge, and whoever comes next finishes what another has begun. One node at a
//! time orders: the holder of a lease, under which every write is fenced.
//!
//! [`Keeper`] is the one who does it all; [`Listing`] shows how it goes. Who serves the certificates, and who
//! answers the authority's questions ([`Answers`]), is not known here. Network and time come in by
//! [`Transport`] and [`Clock`].

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
pub use challenge::{Answers, PendingChallenge, follow};
pub use clock::{Clock, SystemClock};
pub use failure::{Code, Failure};
pub use keeper::{Keeper, Parts};
pub use keys::{certificate_id, objects_folder};
pub use listing::{CertificateView, Listing, State};
pub use settings::{ChallengeKind, ExternalAccount, LETS_ENCRYPT, LETS_ENCRYPT_STAGING, Settings};
pub use transport::{Exchange, HttpsTransport, Transport, TransportError};

#[cfg(test)]
mod tests;
