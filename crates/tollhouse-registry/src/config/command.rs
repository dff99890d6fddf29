//! Commands of the configuration centre, and their outcomes.
//!
//! In a change, `None` leaves the field as it is.

use std::sync::Arc;

use super::{ClientLabel, ConfigFile, ConfigFileKey, ConfigGroup, ConfigRelease, ConfigTemplate};
use crate::instance::Metadata;
use crate::key::ServiceKey;

/// Name of the account that makes a change; empty for clients without one.
pub type ConfigAuthor = Box<str>;

/// A requested change of the configuration centre, all of it or nothing.
#[derive(Debug, Clone)]
pub enum ConfigCommand {
    /// Creates a group, and its namespace if missing.
    CreateGroup(ServiceKey, ConfigGroupChange),
    UpdateGroup(ServiceKey, ConfigGroupChange),
    /// Deletes a group that has no files.
    DeleteGroup(ServiceKey),
    /// Creates a file, and its group if missing.
    CreateFile(ConfigFileKey, ConfigFileChange),
    UpdateFile(ConfigFileKey, ConfigFileChange),
    /// Deletes a file with its releases; a missing file is not an error.
    DeleteFile(ConfigFileKey),
    /// Publishes the working copy.
    Publish(ConfigFileKey, NewRelease),
    /// Creates or updates a file, and publishes it. Refused if the file exists and the MD5 of its
    /// working copy is not `expected`; `None` accepts any.
    WriteAndPublish {
        key: ConfigFileKey,
        file: ConfigFileChange,
        release: NewRelease,
        expected: Option<Box<str>>,
    },
    /// Puts an earlier release in force for all clients.
    Rollback(ReleaseRef),
    /// Deletes a release; a missing one is not an error.
    DeleteRelease(ReleaseRef),
    /// Ends a gray release; a file without one is not an error.
    StopGray(ConfigFileKey),
    CreateTemplate(Box<ConfigTemplate>),
    /// Creates and replaces files; other files of the group stay.
    Import(Vec<(ConfigFileKey, ConfigFileChange)>),
}

/// A release of a file, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseRef {
    pub key: ConfigFileKey,
    pub name: Box<str>,
}

/// Fields of a group to change; `None` keeps the current value.
#[derive(Debug, Clone, Default)]
pub struct ConfigGroupChange {
    pub comment: Option<String>,
    pub owner: Option<String>,
    pub business: Option<String>,
    pub department: Option<String>,
    /// Metadata that replaces all existing pairs.
    pub metadata: Option<Metadata>,
}

/// Fields of a file to change; `None` keeps the current value.
#[derive(Debug, Clone, Default)]
pub struct ConfigFileChange {
    pub content: Option<Arc<str>>,
    pub format: Option<Box<str>>,
    pub comment: Option<Box<str>>,
    /// Tags that replace all existing pairs.
    pub tags: Option<Metadata>,
}

/// A publication as its caller sent it.
#[derive(Debug, Clone, Default)]
pub struct NewRelease {
    /// Name; if empty, the registry makes one. A release that has the name already is replaced.
    pub name: Box<str>,
    pub comment: Box<str>,
    pub description: Box<str>,
    /// Labels of the clients that get the release; empty for all clients.
    pub labels: Vec<ClientLabel>,
}

/// Result of a command of the configuration centre.
#[derive(Debug, Clone)]
pub enum ConfigOutcome {
    Group(Arc<ConfigGroup>),
    File(Arc<ConfigFile>),
    /// The release that the command put in force.
    Release(Arc<ConfigRelease>),
    Template(Arc<ConfigTemplate>),
    /// Object was deleted.
    Done,
}

impl ConfigCommand {
    /// Whether the command only deletes.
    pub(crate) fn removes(&self) -> bool {
        match self {
            Self::DeleteGroup(_) | Self::DeleteFile(_) | Self::DeleteRelease(_) => true,
            Self::CreateGroup(..)
            | Self::UpdateGroup(..)
            | Self::CreateFile(..)
            | Self::UpdateFile(..)
            | Self::Publish(..)
            | Self::WriteAndPublish { .. }
            | Self::Rollback(_)
            | Self::StopGray(_)
            | Self::CreateTemplate(_)
            | Self::Import(_) => false,
        }
    }
}
