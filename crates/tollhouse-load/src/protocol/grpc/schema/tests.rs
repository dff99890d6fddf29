//! Tests of the schema: descriptors from files and sets, and what is said when they do not fit.
//! Nothing here opens a connection.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::protocol::grpc::testing::testdata;

fn call_of(proto: PathBuf) -> GrpcCall {
    GrpcCall { proto: Some(proto), ..GrpcCall::default() }
}

fn pool(proto: PathBuf) -> Result<DescriptorPool, BenchError> {
    pool_of_files(&call_of(proto)).map(|pool| pool.expect("the case names a file"))
}

#[test]
fn a_call_is_written_with_a_slash_or_a_point() {
    for call in ["v1.PolarisGRPC/Discover", "v1.PolarisGRPC.Discover", "/v1.PolarisGRPC/Discover"] {
        let name = CallName::parse(call).expect(call);
        assert_eq!((name.service, name.method), ("v1.PolarisGRPC", "Discover"));
    }
    for call in ["", "Discover", "/Discover", "v1.", "v1/"] {
        assert!(CallName::parse(call).is_err(), "{call}");
    }
}

#[test]
fn a_proto_file_is_compiled_with_its_imports() {
    let pool = pool(testdata("polaris/grpcapi.proto")).expect("pool");
    let name = CallName { service: "v1.PolarisGRPC", method: "Discover" };
    let method = method(&pool, name).expect("method");
    assert_eq!(method.input().full_name(), "v1.DiscoverRequest");
    assert!(method.is_client_streaming() && method.is_server_streaming());
}

#[test]
fn imports_are_found_in_the_folders_given() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("api.proto");
    fs::write(&path, "syntax = \"proto3\"; import \"request.proto\"; service S { rpc M(v1.DiscoverRequest) returns (v1.DiscoverRequest); }").expect("write");
    let error = pool(path.clone()).expect_err("nothing to import").to_string();
    assert!(error.contains("api.proto:1:") && error.contains("request.proto"), "{error}");
    assert!(error.contains("looked for imports in"), "{error}");
    let call = GrpcCall { import_paths: vec![testdata("polaris")], ..call_of(path) };
    assert!(pool_of_files(&call).expect("pool").is_some());
}

#[test]
fn a_wrong_proto_file_is_named_with_line_and_column() {
    let folder = tempfile::tempdir().expect("folder");
    for (text, parts) in [
        ("syntax = \"proto3\";\nmessage M {\n  strin name = 1;\n}\n", ["wrong.proto:3:3", "strin"]),
        ("syntax = \"proto3\";\nmessage M {\n  string name 1;\n}\n", ["wrong.proto:3:15", "1"]),
    ] {
        let path = folder.path().join("wrong.proto");
        fs::write(&path, text).expect("write");
        let error = pool(path).expect_err("no proto").to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let error = pool(folder.path().join("absent.proto")).expect_err("absent").to_string();
    assert!(error.contains("absent.proto") && error.contains("No such file"), "{error}");
}

#[test]
fn a_protoset_may_leave_the_files_of_google_out() {
    let compiled = pool(testdata("polaris/grpcapi.proto")).expect("pool");
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("polaris.protoset");
    let is_own = |file: &FileDescriptorProto| !file.name().starts_with("google/");
    let file = compiled.file_descriptor_protos().filter(|file| is_own(file)).cloned().collect();
    fs::write(&path, FileDescriptorSet { file }.encode_to_vec()).expect("write");
    let call = GrpcCall { protoset: Some(path.clone()), ..GrpcCall::default() };
    let pool = pool_of_files(&call).expect("pool").expect("a file is named");
    assert!(pool.get_service_by_name("v1.PolarisGRPC").is_some());
    fs::write(&path, b"\xff\xff").expect("write");
    assert!(pool_of_files(&call).expect_err("no set").to_string().contains("is not a protoset"));
}

#[test]
fn an_unknown_call_is_named_with_what_there_is() {
    let pool = pool(testdata("polaris/grpcapi.proto")).expect("pool");
    for (service, name, part) in [
        ("v1.PolarisGRPC", "Discovr", "did you mean `Discover`"),
        ("v1.PolarisGRPC", "Quux", "RegisterInstance, DeregisterInstance"),
        ("v1.PolarisGrpc2", "Discover", "did you mean `v1.PolarisGRPC`"),
        ("other", "Discover", "there is v1.PolarisGRPC"),
    ] {
        let error = method(&pool, CallName { service, method: name }).expect_err(name).to_string();
        assert!(error.contains(part), "{error}");
    }
}
