//! Files as a zip archive: exported with their tags and comments, and imported again.
//!
//! The entry `META` has tags and comments by path; a path is `group/name`, or `name` where all
//! files are of one group. This is the form of Polaris' archives.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io::{Cursor, Read, Write};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use prost::Message;
use serde::{Deserialize, Serialize};
use tollhouse_registry::State;
use tollhouse_registry::config::{ConfigCommand, ConfigFile};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::reply;
use crate::access::Door;
use crate::code::Code;
use crate::dialect::config::messages::{is_encrypted, some, tag};
use crate::dialect::config::sealing::plain;
use crate::dialect::config::write::{file_change, file_key};
use crate::http::HttpApi;
use crate::http::console::{descriptor, request_body};
use crate::http::failure::Failure;
use crate::http::intake::{NoBody, any_body, caller};
use crate::http::language::Language;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::json;
use crate::v1;

const EXPORT: &str = "v1.ConfigExportResponse";
const IMPORT: &str = "v1.ConfigImportResponse";

/// Entry with tags and comments.
const META: &str = "META";

/// Field of the form that has the archive.
const FORM_FIELD: &str = "config";
const CONFLICT_HANDLING: &str = "conflict_handling";
/// Parameters of an import.
const PARAMETERS: [&str; 3] = ["namespace", "group", CONFLICT_HANDLING];

/// Greatest archive in bytes, as in Polaris.
const ARCHIVE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum number of files in an archive: an import is one commit.
const FILES_MAX: usize = 1_000;

/// Maximum bytes of all files of an archive: an import is one commit, and an archive of 4 MiB can
/// expand to gigabytes.
const FILES_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Tags and comment of a file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Meta {
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    comment: String,
}

/// Treatment of files that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Existing {
    Skipped,
    Overwritten,
}

/// A file of an archive.
#[derive(Debug)]
struct ArchivedFile {
    path: String,
    content: String,
}

/// Answers with an archive of groups, or of files of one group.
pub(super) async fn export(api: HttpApi, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let language = Language::from_request(&head);
    let archive = match request_body(&api, &head, body).await {
        Ok(body) => archive_of(&api, &head, &body.bytes).await,
        Err(NoBody::Refused(response)) => return response,
        Err(NoBody::Failed(failure)) => Err(failure),
    };
    match archive {
        Ok(archive) => {
            let mut response = Response::new(Body::from(archive));
            *response.status_mut() = StatusCode::OK;
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/zip"));
            let name = HeaderValue::from_static("attachment; filename=config.zip");
            headers.insert(CONTENT_DISPOSITION, name);
            response
        }
        Err(failure) => Reply::failure(EXPORT, &failure).print(language),
    }
}

async fn archive_of(api: &HttpApi, head: &Parts, body: &[u8]) -> Result<Vec<u8>, Failure> {
    let request = json::read(&descriptor("v1.ConfigFileExportRequest"), body);
    let request = request.map_err(|_| Failure::from(Code::ParseException))?;
    let request = v1::ConfigFileExportRequest::decode(&*request);
    let request = request.map_err(|_| Failure::from(Code::ParseException))?;
    let state = api.registry().state_full();
    {
        let caller = caller(head);
        let rights = api.dialect.rights(&state, Door::Console, &caller);
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let mut groups = request.groups.iter();
        groups.try_for_each(|group| rights.group("ExportConfigFiles", namespace, group))?;
    }
    let held = api.capacity.hold(2 * FILES_BYTES_MAX).await?;
    let archive = api.capacity.work(move || packed(&state, &request)).await?;
    drop(held);
    archive
}

fn packed(state: &State, request: &v1::ConfigFileExportRequest) -> Result<Vec<u8>, Failure> {
    let namespace = request.namespace.as_deref().unwrap_or_default();
    if namespace.is_empty() {
        return Err(Code::InvalidNamespaceName.into());
    }
    let groups = request.groups.iter().filter_map(|group| state.config_group(namespace, group));
    let files = groups.flat_map(|group| group.files().filter_map(|view| view.file.as_deref()));
    let mut files: Vec<&ConfigFile> = match (request.groups.len(), request.names.len()) {
        (1.., 0) => files.collect(),
        (1, 1..) => {
            let is_named =
                |file: &&ConfigFile| request.names.iter().any(|it| **it == *file.key.name);
            files.filter(is_named).collect()
        }
        _ => {
            let text = "name groups, or one group and files of it";
            return Err(Failure::with(Code::InvalidParameter, text));
        }
    };
    if files.is_empty() {
        return Err(Code::NotFoundResourceConfigFile.into());
    }
    let bytes: usize = files.iter().map(|file| file.content.len()).sum();
    if files.len() > FILES_MAX || bytes > FILES_BYTES_MAX {
        let text = format!(
            "{} files of {bytes} bytes; an archive has at most {FILES_MAX} of {FILES_BYTES_MAX}",
            files.len()
        );
        return Err(Failure::with(Code::InvalidParameter, text));
    }
    files.sort_by(|first, second| first.key.cmp(&second.key));
    let is_by_group = request.names.is_empty();
    let path = |file: &ConfigFile| match is_by_group {
        true => format!("{}/{}", file.key.group, file.key.name),
        false => file.key.name.to_string(),
    };
    let meta: BTreeMap<String, Meta> =
        files.iter().map(|file| (path(file), meta_of(file))).collect();
    let entries = files.iter().map(|file| (path(file), Cow::Borrowed(file.content.as_bytes())));
    let meta =
        serde_json::to_vec_pretty(&meta).map_err(|_| Failure::from(Code::ExecuteException))?;
    let entries = entries.chain([(META.to_owned(), Cow::Owned(meta))]);
    zipped(entries).map_err(|error| Failure::with(Code::ExecuteException, error.to_string()))
}

fn meta_of(file: &ConfigFile) -> Meta {
    let tags = file.tags.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    Meta { tags: tags.collect(), comment: file.comment.to_string() }
}

fn zipped<'a>(
    entries: impl Iterator<Item = (String, Cow<'a, [u8]>)>,
) -> zip::result::ZipResult<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (path, bytes) in entries {
        archive.start_file(path, options)?;
        archive.write_all(&bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Creates the files of an archive, and skips or overwrites those that exist.
pub(super) async fn import(api: HttpApi, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let language = Language::from_request(&head);
    if let Err(code) = api.dialect.admit_any(Door::Console, &caller(&head)) {
        return Reply::failure(IMPORT, &code.into()).print(language);
    }
    let reply = match any_body(&api.capacity, body, ARCHIVE_BYTES_MAX).await {
        Ok(body) => import_archive(&api, &head, body.bytes).await,
        Err(NoBody::Refused(response)) => return response,
        Err(NoBody::Failed(failure)) => Err(failure),
    };
    let reply = reply.unwrap_or_else(|failure| Reply::failure(IMPORT, &failure));
    reply.send(&api.capacity, language).await
}

async fn import_archive(api: &HttpApi, head: &Parts, body: Bytes) -> Result<Reply, Failure> {
    let Form { archive, namespace, group, existing } = Form::read(head, body).await?;
    // Held until the import is committed, because the files stay in memory until then.
    let _held = api.capacity.hold(2 * FILES_BYTES_MAX).await?;
    let files = api.capacity.work(move || unpacked(archive)).await??;
    let mut response = v1::ConfigImportResponse::default();
    let mut changes = BTreeMap::new();
    for (file, meta) in files {
        let message = message_of(&namespace, group.as_deref(), file, meta)?;
        let key = file_key(&message);
        let known = api.dialect.known_file(&key);
        let shown = v1::ConfigFile { content: None, tags: Vec::new(), ..message.clone() };
        match (&known, existing) {
            (Some(_), Existing::Skipped) => {
                response.skip_config_files.push(shown);
                continue;
            }
            (Some(_), Existing::Overwritten) => response.overwrite_config_files.push(shown),
            (None, _) => response.create_config_files.push(shown),
        }
        changes.insert(key, file_change(&message, known.as_deref())?);
    }
    let command = ConfigCommand::Import(changes.into_iter().collect());
    api.dialect.change_config(Door::Console, &caller(head), command).await?;
    Ok(reply(IMPORT, &Code::ExecuteSuccess.into(), &response))
}

fn message_of(
    namespace: &str,
    group: Option<&str>,
    file: ArchivedFile,
    meta: Meta,
) -> Result<v1::ConfigFile, Failure> {
    let ArchivedFile { path, content } = file;
    let (own_group, name) = match path.split_once('/') {
        Some((own_group, name)) => (Some(own_group), name),
        None => (None, path.as_str()),
    };
    let group = group.or(own_group).ok_or(Code::InvalidConfigFileGroupName)?;
    let tags = meta.tags.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into()));
    let tags = tags.collect();
    let format = name.rsplit_once('.').map_or("text", |(_, extension)| extension);
    Ok(v1::ConfigFile {
        namespace: some(namespace),
        group: some(group),
        name: some(name),
        content: some(&plain(&content, &tags)),
        format: some(format),
        comment: Some(meta.comment),
        encrypted: Some(is_encrypted(&tags)),
        tags: tags.iter().map(|(key, value)| tag(key, value)).collect(),
        ..v1::ConfigFile::default()
    })
}

/// Archive and parameters of an import. Polaris' console sends everything in the form; a parameter
/// of the query counts if the form does not have it.
struct Form {
    archive: Bytes,
    namespace: String,
    group: Option<String>,
    existing: Existing,
}

impl Form {
    async fn read(head: &Parts, body: Bytes) -> Result<Self, Failure> {
        let query = Query::parse(head.uri.query(), &PARAMETERS)?;
        let (mut archive, mut given) = (None, HashMap::new());
        let invalid =
            || Failure::with(Code::ParseException, "expected a form with the file `config`");
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let boundary = multer::parse_boundary(content_type.unwrap_or_default());
        let body = tokio_stream::once(Ok::<_, Infallible>(body));
        let mut form = multer::Multipart::new(body, boundary.map_err(|_| invalid())?);
        while let Some(field) = form.next_field().await.map_err(|_| invalid())? {
            let name = field.name().unwrap_or_default();
            if name == FORM_FIELD {
                archive = Some(field.bytes().await.map_err(|_| invalid())?);
            } else if let Some(name) = PARAMETERS.into_iter().find(|known| *known == name) {
                given.insert(name, field.text().await.map_err(|_| invalid())?);
            }
        }
        let mut parameter = |name: &'static str| {
            let given = given.remove(name).or_else(|| query.get(name).map(str::to_owned));
            given.filter(|text| !text.is_empty())
        };
        let existing = match parameter(CONFLICT_HANDLING).as_deref() {
            None | Some("skip") => Existing::Skipped,
            Some("overwrite") => Existing::Overwritten,
            Some(other) => {
                let text = format!("conflict_handling {other:?}; expected skip or overwrite");
                return Err(Failure::with(Code::InvalidParameter, text));
            }
        };
        let namespace = parameter("namespace").ok_or(Code::InvalidNamespaceName)?;
        Ok(Self {
            archive: archive.ok_or_else(invalid)?,
            namespace,
            group: parameter("group"),
            existing,
        })
    }
}

/// Returns the files of an archive with their tags and comments.
fn unpacked(archive: Bytes) -> Result<Vec<(ArchivedFile, Meta)>, Failure> {
    let invalid = |reason: String| Failure::with(Code::ParseException, reason);
    let archive = ZipArchive::new(Cursor::new(archive));
    let mut archive = archive.map_err(|error| invalid(error.to_string()))?;
    if archive.len() > FILES_MAX + 1 {
        return Err(invalid(format!("more than {FILES_MAX} files")));
    }
    let mut room = FILES_BYTES_MAX as u64;
    let (mut files, mut meta) = (Vec::new(), BTreeMap::new());
    for place in 0..archive.len() {
        let entry = archive.by_index(place).map_err(|error| invalid(error.to_string()))?;
        if entry.is_dir() {
            continue;
        }
        let path = entry.name().to_owned();
        let mut bytes = Vec::new();
        // The length in the head of an entry may be wrong, so that the bytes are counted.
        let read = entry.take(room + 1).read_to_end(&mut bytes);
        let length = read.map_err(|error| invalid(format!("{path}: {error}")))? as u64;
        room = room
            .checked_sub(length)
            .ok_or_else(|| invalid(format!("the files have more than {FILES_BYTES_MAX} bytes")))?;
        if path == META {
            meta = serde_json::from_slice::<BTreeMap<String, Meta>>(&bytes)
                .map_err(|error| invalid(format!("{META}: {error}")))?;
            continue;
        }
        let content = String::from_utf8(bytes);
        let content = content.map_err(|_| invalid(format!("{path} is not UTF-8")))?;
        files.push(ArchivedFile { path, content });
    }
    let with_meta = |file: ArchivedFile| {
        let meta = meta.remove(&file.path).unwrap_or_default();
        (file, meta)
    };
    Ok(files.into_iter().map(with_meta).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(entries: &[(&str, &[u8])]) -> Bytes {
        let entries =
            entries.iter().map(|(path, bytes)| ((*path).to_owned(), Cow::Borrowed(*bytes)));
        zipped(entries).expect("written").into()
    }

    #[test]
    fn an_archive_is_read_as_it_was_written() {
        let meta = br#"{"g/a.yaml": {"tags": {"k": "v"}, "comment": "c"}, "gone": {}}"#;
        let files = unpacked(archive(&[("g/a.yaml", b"a: 1"), ("b", b""), (META, meta)]));
        let files = files.expect("a good archive");
        let (first, meta) = &files[0];
        assert_eq!((first.path.as_str(), first.content.as_str()), ("g/a.yaml", "a: 1"));
        assert_eq!((meta.comment.as_str(), meta.tags["k"].as_str()), ("c", "v"));
        assert_eq!((files.len(), files[1].1.tags.len()), (2, 0));
    }

    #[test]
    fn hostile_archives_are_refused() {
        let zeros = vec![b'0'; FILES_BYTES_MAX + 1];
        let names: Vec<String> = (0..FILES_MAX + 2).map(|number| number.to_string()).collect();
        let many: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        for (case, bytes) in [
            ("no archive", Bytes::from_static(b"text")),
            ("empty", Bytes::new()),
            ("great", archive(&[("a", &zeros)])),
            ("many", archive(&many)),
            ("binary", archive(&[("a", b"\xff")])),
            ("meta", archive(&[(META, b"[]")])),
        ] {
            let refused = unpacked(bytes).map_err(|failure| failure.code).err();
            assert_eq!(refused, Some(Code::ParseException), "{case}");
        }
    }
}
