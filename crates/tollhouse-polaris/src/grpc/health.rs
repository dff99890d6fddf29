//! `grpc.health.v1`: whether the server and its services answer, for probes and balancers.
//!
//! Whoever can ask gets `SERVING`: a server that stops takes no calls any more, and ends the streams
//! of those who watch with `UNAVAILABLE`.

use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use prost::Message;

use super::service::{Call, Outcome, Reply, Series, Services};
use super::status::{Code, Status};
use crate::answer::Answer;
use messages::HealthCheckRequest;
use messages::HealthCheckResponse;
use messages::health_check_response::ServingStatus;

mod messages {
    include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs"));
}

/// The service's name.
const NAME: &str = "grpc.health.v1.Health";

/// Adds the health service, which knows of all services that are there already.
#[must_use]
pub fn add(services: Services) -> Services {
    let known: Rc<[&'static str]> = ["", NAME].into_iter().chain(services.names()).collect();
    let watched = Rc::clone(&known);
    services
        .unary("/grpc.health.v1.Health/Check", move |_: &Rc<Call>, message| {
            Reply::Now(check(&known, &message))
        })
        .series("/grpc.health.v1.Health/Watch", move |_: &Rc<Call>, message| {
            let status = match known_service(&watched, &message)? {
                true => ServingStatus::Serving,
                false => ServingStatus::ServiceUnknown,
            };
            Ok(Box::new(Watch { first: Some(answer(status)) }))
        })
}

fn check(known: &[&str], message: &Bytes) -> Outcome {
    match known_service(known, message)? {
        true => Ok(answer(ServingStatus::Serving)),
        false => Err(Status::new(Code::NotFound, "unknown service")),
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

/// How a service stands: once, since it stands so until the server ends the stream.
struct Watch {
    first: Option<Answer>,
}

impl Series for Watch {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<Outcome>> {
        match self.first.take() {
            Some(answer) => Poll::Ready(Some(Ok(answer))),
            None => Poll::Pending,
        }
    }
}
