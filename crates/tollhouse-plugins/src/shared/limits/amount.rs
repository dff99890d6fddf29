//! Integer in a conf: either a number, or a text with variables that is resolved for each request.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;
use tollhouse_model::template::Template;
use tollhouse_model::variable::Lookup;

/// Largest amount, as in APISIX: integers up to it have an exact double.
const AMOUNT_MAX: u64 = (1 << 53) - 1;

/// Integer of at least `MIN`, fixed or from variables.
#[derive(Debug, Clone)]
pub enum Amount<const MIN: u64> {
    Fixed(u64),
    /// Template that is rendered for each request.
    Of(Template),
}

/// Error: the rendered text is not an integer in range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoAmount;

impl<const MIN: u64> Amount<MIN> {
    /// Whether a variable reads the request's body.
    pub(crate) fn reads_body(&self) -> bool {
        matches!(self, Amount::Of(template) if template.reads_body())
    }

    /// Returns the amount for this request.
    #[inline]
    pub(crate) fn resolve(&self, request: &dyn Lookup) -> Result<u64, NoAmount> {
        match self {
            Amount::Fixed(number) => Ok(*number),
            Amount::Of(template) => {
                let mut text = Vec::new();
                template.render(request, &mut text);
                number(&text).filter(|number| *number >= MIN).ok_or(NoAmount)
            }
        }
    }
}

/// Parses an integer like Lua's `tonumber`: surrounding blanks, `10.0` and `1e3` are accepted.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().filter(|number| *number <= AMOUNT_MAX);
    }
    if let Some(digits) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).ok().filter(|number| *number <= AMOUNT_MAX);
    }
    if !text.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.') {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0 && number <= AMOUNT_MAX as f64).then_some(number as u64)
}

impl<'de, const MIN: u64> Deserialize<'de> for Amount<MIN> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Amount::Of(Template::parse(&text))),
            value => match value.as_u64().filter(|number| *number >= MIN) {
                Some(number) => Ok(Amount::Fixed(number)),
                None => Err(D::Error::custom("a whole number or a text is needed")),
            },
        }
    }
}

impl<const MIN: u64> JsonSchema for Amount<MIN> {
    fn schema_name() -> Cow<'static, str> {
        format!("Amount{MIN}").into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        match MIN {
            0 => json_schema!({"oneOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}),
            _ => json_schema!({
                "oneOf": [{"type": "integer", "exclusiveMinimum": MIN - 1}, {"type": "string"}]
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::FakeExchange;

    use super::*;

    #[test]
    fn amounts_resolve_to_whole_numbers_within_bounds() {
        let request = FakeExchange::parse("GET / HTTP/1.1\nX-A: 7\nX-B: many\nX-C: 0\n\n", 0);
        for (conf, expected) in [
            (json!(3), Ok(3)),
            (json!("3"), Ok(3)),
            (json!(" 3 "), Ok(3)),
            (json!("1e3"), Ok(1000)),
            (json!("10.0"), Ok(10)),
            (json!("0x10"), Ok(16)),
            (json!("1.5"), Err(NoAmount)),
            (json!("-1"), Err(NoAmount)),
            (json!("inf"), Err(NoAmount)),
            (json!(""), Err(NoAmount)),
            (json!("9007199254740991"), Ok(9_007_199_254_740_991)),
            (json!("9007199254740992"), Err(NoAmount)),
            (json!("$http_x_a"), Ok(7)),
            (json!("${http_x_a}0"), Ok(70)),
            (json!("$http_x_b"), Err(NoAmount)),
            (json!("$http_x_c"), Err(NoAmount)),
            (json!("$http_x_d"), Err(NoAmount)),
            (json!("${http_x_d ?? 10}"), Ok(10)),
        ] {
            let amount: Amount<1> = serde_json::from_value(conf.clone()).unwrap();
            assert_eq!(amount.resolve(&request), expected, "{conf}");
        }
        let amount: Amount<0> = serde_json::from_value(json!("$http_x_c")).unwrap();
        assert_eq!(amount.resolve(&request), Ok(0));
        assert!(serde_json::from_value::<Amount<1>>(json!(0)).is_err());
    }
}
