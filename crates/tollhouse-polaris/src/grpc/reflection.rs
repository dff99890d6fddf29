//! `grpc.reflection` in both versions: tools query methods and messages from the server itself.
//!
//! A file is sent with all its imports, so that one query is enough. The schema has no extensions.

use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::Bytes;
use prost::Message;
use prost_reflect::{DescriptorPool, FileDescriptor};

use super::service::{Call, Outcome, Reply, Services};
use super::status::{Code, Status};
use messages::server_reflection_request::MessageRequest as Question;
use messages::server_reflection_response::MessageResponse as Findings;
use messages::{
    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse,
    ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
};

#[expect(clippy::enum_variant_names, reason = "the names are those of the schema")]
mod messages {
    include!("../../generated/grpc.reflection.v1.rs");
}

/// Names of the service, by version; their messages differ in the package only.
const NAMES: [&str; 2] =
    ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

/// Adds both reflection services, which cover all services added before them and the files of
/// `pool`.
#[must_use]
pub fn add(services: Services, pool: &'static DescriptorPool) -> Services {
    let names = services.names().chain(NAMES).collect();
    let catalogue = Rc::new(Catalogue { names, pool });
    let alpha = Rc::clone(&catalogue);
    services
        .each(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            move |_: &Rc<Call>, message| Reply::Now(catalogue.answer(&message)),
        )
        .each(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            move |_: &Rc<Call>, message| Reply::Now(alpha.answer(&message)),
        )
}

struct Catalogue {
    names: BTreeSet<&'static str>,
    pool: &'static DescriptorPool,
}

impl Catalogue {
    fn answer(&self, message: &Bytes) -> Outcome {
        let request = ServerReflectionRequest::decode(&**message)
            .map_err(|error| Status::new(Code::Internal, error.to_string()))?;
        let findings = self.find(request.message_request.as_ref());
        let response = ServerReflectionResponse {
            valid_host: request.host.clone(),
            original_request: Some(request),
            message_response: Some(findings),
        };
        Ok(Bytes::from(response.encode_to_vec()).into())
    }

    fn find(&self, question: Option<&Question>) -> Findings {
        match question {
            None => refused(Code::InvalidArgument, "the request asks nothing"),
            Some(Question::ListServices(_)) => {
                let name = |name: &&str| ServiceResponse { name: (*name).to_owned() };
                let service = self.names.iter().map(name).collect();
                Findings::ListServicesResponse(ListServiceResponse { service })
            }
            Some(Question::FileByFilename(name)) => files(self.pool.get_file_by_name(name), name),
            Some(Question::FileContainingSymbol(name)) => files(self.file_of_symbol(name), name),
            Some(Question::FileContainingExtension(extension)) => {
                files(None, &extension.containing_type)
            }
            Some(Question::AllExtensionNumbersOfType(name)) => {
                match self.pool.get_message_by_name(name) {
                    None => files(None, name),
                    Some(_) => Findings::AllExtensionNumbersResponse(ExtensionNumberResponse {
                        base_type_name: name.clone(),
                        extension_number: Vec::new(),
                    }),
                }
            }
        }
    }

    /// Returns the file that declares a message, enum, service, or a member of one.
    fn file_of_symbol(&self, name: &str) -> Option<FileDescriptor> {
        let name = name.strip_prefix('.').unwrap_or(name);
        self.file_of_type(name).or_else(|| {
            let (parent, member) = name.rsplit_once('.')?;
            self.file_of_member(parent, member)
        })
    }

    fn file_of_type(&self, name: &str) -> Option<FileDescriptor> {
        let pool = self.pool;
        let message = pool.get_message_by_name(name).map(|found| found.parent_file());
        let found = message.or_else(|| pool.get_enum_by_name(name).map(|e| e.parent_file()));
        found.or_else(|| pool.get_service_by_name(name).map(|found| found.parent_file()))
    }

    fn file_of_member(&self, parent: &str, member: &str) -> Option<FileDescriptor> {
        if let Some(service) = self.pool.get_service_by_name(parent) {
            let is_there = service.methods().any(|method| method.name() == member);
            return is_there.then(|| service.parent_file());
        }
        if let Some(message) = self.pool.get_message_by_name(parent) {
            let is_there = message.get_field_by_name(member).is_some()
                || message.oneofs().any(|oneof| oneof.name() == member);
            return is_there.then(|| message.parent_file());
        }
        let found = self.pool.get_enum_by_name(parent)?;
        found.get_value_by_name(member).map(|_| found.parent_file())
    }
}

/// Returns a file and all its imports.
fn files(file: Option<FileDescriptor>, name: &str) -> Findings {
    let Some(file) = file else {
        return refused(Code::NotFound, &format!("{name} is not known here"));
    };
    let mut seen = BTreeSet::new();
    let mut file_descriptor_proto = Vec::new();
    let mut next = vec![file];
    while let Some(file) = next.pop() {
        if seen.insert(file.name().to_owned()) {
            file_descriptor_proto.push(file.encode_to_vec());
            next.extend(file.dependencies());
        }
    }
    Findings::FileDescriptorResponse(FileDescriptorResponse { file_descriptor_proto })
}

fn refused(code: Code, message: &str) -> Findings {
    let error_message = message.to_owned();
    Findings::ErrorResponse(ErrorResponse { error_code: code as i32, error_message })
}
