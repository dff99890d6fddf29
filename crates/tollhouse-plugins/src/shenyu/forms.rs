//! Forms that are posted while a request waits, such as a code exchanged for a token. The calling
//! rule knows the meaning of the form and its answer.

use std::time::Duration;

use crate::http_client::{Call, HttpClient, Repeat, Reuse, Target};
use crate::shared::dial::Verification;

/// Timeout for the answer to a form.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Idle time and number of connections per server.
const REUSE: Reuse = Reuse::For { idle: Duration::from_secs(30), connections_max: 2 };

/// Client that sends forms to other services.
#[derive(Debug)]
pub(super) struct Forms(HttpClient);

impl Default for Forms {
    fn default() -> Self {
        Self(HttpClient::new(ANSWER_TIME_MAX, Verification::System, REUSE))
    }
}

impl Forms {
    /// Posts a form and returns the body of the answer; `None` unless its status is below 300. The
    /// form is never logged, because it may hold secrets.
    pub(super) async fn post(&self, url: &str, form: String) -> Option<Vec<u8>> {
        let target = Target::parse(url)
            .inspect_err(|error| tracing::warn!(url, %error, "a form cannot be sent"))
            .ok()?;
        let form_type = b"application/x-www-form-urlencoded".to_vec();
        let call = Call {
            method: b"POST".to_vec(),
            path: target.path.clone().into_bytes(),
            headers: vec![("Content-Type".to_owned(), form_type)],
            body: form.into(),
            // A code can be used only once.
            repeat: Repeat::ByMethod,
        };
        match self.0.send(&target, call).await {
            Ok(reply) if reply.status < 300 => Some(reply.body.to_vec()),
            Ok(reply) => {
                tracing::warn!(url, status = reply.status, "a form is answered with an error");
                None
            }
            Err(error) => {
                tracing::warn!(url, %error, "a form has no answer");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::test_server::{TestServer, reply};

    fn post(url: &str) -> Option<Vec<u8>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(Default::default())
            .expect("a runtime");
        runtime.block_on(Forms::default().post(url, "code=a".to_owned()))
    }

    #[test]
    fn forms_bring_what_is_answered_well() {
        let server = TestServer::start(|request| match request.contains("/good") {
            true => reply(200, "", "granted"),
            false => reply(400, "", "no"),
        });
        assert_eq!(post(&server.url("/good")).as_deref(), Some(&b"granted"[..]));
        let request = server.next_request();
        assert!(
            request.starts_with("POST /good HTTP/1.1\r\n") && request.ends_with("code=a"),
            "{request}"
        );
        assert!(request.to_ascii_lowercase().contains("application/x-www-form-urlencoded"));
        assert_eq!(post(&server.url("/bad")), None);
        assert_eq!(post("casdoor:8000"), None);
    }
}
