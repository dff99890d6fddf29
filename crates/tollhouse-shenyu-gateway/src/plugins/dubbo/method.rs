//! Dubbo methods and their arguments from request bodies.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use tollhouse_shenyu::lenient;
use tollhouse_shenyu::model::Metadata;
use tollhouse_shenyu::weight::is_light;

use crate::handle::{self, HandleError};
use crate::shared::rpc::name;

/// Default timeout of a call in milliseconds.
const DEFAULT_TIMEOUT_MS: i64 = 3000;

/// Maximum timeout in milliseconds that a rule or metadata may set: one hour.
const TIMEOUT_MS_MAX: i64 = 3_600_000;

/// Maximum number of retries that a rule or metadata may set.
const RETRIES_MAX: i64 = 100;

/// Maximum number of parameters of a method, as in Java.
const PARAMETERS_MAX: usize = 255;

/// Settings of a rule of the plugin `dubbo`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DubboRule {
    /// Timeout of a call; `None` leaves it to the method's metadata.
    pub timeout: Option<Duration>,
    /// Number of retries after the first attempt.
    pub retries: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Limits {
    #[serde(deserialize_with = "lenient::integer")]
    timeout: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    retries: Option<i64>,
}

impl Limits {
    fn timeout(&self) -> Option<Duration> {
        let within = self.timeout.filter(|ms| (1..=TIMEOUT_MS_MAX).contains(ms))?;
        within.try_into().ok().map(Duration::from_millis)
    }

    fn retries(&self) -> Option<u32> {
        self.retries.filter(|count| (0..=RETRIES_MAX).contains(count))?.try_into().ok()
    }
}

impl DubboRule {
    /// Reads a rule's handle.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let limits: Limits = handle::read(handle)?;
        Ok(Self { timeout: limits.timeout(), retries: limits.retries() })
    }
}

/// Dubbo method that can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DubboMethod {
    pub service: String,
    pub method: String,
    /// Version of the service; empty for none.
    pub version: String,
    /// Group of the service; empty for none.
    pub group: String,
    /// Host and port of the only provider, if the metadata name one.
    pub address: Option<String>,
    pub timeout: Duration,
    /// Number of retries after the first attempt.
    pub retries: u32,
    parameters: Parameters,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Parameters {
    /// Parameter types without names: the members of the body are the arguments, in order.
    Types(Vec<String>),
    Named(Vec<(String, String)>),
}

/// Arguments of a call.
#[derive(Debug, Default, PartialEq)]
pub struct Arguments {
    /// Types of the parameters.
    pub types: Vec<String>,
    /// Value of each parameter, in the order of `types`.
    pub values: Vec<Value>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Extension {
    #[serde(flatten)]
    limits: Limits,
    #[serde(deserialize_with = "lenient::or_default")]
    group: String,
    #[serde(deserialize_with = "lenient::or_default")]
    version: String,
    #[serde(deserialize_with = "lenient::or_default")]
    url: String,
}

impl DubboMethod {
    /// Reads a method from its metadata and a rule; `None` if the metadata are invalid.
    pub fn read(metadata: &Metadata, rule: DubboRule) -> Option<Self> {
        let service = name(metadata.service_name.as_deref())?;
        let method = name(metadata.method_name.as_deref())?;
        let extension: Extension = handle::read(metadata.rpc_ext.as_deref()).ok()?;
        let default = Duration::from_millis(DEFAULT_TIMEOUT_MS.try_into().ok()?);
        Some(Self {
            service: service.to_owned(),
            method: method.to_owned(),
            version: extension.version.trim().to_owned(),
            group: extension.group.trim().to_owned(),
            address: address(&extension.url),
            // Metadata of the method take precedence over a rule, which applies to many methods.
            timeout: extension.limits.timeout().or(rule.timeout).unwrap_or(default),
            retries: extension.limits.retries().or(rule.retries).unwrap_or(0),
            parameters: Parameters::read(metadata.parameter_types.as_deref().unwrap_or_default())?,
        })
    }

    pub fn has_parameters(&self) -> bool {
        match &self.parameters {
            Parameters::Types(types) => !types.is_empty(),
            Parameters::Named(named) => !named.is_empty(),
        }
    }

    /// Converts a request body to arguments. The body is the argument of a method with a single
    /// object parameter. Otherwise its members are the arguments, by name or in order. Returns
    /// `None` if the body does not fit.
    pub fn arguments(&self, body: &[u8]) -> Option<Arguments> {
        let types: Vec<String> = match &self.parameters {
            Parameters::Types(types) => types.clone(),
            Parameters::Named(named) => {
                named.iter().map(|(_, type_name)| type_name.clone()).collect()
            }
        };
        if types.is_empty() {
            return Some(Arguments { types, values: Vec::new() });
        }
        if !is_light(body) {
            return None;
        }
        if let [only] = types.as_slice()
            && !is_plain(only)
        {
            let value = serde_json::from_slice(body).ok()?;
            return Some(Arguments { types, values: vec![value] });
        }
        let Members(mut members) = serde_json::from_slice(body).ok()?;
        let values = match &self.parameters {
            Parameters::Types(_) => (members.len() == types.len())
                .then(|| members.into_iter().map(|(_, value)| value))?
                .collect(),
            Parameters::Named(named) => {
                let mut take = |name: &str| {
                    let at = members.iter().position(|(known, _)| known == name)?;
                    Some(members.swap_remove(at).1)
                };
                // A missing argument is `null`, as in Java.
                named.iter().map(|(name, _)| take(name).unwrap_or_default()).collect()
            }
        };
        Some(Arguments { types, values })
    }
}

impl Parameters {
    /// Parses a list of types (`java.lang.String,int`), or names with types (`{"name":
    /// "java.lang.String"}`).
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.starts_with('{') {
            let Members(members) = serde_json::from_str(text).ok()?;
            let named = members
                .into_iter()
                .map(|(name, type_name)| Some((name, type_name.as_str()?.trim().to_owned())));
            let named: Vec<_> = named.collect::<Option<_>>()?;
            return (named.len() <= PARAMETERS_MAX).then_some(Self::Named(named));
        }
        let types =
            text.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "null");
        let types: Vec<_> = types.map(str::to_owned).collect();
        (types.len() <= PARAMETERS_MAX).then_some(Self::Types(types))
    }
}

/// Whether a type is a primitive or simple value, so that a body must wrap it in a named member.
fn is_plain(type_name: &str) -> bool {
    let is_primitive = matches!(
        type_name,
        "int" | "long" | "short" | "byte" | "boolean" | "char" | "float" | "double"
    );
    let is_value = type_name.starts_with("java.lang.") || type_name.starts_with("java.math.");
    is_primitive || is_value || matches!(type_name, "java.util.Date" | "java.util.UUID")
}

/// Returns the address in a URL such as `dubbo://10.0.0.1:20880/…`.
fn address(url: &str) -> Option<String> {
    let rest = url.trim();
    let rest = rest.split_once("://").map_or(rest, |(_, rest)| rest);
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, port) = rest[..end].rsplit_once(':')?;
    let is_good = !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_good.then(|| rest[..end].to_owned())
}

/// Members of an object in order, which is the order of parameters.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn method(types: &str, extension: &str) -> Option<DubboMethod> {
        let metadata = Metadata {
            service_name: Some("shop.Orders".to_owned()),
            method_name: Some("find".to_owned()),
            parameter_types: Some(types.to_owned()),
            rpc_ext: Some(extension.to_owned()),
            ..Metadata::default()
        };
        DubboMethod::read(&metadata, DubboRule { timeout: None, retries: Some(2) })
    }

    #[test]
    fn metadata_count_before_rules() {
        let plain = method("", "").expect("it is a method");
        assert_eq!(
            (plain.timeout, plain.retries, plain.address),
            (Duration::from_secs(3), 2, None)
        );
        let text = r#"{"group":"g","version":"1.0","retries":"1","timeout":100,"url":"dubbo://10.0.0.1:20880/a?b=c"}"#;
        let said = method("int", text).expect("it is a method");
        assert_eq!((said.timeout, said.retries), (Duration::from_millis(100), 1));
        assert_eq!((&*said.group, &*said.version), ("g", "1.0"));
        assert_eq!(said.address.as_deref(), Some("10.0.0.1:20880"));
        assert_eq!(method("", "no JSON"), None);
    }

    #[test]
    fn bodies_are_arguments() {
        let cases = [
            ("", "", Some(json!([]))),
            ("java.lang.String,int", r#"{"b":"x","a":1}"#, Some(json!(["x", 1]))),
            ("java.lang.String,int", r#"{"b":"x"}"#, None),
            (r#"{"a":"int","b":"java.lang.String"}"#, r#"{"b":"x","a":1}"#, Some(json!([1, "x"]))),
            (r#"{"a":"int","b":"java.lang.String"}"#, r#"{"b":"x"}"#, Some(json!([null, "x"]))),
            ("java.lang.String", r#"{"id":"7"}"#, Some(json!(["7"]))),
            ("shop.Order", r#"{"id":"7"}"#, Some(json!([{"id": "7"}]))),
            ("java.util.List", r#"[1,2]"#, Some(json!([[1, 2]]))),
            ("shop.Order,int", r#"{"order":{"id":1},"n":2}"#, Some(json!([{"id": 1}, 2]))),
            ("int,int", "[1,2]", None),
            ("int,int", "{", None),
        ];
        for (types, body, expected) in cases {
            let method = method(types, "").expect("it is a method");
            let values = method.arguments(body.as_bytes()).map(|it| Value::from(it.values));
            assert_eq!(values, expected, "{types} {body}");
        }
    }
}
