//! What variables such as `post_arg_name`, `post_arg.a.b[0]` and `graphql_name` find in a request's
//! body: forms, multipart forms, JSON, GraphQL.
//!
//! All that is wanted is looked up in one go, since a body may be long: JSON is checked once, and
//! nothing is kept but what was found. Who reads the body, and on which thread this runs, is not
//! known here.

mod graphql;
mod multipart;

use crate::json::{Document, Path};
use crate::variable::{Variable, query_argument};

pub use self::graphql::{Operation, is_graphql_name};

/// Longest value that a variable has, in bytes: it stands in headers, keys and conditions.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// How the body of a request is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum BodyKind {
    Form,
    Json,
    Multipart,
    GraphQl,
}

impl BodyKind {
    /// What `Content-Type` says; `None` for a type that variables cannot look into.
    pub fn named(content_type: &[u8]) -> Option<BodyKind> {
        let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
        match essence.trim_ascii().to_ascii_lowercase().as_slice() {
            b"application/x-www-form-urlencoded" => Some(BodyKind::Form),
            b"application/json" => Some(BodyKind::Json),
            b"multipart/form-data" => Some(BodyKind::Multipart),
            b"application/graphql" => Some(BodyKind::GraphQl),
            _ => None,
        }
    }
}

/// The values of `wanted` in a body, in the same order.
pub fn look_up(body: &[u8], content_type: &[u8], wanted: &[Variable]) -> Vec<Option<Vec<u8>>> {
    let Some(kind) = BodyKind::named(content_type) else { return vec![None; wanted.len()] };
    let mut values = match kind {
        BodyKind::Form => each(wanted, |variable| {
            query_argument(body, field_name(variable)?).map(|value| value.into_owned())
        }),
        BodyKind::Multipart => multipart::look_up(body, content_type, wanted),
        BodyKind::Json => look_up_json(body, wanted),
        BodyKind::GraphQl => {
            let operation = std::str::from_utf8(body).ok().and_then(Operation::parse);
            each(wanted, |variable| operation.as_ref()?.value(variable))
        }
    };
    for value in &mut values {
        value.take_if(|value| value.len() > VALUE_BYTES_MAX);
    }
    values
}

fn each(wanted: &[Variable], value: impl Fn(&Variable) -> Option<Vec<u8>>) -> Vec<Option<Vec<u8>>> {
    wanted.iter().map(value).collect()
}

/// What a form is asked for.
fn field_name(variable: &Variable) -> Option<&str> {
    match variable {
        Variable::PostArg(name) | Variable::PostJson(name) => Some(name),
        _ => None,
    }
}

fn look_up_json(body: &[u8], wanted: &[Variable]) -> Vec<Option<Vec<u8>>> {
    let Ok(document) = Document::parse(body) else { return vec![None; wanted.len()] };
    let operation = wanted
        .iter()
        .any(|variable| matches!(variable, Variable::Named(_)))
        .then(|| Operation::parse(&document.root().member("query")?.text()?))
        .flatten();
    each(wanted, |variable| match variable {
        Variable::PostJson(path) => Path::parse(path).ok()?.find(&document),
        other => operation.as_ref()?.value(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &[u8] = b"application/x-www-form-urlencoded";
    const JSON: &[u8] = b"Application/JSON; charset=utf-8";

    fn check(body: &str, content_type: &[u8], name: &str, expected: Option<&str>) {
        let found = look_up(body.as_bytes(), content_type, &[Variable::parse(name)]);
        assert_eq!(found, [expected.map(|text| text.as_bytes().to_vec())], "{body} {name}");
    }

    #[test]
    fn forms_and_json_are_looked_into() {
        let document = r#"{"a":{"b":[10,{"c":"x"}]},"n":null}"#;
        for (body, content_type, name, expected) in [
            ("a=1&b=two+words", FORM, "post_arg_b", Some("two words")),
            ("a=1&b=two+words", FORM, "post_arg.b", Some("two words")),
            ("a=1", FORM, "post_arg_c", None),
            (document, JSON, "post_arg.a.b[1].c", Some("x")),
            (document, JSON, "post_arg.a.b[*].c", Some(r#"["x"]"#)),
            (document, JSON, "post_arg.n", None),
            (document, JSON, "post_arg_a", None),
            ("{", JSON, "post_arg.a", None),
            ("a=1", b"text/plain", "post_arg_a", None),
        ] {
            check(body, content_type, name, expected);
        }
    }

    #[test]
    fn what_is_longer_than_any_variable_is_as_if_it_were_not_there() {
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        check(&format!("a={long}&b=1"), FORM, "post_arg_a", None);
        check(&format!("a={long}&b=1"), FORM, "post_arg_b", Some("1"));
        check(&format!("{{\"a\":\"{long}\",\"b\":1}}"), JSON, "post_arg.a", None);
        check(&format!("{{\"a\":[\"{long}\"],\"b\":1}}"), JSON, "post_arg.a[*]", None);
    }

    #[test]
    fn graphql_is_found_in_json_and_by_itself() {
        let query = "query Hero($id: ID!) { hero(id: $id) { name } friends { name } }";
        let json = format!("{{\"query\":\"{query}\"}}");
        for (body, content_type) in [(query, &b"application/graphql"[..]), (&json, JSON)] {
            check(body, content_type, "graphql_operation", Some("query"));
            check(body, content_type, "graphql_name", Some("Hero"));
            check(body, content_type, "graphql_root_fields", Some(r#"["hero","friends"]"#));
            check(body, content_type, "graphql_other", None);
        }
        check("{\"query\":5}", JSON, "graphql_name", None);
        check("{}", JSON, "graphql_name", None);
    }
}
