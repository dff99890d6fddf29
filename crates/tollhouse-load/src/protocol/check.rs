//! Applies the checks of a case, compiled once, to its responses.

use std::sync::OnceLock;

use memchr::memmem;
use regex::bytes::Regex;

use crate::case::Checks;
use crate::error::BenchError;
use crate::failure::{Failure, FailureClass};
use crate::protocol::Reply;

/// Checks of a case, with compiled patterns.
#[derive(Debug)]
pub struct AnswerCheck {
    checks: Checks,
    contains: Option<memmem::Finder<'static>>,
    matches: Option<Regex>,
    /// Length of the first body, for the check of equal length.
    first_body_bytes: OnceLock<u64>,
}

impl AnswerCheck {
    /// Compiles the checks of a case.
    ///
    /// # Errors
    /// If a regular expression is invalid.
    pub fn prepare(checks: &Checks) -> Result<Self, BenchError> {
        let compile = |pattern: &String| {
            Regex::new(pattern).map_err(|error| BenchError::Case {
                key: "checks.body_matches".into(),
                why: error.to_string().lines().last().unwrap_or("invalid expression").to_owned(),
            })
        };
        Ok(Self {
            contains: checks
                .body_contains
                .as_ref()
                .map(|text| memmem::Finder::new(text.as_bytes()).into_owned()),
            matches: checks.body_matches.as_ref().map(compile).transpose()?,
            checks: checks.clone(),
            first_body_bytes: OnceLock::new(),
        })
    }

    /// Whether the checks need the body, so that it must be buffered.
    pub fn reads_body(&self) -> bool {
        self.checks.reads_body()
    }

    /// Checks a response. `body` holds its beginning if [`reads_body`](Self::reads_body) is true.
    ///
    /// # Errors
    /// If the status or a check does not pass.
    #[inline]
    pub fn apply(&self, reply: Reply, body: &[u8]) -> Result<(), Failure> {
        if !self.checks.accepts_status(reply.status) {
            let message = format!("status {}", reply.status);
            return Err(Failure::answered(FailureClass::Status, reply.status, message));
        }
        match self.body_problem(reply, body) {
            None => Ok(()),
            Some(problem) => Err(Failure::answered(FailureClass::Check, reply.status, problem)),
        }
    }

    #[inline]
    fn body_problem(&self, reply: Reply, body: &[u8]) -> Option<String> {
        if let Some(expected) = self.checks.body_bytes
            && reply.body_bytes != expected
        {
            return Some(format!("body of {} bytes instead of {expected}", reply.body_bytes));
        }
        if self.checks.same_length {
            let first = *self.first_body_bytes.get_or_init(|| reply.body_bytes);
            if first != reply.body_bytes {
                return Some(format!("body of {} bytes, the first had {first}", reply.body_bytes));
            }
        }
        if self.checks.reads_body() { self.content_problem(body) } else { None }
    }

    fn content_problem(&self, body: &[u8]) -> Option<String> {
        if let Some(contains) = &self.contains
            && contains.find(body).is_none()
        {
            let text = String::from_utf8_lossy(contains.needle()).into_owned();
            return Some(format!("body without {text:?}"));
        }
        if let Some(matches) = &self.matches
            && !matches.is_match(body)
        {
            return Some(format!("body does not match /{matches}/"));
        }
        let (pointer, expected) = self.checks.body_json.as_ref()?;
        let Ok(document) = serde_json::from_slice::<serde_json::Value>(body) else {
            return Some("the body is not JSON".into());
        };
        match document.pointer(pointer) {
            Some(value) if value == expected => None,
            Some(_) => Some(format!("body has another value than {expected} at {pointer}")),
            None => Some(format!("body has nothing at {pointer}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(checks: Checks, status: u16, body: &str) -> Option<String> {
        let check = AnswerCheck::prepare(&checks).expect("checks");
        let reply = Reply { status, body_bytes: body.len() as u64 };
        check.apply(reply, body.as_bytes()).err().map(|failure| failure.to_string())
    }

    #[test]
    fn an_answer_is_judged_by_status_length_and_content() {
        let none = Checks::default;
        let cases = [
            (none(), 204, "", None),
            (none(), 500, "", Some("status 500")),
            (Checks { any_status: true, ..none() }, 500, "", None),
            (Checks { status: vec![404], ..none() }, 404, "", None),
            (Checks { status: vec![404], ..none() }, 200, "", Some("status 200")),
            (
                Checks { body_bytes: Some(3), ..none() },
                200,
                "ok",
                Some("check: body of 2 bytes instead of 3"),
            ),
            (Checks { body_contains: Some("k".into()), ..none() }, 200, "ok", None),
            (
                Checks { body_contains: Some("no".into()), ..none() },
                200,
                "ok",
                Some("check: body without \"no\""),
            ),
            (Checks { body_matches: Some("^o.$".into()), ..none() }, 200, "ok", None),
            (
                Checks { body_json: Some(("/a/0".into(), 1.into())), ..none() },
                200,
                r#"{"a":[1]}"#,
                None,
            ),
            (
                Checks { body_json: Some(("/b".into(), 1.into())), ..none() },
                200,
                r#"{"a":[1]}"#,
                Some("check: body has nothing at /b"),
            ),
        ];
        for (checks, status, body, expected) in cases {
            assert_eq!(problem(checks.clone(), status, body).as_deref(), expected, "{checks:?}");
        }
    }

    #[test]
    fn all_bodies_can_be_held_to_the_length_of_the_first() {
        let check = AnswerCheck::prepare(&Checks { same_length: true, ..Checks::default() });
        let check = check.expect("checks");
        let reply = |body_bytes| Reply { status: 200, body_bytes };
        assert!(check.apply(reply(5), b"").is_ok());
        assert!(check.apply(reply(5), b"").is_ok());
        assert!(check.apply(reply(6), b"").is_err());
    }

    #[test]
    fn a_pattern_that_is_none_is_named() {
        let checks = Checks { body_matches: Some("(".into()), ..Checks::default() };
        assert!(
            AnswerCheck::prepare(&checks)
                .is_err_and(|error| error.to_string().contains("body_matches"))
        );
    }
}
