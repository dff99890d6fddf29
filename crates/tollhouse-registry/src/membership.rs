//! Membership: the nodes that share a registry, and the assignment of services to them.
//!
//! Services, not instances, are assigned to nodes, so that mass expiry and the counts of a service
//! are decided in one place. Each service goes to the member with the greatest hash of both
//! (rendezvous hashing), so that a joining or leaving member moves only its share.

use crate::cluster::NodeId;
use crate::key::ServiceRef;
use crate::revision::mix;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Membership {
    /// This process keeps the registry alone.
    Alone,
    Shared {
        /// This node; `None` while it is not a member.
        own: Option<NodeId>,
        /// Nodes that are members, this one included.
        members: Vec<NodeId>,
    },
}

impl Membership {
    /// Whether this process decides about the health of a service's instances.
    pub(crate) fn owns(&self, service: ServiceRef<'_>) -> bool {
        match self {
            Self::Alone => true,
            Self::Shared { own: None, .. } => false,
            Self::Shared { own: Some(own), members } => {
                let service = hash(service);
                let best = members.iter().max_by_key(|node| (mix(service ^ mix(node.0)), **node));
                best == Some(own)
            }
        }
    }
}

/// Returns FNV-1a of both names, because the hash must be equal on all nodes and in all versions.
fn hash(ServiceRef { namespace, name }: ServiceRef<'_>) -> u64 {
    let bytes = namespace.bytes().chain([0]).chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(own: u64, members: &[u64]) -> Membership {
        let members = members.iter().copied().map(NodeId).collect();
        Membership::Shared { own: Some(NodeId(own)), members }
    }

    #[test]
    fn every_service_has_one_owner_and_a_member_that_goes_moves_its_share_only() {
        let mut owned = [0; 3];
        for number in 0..3_000 {
            let name = format!("service-{number}");
            let service = ServiceRef { namespace: "default", name: &name };
            let owner = |members: &[u64]| -> Vec<u64> {
                members
                    .iter()
                    .copied()
                    .filter(|node| shared(*node, members).owns(service))
                    .collect()
            };
            let [of_three] = owner(&[1, 2, 3])[..] else { panic!("one owner") };
            owned[of_three as usize - 1] += 1;
            let [of_two] = owner(&[1, 3])[..] else { panic!("one owner") };
            assert!(of_three == 2 || of_two == of_three);
        }
        assert!(owned.iter().all(|count| (800..1_200).contains(count)), "{owned:?}");
    }

    #[test]
    fn who_is_no_member_owns_nothing() {
        let service = ServiceRef { namespace: "default", name: "a" };
        assert!(!Membership::Shared { own: None, members: vec![NodeId(1)] }.owns(service));
        assert!(!shared(2, &[1]).owns(service));
    }
}
