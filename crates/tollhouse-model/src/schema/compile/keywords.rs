//! Compilation of the keywords of a schema.

use serde_json::Value;

use super::super::rules::{
    Additional, AnyOf, ArrayRules, Combinators, Conditional, Dependency, Format, Items, Kind, Node,
    NumberRules, ObjectRules, Presence, Property, Rules, TextRules, Types,
};
use super::super::text::quoted;
use super::{Compiler, Fields, SchemaError, invalid, list_at, map_at};
use crate::expr::pattern::{Case, Pattern};

const OBJECT_KEYWORDS: [&str; 7] = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "minProperties",
    "maxProperties",
    "dependencies",
];

const ARRAY_KEYWORDS: [&str; 4] = ["items", "minItems", "maxItems", "uniqueItems"];

const TEXT_KEYWORDS: [&str; 3] = ["minLength", "maxLength", "pattern"];

const NUMBER_KEYWORDS: [&str; 5] =
    ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"];

const COMBINING_KEYWORDS: [&str; 5] = ["allOf", "anyOf", "oneOf", "if", "not"];

/// Message if no branch of `anyOf` applies.
const NO_BRANCH: &str = "object matches none of the required";

impl<'d> Compiler<'d> {
    pub(super) fn rules(&mut self, fields: &'d Fields) -> Result<Node, SchemaError> {
        // Most schemas use one group of keywords. An absent group costs neither memory nor time in
        // validation.
        let has = |keywords: &[&str]| keywords.iter().any(|name| fields.contains_key(*name));
        let mut rules = Rules { types: types(fields)?, ..Rules::default() };
        if has(&OBJECT_KEYWORDS) {
            rules.object = Some(self.object(fields)?);
        }
        if has(&ARRAY_KEYWORDS) {
            rules.array = Some(self.array(fields)?);
        }
        if has(&TEXT_KEYWORDS) {
            rules.text = Some(text(fields)?);
        }
        if has(&NUMBER_KEYWORDS) {
            rules.number = Some(number(fields)?);
        }
        if has(&COMBINING_KEYWORDS) {
            rules.combined = Some(Box::new(self.combined(fields)?));
        }
        rules.choices = list_at(fields, "enum")?.map(Box::from);
        rules.property_names = self.node_at(fields, "propertyNames")?;
        rules.format = match fields.get("format").and_then(Value::as_str) {
            Some("ipv4") => Some(Format::Ipv4),
            Some("ipv6") => Some(Format::Ipv6),
            _ => None,
        };
        rules.constant = fields.get("const").cloned();
        rules.contains = self.branch_at(fields, "contains")?;
        Ok(Node::Rules(Box::new(rules)))
    }

    fn object(&mut self, fields: &'d Fields) -> Result<ObjectRules, SchemaError> {
        let mut rules = ObjectRules {
            least: count(fields, "minProperties")?,
            most: count(fields, "maxProperties")?,
            additional: self.additional(fields, "additionalProperties")?,
            ..ObjectRules::default()
        };
        let mut required = required(fields)?;
        let dependencies = map_at(fields, "dependencies")?;
        // Everything about one property is stored together, so that validation looks up each member
        // once.
        for (name, schema) in map_at(fields, "properties")?.into_iter().flatten() {
            let listed = required.iter().position(|listed| **listed == **name);
            let presence = match listed {
                Some(at) => {
                    required.remove(at);
                    Presence::Required
                }
                None => Presence::Optional,
            };
            let dependency = dependencies.and_then(|dependencies| dependencies.get(name));
            rules.properties.push(Property {
                name: name.as_str().into(),
                node: self.node_of(schema)?,
                presence,
                dependency: dependency.map(|schema| self.dependency(schema)).transpose()?,
                default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            });
            rules.known.insert(name.as_str().into());
        }
        rules.required = required;
        for (name, schema) in dependencies.into_iter().flatten() {
            if !rules.known.contains(name.as_str()) {
                rules.dependencies.push((name.as_str().into(), self.dependency(schema)?));
            }
        }
        for (pattern, schema) in map_at(fields, "patternProperties")?.into_iter().flatten() {
            let compiled = compiled(pattern)?;
            rules.patterns.push((quoted(pattern).into(), compiled, self.node_of(schema)?));
        }
        Ok(rules)
    }

    fn dependency(&mut self, value: &'d Value) -> Result<Dependency, SchemaError> {
        match value {
            Value::Array(names) => names_of(names, "dependencies").map(Dependency::Names),
            schema => self.node_of(schema).map(Dependency::Schema),
        }
    }

    fn additional(&mut self, fields: &'d Fields, name: &str) -> Result<Additional, SchemaError> {
        match fields.get(name) {
            None | Some(Value::Bool(true)) => Ok(Additional::Allowed),
            Some(Value::Bool(false)) => Ok(Additional::Forbidden),
            Some(schema) => self.node_of(schema).map(Additional::Schema),
        }
    }

    fn array(&mut self, fields: &'d Fields) -> Result<ArrayRules, SchemaError> {
        let items = match fields.get("items") {
            None => Items::Any,
            Some(Value::Array(schemas)) => {
                let places =
                    schemas.iter().map(|schema| self.node_of(schema)).collect::<Result<_, _>>()?;
                Items::Tuple(places, self.additional(fields, "additionalItems")?)
            }
            Some(schema) => Items::Each(self.node_of(schema)?),
        };
        let unique = match fields.get("uniqueItems") {
            None => false,
            Some(Value::Bool(unique)) => *unique,
            Some(_) => return Err(invalid("uniqueItems", "a boolean")),
        };
        let (least, most) = (count(fields, "minItems")?, count(fields, "maxItems")?);
        Ok(ArrayRules { least, most, unique, items })
    }

    fn combined(&mut self, fields: &'d Fields) -> Result<Combinators, SchemaError> {
        let any_of = self.branches_at(fields, "anyOf")?;
        let refusal = refusal_of(list_at(fields, "anyOf")?.unwrap_or_default());
        let conditional = match self.branch_at(fields, "if")? {
            None => None,
            Some(condition) => Some(Conditional {
                condition,
                then: self.branch_at(fields, "then")?,
                otherwise: self.branch_at(fields, "else")?,
            }),
        };
        Ok(Combinators {
            all_of: self.nodes_at(fields, "allOf")?,
            any_of: any_of.map(|branches| AnyOf { branches, refusal }),
            one_of: self.branches_at(fields, "oneOf")?,
            conditional,
            not: self.branch_at(fields, "not")?,
        })
    }
}

fn types(fields: &Fields) -> Result<Option<Types>, SchemaError> {
    let Some(value) = fields.get("type") else { return Ok(None) };
    let (names, prefix) = match value {
        Value::Array(names) => (names.as_slice(), "one of "),
        single => (std::slice::from_ref(single), ""),
    };
    let mut allowed = Vec::with_capacity(names.len());
    let mut shown = Vec::with_capacity(names.len());
    for value in names {
        let name = value.as_str().unwrap_or_default();
        let known = Kind::NAMES.iter().find(|(known, _)| *known == name);
        let (name, kind) = known.ok_or_else(|| SchemaError::Type(value.clone()))?;
        allowed.push(*kind);
        shown.push(*name);
    }
    Ok(Some(Types { allowed, shown: format!("{prefix}{}", shown.join(", ")).into() }))
}

fn required(fields: &Fields) -> Result<Vec<Box<str>>, SchemaError> {
    match fields.get("required") {
        // Draft 3 used a boolean in each property; it has no effect in later drafts.
        None | Some(Value::Bool(_)) => Ok(Vec::new()),
        Some(Value::Array(names)) => names_of(names, "required"),
        Some(_) => Err(invalid("required", "an array of strings")),
    }
}

fn names_of(values: &[Value], keyword: &str) -> Result<Vec<Box<str>>, SchemaError> {
    let name = |value: &Value| value.as_str().map(Box::from);
    let names: Option<Vec<Box<str>>> = values.iter().map(name).collect();
    names.ok_or_else(|| invalid(keyword, "an array of strings"))
}

/// Formats `…: ["a"] or ["b","c"]` from the `required` lists of the branches.
fn refusal_of(branches: &[Value]) -> Box<str> {
    let required = branches.iter().filter_map(|branch| branch.get("required"));
    let lists: Vec<String> = required.map(Value::to_string).collect();
    if lists.is_empty() {
        return NO_BRANCH.into();
    }
    format!("{NO_BRANCH}: {}", lists.join(" or ")).into()
}

fn text(fields: &Fields) -> Result<TextRules, SchemaError> {
    let pattern = match fields.get("pattern") {
        None => None,
        Some(Value::String(text)) => Some((compiled(text)?, quoted(text).into())),
        Some(_) => return Err(invalid("pattern", "a string")),
    };
    Ok(TextRules { least: count(fields, "minLength")?, most: count(fields, "maxLength")?, pattern })
}

fn compiled(pattern: &str) -> Result<Pattern, SchemaError> {
    Pattern::compile(pattern, Case::Sensitive)
        .map_err(|error| SchemaError::Pattern { quoted: quoted(pattern), error })
}

fn number(fields: &Fields) -> Result<NumberRules, SchemaError> {
    let multiple_of = bound(fields, "multipleOf")?;
    if multiple_of.is_some_and(|divisor| divisor <= 0.0) {
        return Err(invalid("multipleOf", "a number above 0"));
    }
    let (mut minimum, mut maximum) = (bound(fields, "minimum")?, bound(fields, "maximum")?);
    // In draft 4 this keyword is a boolean: `true` excludes the value of `minimum` or `maximum`
    // itself.
    let above = match fields.get("exclusiveMinimum") {
        Some(Value::Bool(exclusive)) => minimum.take_if(|_| *exclusive),
        _ => bound(fields, "exclusiveMinimum")?,
    };
    let below = match fields.get("exclusiveMaximum") {
        Some(Value::Bool(exclusive)) => maximum.take_if(|_| *exclusive),
        _ => bound(fields, "exclusiveMaximum")?,
    };
    Ok(NumberRules { minimum, above, maximum, below, multiple_of })
}

fn bound(fields: &Fields, name: &str) -> Result<Option<f64>, SchemaError> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    value.as_f64().map(Some).ok_or_else(|| invalid(name, "a number"))
}

fn count(fields: &Fields, name: &str) -> Result<Option<usize>, SchemaError> {
    let Some(value) = bound(fields, name)? else { return Ok(None) };
    if value < 0.0 || value.fract() != 0.0 {
        return Err(invalid(name, "an integer from 0"));
    }
    // Checked above: not negative and without a fraction. Large values saturate.
    Ok(Some(value as usize))
}
