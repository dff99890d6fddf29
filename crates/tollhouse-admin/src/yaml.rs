//! YAML of documents to JSON values and back; the only file that knows which library does it.

use serde_json::Value;

/// Most parts of a document: as many as fit in the largest body that is read.
const EVENTS_MAX: usize = 16_000_000;

/// Deepest nesting, inside of the 128 levels that JSON text may have.
const DEPTH_MAX: usize = 100;

/// Most anchors and aliases, and most parts that these may add: ends documents that grow by
/// repeating what repeats.
const ALIASES_MAX: usize = 10_000;
const ALIASED_EVENTS_MAX: usize = 1_000_000;

/// Reads one document.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: EVENTS_MAX,
            max_nodes: EVENTS_MAX,
            max_aliases: ALIASES_MAX,
            max_anchors: ALIASES_MAX,
            max_depth: DEPTH_MAX,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIASED_EVENTS_MAX,
        },
        strict_booleans: true,
        emit_comments: false,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}

/// Writes one document.
pub(crate) fn write(value: &Value) -> Result<String, String> {
    serde_saphyr::to_string(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let value = json!({
            "routes": [{"id": "1", "uri": "/*", "desc": "yes: #no", "priority": -1, "on": true}],
            "empty": {}, "none": [], "number": "007", "float": 1.5,
        });
        let text = write(&value).expect("it can be written");
        assert_eq!(parse(&text), Ok(value), "{text}");
        assert!(parse("a: [").is_err());
    }
}
