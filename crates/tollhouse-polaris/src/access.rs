//! Access control: one gate for the console's calls and one for clients' calls.
//!
//! The account of the bootstrap file may do everything. The clients' token opens the clients' gate to
//! everything. Users and groups are stored in the registry, and policies say what they may do.
//! No secret has a default here, because a secret in published source code is not secret.

mod password;
mod rehearsal;

use crate::code::Code;
use std::fmt;
use std::sync::Arc;
use tollhouse_registry::State;
use tollhouse_registry::identity::{Attempt, IdentityObject, Principal, Verdict};

pub use password::is_password;
pub(crate) use password::{
    MEMORY_BYTES as PASSWORD_MEMORY_BYTES, check as check_password, new_hash,
};
pub(crate) use rehearsal::{RefusedCall, Rehearsal};

/// Token requirement of a group of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    Open,
    /// Open, but what a locked gate would refuse is listed.
    Rehearsed,
    Locked,
}

/// Group of calls with one gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// Calls of applications.
    Client,
    /// Calls of operators.
    Console,
}

/// The account for logging in to the console, which may do everything.
#[derive(Clone)]
pub struct Account {
    pub name: String,
    pub password: String,
    /// Token that a login returns and calls present.
    pub token: String,
}

/// Caller that a token names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The account of the bootstrap file.
    Account,
    /// A client with the clients' token, which opens their gate to everything.
    Client,
    /// A user, or a machine with the token of a group.
    Member(Member),
}

/// A stored user or group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) principal: Principal,
    pub(crate) name: Arc<str>,
}

impl fmt::Debug for Account {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Account").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Gates, account and tokens; see the module.
#[derive(Clone)]
pub struct Access {
    console: Gate,
    client: Gate,
    /// Gates of the registry's listeners: client and console.
    configured: [Gate; 2],
    account: Account,
    client_token: String,
    rehearsal: Arc<Rehearsal>,
}

impl Access {
    pub fn new(console: Gate, client: Gate, account: Account, client_token: String) -> Self {
        let configured = [client, console];
        Self { console, client, configured, account, client_token, rehearsal: Arc::default() }
    }

    /// Returns the access for a door that requires rights, whatever the gates of the registry's
    /// listeners are.
    #[must_use]
    pub fn locked(&self) -> Self {
        Self { console: Gate::Locked, client: Gate::Locked, ..self.clone() }
    }

    /// Returns the gate of the registry's listeners for a group of calls.
    pub(crate) fn configured_gate(&self, door: Door) -> Gate {
        let [client, console] = self.configured;
        match door {
            Door::Client => client,
            Door::Console => console,
        }
    }

    pub(crate) fn gate(&self, door: Door) -> Gate {
        match door {
            Door::Client => self.client,
            Door::Console => self.console,
        }
    }

    /// Returns the caller that a token names. The configured tokens are compared first, so that
    /// they work whatever is stored.
    ///
    /// # Errors
    /// The code to answer with, if the token is missing, unknown or disabled.
    pub(crate) fn identify(&self, state: &State, token: Option<&str>) -> Result<Identity, Code> {
        // An empty token is never valid, even if a configured one is empty.
        let token = token.filter(|token| !token.is_empty()).ok_or(Code::NotAllowedAccess)?;
        let is_account = is_equal(token, &self.account.token);
        let is_client = is_equal(token, &self.client_token);
        if is_account {
            return Ok(Identity::Account);
        }
        if is_client {
            return Ok(Identity::Client);
        }
        let owner = state.token_owner(token).ok_or(Code::NotAllowedAccess)?;
        let (principal, is_enabled) = match &owner {
            IdentityObject::User(user) => (Principal::user(&user.head.id), user.token.is_enabled),
            IdentityObject::Group(group) => {
                (Principal::group(&group.head.id), group.token.is_enabled)
            }
            IdentityObject::Role(_) | IdentityObject::Policy(_) => {
                return Err(Code::NotAllowedAccess);
            }
        };
        if !is_enabled {
            return Err(Code::TokenDisabled);
        }
        Ok(Identity::Member(Member { principal, name: Arc::clone(&owner.head().name) }))
    }

    /// Returns the account's token for its name and password.
    ///
    /// # Errors
    /// If name or password are wrong.
    pub(crate) fn log_in(&self, name: &str, password: &str) -> Result<&str, Code> {
        // Both are always compared, so that the duration does not show which one was wrong.
        let matches =
            is_equal(name, &self.account.name) & is_equal(password, &self.account.password);
        if matches { Ok(&self.account.token) } else { Err(Code::NotAllowedAccess) }
    }

    pub fn account_name(&self) -> &str {
        &self.account.name
    }

    pub(crate) fn account_token(&self) -> &str {
        &self.account.token
    }

    /// Returns the list of calls that a rehearsed gate would have refused.
    pub(crate) fn rehearsal(&self) -> &Rehearsal {
        &self.rehearsal
    }
}

impl Identity {
    /// Decides about a call at a door. `None` touches nothing, which a valid token suffices for.
    pub(crate) fn check(
        &self,
        state: &State,
        door: Door,
        attempt: Option<&Attempt<'_>>,
    ) -> Result<(), Code> {
        match (self, door, attempt) {
            (Self::Account, ..) | (Self::Client, Door::Client, _) | (Self::Member(_), _, None) => {
                Ok(())
            }
            // The clients' token opens no console.
            (Self::Client, Door::Console, _) => Err(Code::NotAllowedAccess),
            (Self::Member(member), _, Some(attempt)) => {
                match state.decide(&member.principal, attempt) {
                    Verdict::Allowed => Ok(()),
                    Verdict::Denied | Verdict::NotAllowed => Err(Code::NotAllowedAccess),
                }
            }
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { console, client, account, configured: _, client_token: _, rehearsal: _ } = self;
        let mut out = out.debug_struct("Access");
        out.field("console", console).field("client", client).field("account", account);
        out.finish()
    }
}

/// Compares in a time that depends on the lengths only.
fn is_equal(one: &str, other: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

/// Returns the hex digits of `N` random bytes.
pub(crate) fn random_digits<const N: usize>() -> String {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a new token: 36 random bytes as text.
pub(crate) fn new_token() -> String {
    use base64::Engine;
    let mut bytes = [0; 36];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random bytes");
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        let [name, password, token] = ["polaris", "word", "right"].map(str::to_owned);
        let account = Account { name, password, token };
        Access::new(Gate::Locked, Gate::Locked, account, "client".to_owned())
    }

    #[test]
    fn the_token_of_clients_opens_no_console() {
        let (access, state) = (access(), State::new(0, 1 << 20));
        for (token, client, console) in [
            (Some("client"), true, false),
            (Some("right"), true, true),
            (Some(""), false, false),
            (Some("x"), false, false),
            (None, false, false),
        ] {
            let is_ok = |door| {
                let identity = access.identify(&state, token);
                identity.and_then(|identity| identity.check(&state, door, None)).is_ok()
            };
            assert_eq!(is_ok(Door::Client), client, "{token:?}");
            assert_eq!(is_ok(Door::Console), console, "{token:?}");
        }
    }

    #[test]
    fn a_login_takes_name_and_password() {
        let access = access();
        assert_eq!(access.log_in("polaris", "word"), Ok("right"));
        for (name, password) in [("polaris", "x"), ("x", "word"), ("", "")] {
            assert_eq!(access.log_in(name, password), Err(Code::NotAllowedAccess));
        }
    }

    #[test]
    fn neither_password_nor_token_is_shown() {
        let shown = format!("{:?}", access());
        assert!(!shown.contains("word") && !shown.contains("right"), "{shown}");
    }
}
