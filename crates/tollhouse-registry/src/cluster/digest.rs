//! Comparison of the nodes' states. Once a minute one node requests it with a commit. Each node
//! computes a checksum of its state as of that commit and publishes it. A node that is not with the
//! majority reads everything again. Without a majority all nodes do, because the store holds the
//! truth.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use super::NodeId;
use crate::state::State;

/// Prefix of the keys that hold checksums.
pub(crate) const DIGESTS: &str = "/digests/";

/// Key whose commits request a comparison.
pub(crate) const CALL: &str = "/digests/call";

/// Checksum over a node's state, to detect nodes that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Digest {
    /// Revision of the commit that requested the comparison.
    pub(crate) call: u64,
    pub(crate) sum: u64,
}

impl Digest {
    /// Computes the checksum of a state that contains all commits up to the request. Costs a few
    /// nanoseconds an instance.
    pub(crate) fn from_state(state: &State, call: u64) -> Self {
        let mut sum = fold(state.services_revision().0) ^ fold(state.namespaces_revision().0);
        for instance in state.instances() {
            let facts = u64::from(instance.port) << 32
                | u64::from(instance.weight) << 16
                | u64::from(instance.healthy) << 1
                | u64::from(instance.isolated);
            // Addition makes the sum independent of the order of instances.
            sum =
                sum.wrapping_add(mix(text(&instance.id) ^ mix(fold(instance.revision.0) ^ facts)));
        }
        Self { call, sum }
    }
}

/// Newest checksum that each member has reported.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    told: HashMap<NodeId, Digest>,
}

impl Digests {
    /// Stores the checksum of a node. Returns whether the node `own` must read everything again;
    /// false until all members have answered the latest request for checksums.
    pub(crate) fn differs(
        &mut self,
        node: NodeId,
        digest: Digest,
        own: Option<NodeId>,
        members: impl Iterator<Item = NodeId> + Clone,
    ) -> bool {
        self.told.insert(node, digest);
        self.told.retain(|node, _| members.clone().any(|member| member == *node));
        let Some(own) = own.and_then(|own| self.told.get(&own)).copied() else { return false };
        if own.call != digest.call {
            return false;
        }
        let of_call = |node| self.told.get(&node).filter(|it| it.call == digest.call);
        let Some(sums) =
            members.map(|node| of_call(node).map(|it| it.sum)).collect::<Option<Vec<_>>>()
        else {
            return false;
        };
        let with_own = sums.iter().filter(|sum| **sum == own.sum).count();
        with_own < sums.len() && with_own * 2 <= sums.len()
    }
}

fn fold(number: u128) -> u64 {
    let [high, low] = [number >> 64, number & u128::from(u64::MAX)];
    mix(u64::try_from(high).unwrap_or_default()) ^ u64::try_from(low).unwrap_or_default()
}

/// Returns FNV-1a of a text, because the hash must be equal on all nodes and in all versions.
fn text(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Mixes bits with the finalizer of `MurmurHash3`: every output bit depends on every input bit.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ bits >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ bits >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_with_most_reads_anew_once_all_have_told() {
        let members = [1, 2, 3].map(NodeId);
        let of = |sums: &[u64], own: u64| {
            let mut digests = Digests::default();
            let mut differs = false;
            for (node, sum) in members.into_iter().zip(sums) {
                let digest = Digest { call: 9, sum: *sum };
                let known = members.into_iter();
                differs = digests.differs(node, digest, Some(NodeId(own)), known);
            }
            differs
        };
        let cases: [(&[u64], [bool; 3]); 5] = [
            (&[5, 5, 5], [false, false, false]),
            (&[5, 6, 5], [false, true, false]),
            (&[5, 6, 7], [true, true, true]),
            (&[5, 6], [false, false, false]),
            (&[6, 5, 5], [true, false, false]),
        ];
        for (sums, expected) in cases {
            assert_eq!([1, 2, 3].map(|own| of(sums, own)), expected, "{sums:?}");
        }
        let mut digests = Digests::default();
        let two = [NodeId(1), NodeId(2)];
        for (node, call, sum) in [(1, 8, 5), (2, 9, 6), (1, 9, 7)] {
            let differs = digests.differs(
                NodeId(node),
                Digest { call, sum },
                Some(NodeId(1)),
                two.into_iter(),
            );
            assert_eq!(differs, call == 9 && node == 1, "of two nobody is with most");
        }
    }
}
