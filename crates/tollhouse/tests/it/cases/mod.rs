//! Cases of plugins, as tables in files: a conf, what a client sends, what it must get and what the
//! node must have seen. One gateway with a store serves all cases of a table, each on a host of its
//! own: `c0.test` for the first.
//!
//! A table is read by `table`, what is said in a case by `script`, the node behind it is `node`. All
//! cases of a table are tried before the test fails, so that one run shows every difference.

mod node;
mod run;
mod script;
mod table;

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, GatewayBuilder, Message, Origin};

use crate::support::{gateway, upstream};

/// A gateway with a store, and a node that answers as requests ask it to.
pub(crate) struct Bench {
    pub(crate) gateway: Gateway,
    /// The node that routes lead to where a case says nothing else.
    pub(crate) node: Origin,
}

impl Bench {
    /// Starts both.
    pub(crate) fn start() -> Self {
        Self::with_gateway(gateway())
    }

    /// The same with a gateway that has settings.
    pub(crate) fn with_gateway(builder: GatewayBuilder) -> Self {
        // What the tables compare with is APISIX's.
        let builder = builder.set("imitate_apisix", "true");
        Self { gateway: builder.without_resources().start(), node: node::start() }
    }

    /// Writes an object, which must be taken.
    pub(crate) fn put(&self, path: &str, object: Value) {
        let answer = self.gateway.admin("PUT", path, &object);
        assert!(matches!(answer.status(), 200 | 201), "PUT {path}: {}", answer.text());
    }

    /// A route on `host` with these plugins.
    pub(crate) fn route(&self, host: &str, plugins: Value) -> Value {
        let upstream = upstream([self.node.address()]);
        json!({"host": host, "uri": "/*", "plugins": plugins, "upstream": upstream})
    }

    /// Waits until everything written before serves.
    pub(crate) fn wait_until_served(&self) {
        let plugins = json!({"mocking": {"response_example": "settled"}});
        let route = json!({"host": "settled.test", "uri": "/*", "plugins": plugins});
        self.gateway.admin("DELETE", "/routes/settled", &Value::Null);
        self.wait_settled(404);
        self.put("/routes/settled", route);
        self.wait_settled(200);
    }

    fn wait_settled(&self, status: u16) {
        wait_for("the change to serve", || {
            let request = "GET /settled HTTP/1.1\r\nHost: settled.test\r\n\r\n";
            (self.gateway.client().ask(request).status() == status).then_some(())
        });
    }

    /// Tries all cases of a table.
    pub(crate) fn check(&self, table: &str) {
        let cases = table::read(table);
        let mut failures = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let route = self.route(&host(index), case.conf.clone());
            let answer = self.gateway.admin("PUT", &format!("/routes/{}", host(index)), &route);
            if !matches!(answer.status(), 200 | 201) {
                failures.push(format!("{}: refused: {}", case.name, answer.text().trim()));
            }
        }
        self.wait_until_served();
        for (index, case) in cases.iter().enumerate() {
            let found = run::all(self, &host(index), &script::read(&case.text));
            failures.extend(found.into_iter().map(|failure| format!("{}: {failure}", case.name)));
        }
        assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
    }

    /// Tries what is said on a host whose route was written already.
    pub(crate) fn say(&self, host: &str, script: &str) {
        let failures = run::all(self, host, &script::read(script));
        assert!(failures.is_empty(), "{host}: differences:\n{}", failures.join("\n"));
    }

    /// Tries a table of confs that the Admin API must refuse in routes. The text of each is what
    /// follows `failed to check the configuration of plugin NAME err: `.
    pub(crate) fn refuse(&self, table: &str) {
        let route = |plugins| ("/routes/refused", self.route("refused.test", plugins));
        self.refuse_in(table, "", route);
    }

    /// The same for confs of consumers.
    pub(crate) fn refuse_in_consumers(&self, table: &str) {
        let consumer = |plugins| ("/consumers", json!({"username": "refused", "plugins": plugins}));
        self.refuse_in(table, "invalid plugins configuration: ", consumer);
    }

    fn refuse_in(
        &self,
        table: &str,
        before: &str,
        object: impl Fn(Value) -> (&'static str, Value),
    ) {
        let mut failures = Vec::new();
        for case in table::read(table) {
            let (plugin, conf, error) = (case.name, &case.conf, case.text.trim_end());
            let (path, object) = object(json!({(plugin): conf}));
            let answer = self.gateway.admin("PUT", path, &object);
            let wanted = format!(
                "{before}failed to check the configuration of plugin {plugin} err: {error}"
            );
            let (status, found) = (answer.status(), error_of(&answer));
            if status != 400 || found != wanted {
                let case = format!("{plugin} {conf}");
                failures.push(format!("{case}:\n  wanted 400 {wanted}\n  found  {status} {found}"));
            }
        }
        assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
    }
}

/// The host of a case.
fn host(index: usize) -> String {
    format!("c{index}.test")
}

/// What an answer of the Admin API says is wrong.
pub(crate) fn error_of(answer: &Message) -> String {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    body["error_msg"].as_str().map_or_else(|| answer.text(), str::to_owned)
}
