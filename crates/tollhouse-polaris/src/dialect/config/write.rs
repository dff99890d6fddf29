//! Changes of files, by clients and by the console.

use std::borrow::Cow;
use std::sync::Arc;

use prost::Message;
use tollhouse_registry::config::{
    ConfigCommand, ConfigFile, ConfigFileChange, ConfigFileKey, ConfigOutcome, NewRelease,
};
use tollhouse_registry::{Command, Outcome};

use super::super::meter::Method;
use super::super::{CallReply, Caller, Dialect, Undecodable};
use super::client_reply;
use super::format::FormatCheck;
use super::messages::{ALGORITHM_TAG, DATA_KEY_TAG, ENCRYPTED_TAG, GRAY, label_of, some, tags_of};
use super::sealing::{AES, DataKey, is_key_lost, plain};
use crate::access::Door;
use crate::code::Code;
use crate::failure::Failure;
use crate::v1;

/// Treatment of a file that exists with another content than its writer knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overwrite {
    /// Refused unless the writer sends the MD5 of the content that it replaces.
    IfKnown,
    Always,
}

/// A client's change of one file.
struct ClientWrite {
    method: Method,
    /// Name of the call, as policies name it.
    function: &'static str,
    key: ConfigFileKey,
}

impl Dialect {
    /// `CreateConfigFile`.
    ///
    /// # Errors
    /// If the message cannot be decoded as `ConfigFile`.
    pub async fn create_config_file(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
    ) -> Result<CallReply, Undecodable> {
        let file = v1::ConfigFile::decode(message)?;
        let command = || self.file_command(&file, ConfigCommand::CreateFile);
        let call = ClientWrite {
            method: Method::WriteConfigFile,
            function: "CreateConfigFile",
            key: file_key(&file),
        };
        Ok(self.client_write(call, caller, command).await)
    }

    /// `UpdateConfigFile`.
    ///
    /// # Errors
    /// If the message cannot be decoded as `ConfigFile`.
    pub async fn update_config_file(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
    ) -> Result<CallReply, Undecodable> {
        let file = v1::ConfigFile::decode(message)?;
        let command = || self.file_command(&file, ConfigCommand::UpdateFile);
        let call = ClientWrite {
            method: Method::WriteConfigFile,
            function: "UpdateConfigFile",
            key: file_key(&file),
        };
        Ok(self.client_write(call, caller, command).await)
    }

    /// `PublishConfigFile`.
    ///
    /// # Errors
    /// If the message cannot be decoded as `ConfigFileRelease`.
    pub async fn publish_config_file(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
    ) -> Result<CallReply, Undecodable> {
        let release = v1::ConfigFileRelease::decode(message)?;
        let command = || self.publication(&release, self.format_check());
        let call = ClientWrite {
            method: Method::PublishConfigFile,
            function: "PublishConfigFile",
            key: release_key(&release),
        };
        Ok(self.client_write(call, caller, command).await)
    }

    /// `UpsertAndPublishConfigFile`: refused if the file has another content than the client knows.
    ///
    /// # Errors
    /// If the message cannot be decoded as `ConfigFilePublishInfo`.
    pub async fn upsert_and_publish_config_file(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
    ) -> Result<CallReply, Undecodable> {
        let written = v1::ConfigFilePublishInfo::decode(message)?;
        let timed = self.meter.start(Method::PublishConfigFile);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (namespace, group) = (text(&written.namespace), text(&written.group));
        let named = std::iter::once((&*namespace, &*group));
        let admitted = self.admit_groups(caller, "UpsertAndReleaseConfigFile", named);
        let admitted = admitted.map_err(Failure::from);
        let check = self.format_check();
        let command = admitted.and_then(|()| self.upsert(&written, Overwrite::IfKnown, check));
        let failure = match self.try_change(caller, command).await {
            Ok(_) => Code::ExecuteSuccess.into(),
            Err(failure) => failure,
        };
        let file = v1::ClientConfigFileInfo {
            namespace: written.namespace,
            group: written.group,
            file_name: written.file_name,
            ..v1::ClientConfigFileInfo::default()
        };
        Ok(timed.end(client_reply(&failure, Some(file))))
    }

    async fn client_write(
        &self,
        call: ClientWrite,
        caller: &Caller<'_>,
        command: impl FnOnce() -> Result<ConfigCommand, Failure>,
    ) -> CallReply {
        let ClientWrite { method, function, key } = call;
        let timed = self.meter.start(method);
        // Checked before the command is made, whose refusals tell of the stored file.
        let group = std::iter::once((&*key.namespace, &*key.group));
        let admitted = self.admit_groups(caller, function, group).map_err(Failure::from);
        let failure = match self.try_change(caller, admitted.and_then(|()| command())).await {
            Ok(_) => Code::ExecuteSuccess.into(),
            Err(failure) => failure,
        };
        timed.end(client_reply(&failure, None))
    }

    async fn try_change(
        &self,
        caller: &Caller<'_>,
        command: Result<ConfigCommand, Failure>,
    ) -> Result<ConfigOutcome, Failure> {
        self.change_config(Door::Client, caller, command?).await
    }

    /// Executes a command in the name of the caller.
    pub(crate) async fn change_config(
        &self,
        door: Door,
        caller: &Caller<'_>,
        command: ConfigCommand,
    ) -> Result<ConfigOutcome, Failure> {
        let command = Command::Config(self.author(caller), Box::new(command));
        match self.submit_for(door, caller, command).await? {
            Outcome::Config(outcome) => Ok(outcome),
            _ => Err(Code::ExecuteException.into()),
        }
    }

    /// Returns the command that publishes a file.
    pub(crate) fn publication(
        &self,
        release: &v1::ConfigFileRelease,
        check: FormatCheck,
    ) -> Result<ConfigCommand, Failure> {
        let key = release_key(release);
        // An unknown namespace is told apart from an unknown file.
        let is_valid = tollhouse_registry::is_namespace_name(&key.namespace);
        if is_valid && self.registry.state().namespace(&key.namespace).is_none() {
            return Err(Code::NotFoundNamespace.into());
        }
        if let Some(file) = self.known_file(&key) {
            check_data_key(&file)?;
            check.check(&file.format, &plain(&file.content, &file.tags))?;
        }
        let is_gray = release.release_type.as_deref() == Some(GRAY);
        if is_gray && release.beta_labels.is_empty() {
            return Err(Code::InvalidMatchRule.into());
        }
        let labels = release.beta_labels.iter().filter(|_| is_gray).map(label_of);
        let new = NewRelease {
            name: boxed(release.name.as_ref()),
            comment: boxed(release.comment.as_ref()),
            description: boxed(release.release_description.as_ref()),
            labels: labels.collect(),
        };
        Ok(ConfigCommand::Publish(key, new))
    }

    /// Returns the command that writes a file.
    pub(crate) fn file_command(
        &self,
        file: &v1::ConfigFile,
        command: impl FnOnce(ConfigFileKey, ConfigFileChange) -> ConfigCommand,
    ) -> Result<ConfigCommand, Failure> {
        let key = file_key(file);
        let known = self.known_file(&key);
        Ok(command(key, file_change(file, known.as_deref())?))
    }

    /// Returns the command that writes and publishes a file.
    pub(crate) fn upsert(
        &self,
        written: &v1::ConfigFilePublishInfo,
        overwrite: Overwrite,
        check: FormatCheck,
    ) -> Result<ConfigCommand, Failure> {
        let file = v1::ConfigFile {
            name: written.file_name.clone(),
            namespace: written.namespace.clone(),
            group: written.group.clone(),
            content: written.content.clone().or_else(|| some("")),
            format: written.format.clone(),
            comment: written.comment.clone(),
            tags: written.tags.clone(),
            encrypted: written.encrypted,
            encrypt_algo: written.encrypt_algo.clone(),
            ..v1::ConfigFile::default()
        };
        let key = file_key(&file);
        let known = self.known_file(&key);
        let change = file_change(&file, known.as_deref())?;
        let known_format = known.as_ref().map_or("", |known| &known.format);
        let format = change.format.as_deref().unwrap_or(known_format);
        check.check(format, file.content.as_deref().unwrap_or_default())?;
        let expected = match overwrite {
            Overwrite::IfKnown => Some(boxed(written.md5.as_ref())),
            Overwrite::Always => None,
        };
        let release = NewRelease {
            name: boxed(written.release_name.as_ref()),
            description: boxed(written.release_description.as_ref()),
            ..NewRelease::default()
        };
        Ok(ConfigCommand::WriteAndPublish { key, file: change, release, expected })
    }

    /// Returns the working copy of a file.
    pub(crate) fn known_file(&self, key: &ConfigFileKey) -> Option<Arc<ConfigFile>> {
        let state = self.registry.state();
        state.config_file(&key.namespace, &key.group, &key.name)?.file.clone()
    }
}

pub(crate) fn file_key(file: &v1::ConfigFile) -> ConfigFileKey {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    ConfigFileKey::new(&text(&file.namespace), &text(&file.group), &text(&file.name))
}

/// Returns the change of a file. The content of an encrypted one is encrypted with its key, or with
/// a new one. A file stays encrypted unless its writer says otherwise.
pub(crate) fn file_change(
    file: &v1::ConfigFile,
    known: Option<&ConfigFile>,
) -> Result<ConfigFileChange, Failure> {
    known.map_or(Ok(()), check_data_key)?;
    let known_key = known.and_then(|known| DataKey::from_tags(&known.tags));
    let key = match file.encrypted {
        Some(true) => Some(known_key.unwrap_or_else(DataKey::random)),
        Some(false) => None,
        None => known_key,
    };
    let algorithm = file.encrypt_algo.as_deref().unwrap_or_default();
    if key.is_some() && !algorithm.is_empty() && algorithm != AES {
        let text = format!("unknown algorithm {algorithm:?}; expected {AES}");
        return Err(Failure::with(Code::EncryptConfigFileException, text));
    }
    let mut tags = tags_of(&file.tags)?;
    for own in [DATA_KEY_TAG, ALGORITHM_TAG, ENCRYPTED_TAG] {
        tags.remove(own);
    }
    let mut content = file.content.as_deref().map(Cow::Borrowed);
    if key != known_key {
        // A content that stays is encrypted or decrypted too.
        content = content.or_else(|| known.map(|known| plain(&known.content, &known.tags)));
    }
    if let Some(key) = key {
        key.put_into(&mut tags);
        content = content.map(|content| Cow::Owned(key.seal(&content)));
    }
    Ok(ConfigFileChange {
        content: content.map(Into::into),
        format: file.format.as_deref().filter(|format| !format.is_empty()).map(Into::into),
        comment: file.comment.as_deref().map(Into::into),
        tags: Some(tags),
    })
}

/// Refuses an encrypted file whose data key is lost: it would be written anew in plain text, or with
/// another key over the old one.
fn check_data_key(file: &ConfigFile) -> Result<(), Failure> {
    if !is_key_lost(&file.tags) {
        return Ok(());
    }
    let text = "no key opens the data key of this encrypted file; add the key that sealed it to \
                encryption.keyring, or delete the file and create it anew";
    Err(Failure::with(Code::EncryptConfigFileException, text.to_owned()))
}

pub(crate) fn release_key(release: &v1::ConfigFileRelease) -> ConfigFileKey {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    ConfigFileKey::new(&text(&release.namespace), &text(&release.group), &text(&release.file_name))
}

fn boxed(text: Option<&String>) -> Box<str> {
    text.map_or("", |text| text).into()
}
