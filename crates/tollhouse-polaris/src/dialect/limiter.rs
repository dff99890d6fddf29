//! Calls of global rate limits, with the rights of their callers.

use bytes::Bytes;
use prost::Message;
use tollhouse_registry::ServiceRef;

use super::{CallReply, Caller, Dialect, Undecodable};
use crate::access::Door;
use crate::code::Code;
use crate::limiter::Owner;
use crate::limiter::messages::{RateLimitRequest, TimeAdjustResponse};

/// Call that allows a client to count for the rules of a service.
const FUNCTION: &str = "DiscoverRateLimitRule";

impl Dialect {
    /// `Service` of `RateLimitGRPCV2`: opens counters, and counts what clients use.
    ///
    /// # Errors
    /// If the message cannot be decoded, or the caller may not read the limits of a service.
    pub fn count_for_limits(
        &self,
        caller: &Caller<'_>,
        message: &[u8],
    ) -> Result<CallReply, Undecodable> {
        let request = RateLimitRequest::decode(message)?;
        self.admit_counting(caller, &request).map_err(Undecodable::Refused)?;
        let owner = Owner::new(caller.address, caller.token);
        let response = self.limiter.answer(&owner, request, self.registry.now_ms());
        Ok(CallReply::made(Code::ExecuteSuccess, response.encode_to_vec()))
    }

    /// Checks the services whose counters a message opens. Reports name none: the limiter takes them only
    /// for counters that the same caller has opened.
    fn admit_counting(&self, caller: &Caller<'_>, request: &RateLimitRequest) -> Result<(), Code> {
        self.admit_any(Door::Client, caller)?;
        let batch = request.rate_limit_batch_init_request.iter().flat_map(|it| &it.request);
        let rules = request.rate_limit_init_request.iter().chain(batch);
        rules.filter_map(|rule| rule.target.as_ref()).try_for_each(|target| {
            let service = ServiceRef { namespace: &target.namespace, name: &target.service };
            self.admit_service(caller, FUNCTION, service)
        })
    }

    /// `TimeAdjust` of `RateLimitGRPCV2`: returns the time to which reports refer.
    ///
    /// # Errors
    /// None; the type is that of all calls.
    #[expect(clippy::unnecessary_wraps, reason = "all calls have one type")]
    pub fn time_of_limits(&self, _: &Caller<'_>, _: &Bytes) -> Result<CallReply, Undecodable> {
        let time = TimeAdjustResponse { server_timestamp: self.registry.now_ms().cast_signed() };
        Ok(CallReply::made(Code::ExecuteSuccess, time.encode_to_vec()))
    }
}
