//! Expressions of `vars`: no panic while parsing or evaluating, and an expression that is written
//! out parses as the same expression.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::borrow::Cow;
use tollhouse_model::Problems;
use tollhouse_model::expr::Expr;
use tollhouse_model::variable::{Lookup, Variable};

/// A request whose arguments and URI have this value; other variables are missing.
struct Request<'a>(&'a [u8]);

impl Lookup for Request<'_> {
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        match variable {
            Variable::Arg(_) | Variable::Uri => Some(Cow::Borrowed(self.0)),
            _ => None,
        }
    }
}

fuzz_target!(|data: &[u8]| {
    // JSON contains no NUL, so that a NUL can separate the expression from the value.
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (text, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(document) = serde_json::from_slice(text) else { return };
    let mut problems = Problems::new();
    let Some(expression) = Expr::parse(&document, "vars", &mut problems) else {
        assert!(problems.has_errors(), "refused without a reason");
        return;
    };
    let request = Request(value);
    let verdict = expression.matches(&request);
    assert_eq!(verdict, expression.matches(&request), "the verdict depends on the time");

    let written = serde_json::from_str(&expression.to_string());
    let again = written.ok().and_then(|v| Expr::parse(&v, "vars", &mut Problems::new()));
    assert_eq!(again.as_ref(), Some(&expression), "written out, it reads differently");
});
