//! Answers that ShenYu's gateway gives itself: body, code, and HTTP status, which in ShenYu is
//! mostly 200.
//!
//! [`Statuses`] selects ShenYu's statuses, for clients that read the code in the body, or the
//! appropriate statuses of HTTP for all others. The body does not depend on this choice.

/// Choice of HTTP statuses for ShenYu's bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Statuses {
    /// Status that HTTP defines for the case, such as 429.
    #[default]
    Honest,
    /// Status that ShenYu sends, mostly 200.
    Compatible,
}

/// Answer that the gateway gives in place of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    InternalException,
    /// No rule of the selector matches the request.
    RuleNotFound,
    /// The call failed or had no result.
    InvocationFailed,
    /// The circuit breaker is open after too many failures, so the call was not made.
    BreakerOpen,
    CallTimeout,
    /// The call exceeded the timeout of its circuit breaker.
    BreakerTimeout,
    UrlNotFound,
    SelectorNotFound,
    /// A circuit breaker or limit of `sentinel` refuses the request.
    SentinelBlocked,
    /// The path does not begin with the context path.
    ContextPathIllegal,
    /// A secret is missing in the configuration.
    SecretKeyMissing,
    ResponseError,
    NoHealthyUpstream,
    /// `keyAuth` has no name or key configured.
    KeyAuthUnconfigured,
    IllegalAuthorization,
    KeyIncorrect,
    /// A signature is refused, with this reason in the message.
    SignRefused(&'static str),
    /// The parameters of a signature contain this character, which base64 does not have.
    SignNotBase64(u8),
    /// A signature's timestamp differs from the clock by more than this many minutes.
    SignExpired(u32),
    /// `waf` refuses the request, with the code of its rule.
    Forbidden(i32),
    /// A rule of `waf` refuses the request and has no code, which ShenYu notices too late.
    ForbiddenWithoutCode,
    /// An uploaded file is too large.
    PayloadTooLarge,
    /// The request body is too large.
    RequestTooLarge,
    /// The request headers are too large.
    HeadersTooLarge,
    TooManyRequests,
    /// The body does not have the required form.
    ParameterError,
    /// The JSON body that is to be edited is missing.
    JsonBodyMissing,
    /// A call of an RPC method failed.
    RpcFailed,
    /// A call of an RPC method timed out.
    RpcTimeout,
    /// A Dubbo call has no body.
    DubboBodyMissing,
    /// A gRPC call has no body.
    GrpcBodyMissing,
    /// The metadata of an RPC method is invalid.
    MetadataError,
    InternalServerError,
    /// The rule of `cryptorRequest` lacks this member.
    CryptorRequestLacks(&'static str),
    /// The rule of `cryptorResponse` lacks this member.
    CryptorResponseLacks(&'static str),
    /// A field is not encrypted with the key of the rule.
    DecryptionFailed,
    EncryptionFailed,
    /// The key of a call to the gateway's own interface is wrong.
    LocalKeyIncorrect,
}

impl Answer {
    pub const fn status(self, statuses: Statuses) -> u16 {
        let (_, compatible, honest) = self.codes();
        match statuses {
            Statuses::Honest => honest,
            Statuses::Compatible => compatible,
        }
    }

    pub const fn code(self) -> i32 {
        self.codes().0
    }

    /// Returns the body, of type `application/json`. The message begins with `plugin` if given.
    pub fn body(self, plugin: Option<&str>) -> String {
        let text = match plugin {
            Some(plugin) => format!("{plugin}:{}", self.message()),
            None => self.message(),
        };
        // Serialising a JSON string cannot fail.
        let text = serde_json::Value::String(text);
        format!(r#"{{"code":{},"message":{text}}}"#, self.code())
    }

    /// Returns the code in the body, ShenYu's status and HTTP's.
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
            Self::JsonBodyMissing | Self::SignNotBase64(_) | Self::ForbiddenWithoutCode => {
                (400, 400, 400)
            }
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
            Self::KeyAuthUnconfigured => "The key attribute name and the key must be configured",
            Self::IllegalAuthorization => "Illegal authorization",
            Self::KeyIncorrect => "Key is incorrect",
            Self::SignRefused(reason) => reason,
            Self::SignNotBase64(character) => {
                return format!("Illegal base64 character {character:x}");
            }
            Self::SignExpired(minutes) => {
                return format!("The signature timestamp has exceeded {minutes} minutes!");
            }
            Self::Forbidden(_) => " You are forbidden to visit",
            Self::ForbiddenWithoutCode => "Cannot parse null string",
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
