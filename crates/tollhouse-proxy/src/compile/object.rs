//! Identity of an object of the configuration and its place there.

use tollhouse_model::{Id, Kind};

#[derive(Debug, Clone, Copy)]
pub(super) struct Object<'a> {
    pub kind: Kind,
    pub id: &'a Id,
    /// Place in the configuration, for problem reports.
    pub path: &'a str,
}
