//! Judges objects: their properties, and what they may hold beyond those.

use crate::expr::pattern::Exhausted;
use serde_json::{Map, Value};

use super::{Verdict, Walk};
use crate::schema::rules::{Additional, Dependency, NodeId, ObjectRules, Presence, Property};
use crate::schema::text::{plain, quoted};

impl<'s> Walk<'s> {
    pub(super) fn check_object(&mut self, rules: &'s ObjectRules, value: &mut Value) -> Verdict {
        match value {
            Value::Object(_) => {}
            // An object without fields, as Lua writes it.
            Value::Array(items) if items.is_empty() => {
                let mut object = Value::Object(Map::new());
                self.check_object(rules, &mut object)?;
                if object.as_object().is_some_and(|fields| !fields.is_empty()) {
                    *value = object;
                }
                return Ok(());
            }
            _ => return Ok(()),
        }
        for property in &rules.properties {
            self.check_property(property, value)?;
        }
        let Value::Object(fields) = value else { return Ok(()) };
        for name in &rules.required {
            if !fields.contains_key(&**name) {
                return self.refuse(|| format!("property {} is required", quoted(name)));
            }
        }
        for (name, dependency) in &rules.dependencies {
            if value.get(&**name).is_some() {
                self.check_dependency(name, dependency, value)?;
            }
        }
        let Value::Object(fields) = value else { return Ok(()) };
        self.check_other_fields(rules, fields)?;
        let count = fields.len();
        if let Some(least) = rules.least.filter(|least| count < *least) {
            return self.refuse(|| format!("expect object to have at least {least} properties"));
        }
        if let Some(most) = rules.most.filter(|most| count > *most) {
            return self.refuse(|| format!("expect object to have at most {most} properties"));
        }
        Ok(())
    }

    fn check_property(&mut self, property: &'s Property, object: &mut Value) -> Verdict {
        let Value::Object(fields) = object else { return Ok(()) };
        if let Some(field) = fields.get_mut(&*property.name) {
            if let Err(inner) = self.check_part(property.node, field) {
                let name = &property.name;
                return self.nest(inner, |inner| {
                    format!("property {} validation failed: {inner}", quoted(name))
                });
            }
            return match &property.dependency {
                Some(dependency) => self.check_dependency(&property.name, dependency, object),
                None => Ok(()),
            };
        }
        if property.presence == Presence::Required {
            return self.refuse(|| format!("property {} is required", quoted(&property.name)));
        }
        if let Some(default) = &property.default {
            let mut filled = default.clone();
            // A default that is an object has defaults of its own; that it is good is for the
            // author of the schema to see to.
            self.tries(property.node, &mut filled);
            fields.insert(property.name.clone().into_string(), filled);
        }
        Ok(())
    }

    fn check_dependency(
        &mut self,
        name: &str,
        dependency: &'s Dependency,
        object: &mut Value,
    ) -> Verdict {
        match dependency {
            Dependency::Names(needed) => {
                let missing = needed.iter().find(|needed| object.get(&***needed).is_none());
                match missing {
                    None => Ok(()),
                    Some(missing) => self.refuse(|| {
                        format!(
                            "property {} is required when {} is set",
                            quoted(missing),
                            quoted(name)
                        )
                    }),
                }
            }
            Dependency::Schema(node) => self.check(*node, object).or_else(|inner| {
                self.nest(inner, |inner| {
                    format!("failed to validate dependent schema for {}: {inner}", quoted(name))
                })
            }),
        }
    }

    /// What the names of the fields say about their values, beyond `properties`.
    fn check_other_fields(
        &mut self,
        rules: &'s ObjectRules,
        fields: &mut Map<String, Value>,
    ) -> Verdict {
        if rules.patterns.is_empty() && matches!(rules.additional, Additional::Allowed) {
            return Ok(());
        }
        for (name, field) in fields.iter_mut() {
            let mut described = rules.known.contains(name.as_str());
            for (shown, pattern, node) in &rules.patterns {
                match pattern.is_match(name.as_bytes()) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    // Passed over, the field would escape its rules.
                    Err(Exhausted) => {
                        return self.refuse(|| {
                            format!("failed to match pattern {shown} with {}", quoted(name))
                        });
                    }
                }
                described = true;
                if let Err(inner) = self.check_part(*node, field) {
                    return self.nest(inner, |inner| {
                        format!("failed to validate {} (matching {shown}): {inner}", plain(name))
                    });
                }
            }
            if !described {
                self.check_additional(&rules.additional, name, field)?;
            }
        }
        Ok(())
    }

    fn check_additional(
        &mut self,
        additional: &'s Additional,
        name: &str,
        field: &mut Value,
    ) -> Verdict {
        match additional {
            Additional::Allowed => Ok(()),
            Additional::Forbidden => {
                self.refuse(|| format!("additional properties forbidden, found {}", plain(name)))
            }
            Additional::Judged(node) => self.check_part(*node, field).or_else(|inner| {
                self.nest(inner, |inner| {
                    format!("failed to validate additional property {}: {inner}", plain(name))
                })
            }),
        }
    }

    /// `propertyNames`: each name is judged as a text.
    pub(super) fn check_names(&mut self, node: NodeId, value: &Value) -> Verdict {
        for name in value.as_object().into_iter().flat_map(|fields| fields.keys()) {
            if let Err(inner) = self.check(node, &mut Value::from(name.as_str())) {
                return self.nest(inner, |inner| {
                    format!("property name {} validation failed: {inner}", quoted(name))
                });
            }
        }
        Ok(())
    }
}
