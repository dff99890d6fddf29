//! Clients report themselves, and what their interfaces are.

use prost::Message;
use tollhouse_polaris::v1;

use super::{Polaris, code, instance, some};
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

#[test]
fn of_a_client_is_remembered_what_is_shown_and_no_more() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let path = "/v1.PolarisGRPC/ReportClient";
        let plain =
            v1::Client { id: some("plain"), host: some("10.0.0.1"), ..v1::Client::default() };
        let mut longer = plain.encode_to_vec();
        // A field that this version does not know.
        longer.extend_from_slice(&[0xfa, 0x01, 0x80, 0x80, 0x40]);
        longer.resize(longer.len() + 1024 * 1024, b'x');
        let ended = client.0.unary(path, &longer).await;
        assert_eq!(ended.code, Some(0));
        let wordy = v1::Client {
            id: some("wordy"),
            version: some(&"v".repeat(3_000_000)),
            ..v1::Client::default()
        };
        let response: v1::Response = client.call(path, &wordy).await;
        assert_eq!((code(&response), response.client), (200_000, Some(wordy)));
        let known = polaris.registry.clients();
        assert_eq!(known.len(), 1);
        assert_eq!((&*known[0].id, &*known[0].body), ("plain", &*plain.encode_to_vec()));
    });
}

#[test]
fn a_flood_of_contracts_that_cannot_be_kept_refuses_nobody_else() {
    let polaris = Polaris::start();
    run(async {
        let client = polaris.connect().await;
        let path = "/v1.PolarisServiceContractGRPC/ReportServiceContract";
        let flood = v1::ServiceContract {
            namespace: "ns".to_owned(),
            service: "svc".to_owned(),
            r#type: "\u{1}".repeat(900_000),
            content: "x".repeat(100_000),
            ..Default::default()
        };
        for port in 1..=20 {
            let instance = instance("h", port);
            let (flooded, registered) =
                tokio::join!(client.call::<v1::Response>(path, &flood), client.register(&instance));
            assert_eq!((code(&flooded), code(&registered)), (400_103, 200_000));
        }
        assert_eq!(client.instances().await.len(), 20);
    });
}
