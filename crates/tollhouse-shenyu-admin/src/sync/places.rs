//! Connection limits for gateways that follow. Gateways with a token have separate places, so that
//! clients without one cannot exhaust them. Of the places for anonymous gateways, one address gets
//! only some.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{GATEWAYS_MAX, STRANGERS_MAX, STRANGERS_PER_ADDRESS_MAX};

/// Client address of a connection, as an extension of its requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Limits on concurrent followers, with the number of free places.
#[derive(Debug)]
pub(crate) struct Places {
    known: Arc<Semaphore>,
    strangers: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// Occupied place, released when dropped.
#[derive(Debug)]
pub(crate) enum Place {
    Known(
        #[expect(dead_code, reason = "it is given back when it is dropped")] OwnedSemaphorePermit,
    ),
    Stranger(#[expect(dead_code, reason = "it is given back when it is dropped")] Stranger),
}

/// Place of a gateway without a token.
#[derive(Debug)]
pub(crate) struct Stranger {
    address: IpAddr,
    all: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Default for Places {
    fn default() -> Self {
        Self { known: Arc::new(Semaphore::new(GATEWAYS_MAX)), strangers: Arc::default() }
    }
}

impl Places {
    /// Occupies a place for a gateway with a token; `None` if all are taken.
    pub(crate) fn known(&self) -> Option<Place> {
        Arc::clone(&self.known).try_acquire_owned().ok().map(Place::Known)
    }

    /// Occupies a place for a gateway without a token; `None` if its address has used its share, or
    /// all are taken.
    pub(crate) fn stranger(&self, peer: Option<Peer>) -> Option<Place> {
        let address = network(peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(peer)| peer));
        let mut taken = lock(&self.strangers);
        let own = taken.get(&address).copied().unwrap_or(0);
        if own >= STRANGERS_PER_ADDRESS_MAX || taken.values().sum::<usize>() >= STRANGERS_MAX {
            return None;
        }
        taken.insert(address, own + 1);
        Some(Place::Stranger(Stranger { address, all: Arc::clone(&self.strangers) }))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut taken = lock(&self.all);
        let left = taken.get(&self.address).map_or(0, |own| own - 1);
        if left == 0 {
            taken.remove(&self.address);
        } else {
            taken.insert(self.address, left);
        }
    }
}

fn lock(taken: &Mutex<HashMap<IpAddr, usize>>) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the address that the share is counted for. IPv6 addresses are reduced to their /64
/// network, because one machine may have any number of addresses in it.
fn network(address: IpAddr) -> IpAddr {
    const HOST_BITS: u32 = 64;
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() >> HOST_BITS << HOST_BITS).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Option<Peer> {
        Some(Peer(address.parse().unwrap()))
    }

    #[test]
    fn whoever_is_unknown_takes_neither_the_places_of_others_nor_those_of_the_known() {
        let places = Places::default();
        let hoard: Vec<Place> = std::iter::from_fn(|| places.stranger(peer("10.0.0.1"))).collect();
        assert_eq!(hoard.len(), STRANGERS_PER_ADDRESS_MAX);
        assert!(places.stranger(peer("::ffff:10.0.0.1")).is_none(), "the same address");
        let other = places.stranger(peer("10.0.0.2")).expect("another's share is its own");
        let mut all = vec![other];
        for host in 3..=u8::MAX {
            let own = || places.stranger(peer(&format!("10.0.0.{host}")));
            all.extend(std::iter::from_fn(own));
        }
        assert_eq!(all.len() + hoard.len(), STRANGERS_MAX);
        assert!(places.known().is_some(), "who shows a token always finds a place");
        drop(hoard);
        assert!(places.stranger(peer("10.0.0.1")).is_some());
        drop(all);
        assert!(lock(&places.strangers).is_empty(), "nothing is remembered of who has gone");
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_places_of_the_known_are_bounded_too() {
        let places = Places::default();
        let address = |host: usize| peer(&format!("2001:db8::{host:x}"));
        let taken: Vec<Option<Place>> =
            (1..=STRANGERS_PER_ADDRESS_MAX).map(|host| places.stranger(address(host))).collect();
        assert!(taken.iter().all(Option::is_some));
        assert!(places.stranger(address(0xffff)).is_none());
        let known: Vec<Place> = std::iter::from_fn(|| places.known()).collect();
        assert_eq!(known.len(), GATEWAYS_MAX);
    }
}
