//! Admits users who have logged in at an identity provider (OpenID Connect) or who present one of
//! its tokens, and tells nodes who the user is.
//!
//! A token in `Authorization: Bearer` (or in `X-Access-Token`) is verified with `public_key`, with
//! the provider's published keys (`use_jwks`), or by asking the provider (introspection). Without a
//! token, and unless `bearer_only` is set, the browser is redirected to the provider and returns
//! with a session, which is stored in a sealed cookie.
//!
//! Depending on the conf, nodes get `X-Access-Token`, `X-Userinfo`, `X-ID-Token`, `X-Raw-ID-Token`
//! and `X-Refresh-Token`. Headers of these names from clients are always removed.
//!
//! # Example
//! ```json
//! {
//!   "client_id": "shop",
//!   "client_secret": "$env://SHOP_CLIENT_SECRET",
//!   "discovery": "https://id.example.com/realms/shop/.well-known/openid-configuration",
//!   "scope": "openid profile",
//!   "redirect_uri": "/callback",
//!   "use_pkce": true,
//!   "session": {"secret": "$env://SHOP_SESSION_SECRET"}
//! }
//! ```
//!
//! # Answers
//! - 401 with `WWW-Authenticate: Bearer realm="…"` when the token is missing and a login is not
//!   offered; with `error="invalid_token"` and the reason when the token is invalid
//! - 400 for an `Authorization` that consists of one word
//! - 403 `{"error":"required scopes … not present"}`, `{"error":"required audience claim not present"}`,
//!   `{"error":"mismatched audience"}`
//! - 302 to the provider, and from it back to the original address, with `Cache-Control: no-store`
//! - 500 with the reason when a login fails: started in another browser, expired or already used,
//!   refused by the provider, or answered with an invalid token
//! - 503 `the identity provider gives no answer` when the provider is needed and does not answer;
//!   no request passes then
//!
//! # Notes
//! The route must also match `redirect_uri` and `logout_path`. `redirect_uri` may be an ordinary
//! page: a request for it without `state`, `code` and `error` does not come from the provider and
//! is treated like any other. If `redirect_uri` is unset, it is the requested path followed by
//! `/.apisix/redirect`, on the host that the client used.
//!
//! Tokens may be signed with RS, PS, ES or EdDSA algorithms; `token_signing_alg_values_expected`
//! restricts them. A token must name its issuer: one of `valid_issuers`, or else the provider. The
//! provider's issuer is the one in its discovery document. It may differ from the address of the
//! document (OpenID Connect Discovery §4.3), as with multi-tenant providers and inside a cluster.
//! The log then has a warning, and the operator's address is trusted. With `accept_none_alg`, an
//! unsigned ID token is accepted directly from the provider. Other unsigned tokens are refused, and
//! `accept_unsupported_alg` has no effect. Keys are fetched again when a token names an unknown
//! one, at most every ten seconds, and stay valid while the provider is down. Verified tokens are
//! not cached, so `jwt_verification_cache_ignore` has no effect.
//!
//! The cookies of a session hold at most 7,200 characters, about 5,000 of which are tokens and user
//! data. By default a session ends after 900 seconds without use, and after a day in any case;
//! `session` changes that. Nodes do not get the session's cookies. A copied cookie stays valid
//! until the session ends, even after a logout, unless the provider revokes its tokens.
//!
//! Not built in, and refused where a conf asks for it: `session.storage` of `redis`, `dpop`, `proxy_opts` and
//! `force_reauthorize`. Options by their names in lua-resty-openidc (`use_par`, `use_dpop`, `dpop_private_key` and the
//! like) are refused too: `par` and `dpop` hold them.

use serde_json::Value;
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Phases, Plugin, RefusalKind, Remark, RequestContext,
    ResponseContext, Scope, Step,
};

use self::config::Config;
use self::headers::Headers;
use crate::oidc::{Admission, Engine};

pub mod config;
mod headers;
mod setup;
#[cfg(test)]
mod tests;

/// Headers that describe the user to nodes.
const OWN_HEADERS: [&str; 5] =
    ["X-Access-Token", "X-Userinfo", "X-ID-Token", "X-Raw-ID-Token", "X-Refresh-Token"];

#[derive(Debug)]
pub struct OpenidConnect {
    engine: Engine,
    headers: Headers,
}

/// Lines of `Set-Cookie` that the answer must carry.
struct Cookies(Vec<String>);

impl Plugin for OpenidConnect {
    const NAME: &'static str = "openid-connect";
    const PRIORITY: i32 = 2599;
    const VERSION: f32 = 0.2;
    const CATEGORY: Category = Category::Authentication;
    const PHASES: Phases = Phases::REWRITE.union(Phases::RESPONSE);
    const ENCRYPTED: &'static [&'static str] = &[
        "client_secret",
        "client_rsa_private_key",
        "dpop.private_key",
        // Refused, yet it may lie in a file or in a store that others have written.
        "dpop_private_key",
        "session.secret",
        "session.redis.password",
    ];
    const SENT_TO: &'static [&'static str] = &[
        "discovery",
        "ssl_verify",
        "introspection_endpoint",
        "introspection_endpoint_auth_method",
        "token_endpoint_auth_method",
        "client_jwt_assertion_audience",
        "par",
        "proxy_opts",
        "session.storage",
        "session.redis",
    ];
    type Config = Config;

    fn remarks(conf: &Value) -> Vec<Remark> {
        setup::remarks(conf)
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let headers = Headers::new(&config);
        Ok(Self { engine: setup::engine(config, scope)?, headers })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::wait(async move {
            // Clients must not set these headers themselves, but `X-Access-Token` may carry a
            // token.
            let token = cx.header("X-Access-Token").map(|token| token.into_owned());
            OWN_HEADERS.iter().for_each(|name| cx.remove_header(name));
            match self.engine.admit(cx, token).await {
                Admission::Answered(answer) => answer.borrowed().into(),
                Admission::Passes(who, cookies) => {
                    if let Some(who) = who {
                        if self.headers.add(cx, &who).is_err() {
                            let reason = "the user's data is too long for headers";
                            return Answer::message(500, reason)
                                .refused(RefusalKind::PluginFailed)
                                .into();
                        }
                        who.note(cx, Self::NAME);
                    }
                    if !cookies.is_empty() {
                        cx.remember(Cookies(cookies));
                    }
                    Flow::Continue
                }
            }
        })
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        let Some(Cookies(lines)) = cx.recall() else { return };
        for line in std::mem::take(lines) {
            cx.add_header("Set-Cookie", line.as_bytes());
        }
    }
}
