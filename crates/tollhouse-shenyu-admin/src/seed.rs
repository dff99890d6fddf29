//! Initial rows of an admin: plugins, the dictionary of form options, the default namespace, the
//! roles, and the user `admin`.

mod fields;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tollhouse_shenyu::model::DEFAULT_NAMESPACE;
use tollhouse_shenyu_gateway::{Row as PluginRow, Seed, rows};

use crate::answer::{Outcome, Refusal, success};
use crate::draft::Draft;
use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::Name;

/// Id of the role that permits everything.
pub(crate) const SUPER_ROLE: &str = "1346358560427216896";

pub(crate) const FIRST_USER: &str = "1";

/// Id of the row in [`Table::Secret`] that holds the token key, in base64.
pub(crate) const TOKEN_KEY: &str = "jwt";

/// First of the ids by which ShenYu's admin relates plugins to its first namespace; scripts use
/// them. Here a plugin of that namespace has only one id.
const RELATION_MIN: u64 = 1_801_816_010_882_822_145;

/// Plugins by relation id, from [`RELATION_MIN`] on: in the text order of their ids.
const RELATIONS: &[&str] = &[
    "1", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "2", "20", "21", "22", "23",
    "24", "25", "26", "27", "28", "29", "3", "30", "31", "32", "33", "34", "35", "36", "38", "39",
    "4", "40", "42", "43", "44", "45", "5", "6", "8", "9", "50", "51", "52", "53",
];

/// Returns the plugin that a relation id of ShenYu's first namespace refers to.
pub(crate) fn plugin_of_relation(id: &str) -> Option<&'static str> {
    // The plugin added last has an id outside the series.
    if id == "1907261515594055680" {
        return Some("61");
    }
    let at = id.parse::<u64>().ok()?.checked_sub(RELATION_MIN)?;
    RELATIONS.get(usize::try_from(at).ok()?).copied()
}

/// Options of a form field: displayed name, then value.
type FieldOptions = &'static [(&'static str, &'static str)];

/// Dictionary entries whose code, name and value are equal: type, then the values.
const DICTIONARY: &[(&str, &[&str])] = &[
    ("operator", OPERATORS),
    ("paramType", PARAMETER_TYPES),
    ("matchMode", &["and", "or"]),
    ("loadBalance", LOAD_BALANCERS),
    ("retryStrategy", &["current", "failover", "fixed", "exponential"]),
    ("algorithmName", &["concurrent", "leakyBucket", "slidingWindow", "tokenBucket"]),
    ("keyResolverName", &["WHOLE_KEY_RESOLVER", "REMOTE_ADDRESS_KEY_RESOLVER"]),
    ("permission", &["allow", "reject"]),
    ("status", &["true", "false"]),
    ("gray", &["true", "false"]),
    ("threadpool", &["cached", "limited", "eager", "fixed", "shared", "default"]),
    ("cacheType", &["memory", "redis"]),
    ("strategyName", &["rsa"]),
    ("addPrefixed", &["true", "false"]),
    ("rewriteMetaData", &["true", "false"]),
    ("preserveHost", &["true", "false"]),
    ("signRequestBody", &["true", "false"]),
    ("way", &["encrypt", "decrypt"]),
    ("mapType", &["all", "field"]),
    ("mode", &["cluster", "sentinel", "standalone"]),
    ("keyword", &["true", "false"]),
    ("maskType", &["dataMaskByMD5", "dataMaskByCharReplace"]),
    ("maskStatus", &["true", "false"]),
];

/// Kinds of discovery with their default settings, which the console reads as JSON text. Only the
/// first is supported here.
const DISCOVERY_MODES: FieldOptions = &[
    ("local", "{}"),
    ("zookeeper", "{}"),
    ("etcd", "{}"),
    ("nacos", "{}"),
    ("eureka", "{}"),
    ("kubernetes", "{}"),
];

/// Dictionary entries whose name explains the value: type, then name and value of each.
const NAMED_VALUES: &[(&str, FieldOptions)] = &[
    ("multiSelectorHandle", &[("single handle", "0"), ("multiple handle", "1")]),
    ("multiRuleHandle", &[("single rule", "0"), ("multiple rule", "1")]),
    (
        "degradeRuleGrade",
        &[("slow call ratio", "0"), ("exception ratio", "1"), ("exception number strategy", "2")],
    ),
    ("flowRuleGrade", &[("QPS", "1"), ("number of concurrent threads", "0")]),
    (
        "flowRuleControlBehavior",
        &[
            ("direct rejection by default", "0"),
            ("warm up", "1"),
            ("constant speed queuing", "2"),
            ("preheating uniformly queued", "3"),
        ],
    ),
    ("discoveryMode", DISCOVERY_MODES),
    ("automaticTransitionFromOpenToHalfOpenEnabled", &[("open", "true"), ("close", "false")]),
];

/// Dictionary entries whose code differs from the displayed name: type, code, then name and value
/// of each. An empty value leaves the choice to the server that the gateway connects to.
const CODED_VALUES: &[(&str, &str, FieldOptions)] = &[
    ("compressAlg", "COMPRESS_ALG", &[("none", "none"), ("LZ4", "LZ4")]),
    ("engine", "engine", ENGINES),
    ("securityProtocol", "SECURITY_PROTOCOL", SECURITY_PROTOCOLS),
    ("saslMechanism", "SASL_MECHANISM", SASL_MECHANISMS),
    ("apidoc", "API_DOC_GLOBAL_FLAG", &[("status", "true")]),
    ("apidocEnv", "ENV_LABEL_OFFLINE", &[("Offline", "http://127.0.0.1:9195")]),
    ("apidocEnv", "ENV_LABEL_ONLINE", &[("Online", "http://127.0.0.1:9196")]),
    ("provider", "PROVIDER_TYPE_OPENAI", &[("OpenAI", "OpenAI")]),
    ("provider", "PROVIDER_TYPE_DEEPSEEK", &[("DeepSeek", "DeepSeek")]),
    ("provider", "PROVIDER_TYPE_MOONSHOT", &[("Moonshot", "Moonshot")]),
    ("provider", "PROVIDER_TYPE_OPENAPI", &[("OpenAPI", "OpenAPI")]),
    ("provider", "PROVIDER_TYPE_ALIYUN", &[("ALiYun", "ALiYun")]),
    ("preRole", "ROLE_TYPE_SYSTEM", &[("SYSTEM", "system")]),
    ("preRole", "ROLE_TYPE_USER", &[("USER", "user")]),
    ("postRole", "ROLE_TYPE_SYSTEM", &[("SYSTEM", "system")]),
    ("postRole", "ROLE_TYPE_USER", &[("USER", "user")]),
    ("aiTokenLimitType", "CONTEXT_PATH_KEY_RESOLVER", &[("contextPath", "contextPath")]),
    ("aiTokenLimitType", "IP_KEY_RESOLVER", &[("ip", "ip")]),
    ("aiTokenLimitType", "URI_KEY_RESOLVER", &[("uri", "uri")]),
    ("aiTokenLimitType", "HEADER_KEY_RESOLVER", &[("header", "header")]),
    ("aiTokenLimitType", "PARAMETER_KEY_RESOLVER", &[("parameter", "parameter")]),
    ("aiTokenLimitType", "COOKIE_KEY_RESOLVER", &[("cookie", "cookie")]),
];

/// Table engines of ClickHouse, with the names in the dictionaries of ShenYu 2.5.1 to 2.7.1.
const ENGINES: FieldOptions = &[
    ("ReplacingMergeTree", "ReplacingMergeTree"),
    ("MergeTree", "MergeTree"),
    ("ReplicatedReplicatedMergeTree", "ReplicatedReplicatedMergeTree"),
    ("ReplicatedMergeTree", "ReplicatedMergeTree"),
];

/// Security protocols of Kafka.
const SECURITY_PROTOCOLS: FieldOptions = &[
    ("default", ""),
    ("PLAINTEXT", "PLAINTEXT"),
    ("SSL", "SSL"),
    ("SASL_PLAINTEXT", "SASL_PLAINTEXT"),
    ("SASL_SSL", "SASL_SSL"),
];

/// SASL mechanisms of Kafka.
const SASL_MECHANISMS: FieldOptions = &[
    ("default", ""),
    ("GSSAPI", "GSSAPI"),
    ("PLAIN", "PLAIN"),
    ("OAUTHBEARER", "OAUTHBEARER"),
    ("SCRAM-SHA-256", "SCRAM-SHA-256"),
    ("SCRAM-SHA-512", "SCRAM-SHA-512"),
];

pub(crate) const LOAD_BALANCERS: &[&str] =
    &["hash", "random", "roundRobin", "leastActive", "p2c", "shortestResponse"];

/// Operators of conditions, in the order of forms.
pub(crate) const OPERATORS: &[&str] = &[
    "match",
    "=",
    "regex",
    "contains",
    "TimeBefore",
    "TimeAfter",
    "exclude",
    "startsWith",
    "endsWith",
    "pathPattern",
    "isBlank",
];

pub(crate) const PARAMETER_TYPES: &[&str] =
    &["post", "uri", "query", "host", "ip", "header", "cookie", "req_method", "domain"];

/// Random secrets generated for a new admin.
pub(crate) struct Secrets {
    /// Hash of the first user's password.
    pub(crate) password: String,
    /// Key that signs tokens, in base64.
    pub(crate) token_key: String,
}

/// Writes the initial rows that are missing, `rows_max` at most. Returns `true` once all are
/// written. Rows that operators changed stay. Plugins that operators deleted stay deleted, because
/// they are only written together with the default namespace.
pub(crate) fn write_missing(draft: &mut Draft<'_>, secrets: &Secrets, rows_max: usize) -> Outcome {
    let is_filled = |row: &Row, member: &str| row::filled(row, member).is_some();
    // A row that can no longer be decrypted, where the operator accepted the loss, counts as
    // missing.
    if !draft.get(Table::Secret, TOKEN_KEY).is_some_and(|row| is_filled(&row, "key")) {
        put(draft, Table::Secret, TOKEN_KEY, json!({"key": secrets.token_key}))?;
    }
    if !draft.get(Table::User, FIRST_USER).is_some_and(|row| is_filled(&row, "password")) {
        let user = json!({"userName": "admin", "password": secrets.password, "role": 1,
            "roles": [SUPER_ROLE], "enabled": true});
        put(draft, Table::User, FIRST_USER, user)?;
    }
    if draft.get(Table::Namespace, DEFAULT_NAMESPACE).is_some() {
        return success("", true);
    }
    let mut rows = missing(draft);
    // Two rows are reserved for the token key and the user above.
    let rest = rows.split_off(rows.len().min(rows_max.saturating_sub(2)));
    for (table, id, row) in rows {
        put(draft, table, &id, row)?;
    }
    success("", rest.is_empty())
}

/// Lists the rows of the default namespace that are missing. The namespace itself is written last:
/// it marks completion, so that rows which operators delete later stay deleted.
fn missing(draft: &Draft<'_>) -> Vec<(Table, String, Value)> {
    let mut rows = Vec::new();
    let role = json!({"roleName": "super", "description": "may do everything"});
    rows.push((Table::Role, SUPER_ROLE.to_owned(), role));
    let plugins = seeded_plugins();
    for (plugin, seed) in &plugins {
        // A plugin written earlier, for example by an import, stays as it is.
        let named = Name {
            table: Table::Plugin,
            namespace: DEFAULT_NAMESPACE.to_owned(),
            parent: String::new(),
            name: plugin.name.to_owned(),
        };
        if draft.get(Table::Plugin, seed.id).is_none() && draft.find(&named).is_none() {
            let row = json!({"name": plugin.name, "role": seed.category,
                "sort": seed.sort.unwrap_or(plugin.role.order), "enabled": seed.enabled,
                "config": seed.config, "namespaceId": DEFAULT_NAMESPACE});
            rows.push((Table::Plugin, seed.id.to_owned(), row));
        }
    }
    let mut types = BTreeSet::new();
    for (id, row) in dictionary().enumerate() {
        types.extend(row["type"].as_str().map(str::to_owned));
        rows.push((Table::Dict, (id + 1).to_string(), row));
    }
    let fields = plugins.iter().flat_map(|(plugin, seed)| {
        fields::fields(plugin.name, seed.id, &|kind| types.contains(kind))
    });
    for (id, row) in fields.enumerate() {
        rows.push((Table::PluginHandle, (id + 1).to_string(), row));
    }
    rows.retain(|(table, id, _)| draft.get(*table, id).is_none());
    let namespace = json!({"namespaceId": DEFAULT_NAMESPACE, "name": "default",
        "description": "default-namespace"});
    rows.push((Table::Namespace, DEFAULT_NAMESPACE.to_owned(), namespace));
    rows
}

/// Lists the plugins that a new admin has, by their ids.
fn seeded_plugins() -> Vec<(&'static PluginRow, Seed)> {
    let mut plugins: Vec<_> = rows().filter_map(|plugin| Some((plugin, plugin.seed?))).collect();
    plugins.sort_by_key(|(_, seed)| seed.id.parse::<u32>().unwrap_or(u32::MAX));
    plugins
}

/// Returns the rows of the dictionary, grouped by type.
fn dictionary() -> impl Iterator<Item = Value> {
    let coded_entry = |kind: &str, code: &str, (name, value): (&str, &str), sort: usize| {
        json!({"type": kind, "dictCode": code, "dictName": name, "dictValue": value, "desc": "",
            "sort": sort, "enabled": true})
    };
    let entry =
        move |kind: &str, named: (&str, &str), sort: usize| coded_entry(kind, named.0, named, sort);
    let plain = DICTIONARY.iter().flat_map(move |(kind, values)| {
        values.iter().enumerate().map(move |(sort, value)| {
            let text = if *kind == "matchMode" { sort.to_string() } else { (*value).to_owned() };
            entry(kind, (value, &text), sort)
        })
    });
    let named = NAMED_VALUES.iter().flat_map(move |(kind, values)| {
        values.iter().enumerate().map(move |(sort, value)| entry(kind, *value, sort))
    });
    // Entries with their own code continue the numbering of earlier entries of the same type.
    let coded = CODED_VALUES.iter().enumerate().flat_map(move |(at, (kind, code, values))| {
        let before = CODED_VALUES.iter().take(at).filter(|(other, ..)| other == kind).count();
        let entries = values.iter().enumerate();
        entries.map(move |(sort, value)| coded_entry(kind, code, *value, before + sort))
    });
    plain.chain(named).chain(coded)
}

fn put(draft: &mut Draft<'_>, table: Table, id: &str, value: Value) -> Result<(), Refusal> {
    let Value::Object(members) = value else { return Err(Refusal::error("expected an object")) };
    let mut row = Row::new();
    row.insert("id".to_owned(), id.into());
    row.extend(members);
    row.insert("dateCreated".to_owned(), draft.now.clone().into());
    row.insert("dateUpdated".to_owned(), draft.now.clone().into());
    draft.put(table, id, row);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tollhouse_store::Location;

    use super::*;
    use crate::tables::Tables;

    /// Writes all rows in pieces of `rows_max`. Returns the number of pieces and of rows.
    async fn write_all(rows_max: usize) -> (usize, usize) {
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        let secrets = Secrets { password: "p".to_owned(), token_key: "k".to_owned() };
        for piece in 1.. {
            let listing = store.list(tollhouse_shenyu::KEY_PREFIX).await.expect("a listing");
            let tables = Tables::from_listing(&listing);
            let mut draft = Draft::new(&tables, "2026-11-27 00:00:00".to_owned());
            let outcome = write_missing(&mut draft, &secrets, rows_max);
            let is_whole = draft.end_call(outcome).expect("it is written").data == true;
            let transaction = draft.into_transaction().expect("rows are JSON");
            assert!(transaction.operations.len() <= rows_max, "{}", transaction.operations.len());
            store.commit(transaction).await.expect("a commit");
            if is_whole {
                let listing = store.list(tollhouse_shenyu::KEY_PREFIX).await.expect("a listing");
                return (piece, listing.entries.len());
            }
        }
        unreachable!("pieces go on until all is written")
    }

    #[tokio::test]
    async fn a_store_that_takes_few_rows_at_once_gets_them_in_pieces() {
        // etcd's default limit of operations in a transaction.
        let (pieces, rows) = write_all(128).await;
        assert!(pieces > 1, "{pieces}");
        assert_eq!((1, rows), write_all(10_000).await);
    }
}
