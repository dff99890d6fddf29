//! Access control: one gate for the console's calls and one for clients' calls, one account, and a
//! token for clients.
//!
//! A login returns the account's token, which opens both gates. The clients' token opens only
//! theirs. Neither has a default here, because a secret in published source code is not secret.

use crate::code::Code;
use std::fmt;

/// Token requirement of a group of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    Open,
    Locked,
}

/// The account for logging in to the console.
#[derive(Clone)]
pub struct Account {
    pub name: String,
    pub password: String,
    /// Token that a login returns and calls present.
    pub token: String,
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
    account: Account,
    client_token: String,
}

impl Access {
    pub fn new(console: Gate, client: Gate, account: Account, client_token: String) -> Self {
        Self { console, client, account, client_token }
    }

    /// Checks the token of a console call.
    ///
    /// # Errors
    /// The code to answer with, if the gate is locked and the token is missing or wrong.
    pub fn check_console(&self, token: Option<&str>) -> Result<(), Code> {
        check(self.console, token, |token| is_equal(token, &self.account.token))
    }

    /// Checks the token of a client's call; the account's token is valid too.
    ///
    /// # Errors
    /// The code to answer with, if the gate is locked and the token is missing or wrong.
    pub fn check_client(&self, token: Option<&str>) -> Result<(), Code> {
        check(self.client, token, |token| {
            is_equal(token, &self.client_token) | is_equal(token, &self.account.token)
        })
    }

    /// Whether a token is valid for either gate, even while the gates are open.
    pub(crate) fn has(&self, token: &str) -> bool {
        let opens = is_equal(token, &self.client_token) | is_equal(token, &self.account.token);
        !token.is_empty() && opens
    }

    /// Returns the account's token for its name and password.
    ///
    /// # Errors
    /// If name or password are wrong.
    pub fn log_in(&self, name: &str, password: &str) -> Result<&str, Code> {
        // Both are always compared, so that the duration does not show which one was wrong.
        let matches =
            is_equal(name, &self.account.name) & is_equal(password, &self.account.password);
        if matches { Ok(&self.account.token) } else { Err(Code::Unauthorized) }
    }

    pub fn account_name(&self) -> &str {
        &self.account.name
    }

    /// Returns the name under which a caller with this token makes changes: the account's, or none
    /// for a client.
    pub(crate) fn author(&self, token: Option<&str>) -> &str {
        let is_account = |token| is_equal(token, &self.account.token);
        if token.is_some_and(is_account) { &self.account.name } else { "" }
    }
}

fn check(gate: Gate, token: Option<&str>, opens: impl Fn(&str) -> bool) -> Result<(), Code> {
    match (gate, token) {
        (Gate::Open, _) => Ok(()),
        // An empty token is never valid, even if the configured one is empty.
        (Gate::Locked, Some(token)) if !token.is_empty() && opens(token) => Ok(()),
        (Gate::Locked, _) => Err(Code::NotAllowedAccess),
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { console, client, account, client_token: _ } = self;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn access(console: Gate, client: Gate) -> Access {
        let [name, password, token] = ["polaris", "word", "right"].map(str::to_owned);
        Access::new(console, client, Account { name, password, token }, "client".to_owned())
    }

    #[test]
    fn the_token_of_clients_opens_no_console() {
        let access = access(Gate::Locked, Gate::Locked);
        for (token, client, console) in [
            ("client", true, false),
            ("right", true, true),
            ("", false, false),
            ("x", false, false),
        ] {
            assert_eq!(access.check_client(Some(token)).is_ok(), client, "{token}");
            assert_eq!(access.check_console(Some(token)).is_ok(), console, "{token}");
        }
    }

    #[test]
    fn a_locked_gate_opens_to_the_token_only() {
        let access = access(Gate::Locked, Gate::Open);
        for (token, expected) in [
            (None, Err(Code::NotAllowedAccess)),
            (Some(""), Err(Code::NotAllowedAccess)),
            (Some("wrong"), Err(Code::NotAllowedAccess)),
            (Some("right"), Ok(())),
        ] {
            assert_eq!(access.check_console(token), expected, "{token:?}");
            assert_eq!(access.check_client(token), Ok(()), "{token:?}");
        }
    }

    #[test]
    fn a_login_takes_name_and_password() {
        let access = access(Gate::Locked, Gate::Locked);
        assert_eq!(access.log_in("polaris", "word"), Ok("right"));
        for (name, password) in [("polaris", "x"), ("x", "word"), ("", "")] {
            assert_eq!(access.log_in(name, password), Err(Code::Unauthorized));
        }
    }

    #[test]
    fn neither_password_nor_token_is_shown() {
        let shown = format!("{:?}", access(Gate::Locked, Gate::Locked));
        assert!(!shown.contains("word") && !shown.contains("right"), "{shown}");
    }
}
