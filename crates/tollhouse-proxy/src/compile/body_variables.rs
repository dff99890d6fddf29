//! Variables of the configuration that read request bodies. A body is parsed once, for all
//! variables that may be needed.
//!
//! The variables are collected from every text of the objects: route conditions, plugin filters and
//! plugin configurations. A text that only looks like a variable costs an unused look-up.

use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;
use tollhouse_model::template::Template;
use tollhouse_model::variable::Variable;

use super::ObjectKey;

/// Body variables, by the object that names them.
#[derive(Debug, Default)]
pub(super) struct BodyVariables {
    objects: HashMap<ObjectKey, Vec<Variable>>,
    /// All variables without duplicates; `None` after a change until they are collected again.
    all: Option<Arc<[Variable]>>,
}

impl BodyVariables {
    /// Records the variables that an object names. A variable that is not recorded, such as one of
    /// an older version that is still in service, is looked up separately when it is needed.
    pub(super) fn note(&mut self, key: &ObjectKey, object: &Value) {
        let mut variables = self.objects.remove(key).unwrap_or_default();
        let had_any = !variables.is_empty();
        variables.clear();
        collect(object, &mut variables);
        if had_any || !variables.is_empty() {
            self.all = None;
        }
        if !variables.is_empty() {
            self.objects.insert(key.clone(), variables);
        }
    }

    pub(super) fn forget(&mut self, key: &ObjectKey) {
        if self.objects.remove(key).is_some() {
            self.all = None;
        }
    }

    /// Returns the variables of the request body that any object reads, without duplicates.
    pub(super) fn all(&mut self) -> Arc<[Variable]> {
        let all = self.all.get_or_insert_with(|| {
            let mut all: Vec<Variable> = Vec::new();
            for variable in self.objects.values().flatten() {
                if !all.contains(variable) {
                    all.push(variable.clone());
                }
            }
            all.into()
        });
        Arc::clone(all)
    }
}

fn collect(value: &Value, variables: &mut Vec<Variable>) {
    match value {
        Value::String(text) => collect_text(text, variables),
        Value::Array(items) => items.iter().for_each(|item| collect(item, variables)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, variables)),
        _ => {}
    }
}

/// Collects the variables of a text, which may be a variable name, with or without `$`, or a
/// template.
fn collect_text(text: &str, variables: &mut Vec<Variable>) {
    if !text.contains("post_arg") && !text.contains("graphql_") {
        return;
    }
    let whole = Variable::parse(text.strip_prefix('$').unwrap_or(text));
    let template = Template::parse(text);
    let all = std::iter::once(&whole).chain(template.variables());
    for variable in all.filter(|variable| variable.reads_body()) {
        if !variables.contains(variable) {
            variables.push(variable.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_model::{Id, Kind};

    use super::*;

    #[test]
    fn names_are_found_wherever_they_stand() {
        let mut variables = BodyVariables::default();
        let key = |id: &str| (Kind::Route, Id::new(id));
        variables.note(
            &key("1"),
            &json!({
                "vars": [["post_arg.a[*].b", "has", "x"], ["OR", ["graphql_name", "==", "y"]]],
                "plugins": {
                    "limit-count": {"key": "post_arg_user", "count": "${post_arg.n ?? 5}"},
                    "proxy-rewrite": {"uri": "/x/$post_arg_user/$uri"},
                },
            }),
        );
        let mut names: Vec<String> =
            variables.all().iter().map(|variable| format!("{variable:?}")).collect();
        names.sort();
        let expected = [
            "Named(\"graphql_name\")",
            "PostArg(\"user\")",
            "PostJson(\"a[*].b\")",
            "PostJson(\"n\")",
        ];
        assert_eq!(names, expected);
        variables.note(&key("2"), &json!({"uri": "/a", "vars": [["arg_x", "1"]]}));
        variables.forget(&key("1"));
        assert!(variables.all().is_empty());
    }
}
