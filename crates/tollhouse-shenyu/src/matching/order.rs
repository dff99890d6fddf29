//! Order of plugins in the chain, as of ShenYu 2.7.2. The `sort` of a plugin's row takes
//! precedence.

/// Order of a plugin that is not built in and has no `sort`.
pub const DEFAULT_ORDER: i64 = 0;

/// Order of each built-in plugin of ShenYu.
pub const PLUGIN_ORDER: &[(&str, i64)] = &[
    ("global", -1),
    ("mock", 1),
    ("cache", 10),
    ("metrics", 15),
    ("sign", 20),
    ("jwt", 30),
    ("oauth2", 40),
    ("casdoor", 40),
    ("waf", 50),
    ("rateLimiter", 60),
    ("aiRequestTransformer", 65),
    ("aiResponseTransformer", 66),
    ("paramMapping", 70),
    ("contextPath", 80),
    ("rewrite", 90),
    ("cryptorRequest", 100),
    ("redirect", 110),
    ("request", 120),
    ("generalContext", 125),
    ("mqtt", 125),
    ("hystrix", 130),
    ("sentinel", 140),
    ("keyAuth", 150),
    ("basicAuth", 150),
    ("loggingConsole", 160),
    ("aiPrompt", 170),
    ("loggingRocketMQ", 170),
    ("loggingRabbitMQ", 171),
    ("aiTokenLimiter", 171),
    ("loggingAliyunSls", 175),
    ("loggingTencentCls", 176),
    ("loggingHuaweiLts", 177),
    ("loggingKafka", 180),
    ("mcpServer", 180),
    ("loggingPulsar", 185),
    ("loggingElasticSearch", 190),
    ("loggingClickHouse", 195),
    ("aiProxy", 199),
    ("divide", 200),
    ("springCloud", 200),
    ("websocket", 200),
    ("uri", 205),
    ("webClient", 210),
    ("nettyHttpClient", 210),
    ("modifyResponse", 220),
    ("paramTransform", 300),
    ("dubbo", 310),
    ("sofa", 310),
    ("tars", 310),
    ("grpc", 310),
    ("motan", 310),
    ("brpc", 310),
    ("resilience4j", 310),
    ("tcp", 320),
    ("cryptorResponse", 410),
    ("response", 420),
];

/// Plugins that only modify, record or forward requests. Their faulty objects are skipped. Faulty
/// objects of all other plugins, including unknown ones, refuse requests.
const HARMLESS: &[&str] = &[
    "mock",
    "cache",
    "metrics",
    "paramMapping",
    "contextPath",
    "rewrite",
    "redirect",
    "request",
    "generalContext",
    "loggingConsole",
    "loggingRocketMQ",
    "loggingRabbitMQ",
    "loggingAliyunSls",
    "loggingTencentCls",
    "loggingHuaweiLts",
    "loggingKafka",
    "loggingPulsar",
    "loggingElasticSearch",
    "loggingClickHouse",
    "divide",
    "springCloud",
    "websocket",
    "modifyResponse",
    "dubbo",
    "grpc",
    "tcp",
];

/// Returns the order of a built-in plugin of ShenYu.
pub fn built_in_order(plugin: &str) -> Option<i64> {
    PLUGIN_ORDER.iter().find(|(name, _)| *name == plugin).map(|(_, order)| *order)
}

/// Whether requests must be refused if objects of the plugin cannot be evaluated.
pub fn protects(plugin: &str) -> bool {
    !HARMLESS.contains(&plugin)
}
