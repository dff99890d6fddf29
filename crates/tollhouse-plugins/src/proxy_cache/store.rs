//! A zone, wherever it keeps answers, and the filter that collects an answer for it.

use std::sync::Arc;

use tollhouse_plugin::{BodyFilter, Scope};

use super::Strategy;
use super::disk::DiskZone;
use super::item::{Stored, VaryIndex};
use super::memory::MemoryZone;
use super::zones;

/// A zone.
#[derive(Clone)]
pub(super) enum Zone {
    Memory(Arc<MemoryZone>),
    Disk(Arc<DiskZone>),
}

impl Zone {
    /// The zone of that name, shared by all confs that name it.
    pub fn open(name: &str, strategy: Strategy, scope: &Scope<'_>) -> Result<Self, String> {
        let settings = zones::find(name, scope.services)
            .ok_or_else(|| format!("cache_zone {name} not found"))?;
        if settings.is_on_disk != (strategy == Strategy::Disk) {
            let strategy = if strategy == Strategy::Disk { "disk" } else { "memory" };
            return Err(format!("invalid or empty cache_zone for cache_strategy: {strategy}"));
        }
        let key = format!("proxy-cache/{name}");
        Ok(match strategy {
            Strategy::Memory => {
                Zone::Memory(scope.keep(&key, || MemoryZone::new(settings.memory_bytes)))
            }
            Strategy::Disk => {
                let is_plain = |name: char| name.is_ascii_alphanumeric() || "-_".contains(name);
                let folder = name.replace(|letter| !is_plain(letter), "_");
                let root = scope.services.data_dir.join("cache").join(folder);
                let (bytes_max, ttl_ms) = (settings.disk_bytes, settings.default_ttl_ms);
                let background = scope.services.background.clone();
                let make = || DiskZone::new(root, bytes_max, ttl_ms, background);
                Zone::Disk(scope.keep(&key, make))
            }
        })
    }

    /// Most bytes that it keeps.
    pub fn bytes_max(&self) -> u64 {
        match self {
            Zone::Memory(zone) => zone.bytes_max(),
            Zone::Disk(zone) => zone.bytes_max(),
        }
    }

    /// How long an answer lives that does not say; zones on the disk only.
    pub fn default_ttl_ms(&self) -> u64 {
        match self {
            Zone::Memory(_) => 0,
            Zone::Disk(zone) => zone.default_ttl_ms(),
        }
    }

    /// Drops what is kept under a key, or says that there is nothing.
    pub async fn purge(&self, key: &[u8]) -> bool {
        match self {
            Zone::Memory(zone) => zone.purge(key),
            Zone::Disk(zone) => zone.purge(key).await,
        }
    }
}

/// Under which key an answer will be kept.
pub(super) struct Keeper {
    pub key: Vec<u8>,
    /// The index that the key has on the disk.
    pub index: Option<VaryIndex>,
    /// For a new index.
    pub generation: u64,
}

/// Collects a body, and keeps the answer when all of it has passed.
pub(super) struct Saver {
    zone: Zone,
    keeper: Keeper,
    names: Vec<String>,
    signature: Vec<u8>,
    /// None once it is clear that it will not be kept.
    stored: Option<Stored>,
    body: Vec<u8>,
    content_length: Option<u64>,
    bytes_max: u64,
}

impl Saver {
    /// For an answer without a body.
    pub fn new(
        zone: Zone,
        keeper: Keeper,
        names: Vec<String>,
        signature: Vec<u8>,
        stored: Stored,
    ) -> Self {
        let (body, stored) = (Vec::new(), Some(stored));
        Self { zone, keeper, names, signature, stored, body, content_length: None, bytes_max: 0 }
    }

    /// For an answer whose body will pass.
    pub fn expecting(self, content_length: Option<u64>, bytes_max: u64) -> Self {
        Self { content_length, bytes_max, ..self }
    }

    /// Keeps the answer.
    pub fn save(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        let Some(mut stored) = self.stored.take() else { return };
        let body = std::mem::take(&mut self.body);
        if self.content_length.is_some_and(|bytes| bytes != body.len() as u64) {
            return;
        }
        stored.body = body.into();
        let names = std::mem::take(&mut self.names);
        match &self.zone {
            Zone::Memory(zone) => zone.keep(&self.keeper.key, names, &self.signature, stored),
            Zone::Disk(zone) => zone.keep(&self.keeper, names, &self.signature, stored),
        }
    }
}

impl BodyFilter for Saver {
    fn filter(&mut self, input: &[u8], is_last: bool, _out: &mut Vec<u8>) {
        if self.stored.is_none() {
            return;
        }
        if (self.body.len() + input.len()) as u64 > self.bytes_max {
            self.stored = None;
            self.body = Vec::new();
            return;
        }
        self.body.extend_from_slice(input);
        if is_last {
            self.finish();
        }
    }
}
