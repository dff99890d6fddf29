//! Fields newer than the schema that existing clients were built with. Some clients refuse an
//! answer that contains an unknown field, even if it is `null`, so that such a field is written
//! only if it is set.

/// Returns the numbers of a message's fields that are newer than version 1.5.3 of the schema, or that
/// only lists for the console have.
pub(super) fn newer_fields(message: &str) -> &'static [u32] {
    match message {
        "v1.BlockConfig" => &[5],
        "v1.CircuitBreakerRule" => &[40, 41, 51],
        "v1.Client" => &[100, 101, 102],
        "v1.DiscoverRequest" => &[31],
        "v1.DiscoverResponse" => &[25, 26, 27, 28, 29, 100],
        "v1.FaultDetectRule" => &[40, 41],
        "v1.HeartbeatRecord" => &[8],
        "v1.InterfaceDescriptor" => &[15],
        "v1.LaneGroup" => &[13],
        "v1.LaneRule" => &[14, 15],
        "v1.LosslessRule" => &[30, 31],
        "v1.Namespace" => &[100],
        "v1.Response" => &[100],
        "v1.Route" => &[50],
        "v1.RouteRule" => &[30, 31],
        "v1.Service" => &[27, 28, 100, 101],
        // Polaris' console reads the metadata (26) of every alias, and shows no list without it.
        "v1.ServiceAlias" => &[25],
        "v1.ServiceContract" => &[16, 20],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::descriptors;

    #[test]
    fn newer_fields_are_fields() {
        let mut count = 0;
        for message in descriptors().all_messages() {
            for number in newer_fields(message.full_name()) {
                assert!(message.get_field(*number).is_some(), "{} {number}", message.full_name());
                count += 1;
            }
        }
        assert_eq!(count, 35, "every name above is that of a message");
    }
}
