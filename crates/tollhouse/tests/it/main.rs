//! The running gateway, from outside: real sockets, real processes, one binary for all of it.
//!
//! Each module takes one side of the behaviour; what they share is in `support` and in the testkit.
//! A test is a gateway, some bytes, and what must come of them.

mod admin;
mod balancing;
mod bench;
mod bench_connections;
mod bench_dialects;
mod bench_ghz;
mod bench_suites;
mod bodies;
mod bodies_held;
mod cases;
mod clients;
mod connections;
mod control_api;
mod exit_codes;
mod fails_closed;
mod framing;
mod headers;
mod health;
mod http2;
mod lifecycle;
mod live;
mod metrics_apisix;
mod observability;
mod one_view;
mod peers;
mod plugins;
mod plugins_auth;
mod plugins_cache;
mod plugins_limits;
mod plugins_logging;
mod plugins_security;
mod plugins_together;
mod plugins_traffic;
mod plugins_transform;
mod proxy_protocol;
mod refusals;
mod registry_durability;
mod registry_floods;
mod registry_interop;
mod registry_shell;
mod registry_upstreams;
mod retries;
mod routing;
mod shell;
mod stream_routes;
mod stream_udp;
mod streaming;
mod succession;
mod support;
mod tls;
mod tls_clients;
mod tls_support;
mod upgrades;
