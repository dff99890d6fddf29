//! Settings of the log-in of people at an identity provider. The log-in itself is in `sign_in`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tollhouse_plugins::code_flow::CodeFlow;
use tollhouse_stdx::log_limit::LogLimit;

/// Number of log-ins at a time that wait for the provider. Further ones are refused, because each
/// takes a connection to the provider.
const AT_ONCE: usize = 16;

/// Interval between warnings about a provider that does not answer.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Log-in of people at an identity provider.
pub struct ProviderLogIn {
    /// Client of the provider.
    pub flow: CodeFlow,
    /// Name of the provider, on the button of the console.
    pub name: String,
    /// Scheme, host and port of the console as browsers know them; `None` takes them from calls.
    pub public_url: Option<String>,
    pub rules: AccountRules,
    /// Permits of log-ins that wait for the provider.
    pub(crate) waiting: Semaphore,
    /// Origin of monotonic times.
    pub(crate) started: Instant,
    pub(crate) warnings: Mutex<LogLimit>,
}

/// Rules by which users of the provider become users here.
#[derive(Debug, Clone, Default)]
pub struct AccountRules {
    /// Claim with the names of the user's groups; inner claims are separated by dots.
    pub groups_claim: String,
    /// Names of groups of the registry, by group of the provider.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Names of roles of the registry, by group of the provider.
    pub roles: BTreeMap<String, Vec<String>>,
    /// Groups of the provider whose members are admitted; empty admits all.
    pub allowed_groups: Vec<String>,
    /// Domains of confirmed mail addresses that are admitted; empty admits all.
    pub allowed_domains: Vec<String>,
    /// Account that owns new users.
    pub owner: String,
    /// Names that other callers have, such as those of keys.
    pub reserved_names: Vec<String>,
}

impl fmt::Debug for ProviderLogIn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ProviderLogIn({})", self.name)
    }
}

impl ProviderLogIn {
    /// Creates the log-in, which takes the address of the console from calls.
    pub fn new(name: String, flow: CodeFlow, rules: AccountRules) -> Self {
        let (waiting, started) = (Semaphore::new(AT_ONCE), Instant::now());
        let warnings = Mutex::new(LogLimit::new(WARNING_INTERVAL));
        Self { flow, name, public_url: None, rules, waiting, started, warnings }
    }

    /// Sets the address of the console: scheme, host and port.
    #[must_use]
    pub fn reached_at(self, public_url: Option<String>) -> Self {
        Self { public_url, ..self }
    }
}
