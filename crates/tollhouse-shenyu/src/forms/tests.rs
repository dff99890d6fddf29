//! Forms against what reads the settings: a form that asks for what nobody reads misleads, and one that leaves something
//! out hides it.

use std::collections::BTreeSet;

use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;

use super::forms;
use crate::{
    access, breaker, cache, casdoor, cryptor, divide, jwt, limiter, logging, mock, oauth2, paths,
    record_store, rpc, shaping, sign,
};

/// Names the members that a reader knows, and reads nothing.
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

/// Another name for brokers, and what is only refused.
const UNASKED_OF_KAFKA: [&str; 2] = ["bootstrapServer", "compressAlg"];

#[test]
fn a_form_asks_for_what_the_plugin_reads_and_for_nothing_else() {
    let cases: Vec<(&str, BTreeSet<&str>)> = vec![
        ("divide/selector/items", read::<divide::HandleNode>()),
        ("websocket/selector/items", read::<divide::HandleNode>()),
        ("grpc/selector/items", read::<divide::HandleNode>()),
        ("springCloud/selector", read::<divide::SpringCloudHandle>()),
        ("divide/rule", read::<divide::HandleRule>()),
        ("websocket/rule", read::<divide::HandleRule>()),
        ("grpc/rule", read::<divide::HandleRule>()),
        ("springCloud/rule", read::<divide::HandleRule>()),
        ("dubbo/rule", read::<rpc::dubbo::Limits>()),
        ("waf/rule", read::<access::WafHandle>()),
        ("waf/config", read::<access::WafHandle>()),
        ("sign/rule", read::<sign::SignRule>()),
        ("keyAuth/rule", read::<access::KeyAuthRule>()),
        ("basicAuth/rule", read::<access::BasicAuthRule>()),
        ("basicAuth/config", read::<access::BasicAuthConfig>()),
        ("jwt/config", read::<jwt::Config>()),
        ("jwt/rule", read::<jwt::Handle>()),
        ("jwt/rule/properties/converter/items", read::<jwt::Converter>()),
        ("rateLimiter/config", read::<limiter::redis::Config>()),
        ("rateLimiter/rule", read::<limiter::Handle>()),
        ("cache/config", read::<cache::Config>()),
        ("cache/rule", read::<cache::Handle>()),
        ("hystrix/rule", read::<breaker::HystrixHandle>()),
        ("sentinel/rule", read::<breaker::SentinelHandle>()),
        ("resilience4j/rule", read::<breaker::Resilience4jHandle>()),
        ("mock/rule", read::<mock::Handle>()),
        ("redirect/rule", read::<paths::RedirectHandle>()),
        ("rewrite/rule", read::<paths::RewriteHandle>()),
        ("contextPath/rule", read::<paths::ContextPathHandle>()),
        ("paramMapping/rule", read::<shaping::MappingHandle>()),
        ("paramMapping/rule/properties/addParameterKeys/items", read::<shaping::BodyEdit>()),
        ("modifyResponse/rule", read::<shaping::ResponseHandle>()),
        ("request/rule", read::<shaping::RequestHandle>()),
        ("request/rule/properties/header", read::<shaping::HeaderEdits>()),
        ("request/rule/properties/parameter", read::<shaping::ParameterEdits>()),
        ("request/rule/properties/cookie", read::<shaping::CookieEdits>()),
        ("cryptorRequest/rule", read::<cryptor::Handle>()),
        ("cryptorResponse/rule", read::<cryptor::Handle>()),
        ("loggingConsole/config", read::<logging::Config>()),
        ("loggingConsole/rule", read::<logging::Handle>()),
        ("loggingKafka/config", &read::<record_store::KafkaConfig>() | &read::<logging::Config>()),
        ("loggingKafka/selector", read::<record_store::KafkaSelectorHandle>()),
        ("loggingKafka/rule", read::<logging::Handle>()),
        (
            "loggingElasticSearch/config",
            &read::<record_store::Config>() | &read::<logging::Config>(),
        ),
        ("loggingElasticSearch/rule", read::<logging::Handle>()),
        ("loggingClickHouse/config", &read::<record_store::Config>() | &read::<logging::Config>()),
        ("loggingClickHouse/rule", read::<logging::Handle>()),
        ("casdoor/config", read::<casdoor::Config>()),
        ("oauth2/config", read::<oauth2::Config>()),
    ];
    for (place, mut fields) in cases {
        let asked = asked(&format!("/plugins/{place}"));
        // One reader is for the rules and the configuration of this plugin.
        match place {
            "waf/rule" => drop(fields.remove("model")),
            "waf/config" => fields.retain(|field| *field == "model"),
            // Elasticsearch knows no databases.
            "loggingElasticSearch/config" => drop(fields.remove("database")),
            "loggingKafka/config" => fields.retain(|field| !UNASKED_OF_KAFKA.contains(field)),
            // The right spelling is taken as well.
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
