//! Looks into the first packet of MQTT connections of a stream route: turns those of another version
//! away, and has a client's connections go to one node by its client id.
//!
//! # Example
//! ```json
//! {"protocol_name": "MQTT", "protocol_level": 4}
//! ```
//!
//! # Answers
//! None: a connection that is refused is closed.
//!
//! # Notes
//! For stream routes. An upstream of type `chash` with `"key": "mqtt_client_id"` hashes the client id; of
//! a client without one it hashes the address. The packet reaches the node as it was sent.

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Phases, Plugin, RequestContext, Scope, Step,
};

mod connect;

use crate::shared::confs::defaults::defaults;

use connect::Connect;

/// What a stream route says.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// The name of the protocol: `MQTT`, or `MQIsdp` for version 3.1.
    #[serde(default = "default_protocol_name")]
    pub protocol_name: String,
    /// The level of the protocol: 3 for version 3.1, 4 for 3.1.1, 5 for 5.0.
    pub protocol_level: i64,
}

defaults! {
    default_protocol_name: String = "MQTT".into();
}

/// The status that the log shows for a connection that is no MQTT, or of another version.
const REFUSED_STATUS: u16 = 503;

/// The plugin.
#[derive(Debug)]
pub struct MqttProxy {
    name: String,
    level: i64,
}

impl Plugin for MqttProxy {
    const NAME: &'static str = "mqtt-proxy";
    const PRIORITY: i32 = 1000;
    const CATEGORY: Category = Category::Traffic;
    const PHASES: Phases = Phases::ACCESS;
    const SERVES_CONNECTIONS: bool = true;
    const SERVES_REQUESTS: bool = false;
    type Config = Config;

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        Ok(Self { name: config.protocol_name, level: config.protocol_level })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::wait(async move {
            let enough = |bytes: &[u8]| !matches!(connect::parse(bytes), Ok(None));
            let Ok(bytes) = cx.read_first_bytes(enough).await else { return refusal() };
            let client_id = match connect::parse(bytes) {
                Ok(Some(packet)) if self.takes(&packet) => packet.client_id.to_vec(),
                _ => return refusal(),
            };
            cx.set_variable("mqtt_client_id", client_id);
            Flow::Continue
        })
    }
}

impl MqttProxy {
    fn takes(&self, packet: &Connect<'_>) -> bool {
        packet.protocol_name == self.name.as_bytes() && i64::from(packet.level) == self.level
    }
}

fn refusal<'a>() -> Flow<'a> {
    Answer::status(REFUSED_STATUS).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::{FakeExchange, Harness};

    use super::*;

    #[test]
    fn a_request_has_no_first_packet_and_is_refused() {
        let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
        let mut harness = Harness::new::<MqttProxy>(&json!({"protocol_level": 4}));
        assert_eq!(harness.run(&mut exchange).status(), REFUSED_STATUS);
    }
}
