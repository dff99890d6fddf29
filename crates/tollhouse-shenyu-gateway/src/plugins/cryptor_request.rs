//! Plugin `cryptorRequest`: decrypts or encrypts fields of a request body.

use tollhouse_plugin::RequestContext;

use crate::plugin::prelude::*;
use crate::shared::cryptor::{self, CryptOutcome, CryptorRule};
use crate::shared::edits::EDITED_BODY_BYTES_MAX;

#[derive(Debug)]
pub(crate) struct CryptorRequest(CryptorRule);

impl ShenyuPlugin for CryptorRequest {
    const ROW: Row =
        Row::protecting("cryptorRequest", 100).with(Seed::new("24", "Cryptor").enabled());

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        let rule = cryptor::compile(place, Answer::CryptorRequestLacks)?;
        Ok(rule.map_or(Compiled::Pass, |rule| Self(rule).into()))
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        cryptor::check(handle)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        crypt_body(self, run.cx).await.into()
    }
}

/// Decrypts or encrypts fields of a request body. A body that is too long or contains none of the
/// fields is refused; a request without a body passes.
async fn crypt_body(rule: &Arc<CryptorRequest>, cx: &mut RequestContext<'_>) -> Result<(), Answer> {
    if cx.read_body(EDITED_BODY_BYTES_MAX as u64).await.is_err() {
        return Err(Answer::RequestTooLarge);
    }
    if cx.body().is_empty() {
        let is_refused = rule.0.has_several_fields();
        return if is_refused { Err(Answer::CryptorRequestLacks("fieldNames")) } else { Ok(()) };
    }
    let rule = Arc::clone(rule);
    let crypted = cx.examine_body(move |body| rule.0.crypt(body)).await;
    match crypted.map_err(|_| Answer::RequestTooLarge)? {
        CryptOutcome::FieldMissing | CryptOutcome::NoObject => {
            return Err(Answer::CryptorRequestLacks("fieldNames"));
        }
        CryptOutcome::Body(body) => cx.edits().body = Some(body),
        CryptOutcome::NotDecrypted => return Err(Answer::DecryptionFailed),
        CryptOutcome::NotEncrypted => return Err(Answer::EncryptionFailed),
        CryptOutcome::TooHeavy => return Err(Answer::RequestTooLarge),
    }
    Ok(())
}
