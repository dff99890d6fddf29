//! Reads the first packet of MQTT connections on a stream route, refuses other protocol versions,
//! and lets connections of one client go to the same node.
//!
//! # Example
//! ```json
//! {"protocol_name": "MQTT", "protocol_level": 4}
//! ```
//!
//! # Answers
//! None: a refused connection is closed.
//!
//! # Notes
//! Only for stream routes. An upstream of type `chash` with `"key": "mqtt_client_id"` hashes the
//! client id, or the client's address if the id is empty. The packet reaches the node unchanged.

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Phases, Plugin, RequestContext, Scope, Step,
};

mod connect;

use crate::shared::confs::defaults::defaults;

use connect::Connect;

/// Configuration of `mqtt-proxy` on a stream route.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Protocol name: `MQTT` (the default), or `MQIsdp` for version 3.1.
    #[serde(default = "default_protocol_name")]
    pub protocol_name: String,
    /// Protocol level: 3 for version 3.1, 4 for 3.1.1, 5 for 5.0. Other levels are refused.
    pub protocol_level: i64,
}

defaults! {
    default_protocol_name: String = "MQTT".into();
}

/// Status in the log for a connection of another protocol or version.
const REFUSED_STATUS: u16 = 503;

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
