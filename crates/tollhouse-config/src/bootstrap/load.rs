//! Resolution of the configuration from file, environment and flags. For each key, the later source
//! wins.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tollhouse_model::{Problem, Problems};

use super::keys::{KEYS, Key, find};
use super::{AccessLog, Bootstrap, LogFiles, check, discovery, layers, otel};
use crate::substitute::{Environment, substitute};
use crate::{file, yaml};

/// Origin of a configured value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Default,
    File,
    /// The value comes from the environment variable of this name.
    Environment(String),
    Flag,
}

impl std::fmt::Display for Source {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Default => out.write_str("default"),
            Source::File => out.write_str("file"),
            Source::Environment(variable) => write!(out, "environment {variable}"),
            Source::Flag => out.write_str("flag"),
        }
    }
}

/// A valid bootstrap configuration with the origin of its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub bootstrap: Bootstrap,
    /// Warnings about settings without effect.
    pub problems: Problems,
    sources: Vec<(&'static str, Source)>,
}

impl Loaded {
    /// Returns each key with the origin of its value, in the order of the table.
    pub fn sources(&self) -> impl Iterator<Item = (&'static str, &Source)> {
        self.sources.iter().map(|(name, source)| (*name, source))
    }

    /// Lists every key with value and origin, one per line: `listen.http = 127.0.0.1:9080
    /// (default)`. Secrets are replaced by stars.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (key, (name, source)) in KEYS.iter().zip(&self.sources) {
            text.push_str(&format!("{name} = {} ({source})\n", (key.show)(&self.bootstrap)));
        }
        text
    }
}

impl Bootstrap {
    /// Reads the file, if any, and applies the environment and then the flags. A flag is a dotted
    /// key with its value as text.
    ///
    /// # Errors
    /// All problems of all sources, if any is an error.
    pub fn load(
        file: Option<&Path>,
        environment: &impl Fn(&str) -> Option<String>,
        overrides: &[(String, String)],
    ) -> Result<Loaded, Problems> {
        let text = match file.map(file::read).transpose() {
            Ok(text) => text,
            Err(problem) => return Err(only(problem)),
        };
        Self::parse(text.as_deref(), environment, overrides)
    }

    /// Like `load`, with the text of the file.
    ///
    /// # Errors
    /// All problems of all sources, if any is an error.
    pub fn parse(
        text: Option<&str>,
        environment: &impl Fn(&str) -> Option<String>,
        overrides: &[(String, String)],
    ) -> Result<Loaded, Problems> {
        let mut value = yaml::parse(text.unwrap_or_default()).map_err(only)?;
        let mut resolver = Resolver::new();
        substitute(&mut value, "", environment, &mut resolver.problems);
        if let Some(registries) = value.get_mut("discovery") {
            discovery::resolve(registries, environment, &mut resolver.problems);
        }
        resolver.apply(source_tree_layer(environment), |_| Source::Environment(CARGO.to_owned()));
        // Variables of OpenTelemetry fill in what the file leaves out.
        let variables = otel::layer(environment);
        let values = variables.iter().map(|it| (it.key, it.value.clone())).collect();
        resolver.apply(values, |key| {
            let source = variables.iter().find(|it| it.key == key.name);
            Source::Environment(source.map_or_else(String::new, |it| it.variable.to_owned()))
        });
        let layer = layers::parse_layer(value, &mut resolver.problems);
        resolver.apply(layer, |_| Source::File);
        resolver.apply(environment_layer(environment), |key| Source::Environment(key.variable()));
        let flags = resolver.flag_layer(overrides);
        resolver.apply(flags, |_| Source::Flag);
        if otel::is_disabled(environment) {
            resolver.bootstrap.tracing.enabled = false;
        }
        resolver.finish()
    }
}

/// Builder of the resolved configuration, which applies one source after another.
struct Resolver {
    bootstrap: Bootstrap,
    sources: Vec<(&'static str, Source)>,
    problems: Problems,
}

impl Resolver {
    fn new() -> Self {
        Self {
            bootstrap: Bootstrap::default(),
            sources: KEYS.iter().map(|key| (key.name, Source::Default)).collect(),
            problems: Problems::new(),
        }
    }

    fn apply(&mut self, layer: layers::Layer, source: impl Fn(&Key) -> Source) {
        for (name, value) in layer {
            let Some(index) = KEYS.iter().position(|key| key.name == name) else { continue };
            let key = &KEYS[index];
            let source = source(key);
            if let Err(refusals) = (key.read)(&mut self.bootstrap, &value) {
                for refusal in refusals {
                    let path = match &source {
                        Source::Environment(variable) => variable.clone(),
                        Source::Flag => format!("{name} (flag)"),
                        Source::File | Source::Default => name.to_owned(),
                    };
                    let problem = Problem::error(path, refusal.reason).with_hint(refusal.hint);
                    let problem = if key.secret { problem } else { problem.with_value(&value) };
                    self.problems.push(problem);
                }
            }
            self.sources[index].1 = source;
        }
    }

    fn flag_layer(&mut self, overrides: &[(String, String)]) -> layers::Layer {
        let mut layer = layers::Layer::new();
        for (name, text) in overrides {
            match find(name) {
                Some(key) => layer.push((key.name, Value::from(text.as_str()))),
                None => self.problems.push(layers::unknown(name)),
            }
        }
        layer
    }

    fn finish(mut self) -> Result<Loaded, Problems> {
        let given = |name: &str| {
            let source = self.sources.iter().find(|(key, _)| *key == name);
            source.is_some_and(|(_, source)| *source != Source::Default)
        };
        if !given("access_log.file") {
            self.bootstrap.access_log.file = AccessLog::in_folder(&self.bootstrap.data_dir).file;
        }
        if !given("log_files.folder") {
            self.bootstrap.log_files = LogFiles::in_folder(&self.bootstrap.data_dir);
        }
        check::check(&self.bootstrap, given, &mut self.problems);
        if self.problems.has_errors() {
            return Err(self.problems);
        }
        Ok(Loaded { bootstrap: self.bootstrap, problems: self.problems, sources: self.sources })
    }
}

/// Variable that cargo sets for the programs it runs: the folder of their package.
const CARGO: &str = "CARGO_MANIFEST_DIR";

/// Default data folder of a program that cargo runs within the source tree: the user's folder for
/// state, so that keys and stores stay out of the tree.
fn source_tree_layer(environment: Environment<'_>) -> layers::Layer {
    let folder = || {
        let package = PathBuf::from(environment(CARGO)?);
        let tree = package.parent()?.parent()?;
        if !std::env::current_dir().ok()?.starts_with(tree) {
            return None;
        }
        let home = || Some(PathBuf::from(environment("HOME")?).join(".local/state"));
        let state = environment("XDG_STATE_HOME").map(PathBuf::from).or_else(home)?;
        state.join("tollhouse").into_os_string().into_string().ok()
    };
    folder().map(|folder| ("data_dir", Value::from(folder))).into_iter().collect()
}

fn environment_layer(environment: Environment<'_>) -> layers::Layer {
    let value =
        |key: &'static Key| environment(&key.variable()).map(|text| (key.name, Value::from(text)));
    KEYS.iter().filter_map(value).collect()
}

fn only(problem: Problem) -> Problems {
    let mut problems = Problems::new();
    problems.push(problem);
    problems
}
