//! Plugin configurations of one object by name. Objects have few plugins, so that the set is one
//! exact allocation: a node of a `BTreeMap` reserves room for eleven configurations.

use std::ops::Index;

use smol_str::SmolStr;

use super::PluginConf;

/// The `plugins` of a route, service, plugin configuration, global rule or consumer, in the order of
/// their names. Immutable, so that it never reserves room.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginSet(Box<[(SmolStr, PluginConf)]>);

impl PluginSet {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, name: &str) -> Option<&PluginConf> {
        let place = self.0.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()?;
        Some(&self.0[place].1)
    }

    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &PluginConf)> {
        self.0.iter().map(|(name, conf)| (name.as_str(), conf))
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    pub fn values(&self) -> impl Iterator<Item = &PluginConf> {
        self.0.iter().map(|(_, conf)| conf)
    }
}

impl FromIterator<(SmolStr, PluginConf)> for PluginSet {
    /// Sorts by name. Of configurations with equal names, the last one stays.
    fn from_iter<I: IntoIterator<Item = (SmolStr, PluginConf)>>(plugins: I) -> Self {
        let mut sorted: Vec<(SmolStr, PluginConf)> = plugins.into_iter().collect();
        sorted.reverse();
        sorted.sort_by(|one, other| one.0.cmp(&other.0));
        sorted.dedup_by(|later, kept| later.0 == kept.0);
        Self(sorted.into())
    }
}

impl Index<&str> for PluginSet {
    type Output = PluginConf;

    /// # Panics
    /// If the set does not contain the plugin.
    fn index(&self, name: &str) -> &PluginConf {
        self.get(name).expect("the set contains the plugin")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::PluginMeta;
    use super::*;

    fn set(plugins: &[(&str, u32)]) -> PluginSet {
        let conf = |count: u32| PluginConf { conf: json!(count), meta: PluginMeta::default() };
        plugins.iter().map(|(name, count)| (SmolStr::new(*name), conf(*count))).collect()
    }

    #[test]
    fn plugins_are_in_the_order_of_names_and_found_by_them() {
        let set = set(&[("key-auth", 1), ("cors", 2), ("limit-count", 3)]);
        assert_eq!(set.keys().collect::<Vec<_>>(), ["cors", "key-auth", "limit-count"]);
        assert_eq!(set.get("cors").map(|conf| &conf.conf), Some(&json!(2)));
        assert!(set.contains_key("limit-count") && !set.contains_key("limit"));
        assert_eq!((set.len(), set.is_empty()), (3, false));
    }

    #[test]
    fn the_last_of_equal_names_stays() {
        assert_eq!(set(&[("cors", 1), ("a", 0), ("cors", 2)])["cors"].conf, json!(2));
    }

    #[test]
    fn a_plugin_without_settings_takes_the_room_of_its_name_and_conf() {
        let (name, conf) = (size_of::<SmolStr>(), size_of::<serde_json::Value>());
        assert_eq!(size_of::<(SmolStr, PluginConf)>(), name + conf + size_of::<usize>());
    }
}
