//! Plugins, one file each. The module doc of each file is the plugin's manual page.
//!
//! A new plugin needs a file here and a line in the list below. The catalogue, the schemas of the
//! Admin API and the reference pages follow from that. `tollhouse-plugin` defines what a plugin may
//! do; nothing here knows the data plane.

#![forbid(unsafe_code)]

use tollhouse_plugin::{Catalogue, PluginType};

mod functions;
mod graphql;
mod http_client;
mod kafka;
mod logging;
mod oidc;
pub mod otlp;
mod redis;
mod script_calls;
mod serverless;
mod shared;
pub mod shenyu;
pub mod spans;

pub use oidc::code_flow;
pub use script_calls::ScriptCalls;

macro_rules! plugins {
    ($($module:ident::$plugin:ident,)*) => {
        $(pub mod $module;)*

        /// Returns the catalogue of all plugins.
        pub fn catalogue() -> Catalogue {
            Catalogue::new([$(PluginType::new::<$module::$plugin>()),*])
        }

        /// Manual pages: name and module source of each plugin.
        pub const PAGES: &[(&str, &str)] = &[$((
            <$module::$plugin as tollhouse_plugin::Plugin>::NAME,
            include_str!(concat!(stringify!($module), ".rs")),
        )),*];
    };
}

plugins! {
    acl::Acl,
    api_breaker::ApiBreaker,
    attach_consumer_label::AttachConsumerLabel,
    authz_casbin::AuthzCasbin,
    authz_casdoor::AuthzCasdoor,
    authz_keycloak::AuthzKeycloak,
    aws_lambda::AwsLambda,
    azure_functions::AzureFunctions,
    basic_auth::BasicAuth,
    batch_requests::BatchRequests,
    body_transformer::BodyTransformer,
    brotli::Brotli,
    cas_auth::CasAuth,
    chaitin_waf::ChaitinWaf,
    clickhouse_logger::ClickhouseLogger,
    client_control::ClientControl,
    consumer_restriction::ConsumerRestriction,
    cors::Cors,
    csrf::Csrf,
    data_mask::DataMask,
    datadog::Datadog,
    degraphql::Degraphql,
    echo::Echo,
    error_page::ErrorPage,
    example_plugin::ExamplePlugin,
    exit_transformer::ExitTransformer,
    elasticsearch_logger::ElasticsearchLogger,
    error_log_logger::ErrorLogLogger,
    fault_injection::FaultInjection,
    file_logger::FileLogger,
    forward_auth::ForwardAuth,
    google_cloud_logging::GoogleCloudLogging,
    graphql_limit_count::GraphqlLimitCount,
    graphql_proxy_cache::GraphqlProxyCache,
    grpc_transcode::GrpcTranscode,
    grpc_web::GrpcWeb,
    gzip::Gzip,
    hmac_auth::HmacAuth,
    http_logger::HttpLogger,
    ip_restriction::IpRestriction,
    jwe_decrypt::JweDecrypt,
    jwt_auth::JwtAuth,
    kafka_logger::KafkaLogger,
    key_auth::KeyAuth,
    ldap_auth::LdapAuth,
    limit_conn::LimitConn,
    limit_count::LimitCount,
    limit_req::LimitReq,
    log_rotate::LogRotate,
    loggly::Loggly,
    loki_logger::LokiLogger,
    mocking::Mocking,
    mqtt_proxy::MqttProxy,
    multi_auth::MultiAuth,
    node_status::NodeStatus,
    oas_validator::OasValidator,
    ocsp_stapling::OcspStapling,
    opa::Opa,
    openfunction::Openfunction,
    openid_connect::OpenidConnect,
    opentelemetry::Opentelemetry,
    openwhisk::Openwhisk,
    otlp_logger::OtlpLogger,
    prometheus::Prometheus,
    proxy_buffering::ProxyBuffering,
    proxy_cache::ProxyCache,
    proxy_control::ProxyControl,
    proxy_mirror::ProxyMirror,
    proxy_rewrite::ProxyRewrite,
    public_api::PublicApi,
    real_ip::RealIp,
    redirect::Redirect,
    referer_restriction::RefererRestriction,
    request_id::RequestId,
    request_validation::RequestValidation,
    response_rewrite::ResponseRewrite,
    retry_statuses::RetryStatuses,
    serverless_post_function::ServerlessPostFunction,
    serverless_pre_function::ServerlessPreFunction,
    server_info::ServerInfo,
    session_cookie::SessionCookie,
    skywalking::Skywalking,
    skywalking_logger::SkywalkingLogger,
    sls_logger::SlsLogger,
    splunk_hec_logging::SplunkHecLogging,
    syslog::Syslog,
    tcp_logger::TcpLogger,
    tencent_cloud_cls::TencentCloudCls,
    traffic_label::TrafficLabel,
    traffic_split::TrafficSplit,
    ua_restriction::UaRestriction,
    udp_logger::UdpLogger,
    uri_blocker::UriBlocker,
    wolf_rbac::WolfRbac,
    workflow::Workflow,
    zipkin::Zipkin,
}

/// Code of the guide, which doc tests compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/write-a-plugin.md")]
struct Guide;

#[cfg(test)]
mod tests;
