//! Variables that scripts of a core have read, by name, so that each name is parsed once.

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use tollhouse_model::variable::Variable;

/// Names that are kept; scripts may make names at run time.
const NAMES_MAX: usize = 256;

/// Request headers that say nothing about the user.
const HARMLESS_HEADERS: [&str; 17] = [
    "host",
    "user-agent",
    "accept",
    "accept-encoding",
    "accept-language",
    "content-type",
    "content-length",
    "content-encoding",
    "connection",
    "origin",
    "referer",
    "x-request-id",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-real-ip",
];

/// Variable with what its reading says about the user.
pub(crate) struct KnownVariable {
    pub(crate) variable: Variable,
    /// Whether a script that reads it may tell users apart.
    pub(crate) distinguishes_users: bool,
}

/// Variables by name.
#[derive(Default)]
pub(crate) struct KnownNames(HashMap<Vec<u8>, KnownVariable>);

impl KnownNames {
    /// Returns the variable of a name; `None` if the name is not UTF-8 or too many names are known.
    pub(crate) fn get(&mut self, name: &[u8]) -> Option<&KnownVariable> {
        let is_full = self.0.len() >= NAMES_MAX;
        match self.0.entry_ref(name) {
            EntryRef::Occupied(entry) => Some(entry.into_mut()),
            EntryRef::Vacant(_) if is_full => None,
            EntryRef::Vacant(entry) => {
                let variable = Variable::parse(std::str::from_utf8(name).ok()?);
                let distinguishes_users = distinguishes_users(&variable);
                Some(entry.insert(KnownVariable { variable, distinguishes_users }))
            }
        }
    }
}

/// Whether a script that reads a variable may tell users apart, so that answers are not stored for
/// others.
pub(crate) fn distinguishes_users(variable: &Variable) -> bool {
    match variable {
        Variable::Header(name) => !is_harmless(name),
        Variable::Cookie(_) => true,
        _ => false,
    }
}

/// Whether a header says nothing about the user.
pub(crate) fn is_harmless(header: &str) -> bool {
    HARMLESS_HEADERS.iter().any(|name| name.eq_ignore_ascii_case(header))
}
