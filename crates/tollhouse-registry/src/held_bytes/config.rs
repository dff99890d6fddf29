//! Size of the objects and commands of the configuration centre.

use crate::config::{
    ConfigCommand, ConfigEvent, ConfigFile, ConfigFileChange, ConfigFileView, ConfigGroup,
    ConfigGroupChange, ConfigObject, ConfigRelease, ConfigTemplate, Dates, NewRelease,
};

use super::{MemorySize, PAIR_BYTES, key_bytes, metadata_bytes};

/// Overhead of an object without its texts: the object itself, and its place in a table.
const OBJECT_BYTES: usize = 384;

impl MemorySize for ConfigGroup {
    fn held_bytes(&self) -> usize {
        let texts = [&self.comment, &self.owner, &self.business, &self.department];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        OBJECT_BYTES
            + key_bytes(&self.key)
            + texts
            + dates_bytes(&self.dates)
            + metadata_bytes(&self.metadata)
    }
}

impl MemorySize for ConfigFile {
    fn held_bytes(&self) -> usize {
        let texts = self.content.len() + self.format.len() + self.comment.len();
        let names = self.key.bytes() + dates_bytes(&self.dates);
        OBJECT_BYTES + names + texts + metadata_bytes(&self.tags)
    }
}

impl MemorySize for ConfigRelease {
    fn held_bytes(&self) -> usize {
        let texts = [&self.name, &self.md5, &self.format, &self.comment, &self.description];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        let labels = self.labels.iter();
        let labels = labels.map(|label| 2 * PAIR_BYTES + label.key.len() + label.value.len());
        let names = self.key.bytes() + dates_bytes(&self.dates);
        // The content counts twice, because its encoded form is cached too.
        OBJECT_BYTES
            + names
            + texts
            + 2 * self.content.len()
            + labels.sum::<usize>()
            + metadata_bytes(&self.tags)
    }
}

impl MemorySize for ConfigEvent {
    fn held_bytes(&self) -> usize {
        let texts = [&self.name, &self.md5, &self.format, &self.comment, &self.description];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        let names = self.key.bytes() + self.by.len();
        OBJECT_BYTES + names + texts + self.content.len() + metadata_bytes(&self.tags)
    }
}

impl MemorySize for ConfigTemplate {
    fn held_bytes(&self) -> usize {
        let texts = self.content.len() + self.format.len() + self.comment.len();
        OBJECT_BYTES + self.name.len() + texts + dates_bytes(&self.dates)
    }
}

impl MemorySize for ConfigFileView {
    fn held_bytes(&self) -> usize {
        let file = self.file.as_ref().map_or(0, |file| file.held_bytes());
        let releases: usize = self.releases.iter().map(|release| release.held_bytes()).sum();
        let history: usize = self.history.iter().map(|event| event.held_bytes()).sum();
        file + releases + history
    }
}

impl MemorySize for ConfigObject {
    fn held_bytes(&self) -> usize {
        match self {
            Self::Group(group) => group.held_bytes(),
            Self::File(file) => file.held_bytes(),
            Self::Release(release) => release.held_bytes(),
            Self::Event(event) => event.held_bytes(),
            Self::Template(template) => template.held_bytes(),
        }
    }
}

impl MemorySize for ConfigCommand {
    fn held_bytes(&self) -> usize {
        let long = match self {
            Self::CreateGroup(key, what) | Self::UpdateGroup(key, what) => {
                key_bytes(key) + what.held_bytes()
            }
            Self::DeleteGroup(key) => key_bytes(key),
            Self::CreateFile(key, what) | Self::UpdateFile(key, what) => {
                key.bytes() + what.held_bytes()
            }
            Self::DeleteFile(key) | Self::StopGray(key) => key.bytes(),
            Self::Publish(key, release) => key.bytes() + release.held_bytes(),
            Self::WriteAndPublish { key, file, release, expected } => {
                let expected = expected.as_ref().map_or(0, |md5| md5.len());
                key.bytes() + file.held_bytes() + release.held_bytes() + expected
            }
            Self::Rollback(target) | Self::DeleteRelease(target) => {
                target.key.bytes() + target.name.len()
            }
            Self::CreateTemplate(template) => template.held_bytes(),
            Self::Import(files) => {
                files.iter().map(|(key, what)| key.bytes() + what.held_bytes()).sum()
            }
        };
        size_of::<Self>() + long
    }
}

impl MemorySize for ConfigGroupChange {
    fn held_bytes(&self) -> usize {
        let texts = [&self.comment, &self.owner, &self.business, &self.department];
        let texts: usize = texts.iter().map(|text| text.as_ref().map_or(0, String::len)).sum();
        size_of::<Self>() + texts + self.metadata.as_ref().map_or(0, metadata_bytes)
    }
}

impl MemorySize for ConfigFileChange {
    fn held_bytes(&self) -> usize {
        let texts = [&self.format, &self.comment];
        let texts: usize = texts.iter().map(|text| text.as_ref().map_or(0, |it| it.len())).sum();
        let content = self.content.as_ref().map_or(0, |content| content.len());
        size_of::<Self>() + content + texts + self.tags.as_ref().map_or(0, metadata_bytes)
    }
}

impl MemorySize for NewRelease {
    fn held_bytes(&self) -> usize {
        let texts = self.name.len() + self.comment.len() + self.description.len();
        let labels = self.labels.iter();
        let labels = labels.map(|label| 2 * PAIR_BYTES + label.key.len() + label.value.len());
        size_of::<Self>() + texts + labels.sum::<usize>()
    }
}

fn dates_bytes(dates: &Dates) -> usize {
    dates.created_by.len() + dates.modified_by.len()
}
