//! Memory charged to clients and to their addresses, bounded in total and for each.

use std::collections::HashMap;
use std::hash::Hash;

use super::LimiterCode;
use super::owner::Peer;
use super::table::ClientKey;

/// Maximum memory of all counters and clients.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum memory of the clients of one address, so that no single host can fill the table.
pub(super) const PEER_BYTES_MAX: usize = BYTES_MAX / 8;

/// Maximum memory of one client: less than that of its address, because clients behind a proxy share one.
pub(super) const CLIENT_BYTES_MAX: usize = BYTES_MAX / 16;

/// Client, and its address, to which memory is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Payer {
    pub(super) client: ClientKey,
    pub(super) peer: Peer,
}

/// Supply of memory, on which the time that idle counters stay depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Supply {
    Ample,
    /// More than half of a bound is in use.
    Scarce,
}

#[derive(Debug, Default)]
pub(super) struct Shares {
    bytes: usize,
    peers: HashMap<Peer, usize>,
    clients: HashMap<ClientKey, usize>,
}

impl Shares {
    /// Charges memory, unless a bound is reached; then returns `code`.
    pub(super) fn take(
        &mut self,
        payer: Payer,
        bytes: usize,
        code: LimiterCode,
    ) -> Result<(), LimiterCode> {
        let (client, peer) = self.memory(payer);
        let is_free = self.bytes + bytes <= BYTES_MAX
            && peer + bytes <= PEER_BYTES_MAX
            && client + bytes <= CLIENT_BYTES_MAX;
        if !is_free {
            return Err(code);
        }
        self.charge(payer, bytes);
        Ok(())
    }

    pub(super) fn give_back(&mut self, payer: Payer, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        lower(&mut self.peers, payer.peer, bytes);
        lower(&mut self.clients, payer.client, bytes);
    }

    /// Charges to `heir` what `payer` has paid, also beyond the share of the heir.
    pub(super) fn pass_on(&mut self, payer: Payer, heir: Payer, bytes: usize) {
        self.give_back(payer, bytes);
        self.charge(heir, bytes);
    }

    /// Removes the share of a client that is gone; its address is charged further.
    pub(super) fn forget(&mut self, client: ClientKey) {
        self.clients.remove(&client);
    }

    pub(super) fn supply(&self, payer: Payer) -> Supply {
        let (client, peer) = self.memory(payer);
        let is_scarce = self.bytes > BYTES_MAX / 2
            || peer > PEER_BYTES_MAX / 2
            || client > CLIENT_BYTES_MAX / 2;
        if is_scarce { Supply::Scarce } else { Supply::Ample }
    }

    /// Returns the memory of a client and of its address.
    fn memory(&self, payer: Payer) -> (usize, usize) {
        let client = self.clients.get(&payer.client).copied().unwrap_or(0);
        (client, self.peers.get(&payer.peer).copied().unwrap_or(0))
    }

    fn charge(&mut self, payer: Payer, bytes: usize) {
        self.bytes += bytes;
        *self.peers.entry(payer.peer).or_default() += bytes;
        *self.clients.entry(payer.client).or_default() += bytes;
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let peers: usize = self.peers.values().sum();
        assert_eq!(self.bytes, peers, "the shares of all addresses add up");
        self.bytes
    }

    #[cfg(test)]
    pub(super) fn bytes_at(&self, peer: Peer) -> usize {
        self.peers.get(&peer).copied().unwrap_or(0)
    }
}

fn lower<K: Hash + Eq>(shares: &mut HashMap<K, usize>, key: K, bytes: usize) {
    if let Some(share) = shares.get_mut(&key) {
        *share = share.saturating_sub(bytes);
        if *share == 0 {
            shares.remove(&key);
        }
    }
}
