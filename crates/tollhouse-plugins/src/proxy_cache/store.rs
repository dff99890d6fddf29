//! Cache zone, in memory or on the disk, and the filter that collects an answer for the zone.

use std::path::PathBuf;
use std::sync::Arc;

use tollhouse_plugin::{BodyFilter, ConfError, Piece, Scope};
use tollhouse_stdx::Reservation;

use super::Strategy;
use super::disk::{Bounds, DiskLocation, DiskZone};
use super::item::{CachedResponse, VaryIndex, shared_body};
use super::memory::MemoryZone;
use super::owner::Owner;
use super::zones;

#[derive(Clone)]
pub(super) enum Zone {
    Memory(Arc<MemoryZone>),
    Disk(Arc<DiskZone>),
}

impl Zone {
    /// Opens the zone called `name`, which all confs that name it share.
    pub fn open(name: &str, strategy: Strategy, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let settings = zones::find(name, scope.services)?;
        let key = format!("proxy-cache/{name}");
        match (strategy, settings.disk) {
            (Strategy::Memory, None) => {
                let make = || MemoryZone::new(settings.memory_bytes);
                Ok(Zone::Memory(scope.keep(&key, make)))
            }
            (Strategy::Disk, Some(disk)) => {
                let place = DiskLocation {
                    root: disk.path.unwrap_or_else(|| default_root(name, scope)),
                    levels: disk.levels,
                };
                let bounds = Bounds { disk_bytes: disk.bytes, names_bytes: settings.memory_bytes };
                // Opened once however many confs name it: two owners would each bound the folder by
                // themselves.
                let make =
                    || DiskZone::open(place, bounds, settings.default_ttl_ms, scope.services);
                Ok(Zone::Disk(scope.keep(&key, make)))
            }
            (strategy, _) => {
                let strategy = if strategy == Strategy::Disk { "disk" } else { "memory" };
                let text = format!("invalid or empty cache_zone for cache_strategy: {strategy}");
                Err(text.into())
            }
        }
    }

    /// Returns the maximum number of bytes that the zone stores.
    pub fn bytes_max(&self) -> u64 {
        match self {
            Zone::Memory(zone) => zone.bytes_max(),
            Zone::Disk(zone) => zone.bytes_max(),
        }
    }

    /// Returns the default lifetime of answers in milliseconds; 0 for zones in memory, where the
    /// route sets it.
    pub fn default_ttl_ms(&self) -> u64 {
        match self {
            Zone::Memory(_) => 0,
            Zone::Disk(zone) => zone.default_ttl_ms(),
        }
    }

    /// Stores a complete answer.
    pub fn keep(
        &self,
        plan: &StorePlan,
        names: Vec<String>,
        signature: &[u8],
        stored: CachedResponse,
    ) {
        match self {
            Zone::Memory(zone) => zone.keep(&plan.key, names, signature, stored),
            Zone::Disk(zone) => zone.keep(plan, names, signature, stored),
        }
    }

    /// Drops the answer of a key, without waiting for the disk.
    pub fn forget(&self, key: &[u8]) {
        match self {
            Zone::Memory(zone) => {
                zone.purge(key);
            }
            Zone::Disk(zone) => zone.forget(key),
        }
    }

    /// Drops the answer of a key. Returns false if there was none.
    pub async fn purge(&self, key: &[u8]) -> bool {
        match self {
            Zone::Memory(zone) => zone.purge(key),
            Zone::Disk(zone) => zone.purge(key).await,
        }
    }
}

/// Returns the folder of a zone on the disk whose settings name none.
fn default_root(name: &str, scope: &Scope<'_>) -> PathBuf {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let folder = name.replace(|letter| !is_plain(letter), "_");
    scope.services.data_dir.join("cache").join(folder)
}

/// Key under which an answer will be stored, with further data for storing it.
pub(super) struct StorePlan {
    pub key: Vec<u8>,
    /// Index of the key on the disk, if any.
    pub index: Option<VaryIndex>,
    /// Generation that a new index gets.
    pub generation: u64,
    pub owner: Owner,
}

/// Body filter that collects a body, and stores the answer when the body is complete.
pub(super) struct Saver {
    zone: Zone,
    plan: StorePlan,
    names: Vec<String>,
    signature: Vec<u8>,
    /// Answer to store; `None` once it is clear that it will not be stored.
    stored: Option<CachedResponse>,
    body: Vec<u8>,
    /// Reservation of the answer's memory in the process's budget.
    reservation: Reservation,
    content_length: Option<u64>,
    bytes_max: u64,
}

/// Answer to be stored, without its body.
pub(super) struct PendingEntry {
    pub plan: StorePlan,
    /// Names of the request headers by which the answer differs from others.
    pub names: Vec<String>,
    /// Request's values of the headers in `names`.
    pub signature: Vec<u8>,
    pub stored: CachedResponse,
}

impl Saver {
    /// Creates the filter for an answer without a body; `reservation` grows to the size of the
    /// answer.
    pub fn new(zone: Zone, headed: PendingEntry, reservation: Reservation) -> Self {
        let PendingEntry { plan, names, signature, stored } = headed;
        Self {
            zone,
            plan,
            names,
            signature,
            stored: Some(stored),
            body: Vec::new(),
            reservation,
            content_length: None,
            bytes_max: 0,
        }
    }

    /// Prepares the filter for the answer's body.
    pub fn expecting(self, content_length: Option<u64>, bytes_max: u64) -> Self {
        // Room for the whole body is allocated at once, because the kernel provides memory only as
        // it fills.
        let room = content_length.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
        Self { content_length, bytes_max, body: Vec::with_capacity(room), ..self }
    }

    pub fn save(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        let Some(mut stored) = self.stored.take() else { return };
        let mut body = std::mem::take(&mut self.body);
        if self.content_length.is_some_and(|bytes| bytes != body.len() as u64) {
            return;
        }
        body.shrink_to_fit();
        let mut reservation = self.reservation.split();
        if !reservation.resize(stored.bytes() + body.len() as u64) {
            return;
        }
        stored.body = shared_body(body, reservation);
        let names = std::mem::take(&mut self.names);
        self.zone.keep(&self.plan, names, &self.signature, stored);
    }

    fn give_up(&mut self) {
        self.stored = None;
        self.body = Vec::new();
        drop(self.reservation.split());
    }
}

impl BodyFilter for Saver {
    fn reads_unsent_body(&self) -> bool {
        self.stored.is_some()
    }

    fn filter(&mut self, input: &[u8], piece: Piece, _out: &mut Vec<u8>) {
        if self.stored.is_none() {
            return;
        }
        let bytes = (self.body.len() + input.len()) as u64;
        if bytes > self.bytes_max || !self.reservation.resize(bytes) {
            return self.give_up();
        }
        self.body.extend_from_slice(input);
        if piece.is_last() {
            self.finish();
        }
    }
}
