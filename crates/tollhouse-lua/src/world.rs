//! State that all cores share: settings, sources of the folder, dictionaries, and calls of other services.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use serde_json::{Map, Value};
use tollhouse_plugin::LocalFuture;

/// Total length of the keys and values of one dictionary, in bytes. Further values are refused with
/// `no memory`.
const DICTIONARY_BYTES_MAX: usize = 8 << 20;

/// Number of dictionaries; scripts name them freely.
const DICTIONARIES_MAX: usize = 64;

/// Bytes that an entry costs besides key and text.
const ENTRY_BYTES: usize = 64;

/// HTTP request of a script to another service.
#[derive(Debug, Clone)]
pub struct HttpCall {
    pub method: Vec<u8>,
    /// `http://` or `https://` address with path and query.
    pub uri: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    pub timeout_ms: u64,
    /// Whether the certificate of the service is verified.
    pub verifies: bool,
}

#[derive(Debug, Clone)]
pub struct HttpReply {
    pub status: u16,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

/// Redis command of a script.
#[derive(Debug, Clone)]
pub struct RedisCall {
    pub host: String,
    pub port: u16,
    pub tls: bool,
    pub timeout_ms: u64,
    pub username: Option<String>,
    pub password: Option<String>,
    pub database: i64,
    /// Name and arguments of the command.
    pub command: Vec<Vec<u8>>,
}

#[derive(Debug, Clone)]
pub enum RedisReply {
    Null,
    Number(i64),
    Text(Vec<u8>),
    List(Vec<RedisReply>),
    /// Error of the server, such as `WRONGTYPE …`.
    Error(String),
}

/// Calls of other services. They run on the worker's executor, and suspend only the script.
pub trait Outside: Send + Sync {
    /// Sends an HTTP request; an error is a text such as `timeout`.
    fn http<'a>(&'a self, call: HttpCall) -> LocalFuture<'a, Result<HttpReply, String>>;
    /// Sends a Redis command.
    fn redis<'a>(&'a self, call: RedisCall) -> LocalFuture<'a, Result<RedisReply, String>>;
}

/// Settings of scripts, from the bootstrap file.
pub struct Settings {
    /// Memory of each core's state, in bytes.
    pub memory_bytes: usize,
    /// Lua files of the folder: text by module name, such as `plugins.greet`.
    pub sources: BTreeMap<String, String>,
    /// `plugin_attr` of the bootstrap file, by plugin.
    pub attributes: Map<String, Value>,
    pub outside: Arc<dyn Outside>,
}

/// Settings and state that all cores share.
pub(crate) struct World {
    pub(crate) settings: Settings,
    dictionaries: Mutex<HashMap<Vec<u8>, Dictionary>>,
}

/// Value in a dictionary.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shared {
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
}

#[derive(Default)]
struct Dictionary {
    entries: HashMap<Vec<u8>, Entry>,
    bytes: usize,
}

struct Entry {
    value: Shared,
    /// Time at which the entry ends, in milliseconds since 1970; 0 for never.
    ends_ms: u64,
}

impl Shared {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Number(_) | Self::Boolean(_) => 8,
        }
    }
}

/// Condition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteIf {
    Always,
    Absent,
    Present,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, dictionaries: Mutex::default() }
    }

    fn with<T>(
        &self,
        name: &[u8],
        now_ms: u64,
        use_it: impl FnOnce(&mut Dictionary) -> T,
    ) -> Result<T, &'static str> {
        let mut all = self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(name) {
            if all.len() >= DICTIONARIES_MAX {
                return Err("no memory");
            }
            all.insert(name.to_vec(), Dictionary::default());
        }
        let dictionary = all.get_mut(name).ok_or("no memory")?;
        // Ended entries are removed when the dictionary is full.
        if dictionary.bytes > DICTIONARY_BYTES_MAX / 2 {
            dictionary.remove_ended(now_ms);
        }
        Ok(use_it(dictionary))
    }

    pub(crate) fn get(&self, name: &[u8], key: &[u8], now_ms: u64) -> Option<Shared> {
        let found = self.with(name, now_ms, |it| it.live(key, now_ms).map(|it| it.value.clone()));
        found.ok().flatten()
    }

    pub(crate) fn ends_ms(&self, name: &[u8], key: &[u8], now_ms: u64) -> Option<u64> {
        self.with(name, now_ms, |it| it.live(key, now_ms).map(|it| it.ends_ms)).ok().flatten()
    }

    pub(crate) fn set(
        &self,
        (name, key): (&[u8], &[u8]),
        value: Option<Shared>,
        (ends_ms, now_ms): (u64, u64),
        condition: WriteIf,
    ) -> Result<(), &'static str> {
        self.with(name, now_ms, |it| {
            let is_present = it.live(key, now_ms).is_some();
            match condition {
                WriteIf::Absent if is_present => return Err("exists"),
                WriteIf::Present if !is_present => return Err("not found"),
                _ => {}
            }
            it.put(key, value, ends_ms)
        })?
    }

    pub(crate) fn add(
        &self,
        (name, key): (&[u8], &[u8]),
        by: f64,
        start: Option<f64>,
        (ends_ms, now_ms): (u64, u64),
    ) -> Result<f64, &'static str> {
        self.with(name, now_ms, |it| match it.live(key, now_ms) {
            Some(Entry { value: Shared::Number(number), .. }) => {
                *number += by;
                Ok(*number)
            }
            Some(_) => Err("not a number"),
            None => {
                let sum = start.ok_or("not found")? + by;
                it.put(key, Some(Shared::Number(sum)), ends_ms)?;
                Ok(sum)
            }
        })?
    }

    pub(crate) fn expire(&self, name: &[u8], key: &[u8], ends_ms: u64, now_ms: u64) -> bool {
        let found = self.with(name, now_ms, |it| {
            it.live(key, now_ms).map(|entry| entry.ends_ms = ends_ms).is_some()
        });
        found.unwrap_or(false)
    }

    pub(crate) fn flush(&self, name: &[u8]) {
        let _ = self.with(name, 0, |it| *it = Dictionary::default());
    }

    pub(crate) fn keys(&self, name: &[u8], max: usize, now_ms: u64) -> Vec<Vec<u8>> {
        let found = self.with(name, now_ms, |it| {
            it.remove_ended(now_ms);
            it.entries.keys().take(max).cloned().collect()
        });
        found.unwrap_or_default()
    }
}

impl Dictionary {
    fn live(&mut self, key: &[u8], now_ms: u64) -> Option<&mut Entry> {
        self.entries.get_mut(key).filter(|entry| entry.ends_ms == 0 || entry.ends_ms > now_ms)
    }

    fn put(&mut self, key: &[u8], value: Option<Shared>, ends_ms: u64) -> Result<(), &'static str> {
        if let Some(old) = self.entries.remove(key) {
            self.bytes -= key.len() + old.value.bytes() + ENTRY_BYTES;
        }
        let Some(value) = value else { return Ok(()) };
        let bytes = key.len() + value.bytes() + ENTRY_BYTES;
        if self.bytes + bytes > DICTIONARY_BYTES_MAX {
            return Err("no memory");
        }
        self.bytes += bytes;
        self.entries.insert(key.to_vec(), Entry { value, ends_ms });
        Ok(())
    }

    fn remove_ended(&mut self, now_ms: u64) {
        let bytes = &mut self.bytes;
        self.entries.retain(|key, entry| {
            let stays = entry.ends_ms == 0 || entry.ends_ms > now_ms;
            if !stays {
                *bytes -= key.len() + entry.value.bytes() + ENTRY_BYTES;
            }
            stays
        });
    }
}
