//! Execution of `casdoor`: checks a token in `Authorization`, or exchanges a code in the query for
//! a token. The rule verifies tokens; an engine sends codes to Casdoor.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollhouse_plugin::RequestContext;
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::casdoor::{CasdoorRule, TOKEN_PATH};

use crate::action::note_claims;
use crate::engines::Engines;
use crate::guard;
use crate::turn::Turn;

/// Maximum number of concurrent exchanges. Any client can cause an exchange, and each is a call to
/// Casdoor.
const CODES_UNDER_WAY_MAX: usize = 64;

/// Rule of `casdoor` with the state of its exchanges.
#[derive(Debug)]
pub(crate) struct CasdoorGate {
    rule: CasdoorRule,
    engines: Option<Arc<dyn Engines>>,
    under_way: AtomicUsize,
}

impl CasdoorGate {
    pub(crate) fn new(rule: CasdoorRule, engines: Option<Arc<dyn Engines>>) -> Self {
        Self { rule, engines, under_way: AtomicUsize::new(0) }
    }

    /// Admits a request, and puts the user's claims into its headers.
    ///
    /// # Errors
    ///
    /// The answer with which the request is refused.
    pub(crate) async fn check(
        &self,
        cx: &mut RequestContext<'_>,
        turn: &Turn,
    ) -> Result<(), Answer> {
        let authorization = cx.header("authorization");
        let authorization = authorization.map(|text| String::from_utf8_lossy(&text).into_owned());
        let token = match authorization {
            Some(token) => token,
            None => self.exchange(turn).await.ok_or(Answer::IllegalAuthorization)?,
        };
        let claims = self.rule.check(&token, cx.now().unix_ms / 1000)?;
        note_claims(cx, "casdoor", &claims);
        for (header, value) in CasdoorRule::headers(&claims) {
            // Claims may contain any characters, headers only some.
            let value =
                value.filter(|value| value.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
            match value {
                Some(value) => cx.set_header(header, value.as_bytes()),
                None => cx.remove_header(header),
            }
        }
        Ok(())
    }

    /// Exchanges the code in a query for a token.
    async fn exchange(&self, turn: &Turn) -> Option<String> {
        let parameters = guard::parameters(turn.query.as_deref()?);
        let (_, code) = parameters.iter().find(|(name, _)| name == "code")?;
        let form = self.rule.form(code)?;
        let _place = Place::take(&self.under_way)?;
        let url = format!("{}{TOKEN_PATH}", self.rule.endpoint);
        let answer = self.engines.as_ref()?.post_form(&url, encoded(&form)).await?;
        self.rule.granted(&answer)
    }
}

/// Permit for one exchange; returned on drop.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(under_way: &'a AtomicUsize) -> Option<Self> {
        let taken = Self(under_way);
        // Relaxed, because only the number is shared. Dropping `taken` undoes the count, also when
        // the limit is reached.
        (under_way.fetch_add(1, Ordering::Relaxed) < CODES_UNDER_WAY_MAX).then_some(taken)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn encoded(form: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (name, value) in form {
        if !text.is_empty() {
            text.push('&');
        }
        text.push_str(name);
        text.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._*".contains(&byte) {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_hold_whatever_a_client_brings() {
        let form = [("code", "a b&client_id=x\u{e9}".to_owned()), ("c", String::new())];
        assert_eq!(encoded(&form), "code=a%20b%26client_id%3Dx%C3%A9&c=");
    }

    #[test]
    fn places_are_bounded_and_go_back() {
        let under_way = AtomicUsize::new(0);
        let places: Vec<_> = (0..CODES_UNDER_WAY_MAX).map(|_| Place::take(&under_way)).collect();
        assert!(places.iter().all(Option::is_some) && Place::take(&under_way).is_none());
        drop(places);
        assert!(Place::take(&under_way).is_some());
        assert_eq!(under_way.load(Ordering::Relaxed), 0);
    }
}
