//! Objects that consist only of plugins: global rules and plugin configurations.

use serde_json::Value;

use crate::reader::{Reader, Unknown};
use crate::{Id, PluginSet, Problems, plugins};

/// Plugins that run for every request, before those of the route.
#[derive(Debug, Clone, PartialEq)]
pub struct GlobalRule {
    pub id: Id,
    pub plugins: PluginSet,
}

/// Plugins that routes share by naming `plugin_config_id`.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginConfig {
    pub id: Id,
    /// Plugins of the route, except those that the route configures itself.
    pub plugins: PluginSet,
}

const GLOBAL_RULE_FIELDS: [&str; 2] = ["id", "plugins"];
const PLUGIN_CONFIG_FIELDS: [&str; 5] = ["id", "plugins", "name", "desc", "labels"];

impl GlobalRule {
    /// Parses a document; returns `None` if any problem is an error.
    pub fn parse(id: Id, value: &Value, path: &str) -> (Option<Self>, Problems) {
        let mut problems = Problems::new();
        let mut reader = Reader::new(path, &mut problems);
        let plugins = read(&mut reader, &id, value, &GLOBAL_RULE_FIELDS);
        let rule = plugins.map(|plugins| Self { id, plugins });
        (rule.filter(|_| !problems.has_errors()), problems)
    }
}

impl PluginConfig {
    /// Parses a document; returns `None` if any problem is an error.
    pub fn parse(id: Id, value: &Value, path: &str) -> (Option<Self>, Problems) {
        let mut problems = Problems::new();
        let mut reader = Reader::new(path, &mut problems);
        let plugins = read(&mut reader, &id, value, &PLUGIN_CONFIG_FIELDS);
        let config = plugins.map(|plugins| Self { id, plugins });
        (config.filter(|_| !problems.has_errors()), problems)
    }
}

fn read(reader: &mut Reader<'_>, id: &Id, value: &Value, known: &[&str]) -> Option<PluginSet> {
    let fields = reader.record(value, known, Unknown::Refused)?;
    reader.own_keys(fields, Some(id));
    // Name, description and labels are only validated.
    reader.description(fields);
    reader.required(fields, "plugins", |reader, value| Some(plugins::read(reader, value)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_nothing_but_plugins() {
        let good = json!({"id": 1, "plugins": {"cors": {}}, "create_time": 1});
        let (rule, problems) = GlobalRule::parse(Id::new("1"), &good, "global_rules[0]");
        assert_eq!(problems.to_string(), "");
        assert_eq!(rule.expect("no problem was found").plugins.len(), 1);

        let labelled = json!({"plugins": {}, "labels": {"team": "a"}});
        let (config, _) = PluginConfig::parse(Id::new("1"), &labelled, "plugin_configs[0]");
        assert!(config.is_some());

        let (rule, problems) = GlobalRule::parse(Id::new("2"), &labelled, "global_rules[1]");
        assert!(rule.is_none());
        assert!(problems.to_string().contains("unknown field \"labels\""), "{problems}");
    }

    #[test]
    fn every_problem_is_reported() {
        let bad = json!({"id": "9", "plugin": {}});
        let (rule, problems) = GlobalRule::parse(Id::new("1"), &bad, "global_rules[0]");
        assert!(rule.is_none());
        assert_eq!(
            problems.to_string(),
            "global_rules[0].plugin: unknown field \"plugin\"; did you mean \
             \"plugins\"?\n\
             global_rules[0].id: wrong id (got \"9\"); the id in the object differs from its key\n\
             global_rules[0]: property \"plugins\" is required"
        );
    }
}
