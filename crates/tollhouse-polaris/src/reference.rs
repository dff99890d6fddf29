//! Page of the manual that lists the calls of Polaris with their state.
//!
//! The calls of Polaris are data; whether a call is served comes from the routers themselves, so that
//! the page cannot differ from the program.

mod original;

use crate::grpc::Services;
use crate::http;
use crate::schema::published;
use original::{HTTP_CALLS, REASONS};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Packages of the protocol; health and reflection belong to others.
const PACKAGES: [&str; 2] = ["v1", "polaris.metric.v2"];

const SERVED: &str = "served";

/// Returns the table of all calls, as Markdown.
pub fn calls_markdown(services: &Services) -> String {
    let mut page = String::from("### gRPC\n\n| Method | State |\n|---|---|\n");
    for path in methods() {
        let state = match services.has(&path) {
            true => SERVED,
            false => reason(&path),
        };
        row(&mut page, &path, state);
    }
    page.push_str("\n### HTTP\n\n| Call | State |\n|---|---|\n");
    let served = http_calls();
    for call in original_calls() {
        let plain = if served.contains(&call) { SERVED } else { MISSING };
        let state = reason_of(&call).unwrap_or(plain);
        row(&mut page, &call, state);
    }
    page.push_str("\nCalls that only this registry has:\n\n");
    let known: BTreeSet<String> = original_calls().collect();
    for call in served.difference(&known) {
        writeln!(page, "- `{call}`").expect("writing to a string cannot fail");
    }
    page
}

/// State of a call that is neither served nor explained; a test refuses it.
const MISSING: &str = "not served";

fn row(page: &mut String, call: &str, state: &str) {
    writeln!(page, "| `{call}` | {state} |").expect("writing to a string cannot fail");
}

fn reason(call: &str) -> &'static str {
    reason_of(call).unwrap_or(MISSING)
}

fn reason_of(call: &str) -> Option<&'static str> {
    REASONS.iter().find(|(known, _)| *known == call).map(|(_, reason)| *reason)
}

/// Returns the paths of the protocol's gRPC methods, in the order of the schema.
fn methods() -> Vec<String> {
    let services = published().services();
    let services = services.filter(|service| PACKAGES.contains(&service.package_name()));
    services
        .flat_map(|service| {
            let path = |method: prost_reflect::MethodDescriptor| {
                format!("/{}/{}", service.full_name(), method.name())
            };
            service.methods().map(path).collect::<Vec<_>>()
        })
        .collect()
}

/// Iterates over Polaris' HTTP calls as `METHOD path`.
fn original_calls() -> impl Iterator<Item = String> {
    HTTP_CALLS.iter().flat_map(|(path, methods)| {
        methods.split(' ').map(move |method| format!("{method} {path}"))
    })
}

fn http_calls() -> BTreeSet<String> {
    http::calls().into_iter().map(|(method, path)| format!("{method} {path}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Access, Account, Gate};
    use crate::dialect::Dialect;
    use crate::grpc::polaris;
    use std::sync::Arc;
    use tollhouse_registry::{Keeper, Options};

    async fn services() -> Services {
        let store = tollhouse_store::open(&tollhouse_store::Location::Memory).expect("memory");
        let (_, registry) = Keeper::open(store, Options::default()).await.expect("empty");
        let [name, password, token] = ["a", "b", "c"].map(str::to_owned);
        let account = Account { name, password, token };
        let access = Access::new(Gate::Locked, Gate::Open, account, "client".to_owned());
        polaris::services(Dialect::new(registry, Arc::new(access)))
    }

    #[tokio::test]
    async fn each_call_of_polaris_is_served_or_explained() {
        let page = calls_markdown(&services().await);
        let missing: Vec<&str> =
            page.lines().filter(|line| line.ends_with(&format!("| {MISSING} |"))).collect();
        assert!(missing.is_empty(), "{missing:#?}");
        assert!(page.contains("| `/v1.PolarisGRPC/RegisterInstance` | served |"), "{page}");
        assert!(page.contains("| `GET /naming/v1/services` | served |"), "{page}");
        assert!(page.contains("- `GET /core/v1/auth/rehearsal`"), "{page}");
    }

    #[test]
    fn reasons_belong_to_calls_of_polaris() {
        let known: BTreeSet<String> = original_calls().chain(methods()).collect();
        let strange: Vec<_> = REASONS.iter().filter(|(call, _)| !known.contains(*call)).collect();
        assert!(strange.is_empty(), "{strange:?}");
    }
}
