//! Mapping of the registry's refusals to Polaris' codes.

use crate::code::Code;
use std::borrow::Cow;
use tollhouse_registry::identity::IdentityKind;
use tollhouse_registry::{Detail, Noun, Refusal, RuleKind};

impl From<&Refusal> for Code {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::NamespaceName => Self::InvalidNamespaceName,
            Refusal::ServiceName => Self::InvalidServiceName,
            Refusal::AliasName => Self::InvalidServiceAlias,
            Refusal::InstanceId => Self::InvalidInstanceID,
            Refusal::Host => Self::InvalidInstanceHost,
            Refusal::Port => Self::InvalidInstancePort,
            Refusal::Protocol => Self::InvalidInstanceProtocol,
            Refusal::Version => Self::InvalidInstanceVersion,
            Refusal::LogicSet => Self::InvalidInstanceLogicSet,
            Refusal::Metadata => Self::InvalidMetadata,
            Refusal::ConfigGroupName => Self::InvalidConfigFileGroupName,
            Refusal::ConfigFileName => Self::InvalidConfigFileName,
            Refusal::ConfigTemplateName => Self::InvalidConfigFileTemplateName,
            Refusal::ConfigContent { .. } => Self::InvalidConfigFileContentLength,
            Refusal::ConfigTags => Self::InvalidConfigFileTags,
            Refusal::ConfigLabels => Self::InvalidMatchRule,
            Refusal::Parameter(_) => Self::InvalidParameter,
            Refusal::ServiceDetail(detail) => code_of_detail(*detail),
            Refusal::IsAlias | Refusal::BuiltIn => Self::BadRequest,
            Refusal::TooLarge => Self::InvalidParameter,
            Refusal::Exists => Self::ExistedResource,
            Refusal::NameTaken(kind) => code_of_taken_name(*kind),
            Refusal::NotFound(noun) => code_of_absence(*noun),
            Refusal::InUse(noun) => code_of_use(*noun),
            Refusal::NoChange => Self::NoNeedUpdate,
            Refusal::Conflict => Self::DataConflict,
            // Codes after which clients retry, because there may be room later or on another
            // server.
            Refusal::Store(_) | Refusal::Full { .. } | Refusal::OutOfMemory { .. } => {
                Self::StoreLayerException
            }
            Refusal::Busy | Refusal::Closed => Self::ExecuteException,
        }
    }
}

/// Returns the detail to add to the code's text.
pub fn detail_of(refusal: &Refusal) -> Option<Cow<'static, str>> {
    match refusal {
        Refusal::Parameter(name) => Some(Cow::Borrowed(name)),
        Refusal::IsAlias
        | Refusal::BuiltIn
        | Refusal::ConfigContent { .. }
        | Refusal::Full { .. }
        | Refusal::TooLarge
        | Refusal::OutOfMemory { .. }
        | Refusal::Busy
        | Refusal::Store(_)
        | Refusal::Closed => Some(Cow::Owned(refusal.to_string())),
        _ => None,
    }
}

fn code_of_detail(detail: Detail) -> Code {
    match detail {
        Detail::Owners => Code::InvalidServiceOwners,
        Detail::Ports => Code::InvalidServicePorts,
        Detail::Business => Code::InvalidServiceBusiness,
        Detail::Department => Code::InvalidServiceDepartment,
        Detail::Cmdb => Code::InvalidServiceCMDB,
        Detail::Comment => Code::InvalidServiceComment,
    }
}

/// Returns the code for a rule name in use. The code for circuit breakers is the one that Polaris'
/// server sends, which differs from the one in its list of codes.
fn code_of_taken_name(kind: RuleKind) -> Code {
    match kind {
        RuleKind::CircuitBreaker => Code::ServiceExistedCircuitBreakers,
        RuleKind::FaultDetector => Code::FaultDetectRuleExisted,
        _ => Code::ExistedResource,
    }
}

fn code_of_absence(noun: Noun) -> Code {
    match noun {
        Noun::Namespace => Code::NotFoundNamespace,
        Noun::Service => Code::NotFoundService,
        Noun::Alias => Code::NotFoundServiceAlias,
        Noun::Instance => Code::NotFoundInstance,
        Noun::Rule(kind) => crate::rules::layout_of(kind).not_found,
        Noun::Identity(IdentityKind::User) => Code::NotFoundUser,
        Noun::Identity(IdentityKind::Group) => Code::NotFoundUserGroup,
        Noun::Identity(IdentityKind::Policy) => Code::NotFoundAuthStrategyRule,
        Noun::Contract
        | Noun::ConfigGroup
        | Noun::ConfigFile
        | Noun::ConfigRelease
        | Noun::Identity(IdentityKind::Role) => Code::NotFoundResource,
    }
}

/// Returns the code for an object that cannot be deleted because objects of this kind depend on it.
fn code_of_use(noun: Noun) -> Code {
    match noun {
        Noun::Service => Code::NamespaceExistedServices,
        Noun::Instance => Code::ServiceExistedInstances,
        Noun::Alias => Code::ServiceExistedAlias,
        Noun::Rule(RuleKind::RateLimit) => Code::ServiceExistedRateLimits,
        Noun::Rule(RuleKind::CircuitBreaker) => Code::ServiceExistedCircuitBreakers,
        Noun::Rule(RuleKind::RoutingV1 | RuleKind::Routing | RuleKind::NearbyRouting) => {
            Code::ServiceExistedRoutings
        }
        Noun::ConfigGroup => Code::NamespaceExistedConfigGroups,
        Noun::ConfigFile => Code::ExistedResource,
        Noun::Namespace
        | Noun::Rule(_)
        | Noun::Contract
        | Noun::ConfigRelease
        | Noun::Identity(_) => Code::BadRequest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_the_codes_clients_know() {
        let cases = [
            (Refusal::ServiceName, 400_120, None),
            (Refusal::Parameter("weight"), 400_103, Some("weight")),
            (Refusal::IsAlias, 400_000, Some("service is alias")),
            (Refusal::InUse(Noun::Instance), 400_204, None),
            (Refusal::NotFound(Noun::Service), 400_301, None),
            (Refusal::NotFound(Noun::Rule(RuleKind::RateLimit)), 400_307, None),
            (Refusal::NameTaken(RuleKind::CircuitBreaker), 400_209, None),
            (Refusal::NameTaken(RuleKind::FaultDetector), 400_903, None),
            (Refusal::NameTaken(RuleKind::Lane), 400_201, None),
            (Refusal::NoChange, 200_002, None),
            (
                Refusal::Full { what: "rules", max: 7 },
                500_001,
                Some("the registry holds its 7 rules; delete some first"),
            ),
            (
                Refusal::Busy,
                500_000,
                Some("the registry has more to do than it can hold; try again"),
            ),
            (Refusal::Closed, 500_000, Some("the registry is shutting down")),
        ];
        for (refusal, number, detail) in cases {
            assert_eq!(Code::from(&refusal).number(), number, "{refusal:?}");
            assert_eq!(detail_of(&refusal).as_deref(), detail, "{refusal:?}");
        }
    }
}
