//! Plugin `request`: changes headers, parameters and cookies of requests.

use tollhouse_plugin::RequestContext;
use tollhouse_plugin::response::ResponseContext;
use tollhouse_shenyu::answer::Statuses;

use crate::plugin::prelude::*;
use crate::query;
use crate::shared::edits::{Edits, Unique, replace_header, texts, values_named};
use crate::turn::Turn;

/// Rule of `request`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestRule {
    /// Changes of headers.
    pub headers: Edits,
    /// Changes of query parameters.
    pub parameters: Edits,
    /// Changes of cookies.
    pub cookies: Edits,
    /// Whether the client's `Host` is sent to nodes.
    pub preserve_host: bool,
    /// Request headers that are reduced to fewer lines, and the choice among their lines.
    pub unique_request: Option<(Vec<String>, Unique)>,
    /// Response headers that are reduced to fewer lines, and the choice among their lines.
    pub unique_answer: Option<(Vec<String>, Unique)>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RequestHandle {
    #[serde(deserialize_with = "lenient::or_default")]
    header: HeaderEdits,
    #[serde(deserialize_with = "lenient::or_default")]
    parameter: ParameterEdits,
    #[serde(deserialize_with = "lenient::or_default")]
    cookie: CookieEdits,
    #[serde(deserialize_with = "lenient::or_false")]
    preserve_host: bool,
    #[serde(deserialize_with = "lenient::or_default")]
    request_unique_headers: String,
    #[serde(deserialize_with = "lenient::or_default")]
    request_header_unique_strategy: String,
    #[serde(deserialize_with = "lenient::or_default")]
    resp_unique_headers: String,
    #[serde(deserialize_with = "lenient::or_default")]
    resp_header_unique_strategy: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HeaderEdits {
    #[serde(deserialize_with = "texts")]
    add_headers: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    set_headers: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    replace_header_keys: Vec<(String, String)>,
    #[serde(deserialize_with = "lenient::or_default")]
    remove_header_keys: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ParameterEdits {
    #[serde(deserialize_with = "texts")]
    add_parameters: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    set_parameters: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    replace_parameter_keys: Vec<(String, String)>,
    #[serde(deserialize_with = "lenient::or_default")]
    remove_parameter_keys: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CookieEdits {
    #[serde(deserialize_with = "texts")]
    add_cookies: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    set_cookies: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    replace_cookie_keys: Vec<(String, String)>,
    #[serde(deserialize_with = "lenient::or_default")]
    remove_cookie_keys: Vec<String>,
}

impl RequestRule {
    /// Reads a rule's handle.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: RequestHandle = handle::read(handle)?;
        let RequestHandle { header, parameter, cookie, preserve_host, .. } = handle;
        let unique = |names: &str, strategy: &str| {
            let list = names.split(';').map(str::trim).filter(|name| !name.is_empty());
            let list: Vec<String> = list.map(str::to_owned).collect();
            (!list.is_empty()).then_some(list).zip(Unique::read(strategy))
        };
        Ok(Self {
            headers: Edits {
                add: header.add_headers,
                set: header.set_headers,
                rename: header.replace_header_keys,
                remove: header.remove_header_keys,
            },
            parameters: Edits {
                add: parameter.add_parameters,
                set: parameter.set_parameters,
                rename: parameter.replace_parameter_keys,
                remove: parameter.remove_parameter_keys,
            },
            cookies: Edits {
                add: cookie.add_cookies,
                set: cookie.set_cookies,
                rename: cookie.replace_cookie_keys,
                remove: cookie.remove_cookie_keys,
            },
            preserve_host,
            unique_request: unique(
                &handle.request_unique_headers,
                &handle.request_header_unique_strategy,
            ),
            unique_answer: unique(&handle.resp_unique_headers, &handle.resp_header_unique_strategy),
        })
    }

    /// Whether the rule has changes. If so, ShenYu encodes the query anew, even if no change
    /// concerns the query.
    fn changes_anything(&self) -> bool {
        !(self.headers.is_empty() && self.parameters.is_empty() && self.cookies.is_empty())
    }
}

impl ShenyuPlugin for RequestRule {
    const ROW: Row = Row::harmless("request", 120).with(Seed::new("20", "HttpProcess"));
    const EFFECT: Effect = Effect::Edits;

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(Self::read(place.handle())?.into())
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(Self::read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        let cx = &mut *run.cx;
        edit_headers(&self.headers, cx);
        if !self.cookies.is_empty() {
            edit_cookies(&self.cookies, cx);
        }
        if self.changes_anything() {
            edit_parameters(&self.parameters, run.turn);
        }
        if self.preserve_host {
            let host = cx.exchange().client_header(b"host").map(<[u8]>::to_vec);
            cx.edits().host = host;
        }
        if self.unique_answer.is_some() {
            let edit: Arc<Self> = Arc::clone(self);
            run.turn.aftermath.answer_edits.push(edit);
        }
        for name in self.unique_request.iter().flat_map(|(names, _)| names) {
            let values = cx.headers_named(name);
            if let Some((_, unique)) = &self.unique_request
                // A single value is left alone, because re-adding it would change its position.
                && values.len() > 1
            {
                cx.remove_header(name);
                for value in unique.choose(values) {
                    cx.edits().headers.add(name, &value);
                }
            }
        }
        Verdict::Next
    }
}

impl ResponseEdit for RequestRule {
    fn edit(self: Arc<Self>, _: Statuses, cx: &mut ResponseContext<'_>) {
        let Some((names, unique)) = &self.unique_answer else { return };
        for name in names {
            let values = values_named(cx, name);
            if values.len() > 1 {
                replace_header(cx, name, unique.choose(values));
            }
        }
    }
}

fn edit_headers(edits: &Edits, cx: &mut RequestContext<'_>) {
    for (name, value) in &edits.add {
        cx.edits().headers.add(name, value.as_bytes());
    }
    for (name, value) in &edits.set {
        cx.set_header(name, value.as_bytes());
    }
    for (old, new) in &edits.rename {
        let values = cx.headers_named(old);
        if values.is_empty() {
            continue;
        }
        cx.remove_header(old);
        cx.remove_header(new);
        for value in values {
            cx.edits().headers.add(new, &value);
        }
    }
    for name in &edits.remove {
        cx.remove_header(name);
    }
}

fn edit_cookies(edits: &Edits, cx: &mut RequestContext<'_>) {
    let lines = cx.headers_named("cookie");
    let text: Vec<_> = lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
    let pairs = text.iter().flat_map(|line| line.split(';')).map(str::trim);
    let mut cookies: Vec<(String, String)> = pairs
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    edits.apply(&mut cookies, |one, other| one == other);
    if cookies.is_empty() {
        return cx.remove_header("cookie");
    }
    let cookies: Vec<String> =
        cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    cx.set_header("cookie", cookies.join("; ").as_bytes());
}

fn edit_parameters(edits: &Edits, turn: &mut Turn) {
    let mut parameters = turn.query().map(query::parameters).unwrap_or_default();
    edits.apply(&mut parameters, |one, other| one == other);
    if turn.query().is_some() || !parameters.is_empty() {
        turn.set_query(query::encode(&parameters));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_added_set_renamed_and_removed_in_this_order() {
        let handle = json!({"header": {
            "addHeaders": {"a": "2"}, "setHeaders": {"b": "set", "new": 7},
            "replaceHeaderKeys": {"c": "d"}, "removeHeaderKeys": ["e"],
        }});
        let rule = RequestRule::read(Some(&handle.to_string())).expect("it is one");
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut values: Vec<_> =
            [("a", "1"), ("b", "1"), ("b", "2"), ("c", "1"), ("e", "1")].iter().map(pair).collect();
        rule.headers.apply(&mut values, str::eq_ignore_ascii_case);
        let expected: Vec<_> = [("a", "1"), ("b", "set"), ("a", "2"), ("new", "7"), ("d", "1")]
            .iter()
            .map(pair)
            .collect();
        assert_eq!(values, expected);
    }

    #[test]
    fn a_blank_handle_changes_nothing() {
        for handle in [None, Some(""), Some("{}"), Some(r#"{"header":null,"cookie":{}}"#)] {
            assert_eq!(RequestRule::read(handle), Ok(RequestRule::default()));
        }
        for handle in [r#"{"header":7}"#, "[]", "x"] {
            assert!(RequestRule::read(Some(handle)).is_err(), "{handle}");
        }
    }
}
