//! Formatting of the planned changes of an import: one line per object, with its changed fields
//! below it.
//!
//! Secrets are masked in the old and the new value, so that the output shows that a secret changes
//! but not its value.

use std::fmt::Write;

use serde_json::Value;
use tollhouse_admin::transfer::{self, Change, Plan, changed_fields};
use tollhouse_load::report::paint::Paint;
use tollhouse_model::Kind;
use tollhouse_model::encryption::Keyring;
use tollhouse_model::problem::excerpt;

/// Maximum number of changes printed; further ones are only counted.
const CHANGES_SHOWN_MAX: usize = 500;

const STRING: &str = "writing to a string cannot fail";

/// Formats the whole plan, with a summary.
pub(super) fn plan(plan: &Plan, paint: Paint) -> anyhow::Result<String> {
    // Masking seals with this new random key: every value that sealing changes is a secret.
    let keyring = Keyring::generate()?;
    let mut text = String::new();
    for change in plan.changes.iter().take(CHANGES_SHOWN_MAX) {
        add_change(&mut text, change, paint, &keyring);
    }
    if let Some(more @ 1..) = plan.changes.len().checked_sub(CHANGES_SHOWN_MAX) {
        writeln!(text, "… and {more} further objects").expect(STRING);
    }
    let count = |old: bool, new: bool| {
        let is_one = |it: &&Change| it.old.is_some() == old && it.new.is_some() == new;
        plan.changes.iter().filter(is_one).count()
    };
    let (added, changed, deleted) = (count(false, true), count(true, true), count(true, false));
    let unchanged = plan.unchanged;
    write!(text, "{added} to add, {changed} to change, {deleted} to delete, {unchanged} unchanged")
        .expect(STRING);
    if plan.left > 0 {
        let left = plan.left;
        write!(text, "; {left} not in the document stay (--prune deletes them)").expect(STRING);
    }
    text.push('\n');
    Ok(text)
}

fn add_change(text: &mut String, change: &Change, paint: Paint, keyring: &Keyring) {
    let (kind, id) = (change.kind, &change.id);
    let place = match kind {
        Kind::Credential => format!("{}/{id}", Kind::Consumer),
        _ => format!("{kind}/{id}"),
    };
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        let sign = if change.new.is_some() { '+' } else { '-' };
        writeln!(text, "{} {place}", painted(paint, sign)).expect(STRING);
        return;
    };
    writeln!(text, "{} {place}", painted(paint, '~')).expect(STRING);
    let catalogue = tollhouse_control::plugins::catalogue();
    let before = transfer::masked(kind, &old.value, &catalogue, keyring);
    let after = transfer::masked(kind, &new.value, &catalogue, keyring);
    // Compared unmasked and printed masked, so that a changed secret is named without its value.
    for path in changed_fields(&old.value, &new.value) {
        let name = path.join(".");
        match (at(&before, &path), at(&after, &path)) {
            (Some(old), Some(new)) => {
                writeln!(text, "    {name}: {} → {}", excerpt(old), excerpt(new)).expect(STRING);
            }
            (None, Some(new)) => {
                writeln!(text, "    {} {name}: {}", painted(paint, '+'), excerpt(new))
                    .expect(STRING);
            }
            (Some(old), None) => {
                writeln!(text, "    {} {name}: {}", painted(paint, '-'), excerpt(old))
                    .expect(STRING);
            }
            (None, None) => {}
        }
    }
}

fn at<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// Returns the sign of a change (`+`, `-` or `~`) in its colour.
fn painted(paint: Paint, sign: char) -> String {
    match sign {
        '+' => paint.good(sign),
        '-' => paint.bad(sign),
        _ => paint.doubtful(sign),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_model::Id;

    use super::*;
    use crate::cli::objects::Object;

    fn change(kind: Kind, id: &str, old: Option<Value>, new: Option<Value>) -> Change {
        let object = |value: Value| {
            Object::new(kind, &Id::new(id), value.as_object().expect("an object").clone())
        };
        Change { kind, id: Id::new(id), old: old.map(object), new: new.map(object) }
    }

    #[test]
    fn objects_and_fields_have_signs_and_secrets_have_stars() {
        let consumer = |key: &str| Some(json!({"plugins": {"key-auth": {"key": key}}}));
        let changes = vec![
            change(Kind::Route, "new", None, Some(json!({"uri": "/"}))),
            change(
                Kind::Route,
                "1",
                Some(json!({"uri": "/a", "desc": "x"})),
                Some(json!({"uri": "/b", "plugins": {"cors": {}}})),
            ),
            change(Kind::Consumer, "jack", consumer("first"), consumer("second")),
            change(Kind::Credential, "jack/credentials/c", consumer("first"), None),
        ];
        let found = plan(&Plan { changes, unchanged: 3, left: 2 }, Paint::Plain);
        let expected = "\
+ routes/new
~ routes/1
    - desc: \"x\"
    + plugins: {\"cors\":{}}
    uri: \"/a\" → \"/b\"
~ consumers/jack
    plugins.key-auth.key: \"***\" → \"***\"
- consumers/jack/credentials/c
1 to add, 2 to change, 1 to delete, 3 unchanged; 2 not in the document stay (--prune deletes them)
";
        assert_eq!(found.expect("it can be printed"), expected);
    }

    #[test]
    fn keepers_and_metadata_show_no_secret() {
        let table = [
            (Kind::Secret, "vault/1", json!({"uri": "u", "token": "hidden"})),
            (Kind::PluginMetadata, "http-logger", json!({"password": {"a": "hidden"}})),
            (Kind::Ssl, "1", json!({"cert": "c", "key": "hidden", "keys": ["hidden"]})),
        ];
        for (kind, id, new) in table {
            let changes = vec![change(kind, id, Some(json!({})), Some(new))];
            let found = plan(&Plan { changes, unchanged: 0, left: 0 }, Paint::Colour);
            let found = found.expect("it can be printed");
            assert!(found.contains("***") && !found.contains("hidden"), "{found}");
            assert!(found.contains("\u{1b}[33m~"), "{found}");
        }
    }
}
