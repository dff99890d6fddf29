//! Conversion between YAML documents and JSON values.

use serde_json::Value;
use tollhouse_stdx::yaml::{self, Bounds};

/// Limits of a YAML document: `parts_max` is the number of parts that the largest accepted body can
/// have, and `depth_max` is below the 128 levels of the JSON parser.
const BOUNDS: Bounds = Bounds {
    parts_max: 16_000_000,
    depth_max: 100,
    aliases_max: 10_000,
    aliased_parts_max: 1_000_000,
};

pub(crate) fn parse(text: &str) -> Result<Value, String> {
    yaml::parse(text, BOUNDS).map_err(|error| error.to_string())
}

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
