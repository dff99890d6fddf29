//! Identity of a conf in state that several processes share, such as keys in Redis.

use serde_json::Value;
use tollhouse_plugin::Scope;

/// Returns an identity such as `routes/1:0123456789abcdef`: the owner of a conf, and a digest of
/// the conf. The identity is equal in every process and for any order of fields. Other fields of
/// the object do not matter.
pub(crate) fn identity(scope: &Scope<'_>) -> String {
    let mut digest = Digest::default();
    digest.value(scope.conf);
    format!("{}:{:016x}", scope.owner, digest.0)
}

/// FNV-1a, 64 bits. A collision-resistant hash is not needed, because an object has few confs and
/// an operator gains nothing from a collision.
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by_key(|(name, _)| *name);
                self.bytes(b"{");
                for (name, value) in fields {
                    self.bytes(name.as_bytes());
                    self.bytes(b":");
                    self.value(value);
                }
                self.bytes(b"}");
            }
            Value::Array(items) => {
                self.bytes(b"[");
                items.iter().for_each(|item| self.value(item));
                self.bytes(b"]");
            }
            other => {
                self.bytes(other.to_string().as_bytes());
                self.bytes(b",");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tollhouse_plugin::{Catalogue, Services};

    use super::*;

    #[test]
    fn a_conf_is_told_by_its_place_and_content_alone() {
        let services = Arc::new(Services::new("test"));
        let catalogue = Catalogue::empty();
        let of = |owner, conf: &Value| {
            let (catalogue, services) = (&catalogue, &services);
            identity(&Scope { owner, conf, metadata: None, protos: None, catalogue, services })
        };
        let first = of("routes/1", &json!({"a": 1, "b": [1, 2]}));
        assert_eq!(first, of("routes/1", &json!({"b": [1, 2], "a": 1})));
        assert!(first.starts_with("routes/1:"));
        assert_ne!(first, of("routes/1", &json!({"a": 1, "b": [12]})));
        assert_ne!(first, of("routes/2", &json!({"a": 1, "b": [1, 2]})));
    }
}
