//! Reading a request's body for variables such as `$post_arg_name`.

use tollhouse_plugin::{Answer, BodyError, RefusalKind, RequestContext};

/// Maximum length in bytes of a body that variables are read from; equals APISIX's
/// `max_post_args_readable_size`.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// Reads the body. The error is the answer if it cannot be read.
pub(crate) async fn read_for_variables<'a>(cx: &mut RequestContext<'_>) -> Result<(), Answer<'a>> {
    match cx.read_body(BODY_BYTES_MAX).await {
        Ok(_) => Ok(()),
        Err(BodyError::TooLarge) => Err(Answer::status(413).refused(RefusalKind::RequestInvalid)),
        Err(BodyError::Broken) => Err(Answer::status(400).refused(RefusalKind::RequestInvalid)),
    }
}
