//! OpenID Connect and OAuth 2.0: requests with a valid token or session pass, and other browsers
//! are redirected to the identity provider. Plugins of several dialects configure this one engine.
//!
//! Requests to the provider are bounded in time and size. If the provider fails, no request passes.
//! `engine.rs` decides about requests and builds answers for clients; `flow.rs` implements the
//! login. `code_flow.rs` serves the log-in of people to the console, which is not a plugin.

pub(crate) mod assertion;
mod cached;
mod checks;
mod client;
pub mod code_flow;
mod cookies;
mod engine;
mod error;
mod flow;
pub(crate) mod form;
mod introspection;
mod login;
mod now;
mod provider;
mod random;
mod session;
mod tokens;

pub use self::assertion::AssertionAlgorithm;
pub(crate) use self::assertion::{Signer, SignerConf};
pub(crate) use self::cached::Cached;
pub(crate) use self::checks::{PublicKey, Rules};
pub(crate) use self::client::ClientAuth;
pub(crate) use self::cookies::{CookieTerms, Jar, SameSite};
pub(crate) use self::engine::{AccessRules, Admission, Audience, Bearer, Engine, Otherwise, User};
pub(crate) use self::error::Unavailable;
pub(crate) use self::flow::{Login, PushedAuthorization};
pub(crate) use self::introspection::{Answers, Introspection};
pub(crate) use self::login::{Callback, UsedStates, safe_target};
pub(crate) use self::provider::{Document, Provider, Source};
pub(crate) use self::random::{number as random_number, token as random_token};
pub(crate) use self::session::Lifetimes;
pub(crate) use self::tokens::{Client, Renewals};
