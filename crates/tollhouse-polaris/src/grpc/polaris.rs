//! Methods of Polaris, bound to the handlers of the dialect.
//!
//! `WatchClientEvents` is left out on purpose: existing servers answer it as an unknown method, and
//! clients then disable the feature.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use super::service::{Call, OneAnswer, Outcome, Reply, Services};
use super::status::{Code, Status};
use crate::dialect::{CallReply, Caller, Dialect, HealthFilter, Undecodable};
use crate::schema::published;

/// Header field with the caller's token.
const TOKEN_FIELD: &str = "x-polaris-token";

/// Builds all gRPC services of a registry thread: the calls of Polaris, health, reflection.
#[must_use]
pub fn services(dialect: Dialect) -> Services {
    let serving = dialect.registry().serving();
    let dialect = Arc::new(dialect);
    let services = instances(Services::new(), &dialect);
    let services = heartbeats(services, &dialect);
    let services = contracts(services, &dialect);
    let services = config(services, &dialect);
    let services = limits(services, &dialect);
    super::reflection::add(super::health::add(services, serving), published())
}

fn instances(services: Services, dialect: &Arc<Dialect>) -> Services {
    let discovering = Arc::clone(dialect);
    services
        .unary("/v1.PolarisGRPC/ReportClient", now(dialect, Dialect::report_client))
        .unary(
            "/v1.PolarisGRPC/Heartbeat",
            now(dialect, |dialect, caller, message| dialect.heartbeat(caller, message)),
        )
        .unary(
            "/v1.PolarisGRPC/RegisterInstance",
            later(dialect, async |dialect, call, message| {
                dialect.register(&caller(&call), message).await
            }),
        )
        .unary(
            "/v1.PolarisGRPC/DeregisterInstance",
            later(dialect, async |dialect, call, message| {
                dialect.deregister(&caller(&call), message).await
            }),
        )
        .each("/v1.PolarisGRPC/Discover", move |call: &Rc<Call>, message: Bytes| {
            let filter = HealthFilter::Ignored;
            Reply::Now(outcome(discovering.discover(&caller(call), &message, filter)))
        })
}

fn heartbeats(services: Services, dialect: &Arc<Dialect>) -> Services {
    services
        .each(
            "/v1.PolarisHeartbeatGRPC/BatchHeartbeat",
            now(dialect, |dialect, caller, message| dialect.batch_heartbeat(caller, message)),
        )
        .unary(
            "/v1.PolarisHeartbeatGRPC/BatchGetHeartbeat",
            now(dialect, |dialect, caller, message| dialect.batch_get_heartbeat(caller, message)),
        )
        .unary(
            "/v1.PolarisHeartbeatGRPC/BatchDelHeartbeat",
            now(dialect, |dialect, caller, message| {
                dialect.batch_delete_heartbeat(caller, message)
            }),
        )
}

fn contracts(services: Services, dialect: &Arc<Dialect>) -> Services {
    services
        .unary(
            "/v1.PolarisServiceContractGRPC/ReportServiceContract",
            later(dialect, async |dialect, call, message| {
                dialect.report_contract(&caller(&call), message).await
            }),
        )
        .unary(
            "/v1.PolarisServiceContractGRPC/GetServiceContract",
            now(dialect, |dialect, caller, message| dialect.get_contract(caller, message)),
        )
}

fn config(services: Services, dialect: &Arc<Dialect>) -> Services {
    let watching = Arc::clone(dialect);
    services
        .unary(
            "/v1.PolarisConfigGRPC/GetConfigFile",
            now(dialect, |dialect, caller, message| dialect.get_config_file(caller, message)),
        )
        .unary(
            "/v1.PolarisConfigGRPC/GetConfigFileMetadataList",
            now(dialect, |dialect, caller, message| dialect.list_config_files(caller, message)),
        )
        .each(
            "/v1.PolarisConfigGRPC/Discover",
            now(dialect, |dialect, caller, message| dialect.discover_config(caller, message)),
        )
        .unary(
            "/v1.PolarisConfigGRPC/CreateConfigFile",
            later(dialect, async |dialect, call, message| {
                dialect.create_config_file(&caller(&call), &message).await
            }),
        )
        .unary(
            "/v1.PolarisConfigGRPC/UpdateConfigFile",
            later(dialect, async |dialect, call, message| {
                dialect.update_config_file(&caller(&call), &message).await
            }),
        )
        .unary(
            "/v1.PolarisConfigGRPC/PublishConfigFile",
            later(dialect, async |dialect, call, message| {
                dialect.publish_config_file(&caller(&call), &message).await
            }),
        )
        .unary(
            "/v1.PolarisConfigGRPC/UpsertAndPublishConfigFile",
            later(dialect, async |dialect, call, message| {
                dialect.upsert_and_publish_config_file(&caller(&call), &message).await
            }),
        )
        // A series of one answer, because only a series notices that its client has left.
        .series("/v1.PolarisConfigGRPC/WatchConfigFiles", move |call, message| {
            let (dialect, call) = (Arc::clone(&watching), Rc::clone(call));
            Ok(Box::new(OneAnswer::from_future(async move {
                outcome(dialect.watch_config_files(&caller(&call), &message).await)
            })))
        })
}

fn limits(services: Services, dialect: &Arc<Dialect>) -> Services {
    services
        .each(
            "/polaris.metric.v2.RateLimitGRPCV2/Service",
            now(dialect, |dialect, caller, message| dialect.count_for_limits(caller, message)),
        )
        .unary(
            "/polaris.metric.v2.RateLimitGRPCV2/TimeAdjust",
            now(dialect, Dialect::time_of_limits),
        )
}

/// Wraps a handler that answers at once.
fn now(
    dialect: &Arc<Dialect>,
    handler: impl Fn(&Dialect, &Caller<'_>, &Bytes) -> Result<CallReply, Undecodable> + 'static,
) -> impl Fn(&Rc<Call>, Bytes) -> Reply + 'static {
    let dialect = Arc::clone(dialect);
    move |call, message| Reply::Now(outcome(handler(&dialect, &caller(call), &message)))
}

/// Wraps a handler that waits for durability.
fn later(
    dialect: &Arc<Dialect>,
    handler: impl AsyncFn(Arc<Dialect>, Rc<Call>, Bytes) -> Result<CallReply, Undecodable>
    + Copy
    + 'static,
) -> impl Fn(&Rc<Call>, Bytes) -> Reply + 'static {
    let dialect = Arc::clone(dialect);
    move |call, message| {
        let (dialect, call) = (Arc::clone(&dialect), Rc::clone(call));
        Reply::later(async move { outcome(handler(dialect, call, message).await) })
    }
}

fn caller(call: &Call) -> Caller<'_> {
    Caller { token: call.field(TOKEN_FIELD), address: Some(call.peer().ip()), operator: None }
}

/// Converts an answer. The gRPC status is OK whatever code the message contains; only requests that
/// cannot be decoded or admitted end with another status.
fn outcome(replied: Result<CallReply, Undecodable>) -> Outcome {
    match replied {
        Ok(replied) => Ok(replied.answer),
        Err(error @ Undecodable::TooMany(_)) => {
            Err(Status::new(Code::ResourceExhausted, error.to_string()))
        }
        Err(error @ Undecodable::Refused(_)) => {
            Err(Status::new(Code::Unauthenticated, error.to_string()))
        }
        Err(error) => {
            let message = format!("the request cannot be decoded: {error}");
            Err(Status::new(Code::Internal, message))
        }
    }
}
