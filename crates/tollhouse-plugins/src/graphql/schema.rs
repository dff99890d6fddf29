//! Schema of a GraphQL service, as far as costs need it: the types of fields and the defaults of their
//! arguments.

use std::collections::HashMap;

use serde_json::Value;

/// Query for the schema of a service. Lists and non-null types wrap others up to seven times.
pub(crate) const INTROSPECTION: &str = "query{__schema{queryType{name}mutationType{name}types{name fields{name \
    args{name defaultValue}type{...T}}}}}fragment T on __Type{name ofType{name ofType{name ofType{name ofType{name \
    ofType{name ofType{name ofType{name}}}}}}}}";

/// Schema by the names of types.
#[derive(Debug, PartialEq)]
pub(crate) struct Schema {
    pub query_type: String,
    pub mutation_type: String,
    types: HashMap<String, HashMap<String, SchemaField>>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct SchemaField {
    /// Named type of the values, without lists around it.
    pub result: Option<String>,
    /// Defaults of arguments, as GraphQL literals.
    pub defaults: HashMap<String, String>,
}

impl Schema {
    /// Reads the answer to [`INTROSPECTION`].
    ///
    /// # Errors
    /// If the answer contains no types.
    pub(crate) fn read(answer: &Value) -> Result<Self, &'static str> {
        let schema = answer.pointer("/data/__schema").ok_or("the answer has no data.__schema")?;
        let types = schema["types"].as_array().ok_or("the answer has no data.__schema.types")?;
        let root = |field: &str, default: &str| {
            schema[field]["name"].as_str().unwrap_or(default).to_owned()
        };
        let types = types.iter().filter_map(|one| {
            let fields = one["fields"].as_array()?.iter().filter_map(field);
            Some((one["name"].as_str()?.to_owned(), fields.collect()))
        });
        Ok(Self {
            query_type: root("queryType", "Query"),
            mutation_type: root("mutationType", "Mutation"),
            types: types.collect(),
        })
    }

    /// Whether the schema has a type with fields of this name.
    pub(crate) fn has_type(&self, name: &str) -> bool {
        self.types.contains_key(name)
    }

    pub(crate) fn field(&self, of_type: &str, name: &str) -> Option<&SchemaField> {
        self.types.get(of_type)?.get(name)
    }
}

fn field(field: &Value) -> Option<(String, SchemaField)> {
    let mut result = &field["type"];
    while result["name"].is_null() && result["ofType"].is_object() {
        result = &result["ofType"];
    }
    let arguments = field["args"].as_array().into_iter().flatten();
    let defaults = arguments.filter_map(|argument| {
        let default = argument["defaultValue"].as_str()?;
        Some((argument["name"].as_str()?.to_owned(), default.to_owned()))
    });
    let read = SchemaField {
        result: result["name"].as_str().map(str::to_owned),
        defaults: defaults.collect(),
    };
    Some((field["name"].as_str()?.to_owned(), read))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_are_read_through_lists_and_defaults_are_kept() {
        let list = json!({"name": null, "ofType": {"name": null, "ofType": {"name": "Person"}}});
        let answer = json!({"data": {"__schema": {
            "queryType": {"name": "Root"}, "mutationType": null,
            "types": [
                {"name": "Root", "fields": [{"name": "people", "type": list,
                    "args": [{"name": "first", "defaultValue": "10"}, {"name": "after", "defaultValue": null}]}]},
                {"name": "String", "fields": null},
            ],
        }}});
        let schema = Schema::read(&answer).unwrap();
        assert_eq!((&*schema.query_type, &*schema.mutation_type), ("Root", "Mutation"));
        let field = schema.field("Root", "people").unwrap();
        assert_eq!(field.result.as_deref(), Some("Person"));
        assert_eq!(field.defaults, HashMap::from([("first".into(), "10".into())]));
        assert!(!schema.has_type("String"));
        assert!(Schema::read(&json!({"errors": []})).is_err());
    }

    #[test]
    fn the_query_is_valid() {
        assert!(super::super::Query::parse(INTROSPECTION).is_ok());
    }
}
