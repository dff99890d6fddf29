//! `grpc.health.v1`: whether the server and its services answer, for probes and balancers.
//!
//! A server that stops takes no calls any more, and ends the streams of those who watch with
//! `UNAVAILABLE`; one that cannot do its work any more says `NOT_SERVING`.

use std::pin::Pin;
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

/// Whether the server can do its work.
pub trait Liveness {
    /// Whether it can now.
    fn is_alive(&self) -> bool;

    /// Ends when it cannot any more.
    fn until_dead(&self) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// Adds the health service, which knows of all services that are there already.
#[must_use]
pub fn add(services: Services, liveness: impl Liveness + 'static) -> Services {
    let known: Rc<[&'static str]> = ["", NAME].into_iter().chain(services.names()).collect();
    let watched = Rc::clone(&known);
    let liveness = Rc::new(liveness);
    let watched_liveness = Rc::clone(&liveness);
    services
        .unary("/grpc.health.v1.Health/Check", move |_: &Rc<Call>, message| {
            Reply::Now(check(&known, &*liveness, &message))
        })
        .series("/grpc.health.v1.Health/Watch", move |_: &Rc<Call>, message| {
            let death = match known_service(&watched, &message)? {
                true => Some(watched_liveness.until_dead()),
                false => None,
            };
            Ok(Box::new(Watch { last: None, death }))
        })
}

fn check(known: &[&str], liveness: &impl Liveness, message: &Bytes) -> Outcome {
    match (known_service(known, message)?, liveness.is_alive()) {
        (true, true) => Ok(answer(ServingStatus::Serving)),
        (true, false) => Ok(answer(ServingStatus::NotServing)),
        (false, _) => Err(Status::new(Code::NotFound, "unknown service")),
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

/// How a service stands, told at first and when it changes.
struct Watch {
    last: Option<ServingStatus>,
    /// None for a service that is not known.
    death: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Series for Watch {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        if self.last == Some(ServingStatus::NotServing) {
            return Poll::Pending;
        }
        let status = match self.death.as_mut().map(|death| death.as_mut().poll(cx)) {
            None => ServingStatus::ServiceUnknown,
            Some(Poll::Ready(())) => ServingStatus::NotServing,
            Some(Poll::Pending) => ServingStatus::Serving,
        };
        if self.last.replace(status) == Some(status) {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(answer(status))))
    }
}
