//! Plugin `sign`: admits requests that an application has signed.

pub(crate) mod signature;

use tollhouse_plugin::{Identity, RequestContext};

pub(crate) use self::signature::SignRule;
use self::signature::{SignHeaders, SignedRequest};
use crate::plugin::prelude::*;
use crate::shared::form;
use crate::view::text_header;

/// Largest body that can be signed, because it is buffered before anything is forwarded.
const SIGNED_BODY_BYTES_MAX: u64 = 8 << 20;

impl ShenyuPlugin for SignRule {
    const ROW: Row = Row::protecting("sign", 20).with(Seed::new("1", "Authentication"));

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(Self::read(place.handle())?.into())
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(Self::read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        if self.sign_request_body && run.cx.read_body(SIGNED_BODY_BYTES_MAX).await.is_err() {
            return Verdict::Refused(Answer::RequestTooLarge);
        }
        check_signature(self, run).into()
    }
}

/// Checks the signature of a request. The body must have been read if the rule covers it.
fn check_signature(rule: &SignRule, run: &mut Run<'_, '_>) -> Result<(), Answer> {
    let Run { cx, turn, applications, terms, .. } = run;
    let header = |cx: &RequestContext<'_>, name: &str| text_header(cx, name).unwrap_or_default();
    let version = header(cx, "version");
    let app_key = header(cx, "appKey");
    let timestamp = header(cx, "timestamp");
    let sign = header(cx, "sign");
    let mut authorization = header(cx, "ShenYu-Authorization");
    if authorization.is_empty() {
        authorization = header(cx, "Authorization");
    }
    let query = turn.sent_query.as_deref().map(form::decode);
    let raw_query = turn.sent_query.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let signed = SignedRequest {
        headers: SignHeaders {
            version: &version,
            app_key: &app_key,
            timestamp: &timestamp,
            sign: &sign,
            authorization: &authorization,
        },
        path: turn.asked(),
        query: query.as_deref(),
        raw_query: &raw_query,
        body: rule.sign_request_body.then(|| cx.body()),
        module: &turn.facts.module,
        now_ms: i64::try_from(cx.now().unix_ms).unwrap_or(i64::MAX),
    };
    let signer = applications.check(&signed, terms.sign_delay_minutes)?;
    let app_param = signer.app_param.map(str::to_owned);
    let app_key = signer.app_key.to_owned();
    cx.note_identity(Identity { by: "sign", name: app_key.as_bytes(), grant: b"" });
    turn.facts.app_key = app_key;
    // A client's own header would be mistaken for the gateway's.
    cx.remove_header("appParam");
    if let Some(app_param) = app_param {
        cx.set_header("appParam", app_param.as_bytes());
    }
    Ok(())
}
