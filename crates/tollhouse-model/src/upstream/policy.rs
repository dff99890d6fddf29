//! The table of balancing policies.
//!
//! A row holds everything about a policy outside the file that implements it
//! (`tollhouse-upstream/src/balance/`): its name in documents, its capabilities, and the type that
//! implements it. The parser, the schema, `explain` and the dispatch in `tollhouse-upstream` use
//! this table, so that a new policy takes one row and one file.

/// Passes the table to the macro `$rows` as a list of rows.
#[macro_export]
macro_rules! balancing_policies {
    ($rows:ident) => {
        $rows! {
            /// Nodes are picked in turn, in proportion to their weights.
            RoundRobin "roundrobin" {
                hashes_key: false, slow_start: true, table: round_robin::Schedule
            }
            /// Requests with equal keys go to one node, by a ring of hashes.
            ConsistentHash "chash" {
                hashes_key: true, slow_start: false, table: consistent_hash::HashTable
            }
            /// The node with the fewest active requests relative to its weight.
            LeastConnections "least_conn" {
                hashes_key: false, slow_start: true, table: least_connections::LeastConnectionsTable
            }
            /// Power of two choices, by a moving average of response times.
            Ewma "ewma" {
                hashes_key: false, slow_start: false, table: ewma::EwmaTable
            }
        }
    };
}

macro_rules! policies {
    ($(
        $(#[$doc:meta])*
        $policy:ident $name:literal {
            hashes_key: $hashes_key:literal, slow_start: $slow_start:literal, table: $($table:tt)*
        }
    )+) => {
        /// Policy that chooses one of several nodes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Policy {
            $($(#[$doc])* $policy,)+
        }

        impl Policy {
            /// Policies in the order of display.
            pub const ALL: &'static [Policy] = &[$(Policy::$policy),+];

            /// Returns the name of the policy in documents.
            pub fn name(self) -> &'static str {
                match self {
                    $(Policy::$policy => $name,)+
                }
            }

            /// Whether requests are distributed by the key that `hash_on` and `key` configure.
            pub fn hashes_key(self) -> bool {
                match self {
                    $(Policy::$policy => $hashes_key,)+
                }
            }

            /// Whether slow start is supported. Requires weights, and tables that are cheap to
            /// rebuild for every step.
            pub fn has_slow_start(self) -> bool {
                match self {
                    $(Policy::$policy => $slow_start,)+
                }
            }
        }
    };
}

crate::balancing_policies!(policies);

impl Policy {
    /// Default policy; also used for an unknown name.
    pub const DEFAULT: Policy = Policy::RoundRobin;

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|policy| policy.name() == name)
    }

    /// Returns the names of all policies as a phrase: `a, b or c`.
    pub fn list_names() -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|policy| policy.name()).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_its_own_name_and_by_no_other() {
        for policy in Policy::ALL {
            assert_eq!(Policy::from_name(policy.name()), Some(*policy));
        }
        for name in ["", "random", "RoundRobin", "Ewma"] {
            assert_eq!(Policy::from_name(name), None, "{name}");
        }
        assert!(Policy::list_names().starts_with("roundrobin, "));
    }

    #[test]
    fn the_schema_tells_every_name_and_the_default() {
        let upstream = crate::schema::core("upstream").expect("there is a schema of upstreams");
        let field = &upstream.document()["properties"]["type"];
        let description = field["description"].as_str().expect("it is described");
        assert!(description.contains(&Policy::list_names()), "{description}");
        assert_eq!(field["default"], Policy::DEFAULT.name());
    }
}
