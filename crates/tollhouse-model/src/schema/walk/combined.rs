//! Validation by `allOf`, `anyOf`, `oneOf`, `if` and `not`, in this order.

use super::instance::Instance;
use super::{Verdict, Walk};
use crate::schema::rules::{Branch, Combinators, Conditional};

impl<'s> Walk<'s> {
    pub(super) fn check_combined<V: Instance>(
        &mut self,
        rules: &'s Combinators,
        value: &mut V,
    ) -> Verdict {
        for (index, node) in rules.all_of.iter().enumerate() {
            if let Err(inner) = self.check(*node, value) {
                return self.nest(inner, |inner| format!("allOf {} failed: {inner}", index + 1));
            }
        }
        if let Some(any_of) = &rules.any_of
            && !any_of.branches.iter().any(|branch| self.applies(*branch, value))
        {
            return self.refuse(|| any_of.refusal.to_string());
        }
        if let Some(branches) = &rules.one_of {
            self.check_one_of(branches, value)?;
        }
        if let Some(conditional) = &rules.conditional {
            self.check_conditional(conditional, value)?;
        }
        if let Some(branch) = rules.not
            && self.would_apply(branch, value)
        {
            return self.refuse(|| "value wasn't supposed to match schema".to_owned());
        }
        Ok(())
    }

    fn check_one_of<V: Instance>(&mut self, branches: &'s [Branch], value: &mut V) -> Verdict {
        let mut matched = None;
        for (index, branch) in branches.iter().enumerate() {
            if !self.would_apply(*branch, value) {
                continue;
            }
            if let Some(earlier) = matched {
                return self.refuse(|| {
                    let (earlier, later) = (earlier + 1, index + 1);
                    format!(
                        "value should match only one schema, but matches both schemas {earlier} \
                         and {later}"
                    )
                });
            }
            matched = Some(index);
        }
        match matched {
            // Runs the matched branch again for its defaults. They are not kept earlier, because
            // they would influence the remaining branches.
            Some(index) if branches[index].fills => self.check(branches[index].node, value),
            Some(_) => Ok(()),
            None => {
                self.refuse(|| "value should match only one schema, but matches none".to_owned())
            }
        }
    }

    fn check_conditional<V: Instance>(&mut self, rules: &'s Conditional, value: &mut V) -> Verdict {
        let (branch, refusal) = if self.would_apply(rules.condition, value) {
            (rules.then, "then clause did not match")
        } else {
            (rules.otherwise, "else clause did not match")
        };
        match branch {
            Some(branch) if !self.applies(branch, value) => self.refuse(|| refusal.to_owned()),
            _ => Ok(()),
        }
    }
}
