//! Completion of lane rules: a lane contains the name of its group and an id, because clients put
//! the group's name into the calls that they mark. The author of a group may leave both out.

use crate::registration::hex_digest;
use crate::wire::write::{put_message, put_text};
use crate::wire::{Field, Fields, Value, WireError};

/// Field number of `v1.LaneGroup.rules`.
const RULES: u32 = 11;
/// Field number of `v1.LaneRule.id`.
const ID: u32 = 1;
/// Field number of `v1.LaneRule.name`.
const NAME: u32 = 2;
/// Field number of `v1.LaneRule.group_name`.
const GROUP_NAME: u32 = 3;

/// Adds missing ids and group names to the lanes of a group; the additions come after the fields
/// that were sent.
pub(super) fn completed(group: &[u8], group_name: &str) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::with_capacity(group.len());
    for field in Fields::new(group) {
        match field? {
            Field { number: RULES, value: Value::Bytes(rule), .. } => {
                put_message(&mut out, RULES, &completed_rule(rule, group_name)?);
            }
            field => out.extend_from_slice(&group[field.start..field.end]),
        }
    }
    Ok(out)
}

fn completed_rule(rule: &[u8], group_name: &str) -> Result<Vec<u8>, WireError> {
    let (mut has_id, mut has_group_name, mut name): (bool, bool, &[u8]) = (false, false, &[]);
    for field in Fields::new(rule) {
        let field = field?;
        let Value::Bytes(bytes) = field.value else { continue };
        match field.number {
            ID => has_id = !bytes.is_empty(),
            NAME => name = bytes,
            GROUP_NAME => has_group_name = !bytes.is_empty(),
            _ => {}
        }
    }
    let mut out = rule.to_vec();
    if !has_id {
        // Derived from both names, so that a lane keeps its id when its group is written again.
        let id = hex_digest(&[group_name.as_bytes(), b"##", name].concat());
        put_text(&mut out, ID, &id);
    }
    if !has_group_name {
        put_text(&mut out, GROUP_NAME, group_name);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1;
    use prost::Message;

    #[test]
    fn lanes_get_what_they_left_out_and_keep_the_rest() {
        let lane = |id: &str, name: &str| v1::LaneRule {
            id: id.to_owned(),
            name: name.to_owned(),
            ..Default::default()
        };
        let group = v1::LaneGroup {
            name: "g".to_owned(),
            rules: vec![lane("mine", "a"), lane("", "b"), lane("", "c")],
            ..Default::default()
        };
        let bytes = completed(&group.encode_to_vec(), "g").expect("a message");
        let rules = v1::LaneGroup::decode(&bytes[..]).expect("a message").rules;
        assert!(rules.iter().all(|rule| rule.group_name == "g"));
        assert_eq!((&*rules[0].id, &*rules[0].name), ("mine", "a"));
        assert_eq!(rules[1].id.len(), 40);
        assert_ne!(rules[1].id, rules[2].id);
        assert_eq!(completed(&bytes, "g").as_deref(), Ok(&bytes[..]), "nothing is added twice");
    }
}
