//! Validation of rule handles before they are stored, with the gateway's own parsers.

use crate::access::{KeyAuthRule, WafRule};
use crate::breaker::BreakerRule;
use crate::cryptor::CryptorRule;
use crate::divide::DivideRule;
use crate::limiter::LimiterRule;
use crate::mock::MockRule;
use crate::paths::{ContextPathRule, RedirectRule, RewriteRule};
use crate::rpc::dubbo::DubboRule;
use crate::shaping::{RequestRule, ResponseRule, read_parameter_mapping};
use crate::sign::SignRule;

/// Checks whether a plugin accepts the handle of a rule. A blank handle is always accepted. Plugins
/// whose rules depend on their configuration are not checked.
///
/// # Errors
///
/// Why the gateway could not use the handle.
pub fn check_handle(plugin: &str, handle: &str) -> Result<(), String> {
    if handle.trim().is_empty() {
        return Ok(());
    }
    fn outcome<T, E: ToString>(read: Result<T, E>) -> Result<(), String> {
        read.map(drop).map_err(|error| error.to_string())
    }
    let handle = Some(handle);
    match plugin {
        "divide" | "websocket" | "springCloud" => outcome(DivideRule::read(handle)),
        "grpc" => outcome(DivideRule::read_grpc(handle)),
        "dubbo" => outcome(DubboRule::read(handle)),
        "waf" => outcome(WafRule::read(handle)),
        "sign" => outcome(SignRule::read(handle)),
        "keyAuth" => outcome(KeyAuthRule::read(handle)),
        "rateLimiter" => outcome(LimiterRule::read(handle)),
        "hystrix" => outcome(BreakerRule::read_hystrix(handle)),
        "sentinel" => outcome(BreakerRule::read_sentinel(handle)),
        "resilience4j" => outcome(BreakerRule::read_resilience4j(handle)),
        "rewrite" => outcome(RewriteRule::read(handle)),
        "contextPath" => outcome(ContextPathRule::read(handle)),
        "redirect" => outcome(RedirectRule::read(handle)),
        "request" => outcome(RequestRule::read(handle)),
        "modifyResponse" => outcome(ResponseRule::read(handle)),
        "paramMapping" => outcome(read_parameter_mapping(handle)),
        "mock" => outcome(MockRule::read(handle)),
        "cryptorRequest" | "cryptorResponse" => outcome(CryptorRule::read(handle)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_refused_with_the_reason_for_which_a_rule_would_do_nothing() {
        for (plugin, handle, words) in [
            ("rewrite", r#"{"regex":"/a/(","replace":"/b"}"#, "cannot be compiled"),
            ("rewrite", r#"{"regex":"/a/{x}","replace":"/b/{y}"}"#, "`y`"),
            (
                "cryptorResponse",
                r#"{"strategyName":"rsa","way":"encrypt","fieldNames":"a"}"#,
                "`encryptKey`",
            ),
            ("divide", r#"{"loadBalance":"fair"}"#, "fair"),
            ("waf", "{}", "permission"),
        ] {
            let refused = check_handle(plugin, handle).expect_err(handle);
            assert!(refused.contains(words), "{refused}");
        }
        for (plugin, handle) in [("rewrite", " "), ("divide", "{}"), ("sofa", "what it likes")] {
            assert_eq!(check_handle(plugin, handle), Ok(()), "{plugin} {handle}");
        }
    }
}
