//! Values of variables such as `post_arg_name`, `post_arg.a.b[0]` and `graphql_name` in the body of
//! a request: forms, multipart forms, JSON, GraphQL.
//!
//! All variables are looked up in one call, so that a long JSON body is checked only once; only the
//! results are kept. The caller reads the body and chooses the thread.

mod graphql;
mod multipart;

use crate::json::{Document, Path};
use crate::variable::{Variable, query_argument};

pub use self::graphql::{Operation, is_graphql_name};
pub use self::multipart::fields as multipart_fields;

/// Maximum length of a variable's value in bytes. Values are used in headers, keys and conditions.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// Encoding of a request body that consists of fields, such as a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyKind {
    Form,
    Json,
    Multipart,
}

impl BodyKind {
    /// Parses a `Content-Type`; `None` for a type without fields.
    fn named(content_type: &[u8]) -> Option<BodyKind> {
        let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
        match essence.trim_ascii().to_ascii_lowercase().as_slice() {
            b"application/x-www-form-urlencoded" => Some(BodyKind::Form),
            b"application/json" => Some(BodyKind::Json),
            b"multipart/form-data" => Some(BodyKind::Multipart),
            _ => None,
        }
    }
}

/// Longest bodies that are searched for variables, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Limit for fields of forms and JSON.
    pub fields: usize,
    /// Limit for GraphQL documents, with the JSON around them.
    pub graphql: usize,
}

impl Default for BodyLimits {
    /// Returns the limits of APISIX: 64 MiB for fields, 1 MiB for GraphQL.
    fn default() -> Self {
        Self { fields: 64 << 20, graphql: 1 << 20 }
    }
}

impl BodyLimits {
    /// Returns the length of the longest body of this type that may contain a wanted variable;
    /// `None` if no body does. Fields need one of the known types; a GraphQL document is accepted
    /// with any type.
    pub fn longest(self, content_type: &[u8], wanted: &[Variable]) -> Option<usize> {
        let fields = BodyKind::named(content_type).map(|_| self.fields);
        let graphql = wanted.iter().any(Variable::is_graphql).then_some(self.graphql);
        fields.max(graphql)
    }

    fn admit_graphql(self, body: &[u8], wanted: &[Variable]) -> bool {
        body.len() <= self.graphql && wanted.iter().any(Variable::is_graphql)
    }

    fn limit(self, variable: &Variable) -> usize {
        if variable.is_graphql() { self.graphql } else { self.fields }
    }
}

/// Returns the values of `wanted`, in its order. `content_type` is empty if the request has none.
/// Variables whose limit the body exceeds have no values.
pub fn look_up(
    body: &[u8],
    content_type: &[u8],
    wanted: &[Variable],
    limits: BodyLimits,
) -> Vec<Option<Vec<u8>>> {
    let kind = BodyKind::named(content_type);
    let mut values = match kind {
        Some(BodyKind::Form) => each(wanted, |variable| {
            query_argument(body, field_name(variable)?).map(|value| value.into_owned())
        }),
        Some(BodyKind::Multipart) => multipart::look_up(body, content_type, wanted),
        Some(BodyKind::Json) => look_up_json(body, wanted, limits),
        None => vec![None; wanted.len()],
    };
    if kind != Some(BodyKind::Json) && limits.admit_graphql(body, wanted) {
        fill_graphql(body, wanted, &mut values);
    }
    for (variable, value) in wanted.iter().zip(&mut values) {
        let is_over = body.len() > limits.limit(variable);
        value.take_if(|value| is_over || value.len() > VALUE_BYTES_MAX);
    }
    values
}

fn each(wanted: &[Variable], value: impl Fn(&Variable) -> Option<Vec<u8>>) -> Vec<Option<Vec<u8>>> {
    wanted.iter().map(value).collect()
}

/// Parses the body as a GraphQL document whatever its type, as APISIX does. Otherwise a client
/// could bypass a route with a condition on the operation by omitting the type.
fn fill_graphql(body: &[u8], wanted: &[Variable], values: &mut [Option<Vec<u8>>]) {
    let operation = std::str::from_utf8(body).ok().and_then(Operation::parse);
    for (variable, value) in wanted.iter().zip(values) {
        if variable.is_graphql() {
            *value = operation.as_ref().and_then(|operation| operation.value(variable));
        }
    }
}

/// Returns the name of the form field that a variable refers to.
fn field_name(variable: &Variable) -> Option<&str> {
    match variable {
        Variable::PostArg(name) | Variable::PostJson(name) => Some(name),
        _ => None,
    }
}

fn look_up_json(body: &[u8], wanted: &[Variable], limits: BodyLimits) -> Vec<Option<Vec<u8>>> {
    let Ok(document) = Document::parse(body) else { return vec![None; wanted.len()] };
    let operation = limits
        .admit_graphql(body, wanted)
        .then(|| Operation::parse(&document.root().member("query")?.text()?))
        .flatten();
    each(wanted, |variable| match variable {
        Variable::PostJson(path) => Path::parse(path).ok()?.find(&document),
        Variable::PostBoolean(path) => Path::parse(path).ok()?.find_boolean(&document),
        other => operation.as_ref()?.value(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &[u8] = b"application/x-www-form-urlencoded";
    const JSON: &[u8] = b"Application/JSON; charset=utf-8";

    fn check(body: &str, content_type: &[u8], name: &str, expected: Option<&str>) {
        let found =
            look_up(body.as_bytes(), content_type, &[Variable::parse(name)], BodyLimits::default());
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
    fn booleans_are_told_from_texts() {
        let document = br#"{"a":true,"b":"true","c":[false]}"#;
        let wanted = ["a", "b", "c[0]", "c[*]", "d"];
        let wanted = wanted.map(|path| Variable::PostBoolean(path.to_owned()));
        let found = look_up(document, JSON, &wanted, BodyLimits::default());
        let texts =
            found.iter().map(|value| value.as_deref().and_then(|it| str::from_utf8(it).ok()));
        let expected = [Some("true"), None, Some("false"), None, None];
        assert_eq!(texts.collect::<Vec<_>>(), expected);
        assert_eq!(look_up(b"a=true", FORM, &wanted[..1], BodyLimits::default()), [None]);
    }

    #[test]
    fn bodies_over_the_limit_of_a_variable_have_no_value_for_it() {
        let limits = BodyLimits { fields: 30, graphql: 20 };
        let wanted = [Variable::parse("post_arg.a"), Variable::parse("graphql_name")];
        let look = |body: &str, kind| {
            let found = look_up(body.as_bytes(), kind, &wanted, limits);
            found.into_iter().map(|value| value.is_some()).collect::<Vec<_>>()
        };
        let document = |length: usize| format!("{:<length$}", r#"{"a":1}"#);
        assert_eq!(look(&document(30), JSON), [true, false]);
        assert_eq!(look(&document(31), JSON), [false, false]);
        let query = |length: usize| format!("{:<length$}", "query q { a }");
        assert_eq!(look(&query(20), b"application/graphql"), [false, true]);
        assert_eq!(look(&query(21), b"application/graphql"), [false, false]);
        let operation = r#"{"query":"query q{a}"}"#;
        let long = BodyLimits { graphql: 22, ..limits };
        for (limits, expected) in [(limits, false), (long, true)] {
            let found = look_up(operation.as_bytes(), JSON, &wanted, limits);
            assert_eq!(found[1].is_some(), expected);
        }
    }

    #[test]
    fn only_bodies_that_may_contain_a_variable_are_read() {
        let limits = BodyLimits { fields: 2, graphql: 1 };
        let longest = |kind, names: &[&str]| {
            let wanted: Vec<_> = names.iter().map(|name| Variable::parse(name)).collect();
            limits.longest(kind, &wanted)
        };
        assert_eq!(longest(FORM, &["post_arg_a", "graphql_name"]), Some(2));
        assert_eq!(longest(b"text/plain", &["post_arg_a", "graphql_name"]), Some(1));
        assert_eq!(longest(b"text/plain", &["post_arg_a"]), None);
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
        let types = [&b"application/graphql"[..], FORM, b"text/plain", b"multipart/form-data", b""];
        let bodies = types.map(|content_type| (query, content_type));
        for (body, content_type) in bodies.into_iter().chain([(&*json, JSON)]) {
            check(body, content_type, "graphql_operation", Some("query"));
            check(body, content_type, "graphql_name", Some("Hero"));
            check(body, content_type, "graphql_root_fields", Some(r#"["hero","friends"]"#));
            check(body, content_type, "graphql_other", None);
        }
        check("{\"query\":5}", JSON, "graphql_name", None);
        check(query, JSON, "graphql_name", None);
        check(&json, FORM, "graphql_name", None);
        check("{}", JSON, "graphql_name", None);
    }
}
