//! References to files of the configuration centre in objects, `$config://…`. The gateway reads the
//! files with its own right, so that the author of an object must have the right to read them.
//!
//! Holders of configured keys may read all files, so that only users and groups are checked.

use std::collections::BTreeSet;

use hyper::StatusCode;
use serde_json::Value;
use tollhouse_model::secret::SecretRef;
use tollhouse_registry::State;
use tollhouse_registry::identity::{Attempt, Principal, Resource, ResourceKind, Verdict};

use crate::encrypt::Author;
use crate::index::Contents;
use crate::references::{files, find_all};
use crate::reply::Reply;

/// Calls that return the content of a file. The right to one of them suffices.
const READS: [&str; 2] = ["DiscoverConfigFile", "DescribeConfigFileRichInfo"];

/// Refuses references to files that the author may not read, in a whole document.
pub(crate) fn check_document(value: &Value, author: &Author<'_>) -> Result<(), Reply> {
    check(files(value), author)
}

/// Refuses references to files that the author may not read, new or not: who changes an object may
/// change where its secrets are sent. The secrets of the objects that it uses, and of those that use
/// it, go the same way.
pub(crate) fn check_object(path: &str, value: &Value, author: &Author<'_>) -> Result<(), Reply> {
    check(files(value), author)?;
    if author.person.is_none() {
        return Ok(());
    }
    let beside = files_beside(&author.index.contents(), path, value);
    check(beside.iter().map(|file| &**file), author)
}

/// Returns the references to files in the objects that use the object at `path`, and in those that it
/// or one of these uses.
fn files_beside(contents: &Contents, path: &str, value: &Value) -> BTreeSet<Box<str>> {
    let mut users = BTreeSet::from([path]);
    let mut waiting = vec![path];
    while let Some(used) = waiting.pop() {
        waiting.extend(contents.users_of(used).filter(|user| users.insert(user)));
    }
    users.remove(path);
    let named = find_all(value);
    let mut waiting: Vec<&str> = named.iter().map(|reference| &*reference.target).collect();
    waiting.extend(users);
    let (mut reached, mut files) = (BTreeSet::new(), BTreeSet::new());
    while let Some(object) = waiting.pop() {
        let Some(facts) = contents.facts(object).filter(|_| reached.insert(object)) else {
            continue;
        };
        files.extend(facts.files.iter().cloned());
        waiting.extend(facts.references.iter().map(|(target, _)| &**target));
    }
    files
}

fn check<'f>(files: impl Iterator<Item = &'f str>, author: &Author<'_>) -> Result<(), Reply> {
    let Some((principal, registry)) = &author.person else { return Ok(()) };
    let mut files = files.peekable();
    if files.peek().is_none() {
        return Ok(());
    }
    let state = registry.state();
    for file in files {
        let Some(SecretRef::File { namespace, group, .. }) = SecretRef::parse(file) else {
            continue;
        };
        if READS.iter().any(|function| may(&state, principal, function, [&namespace, &group])) {
            continue;
        }
        let text = format!(
            "no policy of this user allows to read files of the group {namespace}/{group}, which \"{file}\" \
             in this object, or in one that it uses or that uses it, refers to: it takes {} on this group",
            READS.join(" or ")
        );
        return Err(Reply::refusal(StatusCode::FORBIDDEN, text));
    }
    Ok(())
}

fn may(state: &State, principal: &Principal, function: &str, group: [&str; 2]) -> bool {
    let [namespace, name] = group;
    let known = state.config_group(namespace, name).map(|view| &view.group);
    let id = known.map(|group| group.id.to_string()).unwrap_or_default();
    let labels = known.map(|group| &group.metadata);
    let kind = ResourceKind::ConfigGroup;
    let resource = Resource { kind, id: &id, namespace, name, labels };
    let attempt = Attempt { function, resources: &[resource] };
    state.decide(principal, &attempt) == Verdict::Allowed
}
