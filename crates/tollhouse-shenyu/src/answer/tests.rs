//! Tests of every answer against `golden.txt`: body, ShenYu's status, and HTTP's. `UPDATE_EXPECT=1`
//! rewrites the file.

use super::*;

/// All answers, with sample values where they hold one, and the plugin that the message names.
const ALL: &[(Answer, Option<&str>)] = &[
    (Answer::InternalException, None),
    (Answer::ParameterError, None),
    (Answer::RuleNotFound, Some("divide")),
    (Answer::InvocationFailed, None),
    (Answer::BreakerOpen, None),
    (Answer::CallTimeout, None),
    (Answer::BreakerTimeout, None),
    (Answer::UrlNotFound, None),
    (Answer::SelectorNotFound, Some("divide")),
    (Answer::SentinelBlocked, None),
    (Answer::ContextPathIllegal, None),
    (Answer::SecretKeyMissing, None),
    (Answer::ResponseError, None),
    (Answer::CryptorRequestLacks("fieldNames"), None),
    (Answer::CryptorResponseLacks("encryptKey"), None),
    (Answer::DecryptionFailed, None),
    (Answer::EncryptionFailed, None),
    (Answer::NoHealthyUpstream, None),
    (Answer::KeyAuthUnconfigured, None),
    (Answer::IllegalAuthorization, None),
    (Answer::KeyIncorrect, None),
    (Answer::SignRefused("sign appKey does not exist."), None),
    (Answer::SignNotBase64(b'-'), None),
    (Answer::SignExpired(5), None),
    (Answer::Forbidden(405), None),
    (Answer::ForbiddenWithoutCode, None),
    (Answer::PayloadTooLarge, None),
    (Answer::LocalKeyIncorrect, None),
    (Answer::RequestTooLarge, None),
    (Answer::HeadersTooLarge, None),
    (Answer::TooManyRequests, None),
    (Answer::RpcFailed, None),
    (Answer::RpcTimeout, None),
    (Answer::MetadataError, None),
    (Answer::DubboBodyMissing, None),
    (Answer::GrpcBodyMissing, None),
    (Answer::InternalServerError, None),
];

#[test]
fn default_bodies_and_statuses_in_compatible_mode_and_honest_ones_otherwise() {
    let line = |(answer, plugin): &(Answer, Option<&str>)| {
        let (compatible, honest) =
            (answer.status(Statuses::Compatible), answer.status(Statuses::Honest));
        format!("{compatible} {honest} {}\n", answer.body(*plugin))
    };
    let lines: String = ALL.iter().map(line).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/answer/golden.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, &lines).expect("the file can be written");
    }
    let golden = std::fs::read_to_string(path).expect("the file is there");
    assert_eq!(lines, golden);
    for line in lines.lines() {
        let body = line.splitn(3, ' ').nth(2).expect("a body");
        let body: serde_json::Value = serde_json::from_str(body).expect("it is JSON");
        assert_eq!(body.as_object().map(|members| members.len()), Some(2), "{line}");
    }
}
