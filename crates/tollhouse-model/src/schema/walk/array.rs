//! Judges lists: how many items, which, and whether any two are equal.

use serde_json::Value;

use super::{Verdict, Walk};
use crate::schema::equal::first_repeated;
use crate::schema::rules::{Additional, ArrayRules, Branch, Items, NodeId};

impl<'s> Walk<'s> {
    pub(super) fn check_array(&mut self, rules: &'s ArrayRules, value: &mut Value) -> Verdict {
        let items: &mut [Value] = match value {
            Value::Array(items) => items,
            // A list without items, as Lua writes it.
            Value::Object(fields) if fields.is_empty() => &mut [],
            _ => return Ok(()),
        };
        if let Some(least) = rules.least.filter(|least| items.len() < *least) {
            return self.refuse(|| format!("expect array to have at least {least} items"));
        }
        if let Some(most) = rules.most.filter(|most| items.len() > *most) {
            return self.refuse(|| format!("expect array to have at most {most} items"));
        }
        match &rules.items {
            Items::Any => {}
            Items::Each(node) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.check_item("item", *node, index, item)?;
                }
            }
            Items::Tuple(nodes, rest) => self.check_tuple(nodes, rest, items)?,
        }
        if rules.unique
            && let Some((earlier, later)) = first_repeated(items)
        {
            return self.refuse(|| {
                let (earlier, later) = (earlier + 1, later + 1);
                format!("expected unique items but items {earlier} and {later} are equal")
            });
        }
        Ok(())
    }

    fn check_tuple(
        &mut self,
        nodes: &'s [NodeId],
        rest: &'s Additional,
        items: &mut [Value],
    ) -> Verdict {
        for (index, (node, item)) in nodes.iter().zip(items.iter_mut()).enumerate() {
            self.check_item("item", *node, index, item)?;
        }
        let further = items.iter_mut().enumerate().skip(nodes.len());
        match rest {
            Additional::Allowed => {}
            Additional::Forbidden => {
                if further.count() > 0 {
                    return self.refuse(|| "found unexpected extra items in array".to_owned());
                }
            }
            Additional::Judged(node) => {
                for (index, item) in further {
                    self.check_item("additional item", *node, index, item)?;
                }
            }
        }
        Ok(())
    }

    fn check_item(&mut self, what: &str, node: NodeId, index: usize, item: &mut Value) -> Verdict {
        self.check_part(node, item).or_else(|inner| {
            self.nest(inner, |inner| format!("failed to validate {what} {}: {inner}", index + 1))
        })
    }

    /// `contains`: one item at least is good.
    pub(super) fn check_contains(&mut self, branch: Branch, value: &mut Value) -> Verdict {
        let items: &mut [Value] = match value {
            Value::Array(items) => items,
            _ => return Ok(()),
        };
        if items.is_empty() {
            return self.refuse(|| "check contains: empty array is invalid".to_owned());
        }
        if items.iter_mut().any(|item| self.would_apply(branch, item)) {
            return Ok(());
        }
        self.refuse(|| "failed to check contains".to_owned())
    }
}
