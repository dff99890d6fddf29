//! Polaris' result codes: number, name and text.
//!
//! A code has six digits, of which the first three are the HTTP status.

mod chinese;

macro_rules! codes {
    ($($number:literal $name:ident $info:literal;)*) => {
        /// Result code of Polaris, in every answer.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $info] $name = $number,)*
        }

        impl Code {
            /// All codes, sorted by number.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the code's name in Polaris.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Returns the English text sent with the code.
            pub const fn info(self) -> &'static str {
                match self {
                    $(Self::$name => $info,)*
                }
            }
        }
    };
}

codes! {
    200000 ExecuteSuccess "execute success";
    200001 DataNoChange "discover data is no change";
    200002 NoNeedUpdate "update data is no change, no need to update";
    400000 BadRequest "bad request";
    400001 ParseException "request decode failed";
    400002 EmptyRequest "empty request";
    400003 BatchSizeOverLimit "batch size over the limit";
    400004 InvalidDiscoverResource "invalid discover resource";
    400101 InvalidUserName "invalid user name";
    400102 InvalidUserToken "invalid user token";
    400103 InvalidParameter "invalid parameter";
    400104 EmptyQueryParameter "query instance parameter is empty";
    400105 InvalidQueryInsParameter "query instance, (service,namespace) or host is required";
    400110 InvalidNamespaceName "invalid namespace name";
    400111 InvalidNamespaceOwners "invalid namespace owners";
    400112 InvalidNamespaceToken "invalid namespace token";
    400120 InvalidServiceName "invalid service name";
    400121 InvalidServiceOwners "invalid service owners";
    400122 InvalidServiceToken "invalid service token";
    400123 InvalidServiceMetadata "invalid service metadata";
    400124 InvalidServicePorts "invalid service ports";
    400125 InvalidServiceBusiness "invalid service business";
    400126 InvalidServiceDepartment "invalid service department";
    400127 InvalidServiceCMDB "invalid service CMDB";
    400128 InvalidServiceComment "invalid service comment";
    400129 InvalidServiceAliasComment "invalid service alias comment";
    400130 InvalidInstanceID "invalid instance id";
    400131 InvalidInstanceHost "invalid instance host";
    400132 InvalidInstancePort "invalid instance port";
    400133 InvalidServiceAlias "invalid service alias";
    400134 InvalidNamespaceWithAlias "invalid namespace with alias";
    400135 InvalidServiceAliasOwners "invalid service alias owners";
    400136 InvalidInstanceProtocol "invalid instance protocol";
    400137 InvalidInstanceVersion "invalid instance version";
    400138 InvalidInstanceLogicSet "invalid instance logic set";
    400139 InvalidInstanceIsolate "invalid instance isolate";
    400140 HealthCheckNotOpen "server not open health check";
    400141 HeartbeatOnDisabledIns "heartbeat on disabled instance";
    400142 HeartbeatExceedLimit "instance can only heartbeat 1 time per second";
    400143 HeartbeatTypeNotFound "heartbeat type not found";
    400150 InvalidMetadata "the length of metadata is too long or metadata contains invalid characters";
    400151 InvalidRateLimitID "invalid rate limit id";
    400152 InvalidRateLimitLabels "invalid rate limit labels";
    400153 InvalidRateLimitAmounts "invalid rate limit amounts";
    400154 InvalidRateLimitName "invalid rate limit name";
    400160 InvalidCircuitBreakerID "invalid circuit breaker id";
    400162 InvalidCircuitBreakerName "invalid circuit breaker name";
    400163 InvalidCircuitBreakerNamespace "invalid circuit breaker namespace";
    400168 InvalidCircuitBreakerComment "invalid circuit breaker comment";
    400169 CircuitBreakerRuleExisted "circuit breaker rule existed";
    400201 ExistedResource "existed resource";
    400202 NotFoundResource "not found resource";
    400203 NamespaceExistedServices "some services existed in namespace";
    400204 ServiceExistedInstances "some instances existed in service";
    400205 ServiceExistedRoutings "some routings existed in service";
    400206 ServiceExistedRateLimits "some rate limits existed in service";
    400208 SameInstanceRequest "the same instance request";
    400209 ServiceExistedCircuitBreakers "some circuit breakers existed in service";
    400210 ServiceExistedAlias "some aliases existed in service";
    400215 UserExisted "exist user";
    400216 UserGroupExisted "exist usergroup";
    400217 AuthStrategyRuleExisted "exist auth strategy rule";
    400218 SubAccountExisted "some sub-account existed in owner";
    400219 NamespaceExistedConfigGroups "some config groups existed in namespace";
    400301 NotFoundService "not found service";
    400302 NotFoundRouting "not found routing";
    400303 NotFoundInstance "not found instance";
    400304 NotFoundServiceAlias "not found service alias";
    400305 NotFoundNamespace "not found namespace";
    400306 NotFoundSourceService "not found the source service of the alias";
    400307 NotFoundRateLimit "not found rate limit";
    400308 NotFoundCircuitBreaker "not found circuit breaker";
    400312 NotFoundUser "not found user";
    400313 NotFoundOwnerUser "not found owner user";
    400314 NotFoundUserGroup "not found usergroup";
    400315 NotFoundAuthStrategyRule "not found auth strategy rule";
    400401 ClientAPINotOpen "client api is not open";
    400411 InvalidUserID "invalid user-id";
    400412 InvalidUserPassword "invalid user password";
    400413 InvalidUserMobile "invalid user mobile";
    400414 InvalidUserEmail "invalid user email";
    400421 InvalidUserGroupID "invalid usergroup id";
    400431 InvalidAuthStrategyName "invalid auth strategy rule name";
    400432 InvalidAuthStrategyID "invalid auth strategy rule id";
    400440 InvalidPrincipalType "invalid principal type";
    400501 NotAllowAliasUpdate "not allow service alias updating";
    400502 NotAllowAliasCreateInstance "not allow service alias creating instance";
    400503 NotAllowAliasCreateRouting "not allow service alias creating routing config";
    400504 NotAllowCreateAliasForAlias "not allow service alias creating for alias";
    400505 NotAllowAliasCreateRateLimit "not allow service alias creating rate limit";
    400506 NotAllowAliasBindRule "not allow service alias binding rule";
    400507 NotAllowDifferentNamespaceBindRule "not allow binding rules across namespaces";
    400508 NotAllowModifyDefaultStrategyPrincipal "not allow modify default strategy principal";
    400509 NotAllowModifyOwnerDefaultStrategy "not allow modify main account default strategy";
    400700 InvalidRoutingID "invalid routing id";
    400701 InvalidRoutingPolicy "invalid routing policy";
    400702 InvalidRoutingName "invalid routing name";
    400703 InvalidRoutingPriority "invalid routing priority";
    400801 InvalidConfigFileGroupName "invalid config file group name";
    400802 InvalidConfigFileName "invalid config file name";
    400803 InvalidConfigFileContentLength "config file content too long";
    400804 InvalidConfigFileFormat "invalid config file format, support json,xml,html,properties,text,yaml";
    400805 InvalidConfigFileTags "invalid config file tags, tags should be pairs with neither key nor value empty";
    400806 InvalidWatchConfigFileFormat "invalid watch config file format";
    400807 NotFoundResourceConfigFile "config file not existed";
    400808 InvalidConfigFileTemplateName "invalid config file template name";
    400809 EncryptConfigFileException "encrypt config file exception";
    400811 DecryptConfigFileException "decrypt config file exception";
    400900 InvalidFaultDetectID "invalid fault detect id";
    400901 InvalidFaultDetectName "invalid fault detect name";
    400902 InvalidFaultDetectNamespace "invalid fault detect namespace";
    400903 FaultDetectRuleExisted "fault detect rule existed";
    400904 InvalidMatchRule "invalid gray config beta labels";
    401000 Unauthorized "unauthorized";
    401001 NotAllowedAccess "access is not approved";
    401002 EmptyAutToken "auth token is empty";
    401003 TokenDisabled "auth token is disabled";
    401004 TokenNotExisted "auth token does not exist";
    403001 AuthTokenForbidden "auth token is forbidden";
    403002 OperationRoleForbidden "the role may not do this operation";
    403003 APIRateLimit "server limit the api access";
    404001 CMDBNotFindHost "not found the host cmdb";
    409000 DataConflict "data is conflict, please try again";
    429001 InstanceTooManyRequests "your instance has too many requests";
    429002 IPRateLimit "server limit the ip access";
    500000 ExecuteException "execute exception";
    500001 StoreLayerException "store layer exception";
    500002 CMDBPluginException "CMDB plugin exception";
    500004 ParseRoutingException "parsing routing failed";
    500005 ParseRateLimitException "parsing rate limit failed";
    500006 ParseCircuitBreakerException "parsing circuit breaker failed";
    500007 HeartbeatException "heartbeat execute exception";
    500008 InstanceRegisTimeout "instance async regist timeout";
}

/// Divisor that separates the HTTP status from the last three digits.
const CODES_PER_STATUS: u32 = 1_000;

impl Code {
    /// Returns the code's number of six digits, as in answers.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Returns the code with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        let found = Self::ALL.binary_search_by_key(&number, |code| code.number());
        found.ok().map(|index| Self::ALL[index])
    }

    /// Returns the HTTP status for this code.
    pub const fn http_status(self) -> u16 {
        (self.number() / CODES_PER_STATUS) as u16
    }

    /// Whether the call succeeded.
    pub const fn is_success(self) -> bool {
        self.http_status() == 200
    }

    /// Returns the code of a batch of independent calls: the highest code of a failed one, or
    /// success.
    pub fn highest(codes: impl IntoIterator<Item = Self>) -> Self {
        let failed = codes.into_iter().filter(|code| !code.is_success());
        failed.max().unwrap_or(Self::ExecuteSuccess)
    }

    /// Returns the code of a batch: the common code if all are equal, else the general code of the
    /// worst status.
    pub fn from_batch(codes: impl IntoIterator<Item = Self>) -> Self {
        let mut codes = codes.into_iter();
        let Some(first) = codes.next() else {
            return Self::ExecuteSuccess;
        };
        let (mut all_alike, mut worst) = (true, first);
        for code in codes {
            all_alike &= code == first;
            worst = worst.max(code);
        }
        match worst.http_status() {
            _ if all_alike => first,
            500.. => Self::ExecuteException,
            400.. => Self::BadRequest,
            _ => Self::ExecuteSuccess,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_found_by_number() {
        assert!(Code::ALL.is_sorted());
        for code in Code::ALL {
            assert_eq!(Code::from_number(code.number()), Some(*code));
            assert!(!code.info().is_empty() && (200..=599).contains(&code.http_status()));
        }
        assert_eq!(Code::from_number(200_003), None);
    }

    #[test]
    fn the_status_is_in_the_code() {
        let cases = [
            (Code::ExecuteSuccess, 200, true),
            (Code::DataNoChange, 200, true),
            (Code::InvalidInstanceID, 400, false),
            (Code::NotAllowedAccess, 401, false),
            (Code::ExecuteException, 500, false),
        ];
        for (code, status, success) in cases {
            assert_eq!((code.http_status(), code.is_success()), (status, success), "{code:?}");
        }
    }

    #[test]
    fn calls_that_stand_for_themselves_have_the_highest_code() {
        use Code::{ExecuteSuccess, NamespaceExistedServices, NoNeedUpdate, NotFoundNamespace};
        let cases: [(&[Code], Code); 4] = [
            (&[], ExecuteSuccess),
            (&[ExecuteSuccess, NoNeedUpdate], ExecuteSuccess),
            (&[NamespaceExistedServices, ExecuteSuccess], NamespaceExistedServices),
            (&[NotFoundNamespace, NamespaceExistedServices], NotFoundNamespace),
        ];
        for (codes, expected) in cases {
            assert_eq!(Code::highest(codes.iter().copied()), expected, "{codes:?}");
        }
    }

    #[test]
    fn a_list_has_the_code_its_items_share_or_the_worst_kind() {
        use Code::{
            BadRequest, ExecuteException, ExecuteSuccess, InvalidInstanceID, InvalidMetadata,
            NoNeedUpdate, StoreLayerException,
        };
        let cases: [(&[Code], Code); 6] = [
            (&[], ExecuteSuccess),
            (&[InvalidMetadata, InvalidMetadata], InvalidMetadata),
            (&[ExecuteSuccess, NoNeedUpdate], ExecuteSuccess),
            (&[ExecuteSuccess, InvalidMetadata], BadRequest),
            (&[InvalidInstanceID, InvalidMetadata], BadRequest),
            (&[InvalidMetadata, StoreLayerException, ExecuteSuccess], ExecuteException),
        ];
        for (codes, expected) in cases {
            assert_eq!(Code::from_batch(codes.iter().copied()), expected, "{codes:?}");
        }
    }
}
