//! Methods of Dubbo, and the arguments that a body says.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::name;
use crate::divide::HandleError;
use crate::model::Metadata;
use crate::weight::is_light;
use crate::{handle, lenient};

/// A call that nothing else is said of.
const DEFAULT_TIMEOUT_MS: i64 = 3000;

/// Milliseconds that a rule or metadata may ask for, at most: an hour.
const TIMEOUT_MS_MAX: i64 = 3_600_000;

/// Attempts beyond the first that a rule or metadata may ask for, at most.
const RETRIES_MAX: i64 = 100;

/// Parameters of a method: what Java allows.
const PARAMETERS_MAX: usize = 255;

/// What a rule says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DubboRule {
    /// How long a call may take; `None` where the method's metadata decide.
    pub timeout: Option<Duration>,
    /// Attempts beyond the first.
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
    ///
    /// # Errors
    /// When it is no JSON object of this shape.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let limits: Limits = handle::read(handle)?;
        Ok(Self { timeout: limits.timeout(), retries: limits.retries() })
    }
}

/// A method that can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DubboMethod {
    /// The interface.
    pub service: String,
    /// The method.
    pub method: String,
    /// The version of the service; blank for none.
    pub version: String,
    /// Its group; blank for none.
    pub group: String,
    /// Host and port of the one server that provides it, where metadata name it.
    pub address: Option<String>,
    /// How long a call may take.
    pub timeout: Duration,
    /// Attempts beyond the first.
    pub retries: u32,
    parameters: Parameters,
}

/// What is called with.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Parameters {
    /// Types alone: the members of a body are values in their order.
    Types(Vec<String>),
    /// Names and types.
    Named(Vec<(String, String)>),
}

/// Types, and as many values.
pub type Arguments = (Vec<String>, Vec<Value>);

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
    /// From what is registered of it, and what a rule says before that; `None` where that says no method.
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
            // What is said of the method counts before what is said of many.
            timeout: extension.limits.timeout().or(rule.timeout).unwrap_or(default),
            retries: extension.limits.retries().or(rule.retries).unwrap_or(0),
            parameters: Parameters::read(metadata.parameter_types.as_deref().unwrap_or_default())?,
        })
    }

    /// Whether it is called with anything.
    pub fn has_parameters(&self) -> bool {
        match &self.parameters {
            Parameters::Types(types) => !types.is_empty(),
            Parameters::Named(named) => !named.is_empty(),
        }
    }

    /// What a body says that it is called with: of one object the whole body, else the body's members by
    /// name or in their order. `None` where the body does not fit.
    pub fn arguments(&self, body: &[u8]) -> Option<Arguments> {
        let types: Vec<String> = match &self.parameters {
            Parameters::Types(types) => types.clone(),
            Parameters::Named(named) => {
                named.iter().map(|(_, type_name)| type_name.clone()).collect()
            }
        };
        if types.is_empty() {
            return Some((types, Vec::new()));
        }
        if !is_light(body) {
            return None;
        }
        if let [only] = types.as_slice()
            && !is_plain(only)
        {
            let value = serde_json::from_slice(body).ok()?;
            return Some((types, vec![value]));
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
                // One that is left out is none, as for Java.
                named.iter().map(|(name, _)| take(name).unwrap_or_default()).collect()
            }
        };
        Some((types, values))
    }
}

impl Parameters {
    /// `java.lang.String,int`, or `{"name": "java.lang.String"}`.
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

/// Whether values of a type stand for themselves, so that a body must give them a name.
fn is_plain(type_name: &str) -> bool {
    let is_primitive = matches!(
        type_name,
        "int" | "long" | "short" | "byte" | "boolean" | "char" | "float" | "double"
    );
    let is_value = type_name.starts_with("java.lang.") || type_name.starts_with("java.math.");
    is_primitive || is_value || matches!(type_name, "java.util.Date" | "java.util.UUID")
}

/// Of `dubbo://10.0.0.1:20880/…` the address.
fn address(url: &str) -> Option<String> {
    let rest = url.trim();
    let rest = rest.split_once("://").map_or(rest, |(_, rest)| rest);
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, port) = rest[..end].rsplit_once(':')?;
    let is_good = !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_good.then(|| rest[..end].to_owned())
}

/// An object's members in their order, which is that of parameters.
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
            let values = method.arguments(body.as_bytes()).map(|(_, values)| Value::from(values));
            assert_eq!(values, expected, "{types} {body}");
        }
    }
}
