//! OpenID Connect and OAuth 2.0: who brings a token that is good passes, who has logged in at a provider passes, and
//! who has not is sent there. One engine, which plugins of different dialects configure.
//!
//! What is asked of the provider is bounded in time and bytes, and whatever comes instead of an answer lets nobody
//! pass. What nodes are told of the user, and which answers clients get, is in `engine.rs`; the log-in is in `flow.rs`.

mod assertion;
mod checks;
mod client;
mod cookies;
mod engine;
mod error;
mod flow;
mod form;
mod introspection;
mod kept;
mod login;
mod provider;
mod random;
mod session;
mod tokens;

pub use self::assertion::AssertionAlgorithm;
pub(crate) use self::assertion::{Signer, SignerConf};
pub(crate) use self::checks::{PublicKey, Rules};
pub(crate) use self::client::ClientAuth;
pub(crate) use self::cookies::{Jar, SameSite};
pub(crate) use self::engine::{AccessRules, Admission, Audience, Bearer, Engine, Otherwise, Who};
pub(crate) use self::flow::{Login, Pushed};
pub(crate) use self::introspection::{Answers, Introspection};
pub(crate) use self::login::{Callback, UsedStates};
pub(crate) use self::provider::{Document, Provider, Source};
pub(crate) use self::session::Lifetimes;
pub(crate) use self::tokens::{Client, Renewals};
