//! The console's calls for the configuration centre: `read` has the lists, `write` the changes,
//! `archive` the export and import of files.

mod archive;
mod read;
mod write;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use prost::Message;
use serde_json::json;
use tollhouse_registry::config::ConfigFileKey;

use super::HttpApi;
use super::console;
use super::failure::Failure;
use super::intake::request_caller;
use super::language::Language;
use super::query::Query;
use super::reply::{Reply, plain};
use super::route::{Route, Routes, delete, get, post, put};
use crate::access::Door;
use crate::code::Code;
use read::ConfigList;
use write::{BatchWrite, Removal, SingleWrite};

/// Maximum number of clients in a list of those that watch a file.
const WATCHERS_MAX: usize = 500;

/// Message type of an answer about one object.
const RESPONSE: &str = "v1.ConfigResponse";
/// Message type of an answer to a list of requests.
const BATCH_WRITE: &str = "v1.ConfigBatchWriteResponse";
/// Message type of a page of a list.
const BATCH_QUERY: &str = "v1.ConfigBatchQueryResponse";

/// Routes of all calls.
pub(super) fn routes() -> Routes {
    let groups = list(&read::GROUPS)
        .merge(post_one(SingleWrite::CreateGroup))
        .merge(put_one(SingleWrite::UpdateGroup))
        .merge(remove(Removal::Group));
    let files = list(&read::FILE)
        .merge(post_one(SingleWrite::CreateFile))
        .merge(put_one(SingleWrite::UpdateFile))
        .merge(remove(Removal::File));
    let release = list(&read::RELEASE).merge(post_one(SingleWrite::Publish));
    let templates = list(&read::TEMPLATES).merge(post_one(SingleWrite::CreateTemplate));
    let export = post(|State(api): State<HttpApi>, request: Request| archive::export(api, request));
    let import = post(|State(api): State<HttpApi>, request: Request| archive::import(api, request));
    let watchers = get(|State(api): State<HttpApi>, request: Request| watchers(api, request));
    let routes = [
        ("configfilegroups", groups),
        ("configfiles", files),
        ("configfiles/by-group", list(&read::FILES)),
        ("configfiles/search", list(&read::FILES)),
        ("configfiles/batchdelete", post_list(BatchWrite::DeleteFiles)),
        ("configfiles/watchers", watchers),
        ("configfiles/export", export),
        ("configfiles/import", import),
        ("configfiles/encryptalgorithm", list(&read::ALGORITHMS)),
        ("configfiles/release", release),
        ("configfiles/release/versions", list(&read::VERSIONS)),
        ("configfiles/releases", list(&read::RELEASES)),
        ("configfiles/releases/rollback", put_list(BatchWrite::Rollback)),
        ("configfiles/releases/delete", post_list(BatchWrite::DeleteReleases)),
        ("configfiles/releases/stopbeta", post_list(BatchWrite::StopGray)),
        ("configfiles/createandpub", post_one(SingleWrite::WriteAndPublish)),
        ("configfiles/releasehistory", list(&read::HISTORY)),
        ("configfiletemplates", templates),
    ];
    routes.into_iter().fold(Routes::new(), |router, (path, route)| {
        router.route(&format!("/config/v1/{path}"), route)
    })
}

fn post_one(call: SingleWrite) -> Route {
    post(move |State(api): State<HttpApi>, request: Request| write::single(api, call, request))
}

fn put_one(call: SingleWrite) -> Route {
    put(move |State(api): State<HttpApi>, request: Request| write::single(api, call, request))
}

fn post_list(call: BatchWrite) -> Route {
    post(move |State(api): State<HttpApi>, request: Request| write::batch(api, call, request))
}

fn put_list(call: BatchWrite) -> Route {
    put(move |State(api): State<HttpApi>, request: Request| write::batch(api, call, request))
}

fn remove(call: Removal) -> Route {
    delete(move |State(api): State<HttpApi>, request: Request| write::removal(api, call, request))
}

fn list(call: &'static ConfigList) -> Route {
    get(move |State(api): State<HttpApi>, request: Request| {
        let read =
            console::ReadCall { message: call.message, function: call.function, keys: call.keys };
        console::read(api, read, request, move |state, query| {
            let fields = (call.find)(state, query)?;
            Ok(Reply::success(call.message, |out| out.extend_from_slice(&fields)))
        })
    })
}

/// Lists the clients that watch a file at this node, with the version that each has.
async fn watchers(api: HttpApi, request: Request) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    match watched(&api, &request) {
        Ok(file) => {
            let (watchers, total) = api.registry().config_watchers(&file, WATCHERS_MAX);
            let watchers: Vec<_> = watchers
                .iter()
                .map(|it| json!({"client": it.client, "version": it.version}))
                .collect();
            let code = Code::ExecuteSuccess.number();
            let answer = json!({"code": code, "total": total, "watchers": watchers});
            plain(StatusCode::OK, answer.to_string())
        }
        Err(failure) => Reply::failure(RESPONSE, &failure).print(language),
    }
}

/// Returns the file of a query, if the caller may read it.
fn watched(api: &HttpApi, request: &Request) -> Result<ConfigFileKey, Failure> {
    let (state, caller) = (api.registry().state(), request_caller(request));
    let rights = api.dialect.rights(&state, Door::Console, &caller);
    rights.admit()?;
    let query = Query::parse(request.uri().query(), &["namespace", "group", "name"])?;
    let text = |key: &str| query.get(key).unwrap_or_default().to_owned();
    let file = ConfigFileKey::new(&text("namespace"), &text("group"), &text("name"));
    rights.group("DescribeConfigFileRichInfo", &file.namespace, &file.group)?;
    Ok(file)
}

/// An answer with a code; `response` has the other fields.
fn reply(message: &'static str, failure: &Failure, response: &impl Message) -> Reply {
    let mut reply = Reply::failure(message, failure);
    reply.bytes.extend(response.encode_to_vec());
    reply
}
