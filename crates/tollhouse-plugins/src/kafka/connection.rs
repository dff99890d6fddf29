//! Connection to a broker: connecting, logging in, and one request at a time.

use std::io::ErrorKind;
use std::time::Duration;

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tollhouse_kafka::login::{Digest, Mechanism, Scram, plain_message};
use tollhouse_kafka::request::{self, Api};
use tollhouse_kafka::response::{ApiVersions, SaslResponse, read_sasl_handshake};
use tollhouse_net::Stream;

use super::{Address, KafkaError, Login};
use crate::shared::dial::dial;

/// Maximum length of an answer in bytes. The longest answers are metadata: ten thousand partitions
/// with three replicas each take 420,000 bytes.
const ANSWER_BYTES_MAX: i32 = 2 << 20;

/// Random bytes of a login nonce, which must be unique and unpredictable.
const NONCE_BYTES: usize = 24;

/// Number of offered mechanisms that an error message lists.
const OFFERED_MAX: usize = 8;

pub(super) struct Connection {
    stream: Stream,
    next_id: i32,
    step_time_max: Duration,
}

impl Connection {
    /// Connects, checks the broker's API versions, and logs in, all within `step_time_max`.
    pub(super) async fn open(
        address: &Address,
        step_time_max: Duration,
    ) -> Result<Self, KafkaError> {
        let opened = timeout(step_time_max, Self::introduced(address, step_time_max)).await;
        opened.map_err(|_| KafkaError::Timeout)?
    }

    async fn introduced(address: &Address, step_time_max: Duration) -> Result<Self, KafkaError> {
        let stream = dial(&address.host, address.port, address.security.tls).await;
        let stream = stream.map_err(KafkaError::Connect)?;
        let mut connection = Self { stream, next_id: 0, step_time_max };
        let (id, frame) = connection.exchange(request::api_versions).await?;
        let served = ApiVersions::read(&frame, id)?;
        let login = address.security.login.as_deref();
        let needed = |api: &Api| match api {
            Api::SaslHandshake | Api::SaslAuthenticate => login.is_some(),
            Api::Produce | Api::Metadata | Api::ApiVersions => true,
        };
        let lacking = Api::ALL.into_iter().filter(needed).find(|api| !served.serves(*api));
        if let Some(api) = lacking {
            return Err(KafkaError::Version { api });
        }
        if let Some(login) = login {
            connection.log_in(login).await?;
        }
        Ok(connection)
    }

    /// Sends a request built for its correlation id. Returns the id and the answer.
    pub(super) async fn ask(
        &mut self,
        request: impl FnOnce(i32) -> Vec<u8>,
    ) -> Result<(i32, Vec<u8>), KafkaError> {
        let answered = timeout(self.step_time_max, self.exchange(request)).await;
        answered.map_err(|_| KafkaError::Timeout)?
    }

    async fn log_in(&mut self, login: &Login) -> Result<(), KafkaError> {
        let mechanism = login.mechanism.name();
        let (id, frame) = self.exchange(|id| request::sasl_handshake(id, mechanism)).await?;
        let (code, mut offered) = read_sasl_handshake(&frame, id)?;
        if !code.is_success() {
            offered.truncate(OFFERED_MAX);
            let offered = offered.join(", ");
            return Err(KafkaError::Mechanism { asked: mechanism, offered });
        }
        match login.mechanism {
            Mechanism::Plain => {
                self.say(&plain_message(&login.user, &login.password)).await?;
            }
            Mechanism::Scram(hash) => self.scram(hash, login).await?,
        }
        Ok(())
    }

    async fn scram(&mut self, hash: Digest, login: &Login) -> Result<(), KafkaError> {
        let mut nonce = [0; NONCE_BYTES];
        rand::fill(&mut nonce).map_err(|_| KafkaError::Random)?;
        let nonce = STANDARD.encode(nonce);
        let scram = Scram::new(hash, &login.user, &login.password, &nonce);
        let answer = self.say(scram.first_message().as_bytes()).await?;
        let (message, proof) = scram.second_message(&answer)?;
        let answer = self.say(message.as_bytes()).await?;
        Ok(proof.check(&answer)?)
    }

    /// Sends a login message and returns the broker's reply.
    async fn say(&mut self, message: &[u8]) -> Result<Vec<u8>, KafkaError> {
        let (id, frame) = self.exchange(|id| request::sasl_authenticate(id, message)).await?;
        let SaslResponse { code, reason, message } = SaslResponse::read(&frame, id)?;
        if code.is_success() { Ok(message) } else { Err(KafkaError::Login { code, reason }) }
    }

    async fn exchange(
        &mut self,
        request: impl FnOnce(i32) -> Vec<u8>,
    ) -> Result<(i32, Vec<u8>), KafkaError> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.stream.write_all(&request(id)).await.map_err(KafkaError::Broken)?;
        self.stream.flush().await.map_err(KafkaError::Broken)?;
        Ok((id, self.read_frame().await?))
    }

    async fn read_frame(&mut self) -> Result<Vec<u8>, KafkaError> {
        let length = self.stream.read_i32().await.map_err(KafkaError::Broken)?;
        if !(4..=ANSWER_BYTES_MAX).contains(&length) {
            return Err(KafkaError::Length(length));
        }
        let count = usize::try_from(length).unwrap_or_default();
        // Memory grows with the received bytes, not with the announced length.
        let mut frame = Vec::new();
        let read = (&mut self.stream).take(count as u64).read_to_end(&mut frame).await;
        match read.map_err(KafkaError::Broken)? {
            read if read < count => Err(KafkaError::Broken(ErrorKind::UnexpectedEof.into())),
            _ => Ok(frame),
        }
    }
}
