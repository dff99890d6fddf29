//! Clients report themselves, and what their interfaces are.

use tollhouse_polaris::v1;

use super::{Polaris, code, some};
use crate::client::run;

#[test]
fn a_client_is_answered_with_itself_and_remembered_by_its_id() {
    // 40.
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let named = v1::Client {
            id: some("c1"),
            host: some("10.0.0.1"),
            r#type: 1,
            version: some("1"),
            location: Some(v1::Location::default()),
            ..v1::Client::default()
        };
        for sent in [named.clone(), v1::Client { id: None, ..named }, v1::Client::default()] {
            let response: v1::Response = client.call("/v1.PolarisGRPC/ReportClient", &sent).await;
            assert_eq!((code(&response), response.client), (200_000, Some(sent)));
        }
    });
    let known = polaris.registry.clients();
    assert_eq!(known.iter().map(|client| &*client.id).collect::<Vec<_>>(), ["c1"]);
}

#[test]
fn a_contract_is_stored_and_found_by_id_and_by_version() {
    let polaris = Polaris::start();
    let report = "/v1.PolarisServiceContractGRPC/ReportServiceContract";
    let get = "/v1.PolarisServiceContractGRPC/GetServiceContract";
    let text = |text: &str| text.to_owned();
    run(async {
        let client = polaris.connect().await;
        let contract = v1::ServiceContract {
            namespace: text("ns"),
            service: text("svc"),
            name: text("api"),
            protocol: text("http"),
            version: text("1"),
            content: text("openapi"),
            interfaces: vec![v1::InterfaceDescriptor { path: text("/a"), ..Default::default() }],
            ..Default::default()
        };
        let response: v1::Response = client.call(report, &contract).await;
        assert_eq!(code(&response), 200_000);
        let stored = response.service_contract.expect("the contract");
        assert!(!stored.id.is_empty() && !stored.revision.is_empty());
        let by_version = v1::ServiceContract {
            content: String::new(),
            interfaces: Vec::new(),
            ..contract.clone()
        };
        let by_id = v1::ServiceContract { id: stored.id.clone(), ..Default::default() };
        for asked in [by_version, by_id] {
            let response: v1::Response = client.call(get, &asked).await;
            assert_eq!(response.service_contract.as_ref(), Some(&stored), "{asked:?}");
        }
        let other = v1::ServiceContract { version: text("2"), ..contract.clone() };
        for (call, asked, expected) in [
            (get, other, 400_202),
            (get, v1::ServiceContract { namespace: text(""), ..contract.clone() }, 400_110),
            (report, v1::ServiceContract { namespace: text(""), ..contract.clone() }, 400_110),
            (report, v1::ServiceContract { service: text(""), ..contract.clone() }, 400_120),
        ] {
            let response: v1::Response = client.call(call, &asked).await;
            assert_eq!(code(&response), expected, "{asked:?}");
        }
    });
}
