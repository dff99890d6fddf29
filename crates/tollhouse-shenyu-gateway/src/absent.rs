//! ShenYu plugins that this gateway does not implement, and the treatment of their rules.

use crate::error::BuildError;
use crate::row::{Row, Seed};

/// ShenYu plugin that this gateway does not implement.
struct Absent {
    row: Row,
    substitute: Substitute,
}

/// Treatment of the plugin's rules.
#[derive(Clone, Copy)]
enum Substitute {
    /// Requests pass, because the gateway itself or another object does the plugin's work.
    Pass,
    /// The rule is reported as a problem, with this alternative to the plugin.
    Elsewhere(&'static str),
    /// The rule is reported as a problem.
    None,
}

const LOGGERS: Substitute = Substitute::Elsewhere(
    "nothing is written: use `loggingKafka`, `loggingElasticSearch`, `loggingClickHouse` or `loggingConsole`, \
     whose records have the same members, or have a collector forward what a route's `http-logger` sends",
);
const PROTOCOL: Substitute = Substitute::Elsewhere(
    "its protocol is not spoken; give its service an HTTP, gRPC or Dubbo interface",
);
const MANY_HANDLES: &str = r#"{"multiSelectorHandle":"1","multiRuleHandle":"0"}"#;

/// Initial configuration of loggers that write to a topic.
pub(crate) const LOGS: &str = r#"{"topic":"shenyu-access-logging"}"#;

const fn pass(row: Row) -> Absent {
    Absent { row, substitute: Substitute::Pass }
}

const fn refused(row: Row) -> Absent {
    Absent { row, substitute: Substitute::None }
}

const fn logger(name: &'static str, order: i64, id: &'static str) -> Absent {
    let seed = Seed::new(id, "Logging").config(LOGS);
    Absent { row: Row::harmless(name, order).with(seed), substitute: LOGGERS }
}

const fn protocol(row: Row) -> Absent {
    Absent { row, substitute: PROTOCOL }
}

/// ShenYu plugins that this gateway does not implement, sorted by their order in ShenYu.
const ABSENT: &[Absent] = &[
    pass(Row::protecting("global", -1)),
    // The gateway's own metrics cover every object.
    pass(Row::harmless("metrics", 15)),
    refused(Row::protecting("aiRequestTransformer", 65).with(Seed::new("53", "Ai"))),
    refused(Row::protecting("aiResponseTransformer", 66).with(Seed::new("66", "Ai"))),
    // Handles of this plugin concern calls other than HTTP.
    pass(Row::harmless("generalContext", 125).with(Seed::new("27", "Common").enabled())),
    refused(Row::protecting("mqtt", 125).with(Seed::new("28", "Proxy").config(r#"{"port":9500}"#))),
    refused(Row::protecting("aiPrompt", 170).with(Seed::new("52", "Ai"))),
    logger("loggingRocketMQ", 170, "29"),
    logger("loggingRabbitMQ", 171, "45"),
    refused(Row::protecting("aiTokenLimiter", 171).with(Seed::new("51", "Ai"))),
    logger("loggingAliyunSls", 175, "34"),
    logger("loggingTencentCls", 176, "36"),
    logger("loggingHuaweiLts", 177, "43"),
    refused(Row::protecting("mcpServer", 180).with(Seed::new("61", "MCP"))),
    logger("loggingPulsar", 185, "35"),
    refused(
        Row::protecting("aiProxy", 199)
            .with(Seed::new("50", "Ai").config(r#"{"provider":"OpenAI"}"#).sort(171)),
    ),
    pass(Row::protecting("uri", 205)),
    pass(Row::protecting("webClient", 210)),
    pass(Row::protecting("nettyHttpClient", 210)),
    pass(Row::protecting("paramTransform", 300)),
    protocol(
        Row::protecting("sofa", 310)
            .with(Seed::new("11", "Proxy").config(r#"{"threadpool":"shared"}"#)),
    ),
    protocol(Row::protecting("tars", 310).with(Seed::new("13", "Proxy").config(MANY_HANDLES))),
    protocol(Row::protecting("motan", 310)),
    protocol(Row::protecting("brpc", 310)),
    // Ports come from proxy selectors.
    pass(Row::harmless("tcp", 320).with(Seed::new("42", "Proxy").enabled())),
    pass(Row::protecting("response", 420)),
];

/// Returns the rows of the plugins that this gateway does not implement.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    ABSENT.iter().map(|absent| &absent.row)
}

/// Accepts the rule of a plugin that this gateway does not implement, if requests may pass without
/// the plugin.
///
/// # Errors
///
/// If requests may not pass without the plugin.
pub(crate) fn pass_or_refuse(plugin: &str) -> Result<(), BuildError> {
    let absent = ABSENT.iter().find(|absent| absent.row.name == plugin);
    match absent.map_or(Substitute::None, |absent| absent.substitute) {
        Substitute::Pass => Ok(()),
        Substitute::Elsewhere(instead) => {
            Err(BuildError::Elsewhere { plugin: plugin.to_owned(), instead })
        }
        Substitute::None => Err(BuildError::NotBuilt(plugin.to_owned())),
    }
}
