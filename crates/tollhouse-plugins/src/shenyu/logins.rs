//! Logins for the `oauth2` plugin of ShenYu, with the engine of `openid-connect`.

use std::sync::Arc;
use std::time::Duration;

use tollhouse_plugin::{Answer, LocalFuture, RefusalKind, RequestContext};
use tollhouse_shenyu_gateway::{EngineError, Logins, OAuth2Client, OAuth2Provider};

use crate::oidc::{
    AccessRules, Admission, Bearer, Callback, Client, ClientAuth, Document, Engine, Jar, Lifetimes,
    Login, Otherwise, Provider, Renewals, Rules, Source, UsedStates,
};
use crate::shared::dial::Verification;

/// Timeout for answers of the provider.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Largest difference between clocks, in seconds.
const LEEWAY_S: u64 = 120;
/// Age in milliseconds from which the provider's keys are fetched again.
const KEYS_AGE_MAX_MS: u64 = 86_400_000;
/// Lifetimes of sessions: the defaults of `openid-connect`.
const LIFETIMES: Lifetimes = Lifetimes { idle_s: 900, rolling_s: 3_600, absolute_s: 86_400 };

/// State that the logins of all clients share.
#[derive(Debug, Default)]
pub(super) struct LoginState {
    used_states: Arc<UsedStates>,
    renewals: Arc<Renewals>,
}

/// Logins with one client id at a provider.
#[derive(Debug)]
struct ClientLogins(Engine);

impl LoginState {
    /// Builds the login engine of a client.
    pub(super) fn client(&self, client: &OAuth2Client) -> Result<Arc<dyn Logins>, EngineError> {
        let callback = Callback::read(Some(&client.redirect_uri));
        let callback = callback
            .map_err(|reason| EngineError(format!("`redirect_uri` of the plugin: {reason}")))?;
        let secret = || client.client_secret.clone().into();
        let (source, name) = source(&client.provider);
        let context = format!("shenyu oauth2\0{}\0{name}", client.client_id);
        Ok(Arc::new(ClientLogins(Engine {
            realm: "shenyu".to_owned(),
            provider: Arc::new(Provider::new(source, ANSWER_TIME_MAX, Verification::System)),
            client: Client {
                id: client.client_id.clone(),
                secret: Some(secret()),
                auth: ClientAuth::Basic(secret()),
            },
            rules: Rules {
                key: None,
                algorithms: Vec::new(),
                issuers: None,
                leeway_s: LEEWAY_S,
                keys_age_max_ms: KEYS_AGE_MAX_MS,
                accepts_unsigned: false,
            },
            access: AccessRules::default(),
            bearer: Bearer::Ignored,
            otherwise: Otherwise::LogIn,
            login: Some(Login {
                jar: Jar::new("session", client.session_secret.as_bytes(), &context),
                lifetimes: LIFETIMES,
                cookie_age_s: None,
                scope: client.scope.clone(),
                callback,
                logout_path: client.logout_path.clone(),
                after_logout: None,
                uses_pkce: true,
                requires_nonce: true,
                parameters: Vec::new(),
                pushed: None,
                renews: true,
                renewal_leeway_s: 0,
                access_lasts_s: None,
                verify_interval_s: None,
                // Nodes get only the token, and can ask for the user's data themselves.
                wants_userinfo: false,
                revokes: false,
                used_states: Arc::clone(&self.used_states),
                renewals: Arc::clone(&self.renewals),
            }),
        })))
    }
}

/// Returns the source of the provider's addresses, and a name that identifies the provider.
fn source(provider: &OAuth2Provider) -> (Source, String) {
    match provider {
        OAuth2Provider::Issuer(issuer) => (Source::issuer(issuer), issuer.clone()),
        OAuth2Provider::Addresses { authorization_url, token_url, user_info_url, jwk_set_url } => {
            let document = Document {
                authorization_endpoint: Some(authorization_url.clone()),
                token_endpoint: Some(token_url.clone()),
                userinfo_endpoint: user_info_url.clone(),
                jwks_uri: jwk_set_url.clone(),
                ..Document::default()
            };
            (Source::Fixed(Arc::new(document)), token_url.clone())
        }
    }
}

impl Logins for ClientLogins {
    fn admit<'a>(
        &'a self,
        cx: &'a mut RequestContext<'_>,
    ) -> LocalFuture<'a, Result<Vec<String>, Box<Answer<'static>>>> {
        Box::pin(async move {
            match self.0.admit(cx, None).await {
                Admission::Answered(answer) => Err(answer),
                Admission::Passes(who, cookies) => {
                    // A request that passes always has a user, because unauthenticated ones are
                    // redirected.
                    let missing =
                        || Box::new(Answer::status(401).refused(RefusalKind::AuthMissing));
                    let who = who.ok_or_else(missing)?;
                    who.note(cx, "oauth2");
                    let token = who.access_token.ok_or_else(missing)?;
                    cx.set_header("Authorization", format!("Bearer {token}").as_bytes());
                    Ok(cookies)
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::FakeExchange;
    use tollhouse_plugin::{Memory, NoConsumers};
    use tollhouse_testkit::IdentityProvider;
    use tollhouse_testkit::identity_provider::CLIENT;

    use super::*;

    const NOW: u64 = 1_700_000_000;

    /// Status, `Location` and cookies of an answer.
    type Sent = (u16, String, Vec<String>);

    fn admit(
        logins: &dyn Logins,
        target: &str,
        cookie: &str,
    ) -> (Result<Vec<String>, Sent>, String) {
        let text = format!(
            "GET {target} HTTP/1.1\nHost: a.test\nCookie: {cookie}\nAuthorization: Bearer forged\n\n"
        );
        let mut exchange = FakeExchange::parse(&text, NOW * 1_000);
        let mut memory = Memory::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(Default::default())
            .expect("a runtime");
        let admitted = {
            let mut cx = RequestContext::new(&mut exchange, &NoConsumers, &mut memory);
            runtime.block_on(logins.admit(&mut cx))
        };
        let admitted = admitted.map_err(|answer| {
            let lines = |name: &str| {
                let lines = answer.headers.iter().filter(|(other, _)| other == name);
                lines
                    .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
                    .collect::<Vec<_>>()
            };
            (answer.status, lines("Location").concat(), lines("Set-Cookie"))
        });
        let edits = &exchange.edits.headers;
        let token = edits.find(b"Authorization").unwrap_or_default();
        (admitted, String::from_utf8_lossy(token).into_owned())
    }

    fn pair(lines: &[String]) -> String {
        lines[0].split(';').next().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_user_logs_in_with_a_document_or_with_addresses_and_nodes_get_the_token() {
        let provider = IdentityProvider::start().at(NOW);
        let issuer = provider.issuer();
        let addresses = json!({"authorization_url": provider.url("/authorize"),
            "token_url": provider.url("/token")});
        for mut config in [json!({ "issuer": issuer }), addresses] {
            config["client_id"] = CLIENT.0.into();
            config["client_secret"] = CLIENT.1.into();
            config["session_secret"] = "a secret of sixteen letters".into();
            let client = OAuth2Client::read(Some(&config.to_string())).expect("it is good");
            let logins = LoginState::default().client(&client).expect("it can");
            let (sent, token) = admit(&*logins, "/a?b=c", "");
            let (status, location, cookies) = sent.expect_err("nobody is known");
            assert_eq!((status, &*token), (302, ""));
            let back = provider.log_in(&location);
            let target = back.strip_prefix("http://a.test").expect("it comes back here");
            assert!(target.starts_with("/login/oauth2/code/shenyu?"), "{target}");
            let (back, _) = admit(&*logins, target, &pair(&cookies));
            let (status, location, cookies) = back.expect_err("it is sent on");
            assert_eq!((status, &*location), (302, "/a?b=c"));
            let (known, token) = admit(&*logins, "/a?b=c", &pair(&cookies));
            assert_eq!(known, Ok(Vec::new()));
            assert!(token.starts_with("Bearer access-"), "{token}");
        }
    }
}
