//! Command line parser with ghz's rules: long flags in full, letters with their value attached or
//! following, and the host anywhere.

use std::path::PathBuf;

use serde_json::Value;

use super::keys::{self, Key, Kind};
use super::settings::{Settings, Source};
use tollhouse_load::error::BenchError;

#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) config: Option<PathBuf>,
    pub(super) settings: Settings,
    pub(super) asked: Option<Text>,
}

/// Text that is printed, without a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    Help,
    Version,
}

pub(super) fn parse(arguments: &[String]) -> Result<Line, BenchError> {
    let mut line = Line::default();
    let mut rest = arguments.iter();
    let mut only_operands = false;
    while let Some(argument) = rest.next() {
        let bare = argument.trim_start_matches('-');
        match argument.len() - bare.len() {
            _ if only_operands => line.take_host(argument)?,
            2 if bare.is_empty() => only_operands = true,
            2 => line.take_long(bare, &mut rest)?,
            1 if !bare.is_empty() => line.take_letters(bare, &mut rest)?,
            _ => line.take_host(argument)?,
        }
    }
    Ok(line)
}

fn refused(why: String) -> BenchError {
    BenchError::Case { key: "ghz".into(), why }
}

impl Line {
    fn take_host(&mut self, host: &str) -> Result<(), BenchError> {
        if self.settings.has("host") {
            return Err(refused(format!("unexpected `{host}`; there is one host, at the end")));
        }
        self.settings.set("host", Value::from(host), Source::Flag);
        Ok(())
    }

    fn take_long<'a>(
        &mut self,
        text: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), BenchError> {
        let (name, attached) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        match name {
            "help" => self.asked = Some(Text::Help),
            "version" => self.asked = Some(Text::Version),
            _ => {
                let off = name.strip_prefix("no-").and_then(|name| keys::long_flag_key(name).ok());
                if let Some(key) = off.filter(|key| key.kind == Kind::Toggle && attached.is_none())
                {
                    self.settings.set(key.name, Value::from(false), Source::Flag);
                    return Ok(());
                }
                let key = keys::long_flag_key(name).map_err(refused)?;
                self.take(key, attached, rest)?;
            }
        }
        Ok(())
    }

    fn take_letters<'a>(
        &mut self,
        letters: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), BenchError> {
        for (at, letter) in letters.char_indices() {
            match letter {
                'h' => self.asked = Some(Text::Help),
                'v' => self.asked = Some(Text::Version),
                _ => {
                    let key = keys::letter_key(letter).map_err(refused)?;
                    let attached = &letters[at + letter.len_utf8()..];
                    if key.kind == Kind::Toggle {
                        self.take(key, None, rest)?;
                        continue;
                    }
                    let attached = attached.strip_prefix('=').unwrap_or(attached);
                    let value = (!attached.is_empty()).then(|| attached.to_owned());
                    return self.take(key, value, rest);
                }
            }
        }
        Ok(())
    }

    fn take<'a>(
        &mut self,
        key: &'static Key,
        attached: Option<String>,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), BenchError> {
        if key.kind == Kind::Toggle {
            let value = attached.map_or(Value::from(true), Value::from);
            self.settings.set(key.name, value, Source::Flag);
            return Ok(());
        }
        let value = attached.or_else(|| rest.next().cloned());
        let value = value.ok_or_else(|| refused(format!("--{} needs a value", key.name)))?;
        if key.name == "config" {
            let path = value.trim();
            self.config = (!path.is_empty()).then(|| PathBuf::from(path));
            return Ok(());
        }
        self.settings.set(key.name, from_text(key, value)?, Source::Flag);
        Ok(())
    }
}

/// Parses the value of a flag: JSON if the key's type is JSON, otherwise a text.
fn from_text(key: &Key, text: String) -> Result<Value, BenchError> {
    match key.kind {
        Kind::Data if text.trim() == "@" => Ok(Value::from("@")),
        Kind::Data | Kind::TextsByName if text.trim().is_empty() => Ok(Value::Null),
        Kind::Data | Kind::TextsByName => serde_json::from_str(&text)
            .map_err(|error| refused(format!("--{} is not JSON: {error}", key.name))),
        _ => Ok(Value::from(text)),
    }
}
