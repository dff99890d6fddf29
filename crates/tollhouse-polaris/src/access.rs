//! Who may call: two gates, one for the console and one for clients, one account, and a token for clients.
//!
//! A login gives the account's token, which opens both gates when they are locked; the clients' token opens
//! theirs alone. None has a default here: a secret that everybody can read in the source is none.

use crate::code::Code;
use std::fmt;

/// Whether a group of calls needs a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Everybody is let in.
    Open,
    /// Only who brings the token.
    Locked,
}

/// The account that logs in to the console.
#[derive(Clone)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its password.
    pub password: String,
    /// Its token.
    pub token: String,
}

impl fmt::Debug for Account {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Account").field("name", &self.name).finish_non_exhaustive()
    }
}

/// See the module.
#[derive(Clone)]
pub struct Access {
    console: Gate,
    client: Gate,
    account: Account,
    client_token: String,
}

impl Access {
    /// Gates for the console and for clients, the account that opens both, and the token of clients.
    pub fn new(console: Gate, client: Gate, account: Account, client_token: String) -> Self {
        Self { console, client, account, client_token }
    }

    /// Whether the console's calls may be made with this token.
    ///
    /// # Errors
    /// The code that says what is wrong with the token.
    pub fn check_console(&self, token: Option<&str>) -> Result<(), Code> {
        check(self.console, token, |token| is_equal(token, &self.account.token))
    }

    /// Whether clients' calls may be made with this token.
    ///
    /// # Errors
    /// The code that says what is wrong with the token.
    pub fn check_client(&self, token: Option<&str>) -> Result<(), Code> {
        check(self.client, token, |token| {
            is_equal(token, &self.client_token) | is_equal(token, &self.account.token)
        })
    }

    /// Whether a token is one of those that open something, whatever is locked.
    pub(crate) fn has(&self, token: &str) -> bool {
        let opens = is_equal(token, &self.client_token) | is_equal(token, &self.account.token);
        !token.is_empty() && opens
    }

    /// The token of the account, for who knows its name and password.
    ///
    /// # Errors
    /// There is no such account.
    pub fn log_in(&self, name: &str, password: &str) -> Result<&str, Code> {
        // Both are compared, so that the time taken does not tell which one was wrong.
        let matches =
            is_equal(name, &self.account.name) & is_equal(password, &self.account.password);
        if matches { Ok(&self.account.token) } else { Err(Code::Unauthorized) }
    }

    /// The name of the account.
    pub fn account_name(&self) -> &str {
        &self.account.name
    }
}

fn check(gate: Gate, token: Option<&str>, opens: impl Fn(&str) -> bool) -> Result<(), Code> {
    match (gate, token) {
        (Gate::Open, _) => Ok(()),
        // An empty token opens nothing, whatever is configured.
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

/// Hex digits of `N` random bytes.
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
