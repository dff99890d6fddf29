//! Validation of objects: their properties, dependencies and additional fields.

use serde_json::Value;

use super::instance::Instance;
use super::{Step, Verdict, Walk};
use crate::expr::pattern::Exhausted;
use crate::json::Kind;
use crate::schema::rules::{Additional, Dependency, NodeId, ObjectRules, Presence, Property};
use crate::schema::text::{plain, quoted};

impl<'s> Walk<'s> {
    pub(super) fn check_object<V: Instance>(
        &mut self,
        rules: &'s ObjectRules,
        value: &mut V,
    ) -> Verdict {
        match value.shape() {
            Kind::Object => {}
            // An empty Lua table is encoded as an empty list, so it counts as an empty object.
            Kind::List if value.is_empty() => {}
            _ => return Ok(()),
        }
        let properties = rules.properties.iter().map(|property| &*property.name);
        let dependencies = rules.dependencies.iter().map(|(name, _)| &**name);
        let required = rules.required.iter().map(|name| &**name);
        value.expect_members(&mut properties.chain(required).chain(dependencies));
        for property in &rules.properties {
            self.check_property(property, value)?;
        }
        for name in &rules.required {
            if !value.has(name) {
                self.refuse_absent(name)?;
            }
        }
        for (name, dependency) in &rules.dependencies {
            if value.has(name) {
                self.check_dependency(name, dependency, value)?;
            }
        }
        self.check_other_fields(rules, value)?;
        if let Some(least) = rules.least.filter(|least| value.count() < *least) {
            return self.refuse(|| format!("expect object to have at least {least} properties"));
        }
        if let Some(most) = rules.most.filter(|most| value.count() > *most) {
            return self.refuse(|| format!("expect object to have at most {most} properties"));
        }
        Ok(())
    }

    fn check_property<V: Instance>(&mut self, property: &'s Property, object: &mut V) -> Verdict {
        let name = &property.name;
        let step = Step::Name(name);
        let checked =
            object.with_member(name, &mut |field| self.check_part(step, property.node, field));
        match checked {
            Some(Err(inner)) => {
                return self.nest(inner, |inner| {
                    format!("property {} validation failed: {inner}", quoted(name))
                });
            }
            Some(Ok(())) => {
                return match &property.dependency {
                    Some(dependency) => self.check_dependency(name, dependency, object),
                    None => Ok(()),
                };
            }
            None => {}
        }
        if property.presence == Presence::Required {
            return self.refuse_absent(name);
        }
        if let Some(default) = &property.default {
            let mut filled = default.clone();
            // A default that is an object may itself lack members with defaults. The verdict is
            // ignored: valid defaults are the schema author's responsibility.
            self.tries(property.node, &mut filled);
            object.add_member(name, filled);
        }
        Ok(())
    }

    fn check_dependency<V: Instance>(
        &mut self,
        name: &str,
        dependency: &'s Dependency,
        object: &mut V,
    ) -> Verdict {
        match dependency {
            Dependency::Names(needed) => {
                let missing = needed.iter().find(|needed| !object.has(needed));
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

    fn check_other_fields<V: Instance>(
        &mut self,
        rules: &'s ObjectRules,
        object: &mut V,
    ) -> Verdict {
        if rules.patterns.is_empty() && matches!(rules.additional, Additional::Allowed) {
            return Ok(());
        }
        object.each_member(&mut |name, field| {
            let mut described = rules.known.contains(name);
            for (shown, pattern, node) in &rules.patterns {
                match pattern.is_match(name.as_bytes()) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    // If an undecided pattern were skipped, the field would escape its rules.
                    Err(Exhausted) => {
                        return self.refuse(|| {
                            format!("failed to match pattern {shown} with {}", quoted(name))
                        });
                    }
                }
                described = true;
                if let Err(inner) = self.check_part(Step::Name(name), *node, field) {
                    return self.nest(inner, |inner| {
                        format!("failed to validate {} (matching {shown}): {inner}", plain(name))
                    });
                }
            }
            if described { Ok(()) } else { self.check_additional(rules, name, field) }
        })
    }

    fn check_additional<V: Instance>(
        &mut self,
        rules: &'s ObjectRules,
        name: &str,
        field: &mut V,
    ) -> Verdict {
        match &rules.additional {
            Additional::Allowed => Ok(()),
            Additional::Forbidden => self.refuse_unknown(rules, name),
            Additional::Schema(node) => {
                self.check_part(Step::Name(name), *node, field).or_else(|inner| {
                    self.nest(inner, |inner| {
                        format!("failed to validate additional property {}: {inner}", plain(name))
                    })
                })
            }
        }
    }

    /// Reports a missing property. When all faults are collected, the fault is recorded at the
    /// pointer the property would have.
    fn refuse_absent(&mut self, name: &str) -> Verdict {
        let verdict = self.refuse(|| format!("property {} is required", quoted(name)));
        if !self.is_collecting() {
            return verdict;
        }
        self.enter(Step::Name(name));
        self.leave(verdict)
    }

    /// Refuses a property that the schema does not know. When all faults are collected, the fault
    /// is recorded at the property, with the known property that it resembles.
    fn refuse_unknown(&mut self, rules: &ObjectRules, name: &str) -> Verdict {
        let verdict =
            self.refuse(|| format!("additional properties forbidden, found {}", plain(name)));
        if !self.is_collecting() {
            return verdict;
        }
        self.enter(Step::Name(name));
        let known = rules.properties.iter().map(|property| &*property.name);
        self.suggest(name, "known fields", known);
        self.leave(verdict)
    }

    /// Applies `propertyNames`: validates each name as a string.
    pub(super) fn check_names<V: Instance>(&mut self, node: NodeId, value: &mut V) -> Verdict {
        value.each_member(&mut |name, _| {
            self.check(node, &mut Value::from(name)).or_else(|inner| {
                self.nest(inner, |inner| {
                    format!("property name {} validation failed: {inner}", quoted(name))
                })
            })
        })
    }
}
