//! Who may call: two gates, one for the console and one for clients, and one account.
//!
//! As in Polaris the console is locked and clients are let in by default. A token comes of a login and
//! stands for the account until the process ends, unless one was configured.

use crate::code::Code;
use std::fmt;

/// Bytes of a token that is made here: too many to be guessed.
const TOKEN_BYTES: usize = 24;

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
    /// Its token; none makes a new one in every process.
    pub token: Option<String>,
}

impl Default for Account {
    /// The account that Polaris starts with.
    fn default() -> Self {
        Self { name: "polaris".to_owned(), password: "polaris".to_owned(), token: None }
    }
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
    token: String,
}

impl Access {
    /// Gates for the console and for clients, and the account that opens them.
    pub fn new(console: Gate, client: Gate, account: Account) -> Self {
        let token = account.token.clone().unwrap_or_else(random_digits::<TOKEN_BYTES>);
        Self { console, client, account, token }
    }

    /// Whether the console's calls may be made with this token.
    ///
    /// # Errors
    /// The code that says what is wrong with the token.
    pub fn check_console(&self, token: Option<&str>) -> Result<(), Code> {
        self.check(self.console, token)
    }

    /// Whether clients' calls may be made with this token.
    ///
    /// # Errors
    /// The code that says what is wrong with the token.
    pub fn check_client(&self, token: Option<&str>) -> Result<(), Code> {
        self.check(self.client, token)
    }

    /// The token of the account, for who knows its name and password.
    ///
    /// # Errors
    /// There is no such account.
    pub fn log_in(&self, name: &str, password: &str) -> Result<&str, Code> {
        // Both are compared, so that the time taken does not tell which one was wrong.
        let matches =
            is_equal(name, &self.account.name) & is_equal(password, &self.account.password);
        if matches { Ok(&self.token) } else { Err(Code::Unauthorized) }
    }

    /// The name of the account.
    pub fn account_name(&self) -> &str {
        &self.account.name
    }

    fn check(&self, gate: Gate, token: Option<&str>) -> Result<(), Code> {
        match (gate, token) {
            (Gate::Open, _) => Ok(()),
            (Gate::Locked, Some(token)) if is_equal(token, &self.token) => Ok(()),
            (Gate::Locked, _) => Err(Code::NotAllowedAccess),
        }
    }
}

impl Default for Access {
    /// A locked console and open doors for clients.
    fn default() -> Self {
        Self::new(Gate::Locked, Gate::Open, Account::default())
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { console, client, account, .. } = self;
        let mut out = out.debug_struct("Access");
        out.field("console", console).field("client", client).field("account", account);
        out.finish_non_exhaustive()
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
        let account = Account { token: Some("right".to_owned()), ..Account::default() };
        Access::new(console, client, account)
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
        assert_eq!(access.log_in("polaris", "polaris"), Ok("right"));
        for (name, password) in [("polaris", "x"), ("x", "polaris"), ("", "")] {
            assert_eq!(access.log_in(name, password), Err(Code::Unauthorized));
        }
    }

    #[test]
    fn tokens_that_nobody_chose_differ_and_are_not_shown() {
        let (one, other) = (Access::default(), Access::default());
        let token = one.log_in("polaris", "polaris").expect("the first account");
        assert_ne!(other.log_in("polaris", "polaris"), Ok(token));
        assert_eq!(token.len(), 2 * TOKEN_BYTES);
        let shown = format!("{one:?}");
        assert!(!shown.contains(token) && !shown.contains("password"), "{shown}");
    }
}
