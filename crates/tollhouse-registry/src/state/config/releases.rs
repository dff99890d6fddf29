//! Releases of files: published, put in force again, deleted.

use std::sync::Arc;

use super::super::{Change, State};
use crate::config::{
    ConfigAuthor, ConfigEvent, ConfigEventKind, ConfigFile, ConfigFileKey, ConfigFileView,
    ConfigOutcome, ConfigRelease, Dates, NewRelease, ReleaseRef, check, md5_digits,
};
use crate::encoded::Encoded;
use crate::limits::{CONFIG_HISTORY_MAX, CONFIG_RELEASES_MAX};
use crate::refusal::{Noun, Refusal};

/// View of a file after a publication, and the release in it.
pub(super) struct Release {
    pub(super) view: ConfigFileView,
    pub(super) release: Arc<ConfigRelease>,
}

impl State {
    pub(super) fn publish_config(
        &mut self,
        key: &ConfigFileKey,
        release: NewRelease,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        check::file_key(key)?;
        check::release(&release)?;
        let view = self.config_view(key);
        let Release { view, release } = self.with_release(view, release, author, change)?;
        self.write_view(key, view, author, change)?;
        Ok(ConfigOutcome::Release(release))
    }

    /// Returns the view with a release of its working copy.
    pub(super) fn with_release(
        &mut self,
        mut view: ConfigFileView,
        new: NewRelease,
        author: &ConfigAuthor,
        change: &Change<'_>,
    ) -> Result<Release, Refusal> {
        if view.gray.is_some() {
            return Err(Refusal::Conflict);
        }
        let Some(file) = view.file.clone() else {
            return Err(Refusal::NotFound(Noun::ConfigFile));
        };
        let version = view.version() + 1;
        let name = match &*new.name {
            "" => format!("{}-{}-{version}", file.key.name, change.now_seconds()).into(),
            _ => new.name,
        };
        let replaced = view.release(&name).cloned();
        let mut dates = Dates::created(author, change);
        if let Some(replaced) = &replaced {
            dates.created_at = replaced.dates.created_at;
            dates.created_by = replaced.dates.created_by.clone();
        }
        let release = Arc::new(ConfigRelease {
            id: replaced.as_ref().map_or_else(|| self.next_config_id(change), |it| it.id),
            key: file.key.clone(),
            name,
            content: Arc::clone(&file.content),
            md5: md5_digits(&file.content).into(),
            version,
            format: file.format.clone(),
            comment: new.comment,
            tags: file.tags.clone(),
            description: new.description,
            labels: new.labels,
            dates,
            revision: self.next_revision(),
            encoded: Encoded::default(),
        });
        let is_gray = release.is_gray();
        view.set_release(Arc::clone(&release));
        view.change_file(|file| {
            file.version = version;
            let (slot, other) = match is_gray {
                true => (&mut file.gray, &mut file.active),
                false => (&mut file.active, &mut file.gray),
            };
            *slot = Some(release.id);
            // The release may have been in force in the other way under this name.
            if *other == Some(release.id) {
                *other = None;
            }
        });
        view.drop_oldest_releases();
        let kind = if is_gray { ConfigEventKind::Gray } else { ConfigEventKind::Release };
        let event = self.config_event(kind, &release, author, change);
        view.remember(event);
        Ok(Release { view, release })
    }

    pub(super) fn rollback_config(
        &mut self,
        target: &ReleaseRef,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        let ReleaseRef { key, name } = target;
        check::file_key(key)?;
        let mut view = self.config_view(key);
        let release = view.release(name).ok_or(Refusal::NotFound(Noun::ConfigRelease))?;
        let mut release = ConfigRelease::clone(release);
        // A gray release that is rolled back to is from then on for all clients.
        release.labels = Vec::new();
        let release = self.activate(&mut view, release, author, change);
        view.change_file(|file| {
            file.active = Some(release.id);
            file.gray = file.gray.filter(|gray| *gray != release.id);
        });
        let event = self.config_event(ConfigEventKind::Rollback, &release, author, change);
        view.remember(event);
        self.write_view(key, view, author, change)?;
        Ok(ConfigOutcome::Release(release))
    }

    pub(super) fn delete_config_release(
        &mut self,
        target: &ReleaseRef,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        let ReleaseRef { key, name } = target;
        check::file_key(key)?;
        let mut view = self.config_view(key);
        let Some(release) = view.release(name).cloned() else { return Ok(ConfigOutcome::Done) };
        view.releases.retain(|it| it.id != release.id);
        let file = view.file.clone();
        if file.as_ref().is_some_and(|file| file.gray == Some(release.id)) {
            self.return_from_gray(&mut view, author, change);
        }
        let version = view.version() + 1;
        if file.is_some_and(|file| file.active == Some(release.id)) {
            view.change_file(|file| (file.active, file.version) = (None, version));
        }
        let event = self.config_event(ConfigEventKind::DeleteRelease, &release, author, change);
        view.remember(event);
        self.write_view(key, view, author, change)?;
        Ok(ConfigOutcome::Done)
    }

    pub(super) fn stop_gray_config(
        &mut self,
        key: &ConfigFileKey,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<ConfigOutcome, Refusal> {
        check::file_key(key)?;
        let mut view = self.config_view(key);
        let Some(gray) = view.gray.clone() else { return Ok(ConfigOutcome::Done) };
        self.return_from_gray(&mut view, author, change);
        let event = self.config_event(ConfigEventKind::StopGray, &gray, author, change);
        view.remember(event);
        self.write_view(key, view, author, change)?;
        Ok(ConfigOutcome::Done)
    }

    /// Ends the gray release. The release for all clients gets a new version, because clients that
    /// have the gray one ignore lower versions.
    fn return_from_gray(
        &mut self,
        view: &mut ConfigFileView,
        author: &ConfigAuthor,
        change: &Change<'_>,
    ) {
        view.change_file(|file| file.gray = None);
        if let Some(active) = view.active.clone() {
            self.activate(view, ConfigRelease::clone(&active), author, change);
        } else {
            let version = view.version() + 1;
            view.change_file(|file| file.version = version);
        }
    }

    /// Gives a release the next version.
    fn activate(
        &mut self,
        view: &mut ConfigFileView,
        mut release: ConfigRelease,
        author: &ConfigAuthor,
        change: &Change<'_>,
    ) -> Arc<ConfigRelease> {
        release.version = view.version() + 1;
        release.revision = self.next_revision();
        release.dates.modify(author, change);
        let release = Arc::new(release);
        view.set_release(Arc::clone(&release));
        view.change_file(|file| file.version = release.version);
        release
    }

    pub(super) fn config_event(
        &mut self,
        kind: ConfigEventKind,
        release: &ConfigRelease,
        author: &ConfigAuthor,
        change: &Change<'_>,
    ) -> ConfigEvent {
        ConfigEvent {
            id: self.next_config_id(change),
            kind,
            key: release.key.clone(),
            name: release.name.clone(),
            content: Arc::clone(&release.content),
            md5: release.md5.clone(),
            version: release.version,
            format: release.format.clone(),
            comment: release.comment.clone(),
            tags: release.tags.clone(),
            description: release.description.clone(),
            at: change.now_seconds(),
            by: author.clone(),
        }
    }

    fn write_view(
        &mut self,
        key: &ConfigFileKey,
        view: ConfigFileView,
        author: &ConfigAuthor,
        change: &mut Change<'_>,
    ) -> Result<(), Refusal> {
        let prepared = self.prepare_config(key, view)?;
        self.write_config(vec![prepared], author, change)
    }
}

impl ConfigFileView {
    /// Replaces the release with this id, or adds it.
    fn set_release(&mut self, release: Arc<ConfigRelease>) {
        match self.releases.iter_mut().find(|it| it.id == release.id) {
            Some(place) => *place = release,
            None => self.releases.push(release),
        }
    }

    fn change_file(&mut self, change: impl FnOnce(&mut ConfigFile)) {
        if let Some(file) = &mut self.file {
            change(Arc::make_mut(file));
        }
    }

    /// Drops the oldest releases that are not in force, beyond the limit.
    fn drop_oldest_releases(&mut self) {
        while self.releases.len() > CONFIG_RELEASES_MAX {
            let file = self.file.as_deref();
            let in_force = file.map(|file| [file.active, file.gray]).unwrap_or_default();
            let is_idle = |it: &Arc<ConfigRelease>| !in_force.contains(&Some(it.id));
            let oldest = self.releases.iter().enumerate().filter(|(_, it)| is_idle(it));
            let Some((place, _)) = oldest.min_by_key(|(_, it)| it.version) else { return };
            self.releases.remove(place);
        }
    }

    /// Adds an entry to the history, and drops the oldest beyond the limit.
    fn remember(&mut self, event: ConfigEvent) {
        self.history.push(Arc::new(event));
        let excess = self.history.len().saturating_sub(CONFIG_HISTORY_MAX);
        self.history.drain(..excess);
    }
}
