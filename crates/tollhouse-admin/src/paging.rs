//! Filters and pages of lists.

use fancy_regex::{Regex, RegexBuilder};
use hyper::StatusCode;

use crate::arguments::Arguments;
use crate::index::facts::Facts;
use crate::references::ReferenceKind;
use crate::reply::Reply;
use crate::resource::Resource;

/// Page sizes that APISIX accepts.
const PAGE_SIZES: std::ops::RangeInclusive<f64> = 10.0..=500.0;

/// Maximum length of a pattern in bytes, and maximum number of backtracking steps of a match, so
/// that a list cannot occupy a CPU core.
const PATTERN_BYTES_MAX: usize = 1024;
const BACKTRACKS_MAX: usize = 10_000;

/// Resources whose lists can be filtered by reference.
const REFERRING: [&str; 2] = ["routes", "stream_routes"];

/// Part of a list that the answer contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slice {
    /// All objects, sorted by store key.
    All,
    /// Page of the list, in order of creation.
    Page {
        /// Number of objects before the page.
        skip: usize,
        /// Number of objects on the page.
        take: usize,
    },
}

impl Slice {
    /// Parses `page` and `page_size`; both are needed for a page.
    pub(crate) fn parse(arguments: &Arguments) -> Result<Self, Reply> {
        let number = |name: &str| arguments.get(name)?.trim().parse::<f64>().ok();
        let (Some(page), Some(size)) = (number("page"), number("page_size")) else {
            return Ok(Self::All);
        };
        if !PAGE_SIZES.contains(&size) {
            let text = "page_size must be between 10 and 500";
            return Err(Reply::text(StatusCode::BAD_REQUEST, text));
        }
        // Pages count from 1; smaller numbers mean the first page.
        let (page, take) = (page.max(1.0) as usize, size as usize);
        Ok(Self::Page { skip: (page - 1).saturating_mul(take), take })
    }
}

/// Filters of a list; an object must pass all.
#[derive(Debug, Default)]
pub(crate) struct Filters {
    name: Option<Regex>,
    uri: Option<Regex>,
    label: Option<String>,
    /// Paths of objects that a listed object must refer to.
    references: Vec<String>,
}

impl Filters {
    /// Parses `name`, `uri`, `label` and `filter`. An empty value is a filter too: an empty pattern
    /// matches every name, and an empty label matches none.
    pub(crate) fn parse(arguments: &Arguments, resource: &Resource) -> Result<Self, Reply> {
        let pattern = |name: &str| arguments.get(name).map(compile).transpose();
        let refers = REFERRING.contains(&resource.name);
        let filter = arguments.get("filter").filter(|_| refers).unwrap_or_default();
        let filter = Arguments::parse(filter);
        let wanted = [("service_id", "services"), ("upstream_id", "upstreams")];
        let references = wanted.into_iter().filter_map(|(field, collection)| {
            filter.get(field).map(|id| format!("{collection}/{id}"))
        });
        Ok(Self {
            name: pattern("name")?,
            uri: pattern("uri")?,
            label: arguments.get("label").map(str::to_owned),
            references: references.collect(),
        })
    }

    pub(crate) fn are_any(&self) -> bool {
        self.name.is_some()
            || self.uri.is_some()
            || self.label.is_some()
            || !self.references.is_empty()
    }

    /// Whether an object passes all filters.
    pub(crate) fn admit(&self, facts: &Facts) -> bool {
        let listed = &facts.list_fields;
        let by_name = |regex: &Regex| listed.name.iter().any(|name| finds(regex, name));
        let by_uri = |regex: &Regex| listed.uris.iter().any(|uri| finds(regex, uri));
        let by_label = |label: &String| listed.labels.iter().any(|own| **own == **label);
        let by_reference = |path: &String| {
            let mut named = facts.references.iter();
            named.any(|(target, place)| **target == **path && *place == ReferenceKind::Field)
        };
        self.name.as_ref().is_none_or(by_name)
            && self.uri.as_ref().is_none_or(by_uri)
            && self.label.as_ref().is_none_or(by_label)
            && self.references.iter().all(by_reference)
    }
}

/// Whether the pattern matches. A match that exceeds the backtracking limit counts as none.
fn finds(regex: &Regex, text: &str) -> bool {
    regex.is_match(text).unwrap_or(false)
}

pub(crate) fn compile(pattern: &str) -> Result<Regex, Reply> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(Reply::bad(format!("pattern is longer than {PATTERN_BYTES_MAX} bytes")));
    }
    let built = RegexBuilder::new(pattern).backtrack_limit(BACKTRACKS_MAX).build();
    // An invalid pattern is searched for as literal text.
    built
        .or_else(|_| Regex::new(&fancy_regex::escape(pattern)))
        .map_err(|error| Reply::bad(format!("invalid pattern: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_model::encryption::Keyring;
    use tollhouse_plugin::Catalogue;

    use super::*;
    use crate::resource;

    #[test]
    fn both_arguments_make_a_page() {
        let table = [
            ("", Some(Slice::All)),
            ("page=1", Some(Slice::All)),
            ("page_size=9", Some(Slice::All)),
            ("page=a&page_size=10", Some(Slice::All)),
            ("page=1&page_size=10", Some(Slice::Page { skip: 0, take: 10 })),
            ("page=3&page_size=500", Some(Slice::Page { skip: 1000, take: 500 })),
            ("page=0&page_size=10", Some(Slice::Page { skip: 0, take: 10 })),
            ("page=1&page_size=9", None),
            ("page=1&page_size=501", None),
        ];
        for (query, expected) in table {
            assert_eq!(Slice::parse(&Arguments::parse(query)).ok(), expected, "{query}");
        }
    }

    #[test]
    fn all_filters_must_pass() {
        let value = json!({
            "name": "my-route", "uri": "/a/b", "labels": {"env": "x"}, "service_id": 1,
        });
        let listed = json!({"uris": ["/x", "/a/b"]});
        let table = [
            (&value, "", true),
            (&value, "name=^my", true),
            (&value, "name=route", true),
            (&value, "name=^route", false),
            (&value, "name=%28", false),
            (&listed, "name=a", false),
            (&value, "uri=/a", true),
            (&listed, "uri=%2Fb%24", true),
            (&listed, "uri=/c", false),
            (&value, "label=env", true),
            (&value, "label=other", false),
            (&value, "filter=service_id%3D1", true),
            (&value, "filter=service_id%3D2", false),
            (&value, "filter=service_id%3D1%26upstream_id%3D1", false),
            (&value, "filter=name%3Dx", true),
            (&value, "name=&uri=&filter=", true),
            (&listed, "name=", false),
            (&value, "label=", false),
            (&value, "label", false),
            (&value, "name=my&label=env&uri=/a", true),
            (&value, "name=my&label=env&uri=/z", false),
            (&value, "name=(?=my)my", true),
        ];
        let keyring = Keyring::generate().expect("there are random numbers");
        let routes = resource::find("routes").expect("there are routes");
        for (value, query, expected) in table {
            let filters = Filters::parse(&Arguments::parse(query), routes).expect("it is short");
            let text = value.to_string();
            let facts = Facts::inspect("routes/1", text.as_bytes(), &Catalogue::empty(), &keyring);
            assert_eq!(filters.admit(&facts), expected, "{query}");
        }
        let services = resource::find("services").expect("there are services");
        let arguments = Arguments::parse("filter=service_id%3D2");
        let filters = Filters::parse(&arguments, services).expect("it is short");
        assert!(!filters.are_any(), "only what names others is filtered by it");
    }
}
