//! The table of discovery sources.
//!
//! A row holds everything about a source outside the file that follows its services
//! (`tollhouse-control/src/discovery/`): its names, the form of `service_name`, its arguments, and
//! the words that describe it. The parser, the schema, `explain`, the control API and the parts
//! that follow services use this table, so that a new source takes one row and one file.

use super::service_name::{ReadName, as_written, in_namespace, with_port};

/// Passes the table to the macro `$rows` as a list of rows: the file that follows the source, the
/// variant, the name in `discovery_type`, and [`Facts`].
#[macro_export]
macro_rules! discovery_sources {
    ($rows:ident) => {
        $rows! {
            /// Records of a name in DNS.
            dns: Dns "dns" {
                aliases: &[],
                origin: "dns",
                members: "nodes",
                service_name: "a name of DNS",
                read_name: as_written,
                arguments: &[],
                ignored: &[],
                first_nodes: FirstNodes::Awaited,
                is_reported: false,
            }
            /// Instances of a service of the registry.
            registry: Registry "registry" {
                aliases: &["polaris"],
                origin: "the registry",
                members: "instances",
                service_name: "namespace/service of the registry",
                read_name: in_namespace,
                arguments: &["namespace_id", "group_name", "metadata", "version", "warmup"],
                ignored: &[("group_name", "the registry knows no groups")],
                first_nodes: FirstNodes::Pushed,
                is_reported: true,
            }
            /// Instances of a service of Consul.
            consul: Consul "consul" {
                aliases: &[],
                origin: "Consul",
                members: "instances",
                service_name: "a service of Consul",
                read_name: as_written,
                arguments: &["metadata", "version", "warmup"],
                ignored: &[],
                first_nodes: FirstNodes::Awaited,
                is_reported: true,
            }
            /// Keys of the key-value store of Consul.
            consul_kv: ConsulKv "consul_kv" {
                aliases: &[],
                origin: "the key-value store of Consul",
                members: "nodes",
                service_name: "a service in the keys of Consul",
                read_name: as_written,
                arguments: &["warmup"],
                ignored: &[],
                first_nodes: FirstNodes::Awaited,
                is_reported: true,
            }
            /// Instances of a service of Nacos.
            nacos: Nacos "nacos" {
                aliases: &[],
                origin: "Nacos",
                members: "instances",
                service_name: "a service of Nacos",
                read_name: as_written,
                arguments: &["namespace_id", "group_name", "metadata", "version", "warmup"],
                ignored: &[],
                first_nodes: FirstNodes::Awaited,
                is_reported: true,
            }
            /// Instances of an application of Eureka.
            eureka: Eureka "eureka" {
                aliases: &[],
                origin: "Eureka",
                members: "instances",
                service_name: "an application of Eureka",
                read_name: as_written,
                arguments: &["metadata", "version", "warmup"],
                ignored: &[],
                first_nodes: FirstNodes::Awaited,
                is_reported: true,
            }
            /// Endpoints of a service of Kubernetes.
            kubernetes: Kubernetes "kubernetes" {
                aliases: &[],
                origin: "Kubernetes",
                members: "endpoints",
                service_name: "namespace/name:port of Kubernetes",
                read_name: with_port,
                arguments: &["warmup"],
                ignored: &[],
                first_nodes: FirstNodes::Awaited,
                is_reported: true,
            }
        }
    };
}

/// Facts about a source.
pub(super) struct Facts {
    /// Further names in `discovery_type`.
    pub(super) aliases: &'static [&'static str],
    /// Name of the source within a sentence.
    origin: &'static str,
    /// Word for the members of a service within a sentence, such as `nodes`.
    members: &'static str,
    /// Form of `service_name`, for the schema.
    service_name: &'static str,
    pub(super) read_name: ReadName,
    /// Names of the arguments that `discovery_args` may contain. If the list is empty, all
    /// arguments are ignored with a warning.
    pub(super) arguments: &'static [&'static str],
    /// Arguments without effect, with the reason.
    pub(super) ignored: &'static [(&'static str, &'static str)],
    first_nodes: FirstNodes,
    /// Whether the control API reports the upstreams that use the source.
    is_reported: bool,
}

/// Treatment of requests until a source has published nodes for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstNodes {
    /// Requests wait for the result of the first look-up.
    Awaited,
    /// Known nodes are published at once; without any, requests are refused.
    Pushed,
}

macro_rules! sources {
    ($(
        $(#[$doc:meta])*
        $module:ident: $source:ident $name:literal $facts:tt
    )+) => {
        /// Source of nodes outside the configuration.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum DiscoverySource {
            $($(#[$doc])* $source,)+
        }

        impl DiscoverySource {
            /// Sources in the order of display.
            pub const ALL: &'static [Self] = &[$(Self::$source),+];

            /// Returns the name of the source in `discovery_type`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$source => $name,)+
                }
            }

            pub(super) fn facts(self) -> &'static Facts {
                match self {
                    $(Self::$source => {
                        const FACTS: Facts = Facts $facts;
                        &FACTS
                    })+
                }
            }
        }
    };
}

crate::discovery_sources!(sources);

impl DiscoverySource {
    /// Looks a source up by its name or an alias.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|source| source.names().any(|known| known == name))
    }

    /// Returns the name of the source, then its aliases.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name()).chain(self.facts().aliases.iter().copied())
    }

    /// Returns the name of the source within a sentence, such as `the registry`.
    pub fn origin(self) -> &'static str {
        self.facts().origin
    }

    /// Returns the members of a service within a sentence: `nodes` or `instances`.
    pub fn members(self) -> &'static str {
        self.facts().members
    }

    pub fn first_nodes(self) -> FirstNodes {
        self.facts().first_nodes
    }

    /// Whether the control API reports the upstreams that use the source, at `/v1/discovery/`
    /// followed by its name.
    pub fn is_reported(self) -> bool {
        self.facts().is_reported
    }

    /// Whether `discovery_args` may contain this argument.
    pub(crate) fn takes(self, argument: &str) -> bool {
        self.facts().arguments.contains(&argument)
    }

    /// Returns all names as a phrase, `last` before the last one: `a, b and c (also spelt d)`.
    pub(crate) fn list_names(last: &str) -> String {
        let spelling = |source: &Self| match source.facts().aliases {
            [] => source.name().to_owned(),
            aliases => format!("{} (also spelt {})", source.name(), aliases.join(", ")),
        };
        join(&Self::ALL.iter().map(spelling).collect::<Vec<_>>(), last)
    }

    /// Returns the forms of `service_name` as a phrase.
    pub(crate) fn list_service_names() -> String {
        let forms = Self::ALL.iter().map(|source| source.facts().service_name.to_owned());
        join(&forms.collect::<Vec<_>>(), ", or ")
    }
}

fn join(items: &[String], last: &str) -> String {
    match items.split_last() {
        Some((only, [])) => only.clone(),
        Some((end, others)) => format!("{}{last}{end}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_found_by_its_names_and_by_no_other() {
        for source in DiscoverySource::ALL {
            for name in source.names() {
                assert_eq!(DiscoverySource::from_name(name), Some(*source));
            }
        }
        for name in ["", "Dns", "zookeeper"] {
            assert_eq!(DiscoverySource::from_name(name), None, "{name}");
        }
    }

    #[test]
    fn the_schema_tells_every_source_and_takes_every_argument() {
        let upstream = crate::schema::core("upstream").expect("there is a schema of upstreams");
        let fields = &upstream.document()["properties"];
        for (field, phrase) in [
            ("discovery_type", DiscoverySource::list_names(", or ")),
            ("service_name", DiscoverySource::list_service_names()),
        ] {
            let description = fields[field]["description"].as_str().expect("it is described");
            assert!(description.contains(&phrase), "{description}");
        }
        for argument in DiscoverySource::ALL.iter().flat_map(|source| source.facts().arguments) {
            let argument = &fields["discovery_args"]["properties"][argument];
            assert!(argument["description"].is_string(), "{argument}");
        }
    }
}
