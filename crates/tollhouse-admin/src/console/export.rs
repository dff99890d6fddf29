//! `GET /console/v1/export`: objects of the store as a document for import: all, or selected by
//! kind, search or ids. Secrets are sealed as for `tollhouse export`. Secrets in plain text are
//! returned only on request, only for keys of the role admin, and never to a page of the console.

use std::collections::HashSet;

use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use serde_json::Value;
use tollhouse_config::{Format, declarative};
use tollhouse_model::Kind;
use tollhouse_model::encryption::Form;
use tollhouse_plugin::sealing::{self, ObjectRef};

use super::search::{self, Search};
use crate::auth;
use crate::call::Call;
use crate::context::Admin;
use crate::limits::{DOCUMENT_BYTES_MAX, OBJECTS_PER_TURN};
use crate::options::Role;
use crate::reply::Reply;
use crate::transfer::{self, Objects};

/// Maximum number of ids per request; higher than the size of a page in lists.
const IDS_MAX: usize = 1000;

/// Returns the export of all objects as a download.
pub(super) async fn answer(admin: &Admin, call: &Call) -> Result<Reply, Reply> {
    if admin.document.is_some() {
        return Err(Reply::bad("this gateway has one document; GET /apisix/admin/configs has it"));
    }
    let argument = |name: &str| call.arguments.get(name).filter(|value| !value.is_empty());
    let secrets = match call.arguments.is("reveal_secrets", "true") {
        true => Secrets::Revealed,
        false => Secrets::Sealed,
    };
    if secrets == Secrets::Revealed && auth::reader_role(&admin.parts.options, call) != Role::Admin
    {
        let text = "secrets in the clear are for keys of the role admin, and for no page";
        return Err(Reply::refusal(StatusCode::FORBIDDEN, text));
    }
    let format = match argument("format") {
        None | Some("yaml") => Format::Yaml,
        Some("json") => Format::Json,
        Some(_) => return Err(Reply::bad("format is yaml or json")),
    };
    let wanted = wanted(admin, call).await?;
    let prefix = admin.parts.options.key_prefix.as_str();
    let listing = admin.parts.store.list(&format!("{prefix}/")).await?;
    let (mut objects, _) = transfer::from_listing(&listing, prefix);
    drop(listing);
    if let Some(wanted) = wanted {
        objects.retain(|(kind, id), _| wanted.contains(&transfer::path_of(*kind, id)));
    }
    let items = with_secrets(admin, objects, secrets).await;
    let text = declarative::write(&items, format);
    if text.len() > DOCUMENT_BYTES_MAX {
        let text = format!(
            "the document has {} bytes, and {DOCUMENT_BYTES_MAX} are given here; export it in parts, by kind, or with \
             `tollhouse export`",
            text.len()
        );
        return Err(Reply::refusal(StatusCode::PAYLOAD_TOO_LARGE, text));
    }
    let (reply, name) = match format {
        Format::Yaml => {
            (Reply::yaml(StatusCode::OK, text), "attachment; filename=\"objects.yaml\"")
        }
        Format::Json => {
            (Reply::text(StatusCode::OK, text), "attachment; filename=\"objects.json\"")
        }
    };
    Ok(reply.with(CONTENT_DISPOSITION, HeaderValue::from_static(name)))
}

/// Returns the paths of the selected objects; `None` for all. Credentials are exported with their
/// consumer.
async fn wanted(admin: &Admin, call: &Call) -> Result<Option<HashSet<String>>, Reply> {
    let argument = |name: &str| call.arguments.get(name).filter(|value| !value.is_empty());
    let Some(kind) = argument("kind") else {
        let is_narrowed = argument("ids").or_else(|| argument("q")).is_some();
        return match is_narrowed {
            true => Err(Reply::bad("ids and q go with a kind")),
            false => Ok(None),
        };
    };
    if !Kind::lists().any(|it| it.plural() == kind) {
        return Err(Reply::bad(format!("unknown kind of objects {kind}")));
    }
    admin.index.catch_up().await?;
    let paths: Vec<String> = match argument("ids") {
        Some(ids) => {
            let ids: Vec<&str> = ids.split(',').filter(|id| !id.is_empty()).collect();
            if ids.len() > IDS_MAX {
                return Err(Reply::bad(format!("at most {IDS_MAX} ids are named at a time")));
            }
            ids.into_iter().map(|id| format!("{kind}/{id}")).collect()
        }
        None => {
            let search = Search::parse(argument("q").unwrap_or_default())?;
            search::matching(admin, kind, &search).await
        }
    };
    let mut all: HashSet<String> = paths.into_iter().collect();
    if kind == Kind::Consumer.plural() {
        let contents = admin.index.contents();
        let below = contents.paths().filter(|path| {
            path.split_once("/credentials/").is_some_and(|(owner, _)| all.contains(owner))
        });
        let below: Vec<String> = below.map(str::to_owned).collect();
        drop(contents);
        all.extend(below);
    }
    Ok(Some(all))
}

/// Form of secrets in an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secrets {
    Sealed,
    /// Secrets are exported in plain text.
    Revealed,
}

/// Returns the objects with their secrets in the requested form. Yields regularly to other tasks.
async fn with_secrets(admin: &Admin, objects: Objects, secrets: Secrets) -> Vec<(Kind, Value)> {
    let parts = &admin.parts;
    let marked = parts.keyring.as_ref().clone().with_form(Form::Marked);
    let mut items = Vec::with_capacity(objects.len());
    for (at, ((kind, id), mut object)) in objects.into_iter().enumerate() {
        match secrets {
            Secrets::Revealed => {
                object.unseal(kind, &parts.catalogue, Some(&parts.keyring));
            }
            // Also seals values that are stored in plain text.
            Secrets::Sealed => {
                sealing::reseal(
                    ObjectRef::new(kind, id.as_str()),
                    &mut object.value,
                    &parts.catalogue,
                    &marked,
                );
            }
        }
        items.push((kind, object.value));
        if at % OBJECTS_PER_TURN == OBJECTS_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
    items
}
