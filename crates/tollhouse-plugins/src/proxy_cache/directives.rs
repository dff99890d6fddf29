//! Directives of `Cache-Control` (RFC 9111 §5.2) and of `CDN-Cache-Control` (RFC 9213), looked up
//! in the text of the field. Their effect on lifetimes is in `freshness.rs`.

use std::borrow::Cow;

/// Directives of one message: all lines of the field, joined. A look-up scans the text and
/// allocates nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Directives<'a>(Cow<'a, [u8]>);

/// Text after the `=` of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Argument<'d> {
    Missing,
    Token(&'d [u8]),
    Quoted(&'d [u8]),
    /// Spaces around `=`, or a quoted text that does not end.
    Malformed,
}

impl<'a> Directives<'a> {
    pub fn parse(field: Option<Cow<'a, [u8]>>) -> Self {
        Self(field.unwrap_or_default())
    }

    /// Parses the directives of `CDN-Cache-Control`; `None` if the field is not a dictionary of RFC
    /// 8941, or if one of its lifetimes is not an integer. Caches ignore such a field.
    pub fn parse_targeted(field: &'a [u8]) -> Option<Self> {
        let are_members = elements(field).all(is_dictionary_member);
        let directives = Self(Cow::Borrowed(field));
        let is_integer = |name: &str| {
            let mut arguments = directives.arguments(name);
            arguments.all(|it| matches!(it, Argument::Token(text) if number(text).is_some()))
        };
        let lifetimes = ["max-age", "s-maxage", "stale-if-error"];
        let is_empty = field.iter().all(|byte| b" \t,".contains(byte));
        (!is_empty && are_members && lifetimes.into_iter().all(is_integer)).then_some(directives)
    }

    /// Whether the directive `name` exists, with or without an argument.
    pub fn has(&self, name: &str) -> bool {
        self.arguments(name).next().is_some()
    }

    /// Whether the directive `name` exists without an argument.
    pub fn is_bare(&self, name: &str) -> bool {
        self.arguments(name).any(|argument| argument == Argument::Missing)
    }

    /// Whether a directive that may name fields applies to the whole answer: it has no list of
    /// fields in quotes.
    pub fn is_unqualified(&self, name: &str) -> bool {
        let is_list = |argument| matches!(argument, Argument::Quoted(list) if !list.is_empty());
        self.arguments(name).any(|argument| !is_list(argument))
    }

    /// Whether a directive names that header field in its list, such as `no-cache="set-cookie"`.
    pub fn lists_field(&self, name: &str, field: &str) -> bool {
        self.arguments(name).any(|argument| match argument {
            Argument::Quoted(list) => {
                let mut names = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
                names.any(|listed| listed.eq_ignore_ascii_case(field.as_bytes()))
            }
            _ => false,
        })
    }

    /// Returns the number of seconds in a request's directive; `None` if the directive is missing
    /// or invalid, because an invalid one has no effect.
    pub fn seconds(&self, name: &str) -> Option<u64> {
        self.arguments(name).find_map(seconds_of)
    }

    /// Returns the lifetime in an answer's directive: the shortest of several, 0 if it is invalid
    /// (RFC 9111 §4.2.1), `None` if it is missing.
    pub fn lifetime_s(&self, name: &str) -> Option<u64> {
        self.arguments(name).map(|argument| seconds_of(argument).unwrap_or(0)).min()
    }

    fn arguments<'d>(&'d self, name: &str) -> impl Iterator<Item = Argument<'d>> {
        elements(&self.0).filter_map(move |element| {
            let (other, argument) = split(element);
            other.eq_ignore_ascii_case(name.as_bytes()).then_some(argument)
        })
    }
}

/// Iterates over the members of a comma-separated list; a comma in quotes does not end a member.
fn elements(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    let next = move || {
        let text = rest?;
        let (mut is_quoted, mut is_escaped) = (false, false);
        let end = text.iter().position(|byte| {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_quoted => is_escaped = true,
                b'"' => is_quoted = !is_quoted,
                b',' => return !is_quoted,
                _ => {}
            }
            false
        });
        // A quoted text that does not end must not hide the directives after it.
        let end = end.or_else(|| text.iter().position(|byte| is_quoted && *byte == b','));
        rest = end.map(|end| &text[end + 1..]);
        Some(text[..end.unwrap_or(text.len())].trim_ascii())
    };
    std::iter::from_fn(next).filter(|element| !element.is_empty())
}

/// Splits a list member into name and argument.
fn split(element: &[u8]) -> (&[u8], Argument<'_>) {
    let Some(equals) = element.iter().position(|byte| *byte == b'=') else {
        return (element, Argument::Missing);
    };
    let (name, text) = (&element[..equals], &element[equals + 1..]);
    let is_spaced = name.trim_ascii_end() != name || text.trim_ascii_start() != text;
    let argument = match text {
        _ if is_spaced => Argument::Malformed,
        [b'"', quoted @ .., b'"'] => Argument::Quoted(quoted),
        [b'"', ..] => Argument::Malformed,
        token => Argument::Token(token),
    };
    (name.trim_ascii_end(), argument)
}

fn seconds_of(argument: Argument<'_>) -> Option<u64> {
    match argument {
        Argument::Token(text) | Argument::Quoted(text) => number(text),
        Argument::Missing | Argument::Malformed => None,
    }
}

/// Parses a number that consists of digits alone; a number that is too large counts as the largest.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    is_number.then(|| text.iter().fold(0, add))
}

/// Whether text is one member of a dictionary (RFC 8941 §3.2) whose value is not a list.
fn is_dictionary_member(member: &[u8]) -> bool {
    let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    parts.all(|part| {
        let (name, argument) = split(part);
        let is_value = match argument {
            Argument::Missing => true,
            Argument::Token(text) => is_bare_item(text),
            Argument::Quoted(text) => text.iter().all(|byte| matches!(byte, b' '..=b'~')),
            Argument::Malformed => false,
        };
        is_key(name) && is_value
    })
}

fn is_key(name: &[u8]) -> bool {
    let starts = name.first().is_some_and(|byte| byte.is_ascii_lowercase() || *byte == b'*');
    let is_inner =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte);
    starts && name.iter().all(is_inner)
}

/// Whether text is an integer, a decimal, a token or a boolean.
fn is_bare_item(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_number = digits.first().is_some_and(u8::is_ascii_digit)
        && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let is_token = text.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'*')
        && text
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(byte));
    is_number || is_token || matches!(text, b"?0" | b"?1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Directives<'_> {
        Directives::parse(Some(Cow::Borrowed(text.as_bytes())))
    }

    #[test]
    fn directives_have_names_in_any_case_and_numbers() {
        let directives = parsed("Private, Max-Age=60 , x=\"7\",,no-store");
        assert!(directives.has("private") && directives.has("no-store"));
        assert!(!directives.has("no-cache"));
        assert_eq!(directives.seconds("max-age"), Some(60));
        assert_eq!(directives.seconds("x"), Some(7));
        assert_eq!(directives.seconds("private"), None);
        assert!(!Directives::parse(None).has(""));
    }

    #[test]
    fn a_lifetime_that_is_invalid_or_contradicted_is_the_shortest() {
        for (text, expected) in [
            ("", None),
            ("public", None),
            ("max-age=3600", Some(3600)),
            ("max-age=003600", Some(3600)),
            ("max-age=\"3600\"", Some(3600)),
            ("max-age=99999999999999999999999", Some(u64::MAX)),
            ("max-age", Some(0)),
            ("max-age=", Some(0)),
            ("max-age=-3600", Some(0)),
            ("max-age='3600'", Some(0)),
            ("max-age=3600.0", Some(0)),
            ("max-age=3600a", Some(0)),
            ("max-age =3600", Some(0)),
            ("max-age= 3600", Some(0)),
            ("max-age=\"3600", Some(0)),
            ("max-age=1800, max-age=1", Some(1)),
            ("max-age=1, max-age=1800", Some(1)),
            ("extension=\"max-age=3600\", max-age=1", Some(1)),
            ("max-age=1, extension=\"a, max-age=3600\"", Some(1)),
            ("extension=\"\\\", max-age=3600\"", None),
            ("extension=\"a, max-age=3600", Some(3600)),
        ] {
            assert_eq!(parsed(text).lifetime_s("max-age"), expected, "{text}");
        }
    }

    #[test]
    fn a_list_of_fields_restricts_a_directive_to_them() {
        for (text, unqualified, listed) in [
            ("no-cache", true, false),
            ("no-cache=\"a, Set-Cookie\"", false, true),
            ("no-cache=\"a\"", false, false),
            ("no-cache=\"a\", no-cache", true, false),
            ("no-cache=set-cookie", true, false),
            ("no-cache=\"set-cookie", true, false),
            ("no-cache=\"\"", true, false),
            ("private=\"set-cookie\"", false, false),
        ] {
            let directives = parsed(text);
            assert_eq!(directives.is_unqualified("no-cache"), unqualified, "{text}");
            assert_eq!(directives.lists_field("no-cache", "set-cookie"), listed, "{text}");
        }
    }

    #[test]
    fn a_targeted_field_is_a_dictionary_or_ignored() {
        for (text, expected) in [
            ("max-age=60", true),
            ("max-age=60, private", true),
            ("foobar, max-age=60", true),
            ("max-age=60, a=?1;p=1, b=\"x\", c=tok", true),
            ("max-age=60;p=1", false),
            ("no-store", true),
            ("", false),
            (" , ", false),
            ("max-age=60, &&&&&", false),
            ("max-age=\"60\"", false),
            ("max-age=60.5", false),
            ("max-age=-1", false),
            ("max-age", false),
            ("Max-Age=60", false),
            ("max-age =60", false),
            ("max-age= 60", false),
        ] {
            let found = Directives::parse_targeted(text.as_bytes());
            assert_eq!(found.is_some(), expected, "{text}");
        }
    }
}
