//! Polaris-specific conversions for the Admin API.

use serde_json::Value;
use tollhouse_admin::RegistryDialect;
use tollhouse_polaris::descriptors;
use tollhouse_polaris::json;
use tollhouse_polaris::registration::computed_id;
use tollhouse_polaris::rules::{layout_of, read_rule, rule_message, rule_schema};
use tollhouse_polaris::wire::InstanceRequest;
use tollhouse_registry::identity::PasswordHash;
use tollhouse_registry::{Client, NewRule, Rule, RuleKind, ServiceRef};

/// Implementation of the Admin API's registry calls for the Polaris dialect.
#[derive(Debug)]
pub struct PolarisDialect;

impl RegistryDialect for PolarisDialect {
    fn instance_id(&self, service: ServiceRef<'_>, vpc_id: &str, host: &str, port: u32) -> String {
        let mut request = InstanceRequest::default();
        request.namespace = Some(service.namespace);
        request.service = Some(service.name);
        request.vpc_id = Some(vpc_id);
        request.host = Some(host);
        request.port = Some(port);
        computed_id(&request)
    }

    fn show_rule(&self, rule: &Rule) -> Value {
        message_to_json(layout_of(rule.kind).message, rule_message(rule))
    }

    fn read_rule(&self, kind: RuleKind, value: &Value) -> Result<NewRule, String> {
        let name = layout_of(kind).message;
        let descriptor = descriptors().get_message_by_name(name).expect("it is in the schema");
        let message = json::read_kept(&descriptor, value.to_string().as_bytes());
        let message = message.map_err(|error| error.to_string())?;
        read_rule(kind, &message).map_err(|code| code.info().to_owned())
    }

    fn rule_schema(&self, kind: RuleKind) -> Value {
        rule_schema(kind)
    }

    fn show_client(&self, client: &Client) -> Value {
        message_to_json("v1.Client", &client.body)
    }

    fn is_password(&self, password: &str, hash: Option<&PasswordHash>) -> bool {
        tollhouse_polaris::is_password(password, hash)
    }
}

/// Returns a message as JSON; `null` if the bytes are invalid, which only happens in a damaged
/// store.
fn message_to_json(name: &str, message: &[u8]) -> Value {
    let descriptor = descriptors().get_message_by_name(name).expect("it is in the schema");
    let text = json::print(&descriptor, message).ok();
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_instance_gets_the_id_that_clients_would_give_it() {
        let service = ServiceRef { namespace: "ns-auto", name: "svc-a" };
        let id = PolarisDialect.instance_id(service, "", "127.0.0.1", 8080);
        assert_eq!(id, "c83801b575d0ed329fb95c1d38944df9006b4f82");
    }

    #[test]
    fn a_rule_is_read_and_what_is_none_is_refused() {
        let rule = json!({
            "name": "a", "namespace": "ns", "service": "svc", "type": "LOCAL",
            "amounts": [{"maxAmount": 100, "validDuration": "1s"}],
        });
        let read = PolarisDialect.read_rule(RuleKind::RateLimit, &rule).expect("it is one");
        assert_eq!((&*read.name, &*read.namespace), ("a", "ns"));
        for value in [json!(7), json!({"name": ["a"]}), json!({"name": "without amounts"})] {
            assert!(PolarisDialect.read_rule(RuleKind::RateLimit, &value).is_err(), "{value}");
        }
    }
}
