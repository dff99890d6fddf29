//! Treatment of unauthenticated requests in all auth plugins: the challenge, or the anonymous
//! consumer.

use tollhouse_plugin::{Answer, RefusalKind, RequestContext, Step};

/// Pattern of realms: printable characters except `"` and `\`, which would end the quotes around
/// them.
pub(crate) const REALM_PATTERN: &str = r"^[\x20-\x21\x23-\x5B\x5D-\x7E]+$";

/// Answer or anonymous consumer for requests without valid credentials.
#[derive(Debug)]
pub(crate) struct Gate {
    challenge: String,
    anonymous_consumer: Option<String>,
}

impl Gate {
    /// Returns a gate whose challenge asks for `scheme`.
    pub(crate) fn new(scheme: &str, realm: &str, anonymous_consumer: Option<String>) -> Self {
        Self { challenge: format!("{scheme} realm=\"{realm}\""), anonymous_consumer }
    }

    /// Admits the request as the anonymous consumer.
    ///
    /// # Errors
    /// If no anonymous consumer is configured (the error is `message`), or it does not exist. The
    /// error is the text for the client.
    pub(crate) fn admit_anonymous(
        &self,
        cx: &mut RequestContext<'_>,
        message: &'static str,
    ) -> Result<(), &'static str> {
        let name = self.anonymous_consumer.as_deref().ok_or(message)?;
        let Some(consumer) = cx.find_consumer(name) else {
            tracing::debug!(consumer = name, "the anonymous consumer does not exist");
            return Err("Invalid user authorization");
        };
        cx.authenticate_as(consumer);
        Ok(())
    }

    /// Answers with the challenge. A message that begins with `Missing` tells of a request without
    /// a credential, in all plugins.
    pub(crate) fn refusal(&self, message: &str) -> Answer<'_> {
        let kind = match message.starts_with("Missing") {
            true => RefusalKind::AuthMissing,
            false => RefusalKind::AuthInvalid,
        };
        let answer = Answer::message(401, message).refused(kind);
        answer.with_header("WWW-Authenticate", self.challenge.as_bytes())
    }

    /// Admits the request as the anonymous consumer, or refuses it.
    pub(crate) fn turn_away<'a>(
        &'a self,
        cx: &mut RequestContext<'_>,
        message: &'static str,
    ) -> Step<'a> {
        match self.admit_anonymous(cx, message) {
            Ok(()) => Step::Continue,
            Err(message) => self.refusal(message).into(),
        }
    }
}
