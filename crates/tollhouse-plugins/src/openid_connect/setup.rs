//! Conversion of a conf to an engine.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tollhouse_model::schema::Schema;
use tollhouse_model::secret::is_reference;
use tollhouse_plugin::{ConfError, Remark, Scope};

use super::config::{Config, FLAT_OPTIONS, Par, SameSiteName, Session, Storage, UnauthAction};
use crate::oidc::{
    AccessRules, Answers, Audience, Bearer, Callback, Client, ClientAuth, Engine, Introspection,
    Jar, Lifetimes, Login, Otherwise, Provider, PublicKey, PushedAuthorization, Rules, SameSite,
    Signer, SignerConf, Source,
};
use crate::shared::auth::jwt::Algorithm;
use crate::shared::auth::secret::SecretText;

/// Timeouts from this value on that are multiples of 1,000 are taken for milliseconds, which older
/// confs used.
const MILLISECONDS_FROM: u64 = 1_000;

pub(super) fn engine(config: Config, scope: &Scope<'_>) -> Result<Engine, ConfError> {
    check(&config)?;
    let provider = provider(&config, scope);
    let token_auth = match config.bearer_only {
        // A conf with `bearer_only` never requests tokens.
        true => ClientAuth::Public,
        false => auth(&config, &config.token_endpoint_auth_method, "token_endpoint_auth_method")?,
    };
    let login = match (&config.session, config.bearer_only) {
        (Some(session), false) => Some(login(&config, session, scope)?),
        _ => None,
    };
    Ok(Engine {
        rules: rules(&config)?,
        access: access(&config)?,
        bearer: bearer(&config, scope)?,
        otherwise: match config.unauth_action {
            UnauthAction::Auth => Otherwise::LogIn,
            UnauthAction::Deny => Otherwise::Refuse,
            UnauthAction::Pass => Otherwise::Pass,
        },
        client: Client { id: config.client_id, secret: config.client_secret, auth: token_auth },
        realm: config.realm,
        provider,
        login,
    })
}

/// Checks rules that the schema cannot express.
fn check(config: &Config) -> Result<(), ConfError> {
    if !config.bearer_only && config.session.is_none() {
        return Err("property \"session.secret\" is required when \"bearer_only\" is false".into());
    }
    let needs_no_secret = match config.bearer_only {
        true => {
            config.public_key.is_some()
                || config.use_jwks
                || config.introspection_endpoint_auth_method == "private_key_jwt"
        }
        false => config.token_endpoint_auth_method == "private_key_jwt" || config.use_pkce,
    };
    if !needs_no_secret && config.client_secret.is_none() {
        return Err("property \"client_secret\" is required".into());
    }
    if let Some((name, field)) =
        FLAT_OPTIONS.iter().find(|(name, _)| config.others.contains_key(*name))
    {
        let text = format!("property \"{name}\" is not allowed, use \"{field}\" instead");
        return Err(ConfError::in_field(name, text));
    }
    let asks = |field, text: &str| {
        let text = format!("property \"{field}\" validation failed: {text}");
        Err(ConfError::in_field(field, text))
    };
    if config.session.as_ref().is_some_and(|session| session.storage == Storage::Redis) {
        return asks("session", "sessions in Redis are not built in; leave \"storage\" out");
    }
    if config.dpop.as_ref().is_some_and(|dpop| dpop.enabled) {
        return asks("dpop", "it is not built in");
    }
    if config.force_reauthorize {
        return asks("force_reauthorize", "it is not built in");
    }
    let names_proxy =
        |(name, value): (&String, &Value)| name.ends_with("_proxy") && !value.is_null();
    if config.proxy_opts.iter().flatten().any(|it| names_proxy(it) && it.0 != "no_proxy") {
        return asks("proxy_opts", "providers are asked without a proxy here");
    }
    Ok(())
}

/// Returns a warning if bearer tokens issued to any client are accepted.
pub(super) fn remarks(conf: &Value) -> Vec<Remark> {
    let is = |value: &Value| value.as_bool() == Some(true);
    let takes_tokens = is(&conf["bearer_only"])
        || is(&conf["use_jwks"])
        || ["public_key", "introspection_endpoint"].iter().any(|name| conf[name].is_string());
    let audience = &conf["claim_validator"]["audience"];
    let asks = is(&audience["required"])
        || is(&audience["match_with_client_id"])
        || conf["required_scopes"].as_array().is_some_and(|scopes| !scopes.is_empty())
        || conf["claim_schema"].is_object();
    if !takes_tokens || asks {
        return Vec::new();
    }
    vec![Remark {
        field: "claim_validator",
        reason: "neither an audience nor scopes are asked for: any token of the provider is accepted, also one that \
                 was issued to another client for another service",
        hint: "set claim_validator.audience.match_with_client_id, or required_scopes",
    }]
}

/// Returns the provider; all confs that name one provider share its state.
fn provider(config: &Config, scope: &Scope<'_>) -> Arc<Provider> {
    let is_in_ms = config.timeout >= MILLISECONDS_FROM && config.timeout.is_multiple_of(1_000);
    let timeout_ms = config.timeout.saturating_mul(if is_in_ms { 1 } else { 1_000 });
    let Config { discovery, ssl_verify, .. } = config;
    let key = format!("openid provider {discovery} {ssl_verify} {timeout_ms}");
    scope.keep(&key, || {
        let source = Source::address(discovery);
        Provider::new(source, Duration::from_millis(timeout_ms), (*ssl_verify).into())
    })
}

fn rules(config: &Config) -> Result<Rules, ConfError> {
    let key = match &config.public_key {
        None => None,
        // The value behind a reference is not known yet. Tokens are refused until it is.
        Some(pem) => match PublicKey::read(pem) {
            None if is_reference(pem) => Some(PublicKey::unknown()),
            None => {
                let text = "property \"public_key\" is not a PEM public key";
                return Err(ConfError::in_field("public_key", text));
            }
            key => key,
        },
    };
    let named = config.token_signing_alg_values_expected.as_deref().unwrap_or_default();
    let names = named.split([' ', ',']).filter(|name| !name.is_empty());
    let algorithms = names.map(|name| {
        Algorithm::named(name).ok_or_else(|| {
            let field = "token_signing_alg_values_expected";
            ConfError::in_field(field, format!("property \"{field}\": {name} is not known"))
        })
    });
    let issuer = config.claim_validator.as_ref().and_then(|validator| validator.issuer.as_ref());
    Ok(Rules {
        key,
        algorithms: algorithms.collect::<Result<_, _>>()?,
        issuers: issuer.and_then(|issuer| issuer.valid_issuers.clone()),
        leeway_s: config.iat_slack,
        keys_age_max_ms: config.jwk_expires_in.saturating_mul(1_000),
        accepts_unsigned: config.accept_none_alg,
    })
}

fn access(config: &Config) -> Result<AccessRules, ConfError> {
    let audience = config.claim_validator.as_ref().and_then(|it| it.audience.as_ref());
    let schema = config.claim_schema.clone().map(Value::Object);
    let schema = schema.map(|schema| Schema::compile(&schema)).transpose();
    Ok(AccessRules {
        scopes: config.required_scopes.clone(),
        audience: audience.map(|rule| Audience {
            claim: rule.claim.clone(),
            is_required: rule.required,
            is_this_client: rule.match_with_client_id,
        }),
        schema: schema.map_err(|error| {
            ConfError::in_field("claim_schema", format!("check claim_schema failed: {error}"))
        })?,
    })
}

fn bearer(config: &Config, scope: &Scope<'_>) -> Result<Bearer, ConfError> {
    if config.public_key.is_some() || config.use_jwks {
        return Ok(Bearer::Verified);
    }
    if !config.bearer_only && config.introspection_endpoint.is_none() {
        return Ok(Bearer::Ignored);
    }
    let field = "introspection_endpoint_auth_method";
    let memory = Arc::clone(&scope.services.memory);
    let Config { client_id, discovery, introspection_endpoint: endpoint, .. } = config;
    let segment = config.cache_segment.as_deref().unwrap_or_default();
    Ok(Bearer::Introspected(Box::new(Introspection {
        endpoint: endpoint.clone(),
        auth: auth(config, &config.introspection_endpoint_auth_method, field)?,
        addon_headers: config.introspection_addon_headers.clone().unwrap_or_default(),
        expiry_claim: config.introspection_expiry_claim.clone(),
        interval_s: config.introspection_interval,
        answers: scope.keep("openid introspection", || Answers::new(memory)),
        segment: format!("{client_id}\0{discovery}\0{endpoint:?}\0{segment}"),
    })))
}

/// Builds the client authentication for one endpoint.
fn auth(config: &Config, method: &str, field: &'static str) -> Result<ClientAuth, ConfError> {
    let wrong = |text: &str| {
        ConfError::in_field(field, format!("property \"{field}\" validation failed: {text}"))
    };
    let secret = || config.client_secret.clone();
    let signer_conf = || SignerConf {
        algorithm: config.client_jwt_assertion_alg,
        secret: config.client_secret.as_ref(),
        private_key: config.client_rsa_private_key.as_ref(),
        key_id: config.client_rsa_private_key_id.clone(),
        audience: config.client_jwt_assertion_audience.clone(),
        lifetime_s: config.client_jwt_assertion_expires_in,
    };
    let assertion = |signer: Result<Signer, &str>| {
        signer.map(|signer| ClientAuth::Assertion(Box::new(signer))).map_err(wrong)
    };
    Ok(match method {
        "client_secret_basic" => secret().map_or(ClientAuth::Public, ClientAuth::Basic),
        "client_secret_post" => secret().map_or(ClientAuth::Public, ClientAuth::Post),
        "client_secret_jwt" => assertion(Signer::with_secret(signer_conf()))?,
        "private_key_jwt" => assertion(Signer::with_private_key(signer_conf()))?,
        _ => {
            return Err(wrong(
                "it is one of client_secret_basic, client_secret_post, client_secret_jwt and private_key_jwt",
            ));
        }
    })
}

fn login(config: &Config, session: &Session, scope: &Scope<'_>) -> Result<Login, ConfError> {
    let callback = Callback::read(config.redirect_uri.as_deref()).map_err(|reason| {
        let text = format!("property \"redirect_uri\" validation failed: {reason}");
        ConfError::in_field("redirect_uri", text)
    })?;
    let parameters = config.authorization_params.iter().flatten().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (name.clone(), text)
    });
    let lifetime_s = session.cookie.as_ref().and_then(|cookie| cookie.lifetime);
    Ok(Login {
        jar: jar(config, session)?,
        lifetimes: Lifetimes {
            idle_s: session.idling_timeout.unwrap_or(900),
            rolling_s: session.rolling_timeout.or(lifetime_s).unwrap_or(3_600),
            absolute_s: session.absolute_timeout.unwrap_or(86_400),
        },
        cookie_age_s: lifetime_s.filter(|lifetime_s| *lifetime_s > 0),
        scope: config.scope.clone(),
        callback,
        logout_path: config.logout_path.clone(),
        after_logout: config.post_logout_redirect_uri.clone(),
        uses_pkce: config.use_pkce,
        requires_nonce: config.use_nonce,
        parameters: parameters.collect(),
        pushed: match config.par.as_ref().filter(|par| par.enabled) {
            Some(Par { endpoint, endpoint_auth_method: method, .. }) => {
                let method = method.as_deref();
                let auth = method.map(|method| auth(config, method, "par")).transpose()?;
                Some(PushedAuthorization { endpoint: endpoint.clone(), auth })
            }
            None => None,
        },
        renews: config.renew_access_token_on_expiry,
        renewal_leeway_s: config.access_token_expires_leeway,
        access_lasts_s: config.access_token_expires_in,
        verify_interval_s: config.refresh_session_interval,
        wants_userinfo: config.set_userinfo_header || config.claim_schema.is_some(),
        revokes: config.revoke_tokens_on_logout,
        used_states: scope.keep("openid states", Default::default),
        renewals: scope.keep("openid renewals", Default::default),
    })
}

fn jar(config: &Config, session: &Session) -> Result<Jar, ConfError> {
    let wrong = |name: &str| {
        let text =
            format!("property \"session.{name}\" contains characters that are invalid in a cookie");
        ConfError::in_field("session", text)
    };
    let name = session.cookie_name.as_deref().unwrap_or("session");
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_word) {
        return Err(wrong("cookie_name"));
    }
    let is_attribute = |text: &str| text.bytes().all(|it| matches!(it, 0x21..=0x7e) && it != b';');
    let path = session.cookie_path.as_deref().unwrap_or("/");
    if !is_attribute(path) {
        return Err(wrong("cookie_path"));
    }
    if !session.cookie_domain.as_deref().is_none_or(is_attribute) {
        return Err(wrong("cookie_domain"));
    }
    let secret: &SecretText = &session.secret;
    let context = format!("{}\0{}", config.client_id, config.discovery);
    let mut jar = Jar::new(name, secret.as_bytes(), &context);
    path.clone_into(&mut jar.path);
    jar.domain.clone_from(&session.cookie_domain);
    jar.is_http_only = session.cookie_http_only.unwrap_or(true);
    jar.is_secure = session.cookie_secure;
    jar.same_site = match session.cookie_same_site {
        Some(SameSiteName::Strict) => SameSite::Strict,
        Some(SameSiteName::None) => SameSite::None,
        Some(SameSiteName::Default) => SameSite::Unsaid,
        Some(SameSiteName::Lax) | None => SameSite::Lax,
    };
    Ok(jar)
}
