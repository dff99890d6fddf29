//! Validation of names, lengths and numbers. Checks run in the order of Polaris, so that an invalid
//! request gets Polaris' error code.

use crate::command::{DetailsChange, NewContract, NewInstance, ServiceChange};
use crate::instance::Location;
use crate::limits::{
    CONTRACT_KIND_CHARS_MAX, CONTRACT_PROTOCOL_CHARS_MAX, CONTRACT_VERSION_CHARS_MAX, EXPORTS_MAX,
    HOST_CHARS_MAX, INSTANCE_ID_CHARS_MAX, LOCATION_CHARS_MAX, LOGIC_SET_CHARS_MAX,
    NAMESPACE_CHARS_MAX, PROTOCOL_CHARS_MAX, SERVICE_CHARS_MAX, TEXT_CHARS_MAX,
    TTL_SECONDS_DEFAULT, TTL_SECONDS_MAX, UNKNOWN_BYTES_MAX, VPC_ID_CHARS_MAX, WEIGHT_MAX,
};
use crate::refusal::{Detail, Refusal};
pub(crate) use crate::texts::{is_longer, metadata, namespace_name, text};
use crate::texts::{is_service_name, refuse_if};

/// Checks a registration: metadata, lengths, names, host, port, id.
pub(crate) fn instance(new: &NewInstance) -> Result<(), Refusal> {
    metadata(&new.metadata, new.metadata_pairs)?;
    lengths(new)?;
    service_name(&new.service)?;
    namespace_name(&new.namespace)?;
    refuse_if(!is_host(&new.host), Refusal::Host)?;
    refuse_if(new.port.is_none(), Refusal::Port)?;
    refuse_if(!is_instance_id(&new.id), Refusal::InstanceId)
}

/// Checks lengths and numbers, and accepts empty or missing fields.
fn lengths(new: &NewInstance) -> Result<(), Refusal> {
    refuse_if(is_longer(&new.service, SERVICE_CHARS_MAX), Refusal::ServiceName)?;
    refuse_if(is_longer(&new.namespace, NAMESPACE_CHARS_MAX), Refusal::NamespaceName)?;
    refuse_if(is_longer(&new.host, HOST_CHARS_MAX), Refusal::Host)?;
    instance_texts(&new.protocol, &new.version, &new.logic_set)?;
    refuse_if(new.port.is_some_and(|port| port > u32::from(u16::MAX)), Refusal::Port)?;
    weight(new.weight)?;
    refuse_if(is_longer(&new.vpc_id, VPC_ID_CHARS_MAX), Refusal::Parameter("vpc_id"))?;
    new.location.as_ref().map_or(Ok(()), location)?;
    refuse_if(new.unknown.len() > UNKNOWN_BYTES_MAX, Refusal::Parameter("unknown fields"))
}

pub(crate) fn instance_texts(
    protocol: &str,
    version: &str,
    logic_set: &str,
) -> Result<(), Refusal> {
    refuse_if(is_longer(protocol, PROTOCOL_CHARS_MAX), Refusal::Protocol)?;
    refuse_if(is_longer(version, PROTOCOL_CHARS_MAX), Refusal::Version)?;
    refuse_if(is_longer(logic_set, LOGIC_SET_CHARS_MAX), Refusal::LogicSet)
}

pub(crate) fn weight(weight: Option<u32>) -> Result<(), Refusal> {
    refuse_if(weight.is_some_and(|weight| weight > WEIGHT_MAX), Refusal::Parameter("weight"))
}

pub(crate) fn location(location: &Location) -> Result<(), Refusal> {
    let parts = [&location.region, &location.zone, &location.campus];
    let too_long = parts.into_iter().any(|part| is_longer(part, LOCATION_CHARS_MAX));
    refuse_if(too_long, Refusal::Parameter("location"))
}

pub(crate) fn service_name(text: &str) -> Result<(), Refusal> {
    refuse_if(!is_service_name(text), Refusal::ServiceName)
}

pub(crate) fn alias_name(text: &str) -> Result<(), Refusal> {
    refuse_if(!is_service_name(text), Refusal::AliasName)
}

/// Whether a text is a valid instance id. Control characters are refused, because line breaks and
/// escapes would forge lines in logs and terminals.
pub fn is_instance_id(text: &str) -> bool {
    !text.is_empty()
        && !is_longer(text, INSTANCE_ID_CHARS_MAX)
        && !text.chars().any(char::is_control)
}

/// Whether a text is a valid host. Surrounding blanks are ignored; control characters are refused.
pub fn is_host(text: &str) -> bool {
    let host = text.trim();
    !host.is_empty() && !is_longer(text, HOST_CHARS_MAX) && !host.chars().any(char::is_control)
}

/// Checks a service change, except for the service's name.
pub(crate) fn service(what: &ServiceChange) -> Result<(), Refusal> {
    what.metadata.as_ref().map_or(Ok(()), |given| metadata(given, 0))?;
    token(what.token.as_deref())?;
    details(&what.details)
}

/// Checks the descriptive fields of a service.
pub(crate) fn details(details: &DetailsChange) -> Result<(), Refusal> {
    let [first, second, third] = &details.cmdb_mod;
    let texts = [
        (&details.owners, Detail::Owners),
        (&details.ports, Detail::Ports),
        (&details.business, Detail::Business),
        (&details.department, Detail::Department),
        (first, Detail::Cmdb),
        (second, Detail::Cmdb),
        (third, Detail::Cmdb),
        (&details.comment, Detail::Comment),
    ];
    let is_too_long =
        |text: &Option<String>| text.as_deref().is_some_and(|text| is_longer(text, TEXT_CHARS_MAX));
    if let Some((_, detail)) = texts.into_iter().find(|(text, _)| is_too_long(text)) {
        return Err(Refusal::ServiceDetail(detail));
    }
    refuse_if(is_too_long(&details.platform_id), Refusal::Parameter("platform_id"))?;
    exports(details.export_to.as_deref().unwrap_or_default())
}

/// Checks the field `export_to`, the names of the namespaces that may see a service or namespace:
/// their number, and the length of each.
pub(crate) fn exports(names: &[String]) -> Result<(), Refusal> {
    let is_bad =
        names.len() > EXPORTS_MAX || names.iter().any(|name| is_longer(name, NAMESPACE_CHARS_MAX));
    refuse_if(is_bad, Refusal::Parameter("export_to"))
}

/// Checks the length of the token of a service or namespace.
pub(crate) fn token(token: Option<&str>) -> Result<(), Refusal> {
    text(token.unwrap_or_default(), "token")
}

pub(crate) fn contract(new: &NewContract) -> Result<(), Refusal> {
    service_name(&new.service.name)?;
    namespace_name(&new.service.namespace)?;
    let texts = [
        (&*new.id, INSTANCE_ID_CHARS_MAX, "id"),
        (&*new.kind, CONTRACT_KIND_CHARS_MAX, "type"),
        (&*new.protocol, CONTRACT_PROTOCOL_CHARS_MAX, "protocol"),
        (&*new.version, CONTRACT_VERSION_CHARS_MAX, "version"),
    ];
    let too_long = texts.into_iter().find(|(text, max, _)| is_longer(text, *max));
    too_long.map_or(Ok(()), |(_, _, what)| Err(Refusal::Parameter(what)))
}

/// Returns the interval between heartbeats in seconds; a value out of range becomes the default.
pub(crate) fn ttl_seconds(given: u32) -> u8 {
    match u8::try_from(given) {
        Ok(ttl @ 1..=TTL_SECONDS_MAX) => ttl,
        _ => TTL_SECONDS_DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> NewInstance {
        NewInstance {
            id: "i".into(),
            service: "s".into(),
            namespace: "n".into(),
            host: "h".into(),
            port: Some(0),
            ..NewInstance::default()
        }
    }

    #[test]
    fn each_fault_has_its_refusal_and_the_first_in_order_counts() {
        let long = |chars| "é".repeat(chars).into_boxed_str();
        let plain = |chars| "s".repeat(chars).into_boxed_str();
        let cases: Vec<(NewInstance, Refusal)> = vec![
            (NewInstance::default(), Refusal::ServiceName),
            (NewInstance { service: "s".into(), ..Default::default() }, Refusal::NamespaceName),
            (NewInstance { service: "s p".into(), ..good() }, Refusal::ServiceName),
            (NewInstance { service: "é".into(), ..good() }, Refusal::ServiceName),
            (NewInstance { service: plain(129), ..good() }, Refusal::ServiceName),
            (NewInstance { namespace: plain(65), ..good() }, Refusal::NamespaceName),
            (NewInstance { host: "".into(), ..good() }, Refusal::Host),
            (NewInstance { host: long(129), ..good() }, Refusal::Host),
            (NewInstance { host: "a\r\nforged".into(), ..good() }, Refusal::Host),
            (NewInstance { host: "a\u{1b}[2J".into(), ..good() }, Refusal::Host),
            (NewInstance { id: "a\nforged".into(), ..good() }, Refusal::InstanceId),
            (NewInstance { port: None, ..good() }, Refusal::Port),
            (NewInstance { port: Some(65_536), ..good() }, Refusal::Port),
            (NewInstance { protocol: long(33), ..good() }, Refusal::Protocol),
            (NewInstance { version: long(33), ..good() }, Refusal::Version),
            (NewInstance { logic_set: long(129), ..good() }, Refusal::LogicSet),
            (NewInstance { weight: Some(65_536), ..good() }, Refusal::Parameter("weight")),
            (NewInstance { metadata_pairs: 65, ..NewInstance::default() }, Refusal::Metadata),
            (NewInstance { id: "".into(), ..good() }, Refusal::InstanceId),
        ];
        for (new, refusal) in cases {
            assert_eq!(instance(&new), Err(refusal), "{new:?}");
        }
        let wide = NewInstance { host: long(128), protocol: long(32), ..good() };
        assert_eq!(instance(&wide), Ok(()), "lengths count characters");
        assert_eq!(instance(&NewInstance { service: "a-Z0./:_".into(), ..good() }), Ok(()));
    }

    #[test]
    fn seconds_between_heartbeats_out_of_range_are_five() {
        let cases = [(0, 5), (1, 1), (60, 60), (61, 5), (100, 5), (256, 5), (u32::MAX, 5)];
        for (given, expected) in cases {
            assert_eq!(ttl_seconds(given), expected, "{given}");
        }
    }
}
