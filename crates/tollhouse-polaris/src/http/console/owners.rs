//! Owners of services, for a list of names.

use super::super::intake::{NoBody, caller, read_with};
use super::super::reply::{BATCH_QUERY, Reply};
use super::{BATCH_ITEMS_MAX, descriptor, request_body};
use crate::access::Door;
use crate::code::Code;
use crate::http::HttpApi;
use crate::http::failure::Failure;
use crate::http::language::Language;
use crate::json;
use crate::v1;
use crate::wire::write::{put_nested, put_number_value, put_text_value};
use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use prost::Message;
use tollhouse_registry::{ServiceRef, ServiceView, State};

const MESSAGE: &str = "v1.Service";
/// Field of the answer with the services.
const SERVICES: u32 = 6;

/// Returns the owners of the services that the caller may see; unknown ones are left out.
pub(in crate::http) async fn find_owners(api: HttpApi, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let language = Language::from_request(&head);
    let viewer = {
        let (state, caller) = (api.registry().state(), caller(&head));
        api.dialect.rights(&state, Door::Console, &caller).viewer("DescribeServiceOwner")
    };
    let found = match (viewer, request_body(&api, &head, body).await) {
        (Err(code), _) => Err(code.into()),
        (_, Err(NoBody::Refused(response))) => return response,
        (_, Err(NoBody::Failed(failure))) => Err(failure),
        (Ok(viewer), Ok(body)) => {
            let read = |body: &[u8]| json::read_list(&descriptor(MESSAGE), body, BATCH_ITEMS_MAX);
            let items = read_with(&api.capacity, &body.bytes, read).await;
            let state = api.registry().state();
            items.and_then(|items| {
                let items = items.map_err(|_| Code::ParseException)?;
                let items = items.ok_or(Code::BatchSizeOverLimit)?;
                let views = items.iter().map(|item| service_of(&state, item));
                let views: Vec<_> = views.collect::<Result<_, Failure>>()?;
                let seen = views.into_iter().flatten();
                let seen = seen.filter(|view| viewer.sees_service(&state, &view.service.key));
                Ok(owners_reply(&seen.collect::<Vec<_>>()))
            })
        }
    };
    let reply = found.unwrap_or_else(|failure| Reply::failure(BATCH_QUERY, &failure));
    reply.send(&api.capacity, language).await
}

fn service_of<'s>(state: &'s State, item: &[u8]) -> Result<Option<&'s ServiceView>, Failure> {
    let service = v1::Service::decode(item).map_err(|_| Code::ParseException)?;
    let (name, namespace) =
        (service.name.unwrap_or_default(), service.namespace.unwrap_or_default());
    let view = state.service(ServiceRef { namespace: &namespace, name: &name });
    Ok(view.map(|view| &**view))
}

fn owners_reply(views: &[&ServiceView]) -> Reply {
    Reply::success(BATCH_QUERY, |out| {
        put_number_value(out, 3, views.len() as u32);
        put_number_value(out, 4, views.len() as u32);
        for view in views {
            put_nested(out, SERVICES, |out| {
                put_text_value(out, 1, &view.service.key.name);
                put_text_value(out, 2, &view.service.key.namespace);
                put_text_value(out, 11, &view.service.details.owners);
            });
        }
    })
}
