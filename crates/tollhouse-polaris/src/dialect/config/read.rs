//! Released files as clients ask for them.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use tollhouse_registry::State;
use tollhouse_registry::config::ConfigRelease;
use tollhouse_registry::identity::Resource;

use super::super::meter::Method;
use super::super::{CallReply, Caller, Dialect, Undecodable};
use super::messages::{self, DATA_KEY_TAG, client_file, is_encrypted, listed_file, some, tag};
use super::sealing::wrap_key;
use super::{address_text, client_reply, key_of, labels_of};
use crate::access::{Door, Gate};
use crate::answer::Answer;
use crate::code::Code;
use crate::dialect::rights::Permits;
use crate::failure::Failure;
use crate::v1;
use crate::v1::config_discover_request::ConfigDiscoverRequestType;

/// Released files of a group, or the lack of a change.
struct FileList {
    code: Code,
    revision: String,
    files: Vec<v1::ClientConfigFileInfo>,
}

impl Dialect {
    /// `GetConfigFile`: returns the release of a file that is in force for the client.
    ///
    /// # Errors
    /// If the message cannot be decoded as `ClientConfigFileInfo`.
    pub fn get_config_file(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
    ) -> Result<CallReply, Undecodable> {
        let timed = self.meter.start(Method::GetConfigFile);
        let asked = v1::ClientConfigFileInfo::decode(message)?;
        let admitted = self.admit_file(caller, "DiscoverConfigFile", &asked);
        let reply = match admitted {
            Ok(()) => match found(&self.registry.state(), caller, &asked) {
                Ok(release) => release_reply(&release, asked.public_key.as_deref()),
                Err(failure) => client_reply(&failure, Some(asked)),
            },
            Err(code) => client_reply(&code.into(), None),
        };
        Ok(timed.end(reply))
    }

    /// `GetConfigFileMetadataList`: lists the released files of a group.
    ///
    /// # Errors
    /// If the message cannot be decoded as `ConfigFileGroupRequest`.
    pub fn list_config_files(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
    ) -> Result<CallReply, Undecodable> {
        let timed = self.meter.start(Method::ListConfigFiles);
        let asked = v1::ConfigFileGroupRequest::decode(message)?;
        let group = asked.config_file_group.unwrap_or_default();
        let namespace = group.namespace.unwrap_or_default();
        let group = group.name.unwrap_or_default();
        let known = asked.revision.unwrap_or_default();
        let named = std::iter::once((namespace.as_str(), group.as_str()));
        let list = self.admit_groups(caller, "DiscoverConfigFileNames", named);
        let list = list.map_err(Failure::from);
        let list =
            list.and_then(|()| file_list(&self.registry.state(), &namespace, &group, &known));
        let response = match list {
            Ok(list) => v1::ConfigClientListResponse {
                code: Some(list.code.number()),
                info: some(list.code.info()),
                revision: Some(list.revision),
                namespace,
                group,
                config_file_infos: list.files,
            },
            Err(failure) => v1::ConfigClientListResponse {
                code: Some(failure.code.number()),
                info: some(&failure.info()),
                ..v1::ConfigClientListResponse::default()
            },
        };
        let code = response.code.and_then(Code::from_number).unwrap_or(Code::ExecuteException);
        Ok(timed.end(CallReply::made(code, response.encode_to_vec())))
    }

    /// `Discover` of the configuration centre: returns a file, the released files of a group, or
    /// the groups of a namespace.
    ///
    /// # Errors
    /// If the message cannot be decoded as `ConfigDiscoverRequest`.
    pub fn discover_config(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
    ) -> Result<CallReply, Undecodable> {
        let timed = self.meter.start(Method::DiscoverConfig);
        let asked = v1::ConfigDiscoverRequest::decode(message)?;
        let admitted = self.admit_discovery(caller, &asked).map_err(Failure::from);
        let answer = admitted.and_then(|()| discovered(&self.registry.state(), caller, &asked));
        let (failure, response) = match answer {
            Ok(response) => {
                let code = Code::from_number(response.code).unwrap_or(Code::ExecuteException);
                (Failure::from(code), response)
            }
            Err(failure) => (failure, v1::ConfigDiscoverResponse::default()),
        };
        let response = v1::ConfigDiscoverResponse {
            code: failure.code.number(),
            info: failure.info().into_owned(),
            r#type: asked.r#type,
            ..response
        };
        Ok(timed.end(CallReply::made(failure.code, response.encode_to_vec())))
    }
}

impl Dialect {
    /// Checks a call about a file by its group.
    pub(super) fn admit_file(
        &self,
        caller: &Caller<'_>,
        function: &'static str,
        file: &v1::ClientConfigFileInfo,
    ) -> Result<(), Code> {
        let text = |text: &'_ Option<String>| text.clone().unwrap_or_default();
        let (namespace, group) = (text(&file.namespace), text(&file.group));
        self.admit_groups(caller, function, std::iter::once((&*namespace, &*group)))
    }

    fn admit_discovery(
        &self,
        caller: &Caller<'_>,
        asked: &v1::ConfigDiscoverRequest,
    ) -> Result<(), Code> {
        let empty = v1::ClientConfigFileInfo::default();
        let file = asked.config_file.as_ref().unwrap_or(&empty);
        match asked.r#type() {
            ConfigDiscoverRequestType::ConfigFile => {
                self.admit_file(caller, "DiscoverConfigFile", file)
            }
            ConfigDiscoverRequestType::ConfigFileNames => {
                self.admit_file(caller, "DiscoverConfigFileNames", file)
            }
            ConfigDiscoverRequestType::ConfigFileGroups => {
                if self.access.gate(Door::Client) == Gate::Open {
                    return Ok(());
                }
                let namespace = file.namespace.as_deref().unwrap_or_default();
                let state = self.registry.state();
                let rights = self.rights(&state, Door::Client, caller);
                rights.check("DiscoverConfigGroups", &[Resource::namespace(namespace)])
            }
            ConfigDiscoverRequestType::Unknown => self.admit_any(Door::Client, caller),
        }
    }
}

/// Returns the release that a client gets.
fn found(
    state: &State,
    caller: &Caller<'_>,
    asked: &v1::ClientConfigFileInfo,
) -> Result<Arc<ConfigRelease>, Failure> {
    let key = key_of(asked)?;
    let labels = labels_of(&asked.tags, address_text(caller.address).as_deref());
    let view = state.config_file(&key.namespace, &key.group, &key.name);
    let release = view.and_then(|view| view.release_for(&labels)).ok_or(Code::NotFoundResource)?;
    if asked.version.unwrap_or(0) > release.version {
        return Err(Code::DataNoChange.into());
    }
    Ok(Arc::clone(release))
}

/// The answer with a release, which all clients share, unless it has a key for this one only.
fn release_reply(release: &ConfigRelease, public_key: Option<&str>) -> CallReply {
    let code = Code::ExecuteSuccess;
    if let Some(public_key) =
        public_key.filter(|key| !key.is_empty() && is_encrypted(&release.tags))
    {
        let mut file = client_file(release);
        file.tags.retain(|tag| tag.key.as_deref() != Some(DATA_KEY_TAG));
        // Refused rather than answered with the bare key, which others may see on its way.
        let Some(wrapped) = wrap_key(&release.tags, public_key) else {
            let text = "the public key is not an RSA key in base64";
            return client_reply(&Failure::with(Code::EncryptConfigFileException, text), None);
        };
        file.tags.push(tag(DATA_KEY_TAG, &wrapped));
        return client_reply(&code.into(), Some(file));
    }
    let encoded = release.encoded.get_or_encode(|| {
        let response = v1::ConfigClientResponse {
            code: Some(code.number()),
            info: some(code.info()),
            config_file: Some(client_file(release)),
        };
        Bytes::from(response.encode_to_vec())
    });
    CallReply { code, answer: Answer::shared(encoded.clone()) }
}

fn file_list(
    state: &State,
    namespace: &str,
    group: &str,
    known: &str,
) -> Result<FileList, Failure> {
    if namespace.is_empty() {
        return Err(Failure::with(Code::BadRequest, "namespace is empty"));
    }
    if group.is_empty() {
        return Err(Failure::with(Code::BadRequest, "file group is empty"));
    }
    let mut list =
        FileList { code: Code::ExecuteSuccess, revision: String::new(), files: Vec::new() };
    let Some(view) = state.config_group(namespace, group) else { return Ok(list) };
    list.revision = view.releases_revision.to_string();
    if list.revision == known {
        list.code = Code::DataNoChange;
        return Ok(list);
    }
    let active = view.files().filter_map(|file| file.active.as_deref());
    list.files = active.map(listed_file).collect();
    list.files.sort_by(|first, second| first.file_name.cmp(&second.file_name));
    Ok(list)
}

fn discovered(
    state: &State,
    caller: &Caller<'_>,
    asked: &v1::ConfigDiscoverRequest,
) -> Result<v1::ConfigDiscoverResponse, Failure> {
    let empty = v1::ClientConfigFileInfo::default();
    let file = asked.config_file.as_ref().unwrap_or(&empty);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut response = v1::ConfigDiscoverResponse {
        code: Code::ExecuteSuccess.number(),
        ..v1::ConfigDiscoverResponse::default()
    };
    match asked.r#type() {
        ConfigDiscoverRequestType::ConfigFile => {
            let release = found(state, caller, file)?;
            response.revision = release.version.to_string();
            response.config_file = Some(client_file(&release));
        }
        ConfigDiscoverRequestType::ConfigFileNames => {
            let (namespace, group) = (text(&file.namespace), text(&file.group));
            let list = file_list(state, &namespace, &group, &asked.revision)?;
            response.code = list.code.number();
            response.revision = list.revision;
            response.config_file_names = list.files;
        }
        ConfigDiscoverRequestType::ConfigFileGroups => {
            let namespace = text(&file.namespace);
            if namespace.is_empty() {
                return Err(Failure::with(Code::BadRequest, "namespace is empty"));
            }
            let Some(view) = state.namespace(&namespace) else { return Ok(response) };
            response.revision = view.config_revision.to_string();
            if response.revision == asked.revision {
                return Err(Code::DataNoChange.into());
            }
            let groups = view.config_groups();
            let groups = groups.map(|it| messages::group(&it.group, it.file_count, Permits::ALL));
            response.config_file_groups = groups.collect();
            response.config_file_groups.sort_by(|first, second| first.name.cmp(&second.name));
            response.config_file = Some(v1::ClientConfigFileInfo {
                namespace: Some(namespace),
                ..v1::ClientConfigFileInfo::default()
            });
        }
        ConfigDiscoverRequestType::Unknown => return Err(Code::InvalidDiscoverResource.into()),
    }
    Ok(response)
}
