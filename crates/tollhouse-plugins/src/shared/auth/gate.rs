//! What every auth plugin does with a request that it does not know: the challenge, and the
//! anonymous consumer that may step in.

use tollhouse_plugin::{Answer, RequestContext, Step};

/// Realms consist of printable characters other than `"` and `\`, which would end the quotes that
/// they stand in.
pub(crate) const REALM_PATTERN: &str = r"^[\x20-\x21\x23-\x5B\x5D-\x7E]+$";

/// Who is turned away, and with what words.
#[derive(Debug)]
pub(crate) struct Gate {
    challenge: String,
    anonymous_consumer: Option<String>,
}

impl Gate {
    /// For clients that should authenticate by `scheme`.
    pub(crate) fn new(scheme: &str, realm: &str, anonymous_consumer: Option<String>) -> Self {
        Self { challenge: format!("{scheme} realm=\"{realm}\""), anonymous_consumer }
    }

    /// Lets the request pass as the anonymous consumer's.
    ///
    /// # Errors
    /// What to tell the client: `message`, when nobody may pass unknown.
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

    pub(crate) fn refusal(&self, message: &str) -> Answer<'_> {
        Answer::message(401, message).with_header("WWW-Authenticate", self.challenge.as_bytes())
    }

    /// The anonymous consumer's pass, or the refusal.
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
