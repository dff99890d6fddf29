//! Comparison of the forms with the code that reads the settings: a form must offer exactly the
//! members that the gateway reads.

use std::collections::BTreeSet;

use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;

use super::forms;
use crate::plugins::*;
use crate::shared::*;

/// Deserializer that collects the names of the members that a type reads, without reading any.
struct Probe<'p>(&'p mut BTreeSet<&'static str>);

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Error::custom("no struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.extend(fields);
        Err(Error::custom("seen"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn read<T: DeserializeOwned>() -> BTreeSet<&'static str> {
    let mut fields = BTreeSet::new();
    let seen = T::deserialize(Probe(&mut fields));
    assert!(seen.is_err_and(|error| error.to_string() == "seen"));
    fields
}

fn asked(pointer: &str) -> BTreeSet<&'static str> {
    let properties = forms().pointer(&format!("{pointer}/properties"));
    let properties =
        properties.and_then(|it| it.as_object()).unwrap_or_else(|| panic!("{pointer}"));
    properties.keys().map(String::as_str).collect()
}

/// Members that the form omits: another name for the brokers, and a setting that is always refused.
const UNASKED_OF_KAFKA: [&str; 2] = ["bootstrapServer", "compressAlg"];

/// Places of forms, and the members that the gateway reads there.
fn readers() -> Vec<(&'static str, BTreeSet<&'static str>)> {
    vec![
        ("divide/selector/items", read::<nodes::HandleNode>()),
        ("websocket/selector/items", read::<nodes::HandleNode>()),
        ("grpc/selector/items", read::<nodes::HandleNode>()),
        ("springCloud/selector", read::<spring_cloud::SpringCloudHandle>()),
        ("divide/rule", read::<nodes::HandleRule>()),
        ("websocket/rule", read::<nodes::HandleRule>()),
        ("grpc/rule", read::<nodes::HandleRule>()),
        ("springCloud/rule", read::<nodes::HandleRule>()),
        ("dubbo/rule", read::<dubbo::method::Limits>()),
        ("waf/rule", read::<waf::WafHandle>()),
        ("waf/config", read::<waf::WafHandle>()),
        ("sign/rule", read::<sign::SignRule>()),
        ("keyAuth/rule", read::<key_auth::KeyAuthRule>()),
        ("basicAuth/rule", read::<basic_auth::BasicAuthRule>()),
        ("basicAuth/config", read::<basic_auth::BasicAuthConfig>()),
        ("jwt/config", read::<jwt::Config>()),
        ("jwt/rule", read::<jwt::Handle>()),
        ("jwt/rule/properties/converter/items", read::<jwt::Converter>()),
        ("rateLimiter/config", read::<rate_limiter::limiter::redis::Config>()),
        ("rateLimiter/rule", read::<rate_limiter::limiter::Handle>()),
        ("cache/config", read::<cache::store::Config>()),
        ("cache/rule", read::<cache::store::Handle>()),
        ("hystrix/rule", read::<hystrix::HystrixHandle>()),
        ("sentinel/rule", read::<sentinel::SentinelHandle>()),
        ("resilience4j/rule", read::<resilience4j::Resilience4jHandle>()),
        ("mock/rule", read::<mock::Handle>()),
        ("redirect/rule", read::<redirect::RedirectHandle>()),
        ("rewrite/rule", read::<rewrite::RewriteHandle>()),
        ("contextPath/rule", read::<context_path::ContextPathHandle>()),
        ("paramMapping/rule", read::<param_mapping::MappingHandle>()),
        ("paramMapping/rule/properties/addParameterKeys/items", read::<edits::BodyEdit>()),
        ("modifyResponse/rule", read::<modify_response::ResponseHandle>()),
        ("request/rule", read::<request::RequestHandle>()),
        ("request/rule/properties/header", read::<request::HeaderEdits>()),
        ("request/rule/properties/parameter", read::<request::ParameterEdits>()),
        ("request/rule/properties/cookie", read::<request::CookieEdits>()),
        ("cryptorRequest/rule", read::<cryptor::Handle>()),
        ("cryptorResponse/rule", read::<cryptor::Handle>()),
        ("loggingConsole/config", read::<record_rule::Config>()),
        ("loggingConsole/rule", read::<record_rule::Handle>()),
        (
            "loggingKafka/config",
            &read::<record_store::KafkaConfig>() | &read::<record_rule::Config>(),
        ),
        ("loggingKafka/selector", read::<record_store::KafkaSelectorHandle>()),
        ("loggingKafka/rule", read::<record_rule::Handle>()),
        (
            "loggingElasticSearch/config",
            &read::<record_store::Config>() | &read::<record_rule::Config>(),
        ),
        ("loggingElasticSearch/rule", read::<record_rule::Handle>()),
        (
            "loggingClickHouse/config",
            &read::<record_store::Config>() | &read::<record_rule::Config>(),
        ),
        ("loggingClickHouse/rule", read::<record_rule::Handle>()),
        ("casdoor/config", read::<casdoor::Config>()),
        ("oauth2/config", read::<oauth2::client::Config>()),
    ]
}

#[test]
fn a_form_asks_for_what_the_plugin_reads_and_for_nothing_else() {
    for (place, mut fields) in readers() {
        let asked = asked(&format!("/plugins/{place}"));
        // One reader is for the rules and the configuration of this plugin.
        match place {
            "waf/rule" => drop(fields.remove("model")),
            "waf/config" => fields.retain(|field| *field == "model"),
            // Elasticsearch has no databases.
            "loggingElasticSearch/config" => drop(fields.remove("database")),
            "loggingKafka/config" => fields.retain(|field| !UNASKED_OF_KAFKA.contains(field)),
            // The correct spelling is accepted as well.
            "casdoor/config" => drop(fields.remove("client_secret")),
            // Both names are one member, and each plugin has its own.
            _ if asked.contains("url") && fields.contains("upstreamUrl") => {
                fields.remove("upstreamUrl");
            }
            _ if asked.contains("upstreamUrl") => drop(fields.remove("url")),
            _ => {}
        }
        assert_eq!(asked, fields, "{place}");
    }
}

#[test]
fn every_member_of_a_form_is_explained() {
    fn visit(place: &str, schema: &serde_json::Value) {
        let properties = schema.get("properties").and_then(|it| it.as_object());
        for (name, inner) in properties.into_iter().flatten() {
            let place = format!("{place}/{name}");
            let text = inner.get("description").and_then(|it| it.as_str()).unwrap_or_default();
            assert!(text.ends_with(['.', '}']), "{place}: {text}");
            visit(&place, inner);
        }
        for (name, inner) in schema.as_object().into_iter().flatten() {
            if inner.is_object() && name != "properties" {
                visit(&format!("{place}/{name}"), inner);
            }
        }
    }
    visit("", forms());
}
