//! Validation of lists: number of items, schemas of the items, and uniqueness.

use super::instance::Instance;
use super::{Step, Verdict, Violation, Walk};
use crate::json::Kind;
use crate::schema::rules::{Additional, ArrayRules, Branch, Items, NodeId};

impl<'s> Walk<'s> {
    pub(super) fn check_array<V: Instance>(
        &mut self,
        rules: &'s ArrayRules,
        value: &mut V,
    ) -> Verdict {
        match value.shape() {
            Kind::List => {}
            // An empty Lua table is encoded as an empty object, so it counts as an empty list.
            Kind::Object if value.is_empty() => {}
            _ => return Ok(()),
        }
        if let Some(least) = rules.least.filter(|least| value.count() < *least) {
            return self.refuse(|| format!("expect array to have at least {least} items"));
        }
        if let Some(most) = rules.most.filter(|most| value.count() > *most) {
            return self.refuse(|| format!("expect array to have at most {most} items"));
        }
        match &rules.items {
            Items::Any => {}
            Items::Each(node) => {
                value.each_item(&mut |index, item| self.check_item("item", *node, index, item))?;
            }
            Items::Tuple(nodes, rest) => {
                value.each_item(&mut |index, item| match (nodes.get(index), rest) {
                    (Some(node), _) => self.check_item("item", *node, index, item),
                    (None, Additional::Allowed) => Ok(()),
                    (None, Additional::Forbidden) => {
                        self.refuse(|| "found unexpected extra items in array".to_owned())
                    }
                    (None, Additional::Schema(node)) => {
                        self.check_item("additional item", *node, index, item)
                    }
                })?
            }
        }
        if rules.unique
            && let Some((earlier, later)) = value.first_repeated()
        {
            return self.refuse(|| {
                let (earlier, later) = (earlier + 1, later + 1);
                format!("expected unique items but items {earlier} and {later} are equal")
            });
        }
        Ok(())
    }

    fn check_item<V: Instance>(
        &mut self,
        what: &str,
        node: NodeId,
        index: usize,
        item: &mut V,
    ) -> Verdict {
        self.check_part(Step::Index(index), node, item).or_else(|inner| {
            self.nest(inner, |inner| format!("failed to validate {what} {}: {inner}", index + 1))
        })
    }

    /// Applies `contains`: at least one item must be valid.
    pub(super) fn check_contains<V: Instance>(&mut self, branch: Branch, value: &mut V) -> Verdict {
        if value.shape() != Kind::List {
            return Ok(());
        }
        if value.is_empty() {
            return self.refuse(|| "check contains: empty array is invalid".to_owned());
        }
        // `each_item` stops at the first `Err`, so `Err` here means that a valid item was found.
        let search = value.each_item(&mut |_, item| {
            if self.would_apply(branch, item) { Err(Violation::unread()) } else { Ok(()) }
        });
        match search {
            Err(_) => Ok(()),
            Ok(()) => self.refuse(|| "failed to check contains".to_owned()),
        }
    }
}
