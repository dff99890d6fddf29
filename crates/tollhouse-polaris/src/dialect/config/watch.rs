//! Long polls: a client tells which versions of files it has, and the call is answered when one of
//! them has a newer release.

use std::time::Duration;

use prost::Message;
use tokio::time::{Instant, timeout_at};
use tollhouse_registry::config::ConfigFileKey;
use tollhouse_registry::{Metadata, State};

use super::super::{CallReply, Caller, Dialect, Undecodable};
use super::messages::{named_file, watched_file};
use super::{address_text, client_reply, key_of, labels_of};
use crate::code::Code;
use crate::failure::Failure;
use crate::v1;

/// Time after which a call is answered without a change, as in Polaris; clients then ask again.
const WATCH_TIME: Duration = Duration::from_secs(30);

/// Name of the call, as policies name it.
const FUNCTION: &str = "WatchConfigFile";

/// A call that waits.
struct Wait {
    /// Address of the client.
    client: String,
    files: Vec<WatchedFile>,
    /// Number of changes of rights before the caller was admitted.
    epoch: u64,
}

/// A file and what its client has of it.
struct WatchedFile {
    key: ConfigFileKey,
    /// Version that the client has; 0 if none.
    version: u64,
    labels: Metadata,
    /// Whether the file had a release for the client at the last look.
    was_released: bool,
}

impl Dialect {
    /// `WatchConfigFiles`: answers when one of the files has a newer release, without its content.
    ///
    /// # Errors
    /// If the message cannot be decoded as `ClientWatchConfigFileRequest`.
    pub async fn watch_config_files(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
    ) -> Result<CallReply, Undecodable> {
        let asked = v1::ClientWatchConfigFileRequest::decode(message)?;
        // Read before the rights, so that no later change of them is missed.
        let epoch = self.registry.rights_epoch();
        let admitted = self.admit_watch(caller, &asked).map_err(Failure::from);
        let files = admitted.and_then(|()| watched_files(caller, &asked));
        Ok(match files {
            Ok(files) => {
                let client = client_of(caller, &asked);
                drop(asked);
                self.wait_for_change(caller, Wait { client, files, epoch }).await
            }
            Err(failure) => client_reply(&failure, None),
        })
    }

    fn admit_watch(
        &self,
        caller: &Caller<'_>,
        asked: &v1::ClientWatchConfigFileRequest,
    ) -> Result<(), Code> {
        let groups = asked.watch_files.iter().map(|file| {
            let text = |text: &'_ Option<String>| text.as_deref().unwrap_or_default().to_owned();
            (text(&file.namespace), text(&file.group))
        });
        // Watched files are many of few groups.
        let groups: std::collections::BTreeSet<(String, String)> = groups.collect();
        let groups = groups.iter().map(|(namespace, group)| (&**namespace, &**group));
        self.admit_groups(caller, FUNCTION, groups)
    }

    fn admit_files(&self, caller: &Caller<'_>, files: &[WatchedFile]) -> Result<(), Code> {
        let groups = files.iter().map(|file| (&*file.key.namespace, &*file.key.group));
        let groups: std::collections::BTreeSet<(&str, &str)> = groups.collect();
        self.admit_groups(caller, FUNCTION, groups.into_iter())
    }

    async fn wait_for_change(&self, caller: &Caller<'_>, wait: Wait) -> CallReply {
        let Wait { client, mut files, mut epoch } = wait;
        let keys = files.iter().map(|file| (file.key.clone(), file.version)).collect();
        let watch = match self.registry.watch_config(&client, keys) {
            Ok(watch) => watch,
            Err(refusal) => return client_reply(&refusal.into(), None),
        };
        let until = Instant::now() + WATCH_TIME;
        loop {
            // A caller who has lost the right gets no news.
            let now = self.registry.rights_epoch();
            if std::mem::replace(&mut epoch, now) != now
                && let Err(code) = self.admit_files(caller, &files)
            {
                return client_reply(&code.into(), None);
            }
            let changed = files.iter_mut().find_map(|file| file.look(&self.registry.state()));
            if let Some(changed) = changed {
                return client_reply(&Code::ExecuteSuccess.into(), Some(changed));
            }
            if timeout_at(until, watch.changed()).await.is_err() {
                return client_reply(&Code::DataNoChange.into(), None);
            }
        }
    }
}

impl WatchedFile {
    /// Returns the file if its client does not have the release that is in force for it.
    fn look(&mut self, state: &State) -> Option<v1::ClientConfigFileInfo> {
        let ConfigFileKey { namespace, group, name } = &self.key;
        let view = state.config_file(namespace, group, name);
        let release = view.and_then(|view| view.release_for(&self.labels));
        let was_released = std::mem::replace(&mut self.was_released, release.is_some());
        match release {
            Some(release) if release.version > self.version => Some(watched_file(release)),
            Some(_) => None,
            // The release went while the client waited, which asks for the file next.
            None if was_released => {
                let version = view.map_or(self.version + 1, |view| view.version());
                let file = named_file(&self.key);
                Some(v1::ClientConfigFileInfo { version: Some(version), ..file })
            }
            None => None,
        }
    }
}

/// Returns the address of a client: the one that it tells, or else that of its connection.
fn client_of(caller: &Caller<'_>, asked: &v1::ClientWatchConfigFileRequest) -> String {
    let named = asked.client_ip.clone().filter(|address| !address.is_empty());
    named.or_else(|| address_text(caller.address)).unwrap_or_default()
}

fn watched_files(
    caller: &Caller<'_>,
    asked: &v1::ClientWatchConfigFileRequest,
) -> Result<Vec<WatchedFile>, Failure> {
    if asked.watch_files.is_empty() {
        return Err(Code::InvalidWatchConfigFileFormat.into());
    }
    let address = Some(client_of(caller, asked)).filter(|address| !address.is_empty());
    let files = asked.watch_files.iter().map(|file| {
        Ok(WatchedFile {
            key: key_of(file)?,
            version: file.version.unwrap_or(0),
            labels: labels_of(&file.tags, address.as_deref()),
            was_released: false,
        })
    });
    files.collect()
}
