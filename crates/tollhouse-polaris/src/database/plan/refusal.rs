//! Reasons for which objects are not exported.

use crate::database::ImportRefusal;

/// Reason for which an object is not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportRefusal {
    /// The object belongs to Polaris' own servers.
    #[error("it belongs to Polaris' own servers")]
    OwnServer,
    /// Clients report the object themselves, so that it need not be moved.
    #[error("clients report it again when they start")]
    Reported,
    /// Polaris has no table for such objects.
    #[error("the tables of Polaris have no place for it")]
    NoPlace,
    /// A policy names objects of the gateway.
    #[error("it names objects of the gateway, which Polaris does not have")]
    NamesGateway,
    /// The object's owner is not in the database.
    #[error("its owner {0:?} is not a user of the database, which has no single main account")]
    NoOwner(String),
    /// This database lacks the table, which a later version of Polaris adds.
    #[error("the database has no table {0}: a later version of Polaris has")]
    NoTable(&'static str),
    /// The object's service does not exist in the database and was not written.
    #[error("its service is not in the database")]
    NoService,
    /// The object cannot be encoded as Polaris reads it.
    #[error("it cannot be written: {0}")]
    Unwritable(String),
    /// A value does not fit into its column.
    #[error("{0}")]
    Misfit(String),
    /// The database has the object, but its row cannot be decoded.
    #[error("the database has one already, and {0}")]
    Unreadable(ImportRefusal),
    /// The name is a service on one side and an alias on the other.
    #[error("the database has this name as {0}")]
    OtherKind(&'static str),
    /// The row was changed later than the registry's object, by this many seconds.
    #[error(
        "it was changed in the database {} s later than here; --overwrite puts what is here in its place",
        .0
    )]
    ChangedLater(u64),
}

impl ExportRefusal {
    /// Whether the case is normal and needs no action.
    pub fn is_expected(&self) -> bool {
        matches!(self, Self::OwnServer | Self::Reported)
    }
}
