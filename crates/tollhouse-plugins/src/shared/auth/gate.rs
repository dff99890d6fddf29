//! Treatment of unauthenticated requests in all auth plugins: the challenge, or the anonymous
//! consumer.

use tollhouse_plugin::{Answer, RefusalKind, RequestContext, Step};

/// Pattern of realms: printable characters except `"` and `\`, which would end the quotes around
/// them.
pub(crate) const REALM_PATTERN: &str = r"^[\x20-\x21\x23-\x5B\x5D-\x7E]+$";

/// Why a credential admits no request: the text for the client, and the kind for logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rejection {
    message: &'static str,
    kind: RefusalKind,
}

impl Rejection {
    /// The request has no credential.
    pub(crate) fn missing(message: &'static str) -> Self {
        Self { message, kind: RefusalKind::AuthMissing }
    }

    /// The credential is right, and its time too far from the gateway's clock.
    pub(crate) fn clock_differs(message: &'static str) -> Self {
        Self { message, kind: RefusalKind::ClockDiffers }
    }
}

/// A message that begins with `Missing` tells of a request without a credential, in all plugins.
impl From<&'static str> for Rejection {
    fn from(message: &'static str) -> Self {
        match message.starts_with("Missing") {
            true => Self::missing(message),
            false => Self { message, kind: RefusalKind::AuthInvalid },
        }
    }
}

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
    /// If no anonymous consumer is configured (the error is `rejection`), or it does not exist.
    pub(crate) fn admit_anonymous(
        &self,
        cx: &mut RequestContext<'_>,
        rejection: impl Into<Rejection>,
    ) -> Result<(), Rejection> {
        let name = self.anonymous_consumer.as_deref().ok_or_else(|| rejection.into())?;
        let Some(consumer) = cx.find_consumer(name) else {
            tracing::debug!(consumer = name, "the anonymous consumer does not exist");
            return Err("Invalid user authorization".into());
        };
        cx.authenticate_as(consumer);
        Ok(())
    }

    /// Answers with the challenge.
    pub(crate) fn refusal(&self, Rejection { message, kind }: Rejection) -> Answer<'_> {
        let answer = Answer::message(401, message).refused(kind);
        answer.with_header("WWW-Authenticate", self.challenge.as_bytes())
    }

    /// Admits the request as the anonymous consumer, or refuses it.
    pub(crate) fn turn_away<'a>(
        &'a self,
        cx: &mut RequestContext<'_>,
        rejection: impl Into<Rejection>,
    ) -> Step<'a> {
        match self.admit_anonymous(cx, rejection) {
            Ok(()) => Step::Continue,
            Err(rejection) => self.refusal(rejection).into(),
        }
    }
}
