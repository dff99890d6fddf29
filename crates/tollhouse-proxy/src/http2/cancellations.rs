//! Cancelled requests of the clients of one core, counted by address across all connections.
//!
//! The requests of a client that cancels many use separate connections to nodes. If a client
//! cancels most of its requests, they are served to the end instead of being aborted.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv6Addr};

use hashbrown::HashMap;
use tollhouse_h2::{Bucket, Rate};

/// Maximum number of counted addresses; beyond it, those with the fewest cancelled requests are
/// dropped.
const ADDRESSES_MAX: usize = 4096;

/// Divisor of `ADDRESSES_MAX`: share of the addresses that is dropped at once.
const SHARE_FORGOTTEN: usize = 8;

/// Rate of cancelled requests beyond which a client's requests use separate connections to nodes.
/// Two connections to a node are used up by then.
const USUAL: Rate = Rate { burst: 100, per_second: 10 };

/// Rate of cancelled minus answered requests beyond which they count as a flood; equals the
/// allowance of five connections.
const FLOOD: Rate = Rate { burst: 5000, per_second: 100 };

/// Behaviour of the clients of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Conduct {
    #[default]
    Usual,
    /// The client cancels many requests.
    Cancelling,
    /// The client cancels the majority of its requests.
    Flooding,
}

/// Requests of one connection since its last report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) cancelled: u64,
    pub(super) answered: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    cancelled: Bucket,
    /// Number of cancelled requests minus the answered ones.
    unanswered: Bucket,
}

type Counts = HashMap<IpAddr, Count, foldhash::fast::RandomState>;

/// Counts of cancelled requests by address, of one core.
#[derive(Debug, Default)]
pub(crate) struct Cancellations {
    counts: RefCell<Counts>,
}

impl Cancellations {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.counts.borrow().is_empty()
    }

    /// Adds the requests of a client to the counts of its address; returns the behaviour of that
    /// address.
    pub(super) fn report(&self, address: IpAddr, share: Share, now_ms: u64) -> Conduct {
        let network = network(address);
        let mut counts = self.counts.borrow_mut();
        if !counts.contains_key(&network) {
            if share.cancelled == 0 {
                return Conduct::Usual;
            }
            if counts.len() >= ADDRESSES_MAX {
                forget_fewest(&mut counts, now_ms);
            }
        }
        let count = counts.entry(network).or_default();
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        count.unanswered.refund(number(share.answered));
        let is_usual = count.cancelled.take_many(number(share.cancelled), USUAL, now_ms);
        let is_answered = count.unanswered.take_many(number(share.cancelled), FLOOD, now_ms);
        match (is_usual, is_answered) {
            (_, false) => Conduct::Flooding,
            (false, true) => Conduct::Cancelling,
            (true, true) => Conduct::Usual,
        }
    }

    /// Removes addresses whose counts have decayed.
    pub(crate) fn sweep(&self, now_ms: u64) {
        self.counts.borrow_mut().retain(|_, count| !count.is_forgiven(now_ms));
    }
}

impl Count {
    fn is_forgiven(&mut self, now_ms: u64) -> bool {
        self.cancelled.is_whole(USUAL, now_ms) && self.unanswered.is_whole(FLOOD, now_ms)
    }
}

/// Returns the unit of counting: an IPv4 address, or an IPv6 /64 network, which usually belongs to
/// one client.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
    }
}

#[cold]
fn forget_fewest(counts: &mut Counts, now_ms: u64) {
    counts.retain(|_, count| !count.is_forgiven(now_ms));
    if counts.len() < ADDRESSES_MAX {
        return;
    }
    let mut taken: Vec<u64> = counts.values().map(|count| count.cancelled.taken()).collect();
    let (_, most_forgotten, _) = taken.select_nth_unstable(ADDRESSES_MAX / SHARE_FORGOTTEN);
    let (most_forgotten, mut left) = (*most_forgotten, ADDRESSES_MAX / SHARE_FORGOTTEN);
    counts.retain(|_, count| {
        let is_forgotten = left > 0 && count.cancelled.taken() <= most_forgotten;
        left -= usize::from(is_forgotten);
        !is_forgotten
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn cancelled(cancelled: u64) -> Share {
        Share { cancelled, answered: 0 }
    }

    #[test]
    fn what_an_address_takes_back_is_counted_over_all_of_its_connections() {
        let all = Cancellations::default();
        assert_eq!(all.report(CLIENT, cancelled(100), 0), Conduct::Usual);
        assert_eq!(all.report(CLIENT, cancelled(1), 0), Conduct::Cancelling);
        assert_eq!(all.report(CLIENT, cancelled(4899), 0), Conduct::Cancelling);
        assert_eq!(all.report(CLIENT, cancelled(1), 0), Conduct::Flooding);
        assert_eq!(
            all.report("127.0.0.2".parse().expect("an address"), cancelled(1), 0),
            Conduct::Usual
        );
        // The count decays with time and is then removed.
        assert_eq!(all.report(CLIENT, cancelled(0), 1000), Conduct::Cancelling);
        assert_eq!(all.report(CLIENT, cancelled(0), 60_000), Conduct::Usual);
        all.sweep(60_000);
        assert!(all.is_empty());
    }

    #[test]
    fn answered_requests_make_up_for_as_many_that_are_taken_back() {
        let all = Cancellations::default();
        for _ in 0..1000 {
            let share = Share { cancelled: 100, answered: 100 };
            assert_ne!(all.report(CLIENT, share, 0), Conduct::Flooding);
        }
        let none = Share { cancelled: 0, answered: 9 };
        assert_eq!(Cancellations::default().report(CLIENT, none, 0), Conduct::Usual);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let all = Cancellations::default();
        for host in 0..101_u32 {
            let address = format!("2001:db8::{host:x}").parse().expect("an address");
            let expected = if host < 100 { Conduct::Usual } else { Conduct::Cancelling };
            assert_eq!(all.report(address, cancelled(1), 0), expected, "{host}");
        }
    }

    #[test]
    fn addresses_without_end_push_out_those_that_took_back_the_fewest() {
        let all = Cancellations::default();
        all.report(CLIENT, cancelled(101), 0);
        for host in 0..3 * ADDRESSES_MAX as u32 {
            all.report(IpAddr::V4((0x0a00_0000 + host).into()), cancelled(1), 0);
            assert!(all.counts.borrow().len() <= ADDRESSES_MAX);
        }
        assert_eq!(all.report(CLIENT, cancelled(0), 0), Conduct::Cancelling);
    }
}
