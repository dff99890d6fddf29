//! Texts of confs that may contain variables. Texts without variables are never rendered.

use std::borrow::Cow;
use std::cell::Cell;

use tollhouse_model::template::Template;
use tollhouse_model::variable::{Lookup, Variable};

#[derive(Debug)]
pub(crate) enum Text {
    /// Text without variables, in its final form.
    Fixed(Box<[u8]>),
    /// Text that contains variables.
    Varying(Template),
}

impl Text {
    pub(crate) fn parse(text: &str) -> Self {
        let template = Template::parse(text);
        let probe = Probe::default();
        let mut fixed = Vec::new();
        template.render(&probe, &mut fixed);
        if probe.was_asked.get() { Text::Varying(template) } else { Text::Fixed(fixed.into()) }
    }

    /// Whether a variable reads the request's body.
    pub(crate) fn reads_body(&self) -> bool {
        matches!(self, Text::Varying(template) if template.reads_body())
    }

    /// Returns the text for a request; free of cost if it is fixed.
    pub(crate) fn for_request(&self, request: &dyn Lookup) -> Cow<'_, [u8]> {
        match self {
            Text::Fixed(text) => Cow::Borrowed(text),
            Text::Varying(template) => {
                let mut out = Vec::new();
                template.render(request, &mut out);
                Cow::Owned(out)
            }
        }
    }
}

/// Lookup that records whether it was asked.
#[derive(Default)]
struct Probe {
    was_asked: Cell<bool>,
}

impl Lookup for Probe {
    fn variable(&self, _variable: &Variable) -> Option<Cow<'_, [u8]>> {
        self.was_asked.set(true);
        None
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::FakeExchange;

    use super::*;

    #[test]
    fn only_texts_with_variables_are_rendered() {
        let request = FakeExchange::parse("GET /a HTTP/1.1\n\n", 0);
        let table = [
            ("", "", true),
            ("plain {}", "plain {}", true),
            (r"5\$", "5$", true),
            ("at $uri", "at /a", false),
            ("${nothing ?? else}", "else", false),
        ];
        for (text, expected, is_fixed) in table {
            let parsed = Text::parse(text);
            assert_eq!(matches!(parsed, Text::Fixed(_)), is_fixed, "{text}");
            assert_eq!(*parsed.for_request(&request), *expected.as_bytes(), "{text}");
        }
    }
}
