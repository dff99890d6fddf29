//! The protocol's schema as data, for JSON conversion and for reflection.

use prost::Message;
use prost_reflect::{DescriptorPool, FieldDescriptor};
use prost_types::{DescriptorProto, FileDescriptorSet};
use std::sync::LazyLock;

/// `FileDescriptorSet` of all files of the protocol and their imports.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!("../generated/polaris.bin");

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let set = FileDescriptorSet::decode(DESCRIPTOR_SET);
    let mut set = set.expect("the set was made by the compiler of the schema");
    set.file.iter_mut().flat_map(|file| &mut file.message_type).for_each(add_spellings);
    DescriptorPool::from_file_descriptor_set(set).expect("the set holds all that it speaks of")
});

/// Renames fields so that JSON may use either spelling: a field whose JSON name is that of the
/// schema (`logic_set`) gets the camel case form (`logicSet`) as its name.
fn add_spellings(message: &mut DescriptorProto) {
    for field in &mut message.field {
        if field.json_name == field.name {
            field.name = field.name.take().map(|name| in_one_word(&name));
        }
    }
    message.nested_type.iter_mut().for_each(add_spellings);
}

/// Converts a name from snake case to camel case: `logic_set` to `logicSet`.
fn in_one_word(name: &str) -> String {
    let mut parts = name.split('_');
    let mut word = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        word.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        word.push_str(letters.as_str());
    }
    word
}

/// Returns the original name of a field in the schema.
pub(crate) fn schema_name(field: &FieldDescriptor) -> String {
    let message = published().get_message_by_name(field.parent_message().full_name());
    let published = message.and_then(|message| message.get_field(field.number()));
    published.as_ref().unwrap_or(field).name().to_owned()
}

static PUBLISHED: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(DESCRIPTOR_SET).expect("the set was made by the compiler of the schema")
});

/// Returns the unmodified schema, for reflection.
pub fn published() -> &'static DescriptorPool {
    &PUBLISHED
}

/// Returns the schema with both spellings, for JSON; decoded once.
pub fn descriptors() -> &'static DescriptorPool {
    &POOL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_has_its_methods() {
        let methods: Vec<String> = descriptors()
            .services()
            .filter(|service| service.package_name() == "v1")
            .flat_map(|service| {
                service.methods().map(|m| m.full_name().to_owned()).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(
            methods,
            [
                "v1.PolarisGRPC.ReportClient",
                "v1.PolarisGRPC.RegisterInstance",
                "v1.PolarisGRPC.DeregisterInstance",
                "v1.PolarisGRPC.Discover",
                "v1.PolarisGRPC.WatchClientEvents",
                "v1.PolarisGRPC.Heartbeat",
                "v1.PolarisHeartbeatGRPC.BatchHeartbeat",
                "v1.PolarisHeartbeatGRPC.BatchGetHeartbeat",
                "v1.PolarisHeartbeatGRPC.BatchDelHeartbeat",
                "v1.PolarisServiceContractGRPC.ReportServiceContract",
                "v1.PolarisServiceContractGRPC.GetServiceContract",
                "v1.PolarisConfigGRPC.GetConfigFile",
                "v1.PolarisConfigGRPC.CreateConfigFile",
                "v1.PolarisConfigGRPC.UpdateConfigFile",
                "v1.PolarisConfigGRPC.PublishConfigFile",
                "v1.PolarisConfigGRPC.UpsertAndPublishConfigFile",
                "v1.PolarisConfigGRPC.WatchConfigFiles",
                "v1.PolarisConfigGRPC.GetConfigFileMetadataList",
                "v1.PolarisConfigGRPC.Discover",
            ]
        );
    }

    #[test]
    fn fields_that_changed_their_type_between_editions_are_not_declared() {
        for (message, number) in [("v1.Service", 26), ("v1.Namespace", 18)] {
            let message = descriptors().get_message_by_name(message).expect("declared");
            assert!(message.get_field(number).is_none(), "{message:?} {number}");
        }
    }

    #[test]
    fn json_names_are_those_clients_know() {
        let cases = [
            ("v1.Instance", 10, "healthCheck"),
            ("v1.Instance", 15, "logic_set"),
            ("v1.Instance", 20, "enableHealthCheck"),
            ("v1.Instance", 21, "vpc_id"),
            ("v1.DiscoverRequest", 30, "Filter"),
            ("v1.DiscoverRequest", 31, "Direction"),
            ("v1.DiscoverFilter", 1, "OnlyHealthyInstance"),
            ("v1.DiscoverResponse", 21, "aliasFor"),
            ("v1.RouteRule", 6, "routing_config"),
            ("v1.InstanceHeartbeat", 1, "instance_id"),
            ("v1.InstanceLabels", 4, "serviceId"),
            ("v1.Rule", 28, "custom_response"),
            ("v1.FaultDetectRule", 31, "extend_info"),
            ("v1.LaneRule", 14, "labelKey"),
        ];
        for (message, number, expected) in cases {
            let message = descriptors().get_message_by_name(message).expect("declared");
            let field = message.get_field(number).expect("declared");
            assert_eq!(field.json_name(), expected);
        }
    }

    #[test]
    fn fields_keep_their_names_beside_the_other_spelling() {
        let cases = [
            ("v1.Instance", 10, "health_check", "health_check"),
            ("v1.Instance", 15, "logic_set", "logicSet"),
            ("v1.Instance", 16, "ctime", "ctime"),
            ("v1.NearbyRoutingConfig", 4, "max_match_level", "maxMatchLevel"),
            ("v1.TrafficGray.Warmup", 1, "intervalSecond", "intervalSecond"),
        ];
        for (message, number, name, other) in cases {
            let message = descriptors().get_message_by_name(message).expect("declared");
            let field = message.get_field(number).expect("declared");
            assert_eq!((&*schema_name(&field), field.name()), (name, other));
        }
    }
}
