//! The console's calls in the OpenAPI document.

use serde_json::{Map, Value, json};

/// Path, method, identifier, summary, and query parameters with their descriptions.
type Operation = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const OPERATIONS: [Operation; 44] = [
    ("/console/v1/login", "get", "console_who", "Identity and role of the caller", &[]),
    ("/console/v1/login", "post", "console_sign_in", "Sign in with a key; sets a cookie", &[]),
    ("/console/v1/login", "delete", "console_sign_out", "Sign out", &[]),
    (
        "/console/v1/login/openid",
        "post",
        "console_log_in",
        "Begin a log-in at the identity provider; returns its address, and sets a cookie",
        &[],
    ),
    ("/console/v1/overview", "get", "console_overview", "The gateway at a glance", &[]),
    (
        "/console/v1/live",
        "get",
        "console_live",
        "Traffic of the last 15 minutes, second by second",
        &[("since", "Only seconds after this one, in Unix time.")],
    ),
    (
        "/console/v1/live/routes",
        "get",
        "console_live_routes",
        "Requests and failures a second of each route over the last five seconds, the busiest first, with those that its plugins refused",
        &[
            ("sort", "`failures` for those that fail most."),
            ("ids", "Only these routes, with commas between them."),
            ("history", "`true` for the figures of the last 15 minutes too, of at most 20 rows."),
        ],
    ),
    (
        "/console/v1/live/upstreams",
        "get",
        "console_live_upstreams",
        "Requests and failures a second of each upstream object; those inside routes count as their routes",
        &[
            ("sort", "`failures` for those that fail most."),
            ("ids", "Only these upstreams, with commas between them."),
            ("history", "`true` for the figures of the last 15 minutes too, of at most 20 rows."),
        ],
    ),
    (
        "/console/v1/live/consumers",
        "get",
        "console_live_consumers",
        "Requests and failures a second of each consumer",
        &[
            ("sort", "`failures` for those that fail most."),
            ("ids", "Only these consumers, with commas between them."),
            ("history", "`true` for the figures of the last 15 minutes too, of at most 20 rows."),
        ],
    ),
    (
        "/console/v1/live/nodes",
        "get",
        "console_live_nodes",
        "Attempts and failures a second of each node, with the time until the heads of its answers",
        &[
            ("sort", "`failures` for those that fail most."),
            ("ids", "Only nodes with these addresses, with commas between them."),
            ("history", "`true` for the figures of the last 15 minutes too, of at most 20 rows."),
        ],
    ),
    (
        "/console/v1/shenyu/forms",
        "get",
        "console_shenyu_forms",
        "JSON Schemas of ShenYu's objects and of the settings of its plugins",
        &[],
    ),
    (
        "/console/v1/shenyu/{resource}",
        "get",
        "console_shenyu_list",
        "ShenYu's objects as its own admin lists them: plugin, selector, rule, meta-data, appAuth, namespace, \
         shenyu-dict or plugin-handle",
        &[("currentPage", "Page number, from 1."), ("pageSize", "Rows a page.")],
    ),
    (
        "/console/v1/shenyu/{resource}",
        "post",
        "console_shenyu_write",
        "Make one of ShenYu's objects as its own admin does; whatever its REST interface knows below the first five \
         of these resources is answered here, for who has a key of this gateway",
        &[],
    ),
    (
        "/console/v1/requests",
        "get",
        "console_requests",
        "Recent requests: failures, some of each kind, and a sample of the rest, without query strings and headers",
        &[
            ("id", "Only the request with this id."),
            ("code", "Only this error code."),
            ("status", "Only this status, such as `502`, or class, such as `5xx`."),
            ("route", "Only this route."),
            ("slower_ms", "Only those that took this many milliseconds or longer."),
            ("q", "Only those whose method, host, path, client, plugin or nodes contain this."),
        ],
    ),
    (
        "/console/v1/nodes",
        "get",
        "console_nodes",
        "Nodes of upstreams with their state and its reason",
        &[("q", "Only those whose upstream, host or state contains this.")],
    ),
    (
        "/console/v1/explain",
        "post",
        "console_explain",
        "Which route a request would take, and why the others lose; nothing is sent",
        &[],
    ),
    (
        "/console/v1/validate/{kind}",
        "post",
        "console_validate",
        "Validate an object: all faults, each with the JSON pointer of its place; nothing is written",
        &[],
    ),
    (
        "/console/v1/validate/{kind}/{id}",
        "post",
        "console_validate_one",
        "Validate the object with this id",
        &[],
    ),
    (
        "/console/v1/objects/{kind}",
        "get",
        "console_objects",
        "Search objects of a kind by id, name, host, path or label",
        &[
            (
                "q",
                "Words that are all found in one of them, whatever their case. `host:`, `label:`, `plugin:` and \
                 `uses:` before a word look there alone; `status:off` and `status:on` for what is switched.",
            ),
            ("host", "As `host:` in q; so are `label`, `plugin` and `status`."),
            ("upstream", "Only those that name this upstream."),
            (
                "problem",
                "`true` for those that the gateway has a problem with, `false` for all others.",
            ),
            (
                "sort",
                "`id`, `name`, `host`, `uri`, `status`, `plugins`, `created` or `changed`, with a `-` before it for the \
                 last first; by creation where it is not said.",
            ),
            ("page", "Page number, from 1."),
            ("page_size", "Rows a page, at most 500."),
        ],
    ),
    (
        "/console/v1/objects/{kind}/{id}",
        "get",
        "console_object",
        "An object with its secrets sealed, what uses it, what it uses, and its last change",
        &[],
    ),
    (
        "/console/v1/objects/consumers/{id}/credentials",
        "get",
        "console_credentials",
        "Search the credentials of a consumer; their contents are not returned",
        &[
            ("q", "As in a search of objects."),
            ("page", "Page number, from 1."),
            ("page_size", "Rows a page, at most 500."),
        ],
    ),
    ("/console/v1/plugins", "get", "console_plugins", "All plugins, by purpose", &[]),
    (
        "/console/v1/plugins/{id}",
        "get",
        "console_plugin",
        "A plugin: phases, secret fields, schemas and manual page",
        &[],
    ),
    (
        "/console/v1/certificates",
        "get",
        "console_certificates",
        "Certificates: names, issuer, dates and what is wrong with them; never a private key",
        &[
            ("q", "As in a search of objects."),
            ("page", "Page number, from 1."),
            ("page_size", "Rows a page, at most 200."),
        ],
    ),
    (
        "/console/v1/certificates/{id}/check",
        "post",
        "console_check_certificate",
        "What would differ with another certificate in the place of one, and whether the stored key goes with it; \
         nothing is written. Takes a key that may write",
        &[],
    ),
    ("/console/v1/log", "get", "console_log", "The level of the process' own log", &[]),
    (
        "/console/v1/log",
        "put",
        "console_set_log",
        "Set another level for some seconds, an hour at most; it falls back by itself. Takes the role admin",
        &[],
    ),
    (
        "/console/v1/log/lines",
        "get",
        "console_log_lines",
        "The last lines of the process' own log. Takes the role admin",
        &[("from", "Only lines from this number on.")],
    ),
    (
        "/console/v1/doctor",
        "get",
        "console_doctor",
        "Findings that need attention, with remedies",
        &[],
    ),
    (
        "/console/v1/reload",
        "post",
        "console_reload",
        "Read the resources again and reopen the access log, as SIGHUP does. Takes the role admin",
        &[],
    ),
    ("/console/v1/bench", "get", "console_benches", "Measurements of the load generator", &[]),
    (
        "/console/v1/bench/runs",
        "post",
        "console_start_bench",
        "Start a measurement, where console.bench allows it. Takes the role admin",
        &[],
    ),
    (
        "/console/v1/bench/runs/{id}",
        "get",
        "console_bench",
        "One measurement, while it runs and after",
        &[],
    ),
    (
        "/console/v1/bench/runs/{id}",
        "delete",
        "console_end_bench",
        "Stop a measurement, or forget one that is over. Takes the role admin",
        &[],
    ),
    (
        "/console/v1/bench/runs/{id}/result",
        "get",
        "console_bench_result",
        "The result, as `tollhouse bench` reads it; `page` instead of `result` is the report",
        &[],
    ),
    (
        "/console/v1/bench/compare",
        "get",
        "console_compare_benches",
        "Compare two measurements: what improved, and what got worse",
        &[("before", "The earlier measurement."), ("after", "The later measurement.")],
    ),
    (
        "/console/v1/settings",
        "get",
        "console_settings",
        "Settings of the process, with secrets masked",
        &[],
    ),
    (
        "/console/v1/registry/events",
        "get",
        "console_registry_events",
        "Recent events of registry instances: registered, silent, heard of again, isolated, gone",
        &[
            ("namespace", "Only of this namespace."),
            ("service", "Only of this service."),
            ("instance", "Only to this instance."),
            ("before", "Only before the line of this number."),
            ("limit", "Number of lines, at most 1000; 100 by default."),
        ],
    ),
    (
        "/console/v1/changes",
        "get",
        "console_changes",
        "Changes, newest first, with their authors and ways; and the last refused writes",
        &[
            ("kind", "Only objects of this kind, such as `routes`, `registry` or `shenyu`."),
            ("id", "Only this object and those below it."),
            ("actor", "Only by the key of this name."),
            ("way", "Only by `api`, `console`, `import`, `acme` or `file`."),
            ("before", "Only before this revision."),
            ("limit", "Number of rows, at most 200; 50 by default."),
        ],
    ),
    (
        "/console/v1/changes/{id}",
        "get",
        "console_change",
        "One change, by its revision or name: the object before and after, secrets sealed",
        &[],
    ),
    (
        "/console/v1/changes/{id}/undo",
        "post",
        "console_undo",
        "Take a change back: what stood there before stands there again. 412 where the object was changed since, \
         unless `If-Match` says that this was seen",
        &[("dry_run", "`true` to be told whether it could be, and write nothing.")],
    ),
    (
        "/console/v1/export",
        "get",
        "console_export",
        "Objects as a document that an import reads, with their secrets sealed",
        &[
            ("kind", "Only objects of this kind; consumers come with their credentials."),
            ("ids", "Only these of the kind, with commas between them."),
            ("q", "Only those of the kind that a search of objects finds."),
            ("format", "`yaml`, or `json`."),
            (
                "reveal_secrets",
                "`true` for secrets in the clear. Takes a key of the role admin, and no cookie.",
            ),
        ],
    ),
    (
        "/console/v1/schema/rules/{kind}",
        "get",
        "console_rule_schema",
        "JSON Schema of the governance rules of a kind, such as `routing`",
        &[],
    ),
    (
        "/console/v1/import",
        "post",
        "console_import",
        "Make the objects of a document, YAML or JSON, in one commit that can be taken back. With `If-Match` and the \
         revision that a plan named only while no object was changed since: else 412. 413 where the document is too \
         large for one commit",
        &[
            (
                "dry_run",
                "`true` to be told what would be created, replaced, deleted, left, and what is wrong.",
            ),
            ("prune", "`true` to delete the objects that the document does not have."),
        ],
    ),
];

/// Adds the console's operations to the document's paths.
pub(crate) fn add_paths(paths: &mut Map<String, Value>) {
    for (path, method, identifier, summary, query) in OPERATIONS {
        let mut parameters: Vec<Value> = query
            .iter()
            .map(|(name, text)| {
                json!({"name": name, "in": "query", "description": text, "schema": {"type": "string"}})
            })
            .collect();
        if path.contains("{kind}") {
            parameters.push(json!({
                "name": "kind", "in": "path", "required": true,
                "description": "Such as `routes`.", "schema": {"type": "string"},
            }));
        }
        for name in ["id", "resource"] {
            if path.contains(&format!("{{{name}}}")) {
                parameters.push(json!({
                    "name": name, "in": "path", "required": true, "schema": {"type": "string"},
                }));
            }
        }
        let mut operation = json!({
            "operationId": identifier,
            "summary": summary,
            "tags": ["console"],
            "parameters": parameters,
            "responses": {
                "200": {"description": "Done.", "content": {"application/json": {"schema": {"type": "object"}}}},
                "400": {"description": "Refused; `error_msg` has the reason."},
                "401": {"description": "The key is missing or wrong."},
            },
        });
        let body = match identifier {
            "console_sign_in" => Some(sign_in()),
            "console_explain" => Some(question()),
            "console_check_certificate" => Some(renewed()),
            _ => None,
        };
        if identifier == "console_import" {
            let text = json!({"schema": {"type": "string"}});
            operation["requestBody"] =
                json!({"required": true, "content": {"application/yaml": text}});
        }
        if let Some(schema) = body {
            operation["requestBody"] =
                json!({"required": true, "content": {"application/json": {"schema": schema}}});
        }
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[method] = operation;
    }
}

fn sign_in() -> Value {
    json!({"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]})
}

fn renewed() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    json!({
        "type": "object",
        "properties": {
            "cert": text("The new certificate with those that sign it, in PEM."),
            "key": text("Its private key in PEM, to be told whether it goes with it."),
        },
        "required": ["cert"],
    })
}

fn question() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    json!({
        "type": "object",
        "properties": {
            "url": text("Its address, such as `http://api.example.com/v1/users?id=7`."),
            "method": text("GET where it is missing, or POST where there is a body."),
            "headers": {"type": "array", "items": text("`Name: value`.")},
            "remote_addr": text("The client's address; 127.0.0.1 where it is missing."),
            "body": text("For routes that look into it."),
            "as_text": {
                "type": "boolean", "default": false,
                "description": "Whether the answer is `text`, as `tollhouse explain` prints it, and `is_taken`; then the \
                                address may be one of `tcp`, `tls` or `udp` too.",
            },
        },
        "required": ["url"],
    })
}
