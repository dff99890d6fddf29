//! `grpc.health.v1`: health of the server and its services, for probes and load balancers.
//!
//! A server that is stopping accepts no calls, and ends watching streams with `UNAVAILABLE`. A
//! server that cannot work at present reports `NOT_SERVING`.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use prost::Message;
use tokio::sync::watch;

use super::service::{Call, Outcome, Reply, Series, Services};
use super::status::{Code, Status};
use crate::answer::Answer;
use messages::HealthCheckRequest;
use messages::HealthCheckResponse;
use messages::health_check_response::ServingStatus;

mod messages {
    include!("../../generated/grpc.health.v1.rs");
}

/// Full name of the gRPC service.
const NAME: &str = "grpc.health.v1.Health";

/// Adds the health service, which covers all services added before it. `serving` says whether they
/// can work; they count as not serving after its sender was dropped.
#[must_use]
pub fn add(services: Services, serving: watch::Receiver<bool>) -> Services {
    let known: Rc<[&'static str]> = ["", NAME].into_iter().chain(services.names()).collect();
    let watched = Rc::clone(&known);
    let checked = serving.clone();
    let check = move |_: &Rc<Call>, message: Bytes| {
        Reply::Now(match known_service(&known, &message) {
            Ok(true) => Ok(answer(status_now(&mut checked.clone()))),
            Ok(false) => Err(Status::new(Code::NotFound, "unknown service")),
            Err(status) => Err(status),
        })
    };
    services.unary("/grpc.health.v1.Health/Check", check).series(
        "/grpc.health.v1.Health/Watch",
        move |_: &Rc<Call>, message| {
            let is_known = known_service(&watched, &message)?;
            Ok(Box::new(Watch {
                last: None,
                serving: is_known.then(|| serving.clone()),
                change: None,
            }))
        },
    )
}

/// Returns the current status, and marks it as seen, so that only later changes wake the watcher.
fn status_now(serving: &mut watch::Receiver<bool>) -> ServingStatus {
    let has_owner = serving.has_changed().is_ok();
    if *serving.borrow_and_update() && has_owner {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    }
}

fn known_service(known: &[&str], message: &Bytes) -> Result<bool, Status> {
    let request = HealthCheckRequest::decode(&**message)
        .map_err(|error| Status::new(Code::Internal, error.to_string()))?;
    Ok(known.contains(&&*request.service))
}

fn answer(status: ServingStatus) -> Answer {
    Bytes::from(HealthCheckResponse { status: status.into() }.encode_to_vec()).into()
}

/// Stream of the status: the current one, then every change.
struct Watch {
    last: Option<ServingStatus>,
    /// Receiver of the service's state; `None` for an unknown service.
    serving: Option<watch::Receiver<bool>>,
    /// Future of the next change of the state.
    change: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Series for Watch {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        loop {
            let status = self.serving.as_mut().map_or(ServingStatus::ServiceUnknown, status_now);
            if self.last.replace(status) != Some(status) {
                return Poll::Ready(Some(Ok(answer(status))));
            }
            // The status is final: no service is added while the server runs, and a dropped sender
            // reports no change.
            let Some(serving) = self.serving.as_ref().filter(|it| it.has_changed().is_ok()) else {
                return Poll::Pending;
            };
            let change = self.change.get_or_insert_with(|| Box::pin(next_change(serving.clone())));
            ready!(change.as_mut().poll(cx));
            self.change = None;
        }
    }
}

/// Completes when the value changes or the sender is dropped.
async fn next_change(mut serving: watch::Receiver<bool>) {
    let _ = serving.changed().await;
}
