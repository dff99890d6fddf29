//! The balancing policies, one row each.
//!
//! A row is all that is said of a policy outside of the file that implements it, which is in
//! `tollhouse-upstream/src/balance/`: its name in documents, what may be configured for it, and the
//! type of that file. The parser, the schema, `explain` and the dispatch of `tollhouse-upstream` read
//! this table, so that a new policy is one more row and one more file.

/// Hands the table to the macro `$rows`, once, as a list of rows.
#[macro_export]
macro_rules! balancing_policies {
    ($rows:ident) => {
        $rows! {
            /// Nodes take turns, by weight.
            RoundRobin "roundrobin" {
                hashes_key: false, slow_start: true, table: round_robin::Schedule
            }
            /// Equal keys go to the same node: a ring of hashes.
            ConsistentHash "chash" {
                hashes_key: true, slow_start: false, table: consistent_hash::HashTable
            }
            /// The fewest requests under way, by weight.
            LeastConnections "least_conn" {
                hashes_key: false, slow_start: true, table: least_connections::LeastConnectionsTable
            }
            /// Of two nodes drawn, the one that has been answering faster.
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
        /// How one of several nodes is chosen.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Policy {
            $($(#[$doc])* $policy,)+
        }

        impl Policy {
            /// All of them, in the order in which people see them.
            pub const ALL: &'static [Policy] = &[$(Policy::$policy),+];

            /// Its name in documents.
            pub fn name(self) -> &'static str {
                match self {
                    $(Policy::$policy => $name,)+
                }
            }

            /// Whether it sends requests by a key, which `hash_on` and `key` name.
            pub fn hashes_key(self) -> bool {
                match self {
                    $(Policy::$policy => $hashes_key,)+
                }
            }

            /// Whether fresh nodes may start slowly: where weights count, and tables are cheap to
            /// make anew for every step.
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
    /// What an upstream has that names none, or one that nobody knows.
    pub const DEFAULT: Policy = Policy::RoundRobin;

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|policy| policy.name() == name)
    }

    /// Every name, as a sentence lists them: `a, b or c`.
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
