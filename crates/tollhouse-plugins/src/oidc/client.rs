//! Requests of a client to its provider's endpoints, and client authentication.

use serde_json::{Map, Value};

use super::assertion::Signer;
use super::error::Unavailable;
use super::form::{encode, escape};
use super::provider::{Provider, ProviderRequest};
use crate::shared::auth::base64::encode_base64;
use crate::shared::auth::secret::SecretText;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Client authentication (OpenID Connect Core §9).
#[derive(Debug)]
pub(crate) enum ClientAuth {
    /// Method `client_secret_basic`: the secret in `Authorization`.
    Basic(SecretText),
    /// Method `client_secret_post`: the secret in the form.
    Post(SecretText),
    /// Methods `client_secret_jwt` and `private_key_jwt`: a signed assertion.
    Assertion(Box<Signer>),
    /// Client without a secret: only its id in the form.
    Public,
}

/// Answer of an endpoint to a form: its status and JSON object; empty without one.
#[derive(Debug)]
pub(crate) struct FormReply {
    pub(crate) status: u16,
    pub(crate) fields: Map<String, Value>,
}

impl FormReply {
    /// Returns the text in a field of the reply.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    /// Describes an error in the endpoint's words.
    pub(crate) fn reason(&self) -> String {
        match self.text("error") {
            Some(error) => format!("it answers with status {} and error {error:?}", self.status),
            None => format!("it answers with status {}", self.status),
        }
    }
}

/// Request to an endpoint of the provider, sent as a form.
#[derive(Debug)]
pub(crate) struct Form<'f> {
    /// Purpose of the request, for the log.
    pub(crate) what: &'static str,
    pub(crate) endpoint: &'f str,
    pub(crate) fields: Vec<(&'f str, String)>,
    /// Header lines in addition to those of the client authentication.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

impl ClientAuth {
    /// Sends a form with the authentication of `client_id`.
    ///
    /// # Errors
    /// If the endpoint gives no usable answer. An answer with an error status is usable.
    pub(crate) async fn send(
        &self,
        provider: &Provider,
        client_id: &str,
        now_s: u64,
        form: Form<'_>,
    ) -> Result<FormReply, Unavailable> {
        let Form { what, endpoint, mut fields, mut headers } = form;
        let form_type = b"application/x-www-form-urlencoded".to_vec();
        // The client's own headers override those of the conf.
        headers.retain(|(name, _)| {
            !["authorization", "content-type"].contains(&&*name.to_ascii_lowercase())
        });
        headers.push(("Content-Type".to_owned(), form_type));
        headers.push(("Accept".to_owned(), b"application/json".to_vec()));
        match self {
            Self::Basic(secret) => {
                let pair = format!("{}:{}", escape(client_id), escape(secret.as_str()));
                let value = format!("Basic {}", encode_base64(pair)).into_bytes();
                headers.push(("Authorization".to_owned(), value));
            }
            Self::Post(secret) => {
                fields.push(("client_id", client_id.to_owned()));
                fields.push(("client_secret", secret.as_str().to_owned()));
            }
            Self::Assertion(signer) => {
                let assertion = signer.sign(client_id, endpoint, now_s);
                let assertion =
                    assertion.ok_or_else(|| Unavailable::new(what, "nothing can be signed"))?;
                fields.push(("client_id", client_id.to_owned()));
                fields.push(("client_assertion_type", ASSERTION_TYPE.to_owned()));
                fields.push(("client_assertion", assertion));
            }
            Self::Public => fields.push(("client_id", client_id.to_owned())),
        }
        let (method, body) = ("POST", encode(&fields));
        let request = ProviderRequest { what, address: endpoint, method, headers, body };
        let reply = provider.send(request).await?;
        let fields = match serde_json::from_slice(&reply.body) {
            Ok(Value::Object(fields)) => fields,
            // An error may be a page, and a success may have no content.
            _ if reply.status != 200 || reply.body.is_empty() => Map::new(),
            _ => return Err(Unavailable::new(what, "its answer is not an object of JSON")),
        };
        Ok(FormReply { status: reply.status, fields })
    }
}
