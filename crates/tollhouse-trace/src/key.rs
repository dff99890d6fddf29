//! Names of attributes, written as one byte in records.

macro_rules! keys {
    ($($variant:ident = $name:literal,)*) => {
        /// Name of an attribute: of OpenTelemetry's semantic conventions, of APISIX, or our own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Key {
            $(#[doc = $name] $variant,)*
        }

        impl Key {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name as exported.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

keys! {
    HttpRequestMethod = "http.request.method",
    HttpRequestMethodOriginal = "http.request.method_original",
    HttpResponseStatusCode = "http.response.status_code",
    HttpRequestResendCount = "http.request.resend_count",
    HttpRoute = "http.route",
    HttpResponseBodySize = "http.response.body.size",
    UrlScheme = "url.scheme",
    UrlPath = "url.path",
    UrlFull = "url.full",
    ServerAddress = "server.address",
    ServerPort = "server.port",
    ClientAddress = "client.address",
    NetworkPeerAddress = "network.peer.address",
    NetworkPeerPort = "network.peer.port",
    NetworkProtocolVersion = "network.protocol.version",
    UserAgentOriginal = "user_agent.original",
    ErrorType = "error.type",
    RpcSystem = "rpc.system",
    RpcMethod = "rpc.method",
    RpcGrpcStatusCode = "rpc.grpc.status_code",
    TollhouseRouteId = "tollhouse.route.id",
    TollhouseServiceId = "tollhouse.service.id",
    TollhouseConsumer = "tollhouse.consumer",
    TollhouseErrorCode = "tollhouse.error_code",
    TollhouseRefusedBy = "tollhouse.refused_by",
    TollhousePlugin = "tollhouse.plugin",
    TollhouseObject = "tollhouse.object",
    NetHostName = "net.host.name",
    HttpMethod = "http.method",
    HttpScheme = "http.scheme",
    HttpTarget = "http.target",
    HttpUserAgent = "http.user_agent",
    HttpStatusCode = "http.status_code",
    ApisixRouteId = "apisix.route_id",
    ApisixRouteName = "apisix.route_name",
    ApisixServiceId = "apisix.service_id",
    ApisixServiceName = "apisix.service_name",
    ApisixResponseSource = "apisix.response_source",
}

impl Key {
    /// Code of the key in records; 0 stands for a name that is written out.
    #[inline]
    pub(crate) fn code(self) -> u8 {
        self as u8 + 1
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_lead_back_to_their_keys() {
        for key in Key::ALL {
            assert_eq!(Key::from_code(key.code()), Some(*key));
        }
        assert_eq!(Key::from_code(0), None);
        assert_eq!(Key::from_code(255), None);
    }
}
