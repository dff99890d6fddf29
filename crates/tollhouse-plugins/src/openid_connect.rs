//! Lets requests pass of users who have logged in at an identity provider (OpenID Connect), or who bring a token of
//! it, and tells nodes whose they are.
//!
//! A token of `Authorization: Bearer` (or of `X-Access-Token`) is verified by `public_key`, by the keys that the
//! provider publishes (`use_jwks`), or by asking the provider (introspection). Without one, and unless `bearer_only`
//! is set, the user's browser is sent to the provider and comes back with a session, which is sealed in a cookie.
//!
//! Nodes get `X-Access-Token`, `X-Userinfo`, `X-ID-Token`, `X-Raw-ID-Token` and `X-Refresh-Token`, as far as they are
//! asked for; lines of these names that a client has sent are always taken away.
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
//! - 401 with `WWW-Authenticate: Bearer realm="…"` where there is no token and nobody is to log in; with
//!   `error="invalid_token"` and the reason where the token is not good
//! - 400 for an `Authorization` that is one word
//! - 403 `{"error":"required scopes … not present"}`, `{"error":"required audience claim not present"}`,
//!   `{"error":"mismatched audience"}`
//! - 302 to the provider, and from it back to what was asked for, with `Cache-Control: no-store`
//! - 500 with the reason where a log-in fails: begun elsewhere, too long ago or used already, refused by the
//!   provider, or answered with a token that is not good
//! - 503 `the identity provider gives no answer` while it does not and has to be asked: nobody passes then
//!
//! # Notes
//! The route has to take `redirect_uri` and `logout_path` too. `redirect_uri` may be a page: a request for it without
//! `state`, `code` and `error` does not come from the provider, and is treated like any other. Where `redirect_uri` is
//! absent, it is the path that was asked for with `/.apisix/redirect` behind it, on the host that the client names.
//!
//! Tokens are signed by RS, PS, ES or EdDSA algorithms; `token_signing_alg_values_expected` narrows them. A token must
//! name its issuer: one of `valid_issuers`, else the provider. The provider's issuer is the one in its document. If it
//! differs from the address that the document was fetched from (OpenID Connect Discovery §4.3), as with providers of
//! many tenants and inside a cluster, the log has a warning, and the operator's address counts. An unsigned ID token
//! is taken with `accept_none_alg` from the provider itself; of other tokens none is, and `accept_unsupported_alg`
//! changes nothing. Keys are fetched anew when a token names one that is not known, every ten seconds at most, and
//! stay good while the provider is away. Verified tokens are not remembered, so `jwt_verification_cache_ignore`
//! changes nothing.
//!
//! A session's cookies hold 7,200 letters in all, some 5,000 of tokens and user data. A session ends after
//! 900 seconds without use and a day in all, unless `session` says otherwise. Nodes do not get its cookies. A copy of
//! the cookie counts until it ends, also after a log-out, unless the provider ends its tokens.
//!
//! Not built in, and refused where a conf asks for it: `session.storage` of `redis`, `dpop`, `proxy_opts` and
//! `force_reauthorize`. Options by their names in lua-resty-openidc (`use_par`, `use_dpop`, `dpop_private_key` and the
//! like) are refused too: `par` and `dpop` hold them.

use serde_json::Value;
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Phases, Plugin, Remark, RequestContext, ResponseContext,
    Scope, Step,
};

use self::config::Config;
use self::headers::Headers;
use crate::shared::oidc::{Admission, Engine};

pub mod config;
mod headers;
mod setup;
#[cfg(test)]
mod tests;

/// Headers that tell nodes of the user.
const OWN_HEADERS: [&str; 5] =
    ["X-Access-Token", "X-Userinfo", "X-ID-Token", "X-Raw-ID-Token", "X-Refresh-Token"];

/// The plugin.
#[derive(Debug)]
pub struct OpenidConnect {
    engine: Engine,
    headers: Headers,
}

/// Lines that the answer sets cookies by.
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
            // What clients say of themselves is for nobody; but this one may be a token.
            let token = cx.header("X-Access-Token").map(|token| token.into_owned());
            OWN_HEADERS.iter().for_each(|name| cx.remove_header(name));
            match self.engine.admit(cx, token).await {
                Admission::Answered(answer) => answer.borrowed().into(),
                Admission::Passes(who, cookies) => {
                    if let Some(who) = who {
                        if self.headers.add(cx, &who).is_err() {
                            let reason = "what is known of this user is more than headers hold";
                            return Answer::message(500, reason).into();
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
