//! Routing of requests by path. Unknown paths get an HTML 404 page without a check of the key; all
//! other paths require a key.

use bytes::Bytes;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderName,
    HeaderValue,
};
use hyper::{Method, StatusCode};

use crate::audit;
use crate::auth;
use crate::body::{self, RequestBody};
use crate::call::Call;
use crate::certificates;
use crate::console;
use crate::context::Admin;
use crate::crud;
use crate::limits::{BODY_BYTES_MAX, DOCUMENT_BYTES_MAX};
use crate::object_rights;
use crate::openapi;
use crate::options::{ApiVersion, Cors, KeyCheck, StreamMode};
use crate::plugins_api;
use crate::prefix;
use crate::registry;
use crate::reply::{Reply, WireResponse};
use crate::resource::{self, Layout, Resource};
use crate::schema_api;
use crate::served;
use crate::spans;
use crate::standalone;
use crate::ui;
use crate::validate;

/// Header with the version of the answer format.
const API_VERSION: HeaderName = HeaderName::from_static("x-api-version");

/// Methods that at least one path supports.
const METHODS: [Method; 5] =
    [Method::GET, Method::PUT, Method::POST, Method::DELETE, Method::PATCH];

/// Answers a request to the Admin API, after the checks of peer and browser.
pub(crate) async fn answer<B>(admin: &Admin, call: &Call, body: B) -> WireResponse
where
    B: RequestBody,
{
    let options = &admin.parts.options;
    let let_in =
        auth::check_peer(options, call.peer).and_then(|()| auth::check_browser(options, call));
    let reply = match let_in {
        Err(refused) => refused,
        Ok(()) => {
            let span = spans::begin(admin, call);
            let done = match admin.wrong_keys.check(options, call) {
                Ok(()) => registered(admin, call, body).await,
                Err(refusal) => Err(refusal),
            };
            if let Err(refusal) = &done {
                admin.refused.note(&admin.parts.options, call, refusal);
            }
            let reply = done.unwrap_or_else(|refusal| refusal);
            audit::note(admin, call, &reply);
            if let Some(span) = span {
                spans::end(span, call, &reply);
            }
            with_cors(admin, call, reply)
        }
    };
    admin.wire(reply)
}

fn not_registered() -> Reply {
    Reply::page(StatusCode::NOT_FOUND)
}

async fn registered<B>(admin: &Admin, call: &Call, body: B) -> Result<Reply, Reply>
where
    B: RequestBody,
{
    if call.segments.is_empty() || call.segments_after(&prefix::UI).is_some() {
        return ui::answer(call);
    }
    let is_about_registry = call.segments_after(&prefix::REGISTRY).is_some();
    let is_console = call.segments_after(&prefix::CONSOLE).is_some();
    let is_ours = call.segments_after(&prefix::OWN).is_some();
    let segments = match call.segments_after(&prefix::APISIX) {
        Some(segments) => segments,
        None if is_about_registry || is_ours || is_console => &[],
        None => return Err(not_registered()),
    };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    // Preflight requests are answered before the check of the key, because browsers send no key
    // with them. The console needs no CORS, because its API has the same origin as its page.
    if call.method == Method::OPTIONS && admin.parts.options.cors == Cors::On && !is_console {
        return Ok(preflight());
    }
    if is_about_registry {
        return registry::answer(admin, call, body).await;
    }
    if is_console {
        return console::answer(admin, call, body).await;
    }
    if is_ours {
        return certificates::answer(admin, call).await;
    }
    if call.method == Method::HEAD && segments.is_empty() {
        return Ok(Reply::bare(StatusCode::OK));
    }
    if let Some(current) = &admin.document {
        let request = standalone::Request { admin, current, call };
        return standalone::answer(request, &segments, body).await;
    }
    if segments.is_empty() || !METHODS.contains(&call.method) {
        return Err(not_registered());
    }
    // All paths below require a key. The paths above check it themselves, or are public.
    if let Ok(request) = locate(admin, call, &segments) {
        object_rights::note_labels(admin, &request).await?;
    }
    auth::check_key(&admin.parts.options, call)?;
    match (segments.as_slice(), &call.method) {
        (["configs", "validate"], &Method::POST) => {
            let body = body::read(body, DOCUMENT_BYTES_MAX).await?;
            validate::answer(admin, call, &body).await
        }
        (["schema", "validate", name], &Method::POST) => {
            let body = body::read(body, BODY_BYTES_MAX).await?;
            schema_api::validate(name, &body)
        }
        (["openapi.json"], &Method::GET) => Ok(Reply::text(StatusCode::OK, openapi::text())),
        (["plugins", "list"], &Method::GET) => plugins_api::list(admin, &call.arguments),
        (["plugins", "reload"], method) => plugins_api::reload(method),
        _ => {
            if call.method != Method::GET {
                admin.parts.options.mode.check_writable()?;
            }
            let body = body::read(body, BODY_BYTES_MAX);
            let done = documents_and_objects(admin, call, &segments, body).await;
            let label = |reply| with_version(admin, reply);
            done.map(label).map_err(label)
        }
    }
}

/// Handles the paths whose answers depend on the configured version of the answer format.
async fn documents_and_objects(
    admin: &Admin,
    call: &Call,
    segments: &[&str],
    body: impl Future<Output = Result<Bytes, Reply>>,
) -> Result<Reply, Reply> {
    let not_found = || Reply::refusal(StatusCode::NOT_FOUND, "not found");
    let is_read = call.method == Method::GET;
    match segments {
        ["schema" | "plugins", ..] if !is_read => Err(not_found()),
        ["schema", "plugins", name] => plugins_api::one(admin, name, &call.arguments),
        ["schema", name, ..] => schema_api::one(name),
        ["schema"] => schema_api::one(""),
        ["plugins", rest @ ..] => {
            let name = rest.first().copied().unwrap_or_default();
            plugins_api::one(admin, name, &call.arguments)
        }
        _ => {
            let request = locate(admin, call, segments)?;
            let request = crud::Request { body: body.await?, ..request };
            if !is_read {
                return crud::run(admin, request).await;
            }
            served::wait(admin, call).await?;
            Ok(served::report(admin, crud::run(admin, request).await?))
        }
    }
}

/// Returns the resource, the object id and the other parts of a path.
fn locate<'c>(
    admin: &Admin,
    call: &'c Call,
    segments: &[&str],
) -> Result<crud::Request<'c>, Reply> {
    let (name, rest) = segments.split_first().map_or(("", [].as_slice()), |(n, r)| (*n, r));
    // This is checked first, because APISIX gives this answer whatever follows the name in the
    // path.
    if name == "stream_routes" && admin.parts.options.stream_mode == StreamMode::Off {
        return Err(Reply::bad("stream mode is disabled, can not add stream routes"));
    }
    let resource = resource::find(name)
        .filter(|resource| !matches!(resource.layout, Layout::Child(_)))
        .ok_or_else(|| {
            let text = format!("Unsupported resource type: {name}");
            Reply::refusal(StatusCode::NOT_FOUND, text)
        })?;
    let (resource, parent, rest) = match rest {
        [parent, child, rest @ ..] if child_of(resource, child).is_some() => {
            (child_of(resource, child).unwrap_or(resource), Some((*parent).to_owned()), rest)
        }
        [manager, rest @ ..] if resource.layout == Layout::Manager => {
            (resource, Some((*manager).to_owned()), rest)
        }
        rest => (resource, None, rest),
    };
    let (id, sub_path) = match rest {
        [id, sub_path @ ..] => (Some((*id).to_owned()), sub_path),
        [] => (None, rest),
    };
    let sub_path = sub_path.iter().map(|segment| (*segment).to_owned()).collect();
    Ok(crud::Request { resource, parent, id, sub_path, call, body: Bytes::new() })
}

/// Returns the resource `name` whose objects are children of objects of `above`.
fn child_of(above: &Resource, name: &str) -> Option<&'static Resource> {
    resource::find(name).filter(|child| child.layout == Layout::Child(above.name))
}

fn with_version(admin: &Admin, reply: Reply) -> Reply {
    let version = match admin.parts.options.api_version {
        ApiVersion::V3 => "v3",
        ApiVersion::V2 => "v2",
    };
    reply.with(API_VERSION, HeaderValue::from_static(version))
}

fn preflight() -> Reply {
    let value = HeaderValue::from_static;
    Reply::bare(StatusCode::OK)
        .with(ACCESS_CONTROL_ALLOW_METHODS, value("POST, GET, PUT, OPTIONS, DELETE, PATCH"))
        .with(ACCESS_CONTROL_ALLOW_HEADERS, value("*"))
}

fn with_cors(admin: &Admin, call: &Call, reply: Reply) -> Reply {
    let prefixes = [prefix::APISIX, prefix::REGISTRY, prefix::OWN];
    let is_api = prefixes.iter().any(|prefix| call.segments_after(prefix).is_some());
    let options = &admin.parts.options;
    // Without keys, CORS stays off, because the same-origin policy of browsers is then the only
    // protection.
    let is_guarded = options.key_check == KeyCheck::Required;
    if options.cors == Cors::Off || !is_api || !is_guarded {
        return reply;
    }
    let value = HeaderValue::from_static;
    reply
        .with(ACCESS_CONTROL_ALLOW_ORIGIN, value("*"))
        .with(ACCESS_CONTROL_ALLOW_CREDENTIALS, value("true"))
        .with(ACCESS_CONTROL_EXPOSE_HEADERS, value("*"))
        .with(ACCESS_CONTROL_MAX_AGE, value("3600"))
}
