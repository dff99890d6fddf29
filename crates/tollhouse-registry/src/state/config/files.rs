//! Working copies of files: created, changed, deleted, imported.

use std::sync::Arc;

use super::super::namespaces::replace;
use super::super::{Change, State};
use super::releases::Release;
use crate::config::{
    ConfigAuthor, ConfigEventKind, ConfigFile, ConfigFileChange, ConfigFileKey, ConfigFileView,
    ConfigOutcome, Dates, NewRelease, check, md5_digits,
};
use crate::refusal::{Noun, Refusal};

/// A file to create or update before its publication.
pub(super) struct WrittenFile {
    pub(super) key: ConfigFileKey,
    pub(super) change: ConfigFileChange,
    /// MD5 that the working copy must have if it exists.
    pub(super) expected: Option<Box<str>>,
}

impl State {
    pub(super) fn create_config_file(
        &mut self,
        key: ConfigFileKey,
        what: ConfigFileChange,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        check::file_key(&key)?;
        check::file_change(&what)?;
        let view = self.config_view(&key);
        if view.file.is_some() {
            return Err(Refusal::Exists);
        }
        let view = self.with_file(&key, view, what, author, change);
        self.write_one(&key, view, author, change)
    }

    pub(super) fn update_config_file(
        &mut self,
        key: ConfigFileKey,
        what: ConfigFileChange,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        check::file_key(&key)?;
        check::file_change(&what)?;
        let before = self.config_view(&key);
        if before.file.is_none() {
            return Err(Refusal::NotFound(Noun::ConfigFile));
        }
        let view = self.with_file(&key, before.clone(), what, author, change);
        if view.file == before.file {
            return Ok(before.file.map_or(ConfigOutcome::Done, ConfigOutcome::File));
        }
        self.write_one(&key, view, author, change)
    }

    pub(super) fn delete_config_file(
        &mut self,
        key: &ConfigFileKey,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        check::file_key(key)?;
        let mut view = self.config_view(key);
        let Some(file) = view.file.clone() else { return Ok(ConfigOutcome::Done) };
        // One entry stays, so that a file of this name continues with the versions that clients
        // know.
        let last = view.active.clone().or_else(|| view.releases.last().cloned());
        view.history.clear();
        if let Some(last) = last {
            let event = self.config_event(ConfigEventKind::DeleteFile, &last, author, change);
            let event = crate::config::ConfigEvent { version: file.version + 1, ..event };
            view.history.push(Arc::new(event));
        }
        view.file = None;
        view.releases.clear();
        let mut prepared = vec![self.prepare_config(key, view)?];
        prepared.extend(self.forget_deleted_file(key)?);
        self.write_config(prepared, author, change)?;
        Ok(ConfigOutcome::Done)
    }

    pub(super) fn write_and_publish_config(
        &mut self,
        written: WrittenFile,
        release: NewRelease,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        let WrittenFile { key, change: what, expected } = written;
        check::file_key(&key)?;
        check::file_change(&what)?;
        check::release(&release)?;
        let view = self.config_view(&key);
        if let (Some(file), Some(expected)) = (&view.file, &expected)
            && md5_digits(&file.content) != **expected
        {
            return Err(Refusal::Conflict);
        }
        let view = self.with_file(&key, view, what, author, change);
        let Release { view, release } = self.with_release(view, release, author, change)?;
        self.write_one(&key, view, author, change)?;
        Ok(ConfigOutcome::Release(release))
    }

    pub(super) fn import_config(
        &mut self,
        files: Vec<(ConfigFileKey, ConfigFileChange)>,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        let mut prepared = Vec::with_capacity(files.len());
        for (key, what) in files {
            check::file_key(&key)?;
            check::file_change(&what)?;
            let before = self.config_view(&key);
            let view = self.with_file(&key, before.clone(), what, author, change);
            if view.file != before.file {
                prepared.push(self.prepare_config(&key, view)?);
            }
        }
        self.write_config(prepared, author, change)?;
        Ok(ConfigOutcome::Done)
    }

    fn write_one(
        &mut self,
        key: &ConfigFileKey,
        view: ConfigFileView,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        let file = view.file.clone();
        let prepared = self.prepare_config(key, view)?;
        self.write_config(vec![prepared], author, change)?;
        Ok(file.map_or(ConfigOutcome::Done, ConfigOutcome::File))
    }

    /// Returns the view with a new or changed working copy. An unchanged one stays the same object.
    fn with_file(
        &mut self,
        key: &ConfigFileKey,
        mut view: ConfigFileView,
        what: ConfigFileChange,
        author: &ConfigAuthor,
        change: &Change<'_>,
    ) -> ConfigFileView {
        let mut file = match &view.file {
            Some(file) => ConfigFile::clone(file),
            None => ConfigFile {
                id: self.next_config_id(change),
                key: key.clone(),
                content: "".into(),
                format: "text".into(),
                comment: "".into(),
                tags: Default::default(),
                dates: Dates::created(author, change),
                version: view.version(),
                active: None,
                gray: None,
            },
        };
        let ConfigFileChange { content, format, comment, tags } = what;
        replace(&mut file.content, content);
        replace(&mut file.format, format);
        replace(&mut file.comment, comment);
        replace(&mut file.tags, tags);
        if view.file.as_deref() != Some(&file) {
            file.dates.modify(author, change);
            view.file = Some(Arc::new(file));
        }
        view
    }
}
