//! Connection limits for gateways that follow. Gateways with a token have separate permits, so that
//! clients without one cannot exhaust them. Of the permits for anonymous gateways, one address gets
//! only some.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollhouse_net::failed_logins::client_of;
use tollhouse_web::Peer;

use crate::limits::{GATEWAYS_MAX, STRANGERS_MAX, STRANGERS_PER_ADDRESS_MAX};

/// Permits of connections that follow.
#[derive(Debug)]
pub(crate) struct FollowerPermits {
    authenticated: Arc<Semaphore>,
    anonymous: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// Permit of a connection, released when dropped.
#[derive(Debug)]
pub(crate) enum FollowerPermit {
    Authenticated(
        #[expect(dead_code, reason = "it is given back when it is dropped")] OwnedSemaphorePermit,
    ),
    Anonymous(#[expect(dead_code, reason = "it is given back when it is dropped")] AnonymousPermit),
}

/// Permit of a gateway without a token.
#[derive(Debug)]
pub(crate) struct AnonymousPermit {
    address: IpAddr,
    all: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Default for FollowerPermits {
    fn default() -> Self {
        Self { authenticated: Arc::new(Semaphore::new(GATEWAYS_MAX)), anonymous: Arc::default() }
    }
}

impl FollowerPermits {
    /// Takes a permit for a gateway with a token; `None` if all are taken.
    pub(crate) fn authenticated(&self) -> Option<FollowerPermit> {
        Arc::clone(&self.authenticated).try_acquire_owned().ok().map(FollowerPermit::Authenticated)
    }

    /// Takes a permit for a gateway without a token; `None` if its address has used its share, or
    /// all are taken.
    pub(crate) fn anonymous(&self, peer: Option<Peer>) -> Option<FollowerPermit> {
        let address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.address.ip());
        let address = client_of(address);
        let mut counts = lock(&self.anonymous);
        let own = counts.get(&address).copied().unwrap_or(0);
        if own >= STRANGERS_PER_ADDRESS_MAX || counts.values().sum::<usize>() >= STRANGERS_MAX {
            return None;
        }
        counts.insert(address, own + 1);
        Some(FollowerPermit::Anonymous(AnonymousPermit {
            address,
            all: Arc::clone(&self.anonymous),
        }))
    }
}

impl Drop for AnonymousPermit {
    fn drop(&mut self) {
        let mut counts = lock(&self.all);
        let left = counts.get(&self.address).map_or(0, |own| own - 1);
        if left == 0 {
            counts.remove(&self.address);
        } else {
            counts.insert(self.address, left);
        }
    }
}

fn lock(taken: &Mutex<HashMap<IpAddr, usize>>) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn peer(address: &str) -> Option<Peer> {
        let address = SocketAddr::new(address.parse().unwrap(), 1);
        Some(Peer { address, is_local: false })
    }

    #[test]
    fn whoever_is_unknown_takes_neither_the_places_of_others_nor_those_of_the_known() {
        let permits = FollowerPermits::default();
        let hoard: Vec<FollowerPermit> =
            std::iter::from_fn(|| permits.anonymous(peer("10.0.0.1"))).collect();
        assert_eq!(hoard.len(), STRANGERS_PER_ADDRESS_MAX);
        assert!(permits.anonymous(peer("::ffff:10.0.0.1")).is_none(), "the same address");
        let other = permits.anonymous(peer("10.0.0.2")).expect("another's share is its own");
        let mut all = vec![other];
        for host in 3..=u8::MAX {
            let own = || permits.anonymous(peer(&format!("10.0.0.{host}")));
            all.extend(std::iter::from_fn(own));
        }
        assert_eq!(all.len() + hoard.len(), STRANGERS_MAX);
        assert!(permits.authenticated().is_some(), "who shows a token always finds a place");
        drop(hoard);
        assert!(permits.anonymous(peer("10.0.0.1")).is_some());
        drop(all);
        assert!(lock(&permits.anonymous).is_empty(), "nothing is remembered of who has gone");
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_places_of_the_known_are_bounded_too() {
        let permits = FollowerPermits::default();
        let address = |host: usize| peer(&format!("2001:db8::{host:x}"));
        let counts: Vec<Option<FollowerPermit>> =
            (1..=STRANGERS_PER_ADDRESS_MAX).map(|host| permits.anonymous(address(host))).collect();
        assert!(counts.iter().all(Option::is_some));
        assert!(permits.anonymous(address(0xffff)).is_none());
        let all: Vec<FollowerPermit> = std::iter::from_fn(|| permits.authenticated()).collect();
        assert_eq!(all.len(), GATEWAYS_MAX);
    }
}
