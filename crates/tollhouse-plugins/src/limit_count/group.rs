//! Confs that count together must say the same.

use std::sync::Arc;

use serde_json::Value;
use tollhouse_plugin::Scope;

/// What all confs of a group say; known for as long as one of them is in use.
#[derive(Debug)]
pub(super) struct Group {
    conf: Value,
}

impl Group {
    /// Joins a group, or begins it.
    ///
    /// # Errors
    /// Its members say something else.
    pub(super) fn join(name: &str, scope: &Scope<'_>) -> Result<Arc<Self>, String> {
        let conf = own_fields(scope.conf);
        let group = scope.keep(&format!("limit-count group {name}"), || Self { conf: conf.clone() });
        if group.conf != conf {
            return Err("group conf mismatched".into());
        }
        Ok(group)
    }
}

/// Without what is said about the plugin rather than to it.
fn own_fields(conf: &Value) -> Value {
    let mut conf = conf.clone();
    if let Some(fields) = conf.as_object_mut() {
        fields.shift_remove("_meta");
    }
    conf
}
