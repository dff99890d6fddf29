//! Files of the configuration centre: groups, working copies, releases, history, templates.
//!
//! A file has one working copy, which clients never see. A publication makes a release of it: a
//! copy that does not change. One release of a file is active for all clients, and at most one gray
//! release is for those clients whose labels match.

pub(crate) mod check;
pub(crate) mod command;
pub(crate) mod label;

use std::fmt;
use std::sync::Arc;

use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use tollhouse_stdx::CowMap;

pub use command::{
    ConfigAuthor, ConfigCommand, ConfigFileChange, ConfigGroupChange, ConfigOutcome, NewRelease,
    ReleaseRef,
};
pub use label::{ClientLabel, LabelMatch};

use crate::encoded::Encoded;
use crate::instance::Metadata;
use crate::key::ServiceKey;
use crate::revision::Revision;

/// Name of a file: unique within its group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConfigFileKey {
    pub namespace: Arc<str>,
    pub group: Arc<str>,
    pub name: Arc<str>,
}

/// Group of files, created explicitly or with its first file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigGroup {
    /// Number for consoles, unique among all objects of the configuration centre.
    pub id: u64,
    /// Namespace and name of the group.
    pub key: ServiceKey,
    pub comment: String,
    pub owner: String,
    /// Business unit that the group belongs to.
    pub business: String,
    pub department: String,
    pub metadata: Metadata,
    /// Creation and last change.
    pub dates: Dates,
    /// Revision of the group, which differs after every change.
    pub revision: Revision,
}

/// Authors and times of an object's creation and last change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Dates {
    /// Creation time, in seconds of Unix time.
    pub created_at: u64,
    /// Name of the account that created the object; empty for clients without one.
    pub created_by: Box<str>,
    /// Time of the last change, in seconds of Unix time.
    pub modified_at: u64,
    /// Name of the account that made the last change; empty for clients without one.
    pub modified_by: Box<str>,
}

/// Working copy of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigFile {
    /// Number for consoles, as of a group.
    pub id: u64,
    pub key: ConfigFileKey,
    /// Text of the file, as the dialect encoded it.
    pub content: Arc<str>,
    /// Format of the text, such as `yaml`; may be empty.
    pub format: Box<str>,
    pub comment: Box<str>,
    pub tags: Metadata,
    /// Creation and last change.
    pub dates: Dates,
    /// Highest version that any release of the file has had.
    pub version: u64,
    /// Id of the release that is in force for all clients.
    pub active: Option<u64>,
    /// Id of the release that is in force for clients with certain labels.
    pub gray: Option<u64>,
}

/// Published copy of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConfigRelease {
    /// Number for consoles, as of a group.
    pub id: u64,
    pub key: ConfigFileKey,
    /// Name of the release, unique among those of the file.
    pub name: Box<str>,
    pub content: Arc<str>,
    /// MD5 of the content, 32 hex digits, by which clients detect equal contents.
    pub md5: Box<str>,
    /// Version of the file, which increases whenever a release comes into force.
    pub version: u64,
    pub format: Box<str>,
    pub comment: Box<str>,
    pub tags: Metadata,
    /// Reason for the release, for operators.
    pub description: Box<str>,
    /// Labels that a client must have to get a gray release; empty for a release for all clients.
    pub labels: Vec<ClientLabel>,
    /// Creation and last activation.
    pub dates: Dates,
    /// Revision of the release, which differs after every activation.
    pub revision: Revision,
    /// Cached encoding for clients.
    #[serde(skip)]
    pub encoded: Encoded,
}

/// Kind of entry in the history of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigEventKind {
    /// A release for all clients.
    Release,
    /// A release for clients with certain labels.
    Gray,
    /// End of a gray release.
    StopGray,
    /// An earlier release came into force again.
    Rollback,
    DeleteRelease,
    DeleteFile,
}

/// Entry in the history of a file. It outlives the release and the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigEvent {
    /// Number that increases with every entry.
    pub id: u64,
    pub kind: ConfigEventKind,
    pub key: ConfigFileKey,
    /// Name of the release.
    pub name: Box<str>,
    pub content: Arc<str>,
    pub md5: Box<str>,
    /// Version of the file after the event.
    pub version: u64,
    pub format: Box<str>,
    pub comment: Box<str>,
    pub tags: Metadata,
    pub description: Box<str>,
    /// Time, in seconds of Unix time.
    pub at: u64,
    /// Name of the account; empty for clients without one.
    pub by: Box<str>,
}

/// Text from which operators make files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigTemplate {
    /// Number for consoles, as of a group.
    pub id: u64,
    pub name: Arc<str>,
    pub content: Arc<str>,
    pub format: Box<str>,
    pub comment: Box<str>,
    /// Creation and last change.
    pub dates: Dates,
}

/// A group with its files.
#[derive(Debug, Clone)]
pub struct ConfigGroupView {
    pub group: Arc<ConfigGroup>,
    /// Files by name, deleted ones with a history included.
    pub(crate) files: CowMap<Arc<str>, Arc<ConfigFileView>>,
    /// Number of files that are not deleted.
    pub file_count: usize,
    /// Differs after any activation or deactivation of a release for all clients.
    pub releases_revision: Revision,
}

/// A file with its releases and history.
#[derive(Debug, Clone, Default)]
pub struct ConfigFileView {
    /// Working copy; `None` if the file was deleted.
    pub file: Option<Arc<ConfigFile>>,
    /// Releases, oldest first.
    pub releases: Vec<Arc<ConfigRelease>>,
    /// Entries, oldest first.
    pub history: Vec<Arc<ConfigEvent>>,
    /// Release that is in force for all clients.
    pub active: Option<Arc<ConfigRelease>>,
    /// Release that is in force for clients with certain labels.
    pub gray: Option<Arc<ConfigRelease>>,
}

/// Number of objects of the configuration centre.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConfigTotals {
    pub groups: usize,
    pub files: usize,
    pub releases: usize,
    pub templates: usize,
}

/// An object of the configuration centre, as stored and transferred.
#[derive(Debug, Clone)]
pub enum ConfigObject {
    Group(ConfigGroup),
    File(ConfigFile),
    Release(ConfigRelease),
    Event(ConfigEvent),
    Template(ConfigTemplate),
}

impl ConfigFileKey {
    pub fn new(namespace: &str, group: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), group: group.into(), name: name.into() }
    }

    /// Returns the name of the group.
    pub(crate) fn group_key(&self) -> ServiceKey {
        ServiceKey { namespace: Arc::clone(&self.namespace), name: Arc::clone(&self.group) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.namespace.len() + self.group.len() + self.name.len()
    }
}

impl fmt::Display for ConfigFileKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}", self.namespace, self.group, self.name)
    }
}

impl ConfigRelease {
    pub fn is_gray(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Whether a client with these labels gets the release.
    pub fn matches(&self, labels: &Metadata) -> bool {
        self.labels.iter().all(|label| label.matches(labels))
    }
}

impl ConfigGroupView {
    pub(crate) fn new(group: Arc<ConfigGroup>) -> Self {
        Self { group, files: CowMap::new(), file_count: 0, releases_revision: Revision::default() }
    }

    /// Returns a file; deleted ones are returned while they have a history.
    pub fn file(&self, name: &str) -> Option<&Arc<ConfigFileView>> {
        self.files.get(name)
    }

    /// Iterates over the files in no defined order, deleted ones with a history included.
    pub fn files(&self) -> impl Iterator<Item = &Arc<ConfigFileView>> {
        self.files.values()
    }
}

impl ConfigFileView {
    /// Returns the release that is in force for a client with these labels.
    pub fn release_for(&self, labels: &Metadata) -> Option<&Arc<ConfigRelease>> {
        let gray = self.gray.as_ref().filter(|gray| gray.matches(labels));
        gray.or(self.active.as_ref())
    }

    pub fn release(&self, name: &str) -> Option<&Arc<ConfigRelease>> {
        self.releases.iter().find(|release| &*release.name == name)
    }

    /// Returns the highest version that any release of the file has had, earlier files of this name
    /// included.
    pub fn version(&self) -> u64 {
        let file = self.file.as_ref().map_or(0, |file| file.version);
        let released = self.releases.iter().map(|release| release.version).max().unwrap_or(0);
        let remembered = self.history.iter().map(|event| event.version).max().unwrap_or(0);
        file.max(released).max(remembered)
    }

    /// Looks up the releases in force by the ids in the working copy.
    pub(crate) fn resolve(&mut self) {
        let find = |id: Option<u64>| {
            let id = id?;
            self.releases.iter().find(|release| release.id == id).map(Arc::clone)
        };
        let file = self.file.as_deref();
        let active = find(file.and_then(|file| file.active));
        let gray = find(file.and_then(|file| file.gray));
        (self.active, self.gray) = (active, gray);
    }

    /// Whether nothing is left of the file.
    pub(crate) fn is_empty(&self) -> bool {
        self.file.is_none() && self.releases.is_empty() && self.history.is_empty()
    }

    /// Whether two versions differ in what clients get.
    pub(crate) fn differs_for_clients(&self, other: &Self) -> bool {
        let revision = |release: &Option<Arc<ConfigRelease>>| {
            release.as_ref().map(|release| (release.id, release.revision))
        };
        revision(&self.active) != revision(&other.active)
            || revision(&self.gray) != revision(&other.gray)
    }
}

/// Returns the MD5 of a text as 32 hex digits. Polaris' protocol requires it; it protects nothing.
pub fn md5_digits(text: &str) -> String {
    let digits = Md5::digest(text.as_bytes());
    digits.iter().map(|byte| format!("{byte:02x}")).collect()
}
