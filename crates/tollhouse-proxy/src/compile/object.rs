//! Which object of the configuration is compiled, and where it stands there.

use tollhouse_model::{Id, Kind};

#[derive(Debug, Clone, Copy)]
pub(super) struct Object<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its name among those.
    pub id: &'a Id,
    /// Where it stands, for problems.
    pub path: &'a str,
}
