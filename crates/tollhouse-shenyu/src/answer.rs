//! What ShenYu's gateway answers itself: body, code, and the HTTP status, which for most of them is 200.
//!
//! [`Statuses`] chooses between the status that ShenYu sends, for clients that look at the code in the body,
//! and the one that HTTP has for the case, for everybody else. The body is the same.

/// Which HTTP statuses go with ShenYu's bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Statuses {
    /// Those of HTTP.
    #[default]
    Honest,
    /// Those of ShenYu.
    Compatible,
}

/// An answer of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Something went wrong that nobody foresaw.
    InternalException,
    /// No rule of the selector takes the request.
    RuleNotFound,
    /// The call failed, or had no result.
    InvocationFailed,
    /// The call was not made, since too many before it have failed.
    BreakerOpen,
    /// The call took too long.
    CallTimeout,
    /// The call took longer than its breaker allows.
    BreakerTimeout,
    /// The node's address is missing.
    UrlNotFound,
    /// No selector takes the request.
    SelectorNotFound,
    /// A breaker or limit of sentinel.
    SentinelBlocked,
    /// The path does not begin with the context path.
    ContextPathIllegal,
    /// A secret is missing in the configuration.
    SecretKeyMissing,
    /// The node's answer is none.
    ResponseError,
    /// No node may be asked.
    NoHealthyUpstream,
    /// No node is left after failures.
    NoHealthyUpstreamAfterFailover,
    /// `keyAuth` has no name or key.
    KeyAuthUnconfigured,
    /// A token is not valid.
    IllegalAuthorization,
    /// A key is not valid.
    KeyIncorrect,
    /// A signature is refused; the reason stands in the message.
    SignRefused(&'static str),
    /// A signature is older, or from further ahead, than so many minutes.
    SignExpired(u32),
    /// `waf` refuses; the code is that of its rule.
    Forbidden(i32),
    /// A file is too large.
    PayloadTooLarge,
    /// The body is too large.
    RequestTooLarge,
    /// The headers are too large.
    HeadersTooLarge,
    /// `rateLimiter` refuses.
    TooManyRequests,
    /// A body is not of the shape that is asked for.
    ParameterError,
    /// A body of JSON that is to be edited is missing.
    JsonBodyMissing,
    /// A call of a method has failed.
    RpcFailed,
    /// A call of a method took too long.
    RpcTimeout,
    /// A call of Dubbo has no body.
    DubboBodyMissing,
    /// A call by gRPC has no body.
    GrpcBodyMissing,
    /// The metadata of a method are not usable.
    MetadataError,
    /// An argument is illegal.
    InternalServerError,
    /// `cryptorRequest` lacks this member of its rule.
    CryptorRequestLacks(&'static str),
    /// `cryptorResponse` lacks this member of its rule.
    CryptorResponseLacks(&'static str),
    /// A field is not encrypted with the key of its rule.
    DecryptionFailed,
    /// A field cannot be encrypted.
    EncryptionFailed,
    /// The key of a call to the gateway's own interface is wrong.
    LocalKeyIncorrect,
}

impl Answer {
    /// The HTTP status.
    pub const fn status(self, statuses: Statuses) -> u16 {
        let (_, compatible, honest) = self.codes();
        match statuses {
            Statuses::Honest => honest,
            Statuses::Compatible => compatible,
        }
    }

    /// The code in the body.
    pub const fn code(self) -> i32 {
        self.codes().0
    }

    /// The body, `application/json`; `plugin` stands before the message of answers that name theirs.
    pub fn body(self, plugin: Option<&str>) -> String {
        let text = match plugin {
            Some(plugin) => format!("{plugin}:{}", self.message()),
            None => self.message(),
        };
        // The text of a JSON string cannot fail to be written.
        let text = serde_json::Value::String(text);
        format!(r#"{{"code":{},"message":{text}}}"#, self.code())
    }

    /// The code in the body, ShenYu's status, and HTTP's.
    const fn codes(self) -> (i32, u16, u16) {
        match self {
            Self::InternalException => (-1, 200, 500),
            Self::ParameterError => (-100, 200, 400),
            Self::RuleNotFound => (-102, 200, 404),
            Self::InvocationFailed => (-103, 200, 502),
            Self::BreakerOpen => (-103, 500, 503),
            Self::CallTimeout => (-104, 200, 504),
            Self::BreakerTimeout => (-104, 504, 504),
            Self::UrlNotFound => (-106, 200, 503),
            Self::SelectorNotFound => (-107, 200, 404),
            Self::SentinelBlocked => (-110, 429, 429),
            Self::ContextPathIllegal => (-111, 200, 404),
            Self::SecretKeyMissing => (-112, 200, 500),
            Self::ResponseError => (-113, 200, 502),
            Self::NoHealthyUpstream => (-119, 200, 503),
            Self::NoHealthyUpstreamAfterFailover => (-121, 503, 503),
            Self::KeyAuthUnconfigured => (-122, 200, 500),
            Self::IllegalAuthorization
            | Self::KeyIncorrect
            | Self::SignRefused(_)
            | Self::SignExpired(_) => (401, 200, 401),
            Self::Forbidden(code) => (code, 403, 403),
            Self::PayloadTooLarge => (403, 400, 413),
            Self::RequestTooLarge => (413, 200, 413),
            Self::HeadersTooLarge => (431, 200, 431),
            Self::TooManyRequests => (429, 429, 429),
            Self::JsonBodyMissing => (400, 400, 400),
            Self::RpcFailed => (-103, 500, 502),
            Self::RpcTimeout => (-104, 500, 504),
            Self::MetadataError => (430, 500, 500),
            Self::DubboBodyMissing => (431, 500, 400),
            Self::GrpcBodyMissing => (435, 500, 400),
            Self::InternalServerError => (500, 500, 500),
            Self::CryptorRequestLacks(_) => (-114, 200, 500),
            Self::CryptorResponseLacks(_) => (-116, 200, 500),
            Self::DecryptionFailed => (-117, 200, 400),
            Self::EncryptionFailed => (-118, 200, 500),
            Self::LocalKeyIncorrect => (403, 403, 403),
        }
    }

    fn message(self) -> String {
        let text = match self {
            Self::InternalException => "Internal exception in gateway. Please try again later!",
            Self::ParameterError => {
                "Your parameter error, please check the relevant documentation!"
            }
            Self::RuleNotFound => "Rule not found!",
            Self::InvocationFailed | Self::BreakerOpen | Self::RpcFailed => {
                "Service invocation exception, or no result is returned!"
            }
            Self::CallTimeout | Self::BreakerTimeout | Self::RpcTimeout => "Service call timeout!",
            Self::UrlNotFound => "Can not find url, please check your configuration!",
            Self::SelectorNotFound => "Can not find selector, please check your configuration!",
            Self::SentinelBlocked => "The request block by sentinel!",
            Self::ContextPathIllegal => {
                "The context path illegal, please check the context path mapping plugin!"
            }
            Self::SecretKeyMissing => "SecretKey must be configured",
            Self::ResponseError => "Response error, please check your configuration!",
            Self::NoHealthyUpstream => {
                "Can not find healthy upstream url, please check your configuration!"
            }
            Self::NoHealthyUpstreamAfterFailover => {
                "Can not find healthy upstream url after failover!"
            }
            Self::KeyAuthUnconfigured => "The key attribute name and the key must be configured",
            Self::IllegalAuthorization => "Illegal authorization",
            Self::KeyIncorrect => "Key is incorrect",
            Self::SignRefused(reason) => reason,
            Self::SignExpired(minutes) => {
                return format!("The signature timestamp has exceeded {minutes} minutes!");
            }
            Self::Forbidden(_) => " You are forbidden to visit",
            Self::PayloadTooLarge => "Payload too large!",
            Self::RequestTooLarge => "Request Entity Too Large",
            Self::HeadersTooLarge => "Request Header Fields Too Large",
            Self::TooManyRequests => "You have been restricted, please try again later!",
            Self::JsonBodyMissing => "json string can not be null or empty",
            Self::MetadataError => "Meta data error!",
            Self::DubboBodyMissing => {
                "Dubbo must have body param, please enter the JSON format in the body!"
            }
            Self::GrpcBodyMissing => {
                "Grpc must have body param, please enter the JSON format in the body!"
            }
            Self::InternalServerError => "Internal Server Error",
            Self::CryptorRequestLacks(member) => {
                return format!("Please check Cryptor request plugin's [{member}]");
            }
            Self::CryptorResponseLacks(member) => {
                return format!("Please check Cryptor response plugin's [{member}]");
            }
            Self::DecryptionFailed => {
                "Decryption failed, please check the parameters or key, or the data length is too long"
            }
            Self::EncryptionFailed => {
                "Encryption failed, please check the parameters or key, or the data length is too long"
            }
            Self::LocalKeyIncorrect => "The key is not correct.",
        };
        text.to_owned()
    }
}

#[cfg(test)]
mod tests;
