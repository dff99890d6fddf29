//! Case of ShenYu's admin: the number of service registrations per second, each durable and in
//! service when it is answered, and, with a thousand services, the delay until an operator's change
//! takes effect.
//!
//! As in the case of the Admin API, the gateway may use both cores, and its data folder is on a
//! disk.

use super::admin::{connections, disk_figure, wait_for_all, waits};
use super::budget::{self, Figure};
use super::case::{BODY_BYTES, Case};
use super::client::{Connection, distribute, get_request};
use super::plan::{Core, Plan};
use super::report::CaseResult;
use super::{gateway, origin, shell};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tollhouse_testbed::{Bootstrap, Listen, free_port};

const SERVICES: usize = 1_000;
const QUICK_SERVICES: usize = 100;
const CHANGES: usize = 200;
const QUICK_CHANGES: usize = 20;
const WORKERS: usize = 2;
/// Number of services that register concurrently, like a fleet that starts.
const CLIENTS: usize = 64;
/// Number of calls with which a service registers: one for a method, and one for its address.
const CALLS_A_SERVICE: usize = 2;
/// Initial password of ShenYu's admin.
const PASSWORD: &str = "123456";

pub(crate) fn run(plan: &Plan) -> Result<CaseResult> {
    let mut result = CaseResult::new(Case::ShenyuAdmin, Vec::new(), Vec::new());
    let origin = origin::start(plan, BODY_BYTES)?;
    let data = shell::folder_on_disk()?;
    result.figures.push(disk_figure(data.path())?);
    let (port, admin_port) = (free_port()?, free_port()?);
    let bootstrap = Bootstrap {
        data: Some(data.path()),
        has_resources: false,
        workers: WORKERS,
        listen: Listen { shenyu: admin_port, ..gateway::listen(port)? },
        ..Bootstrap::default()
    };
    let program = plan.gateway(Core::Both, &bootstrap, "")?;
    program.wait_until_it_listens(admin_port)?;
    let (services, changes) =
        if plan.is_quick { (QUICK_SERVICES, QUICK_CHANGES) } else { (SERVICES, CHANGES) };
    let token = log_in(admin_port)?;
    let operator = Operator { port: admin_port, token: &token };
    let before = program.cpu_time()?;
    let took = operator.register_all(services, origin.port)?;
    let mut everywhere = connections(port)?;
    let last = format!("{}/find", context_path(services - 1));
    wait_for_all(&mut everywhere, &last, Instant::now())?;
    let spent = program.cpu_time()?.saturating_sub(before);
    let calls = services * CALLS_A_SERVICE;
    let title = format!("registrations a second by {CLIENTS} clients, {services} services");
    let rate = calls as f64 / took.as_secs_f64();
    result.figures.push(Figure::with_budget(title, rate, budget::REGISTRATIONS_PER_SECOND));
    // The CPU time until the last service is reachable hardly depends on other load of the machine.
    let title = format!("CPU a registration, served, µs, {services} services");
    result.figures.push(Figure::free(title, spent.as_secs_f64() * 1e6 / calls as f64));
    let changes_ms = operator.changes_ms(&mut everywhere, changes)?;
    let (what, over) = ("change sent until every core serves", format!("{services} services"));
    result.figures.extend(waits(what, changes_ms, &over, budget::SHENYU_VISIBLE_MS));
    Ok(result)
}

fn context_path(service: usize) -> String {
    format!("/service{service}")
}

/// Logs in the initial user and returns the token.
fn log_in(port: u16) -> Result<String> {
    let path = format!("/platform/login?userName=admin&password={PASSWORD}");
    let mut connection = Connection::open(port)?;
    connection.send(get_request(&path, "").as_bytes())?;
    let (_, body) = connection.receive_answer()?;
    let answer: Value = serde_json::from_slice(&body).context("the login is answered in JSON")?;
    let token = answer["data"]["token"].as_str();
    token.map(str::to_owned).with_context(|| format!("no login: {answer}"))
}

/// Client of ShenYu's admin, with the token of the logged-in user.
struct Operator<'a> {
    port: u16,
    token: &'a str,
}

impl Operator<'_> {
    /// Makes a call on a connection, and returns the answer.
    fn call(&self, connection: &mut Connection, path: &str, body: &Value) -> Result<String> {
        let line = format!("X-Access-Token: {}\r\n", self.token);
        let (status, answer) = connection.send_json(&format!("POST {path}"), &line, body)?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if status != 200 || !answer.contains("success") {
            bail!("{path} {body} was answered {status}: {answer}");
        }
        Ok(answer)
    }

    /// Registers `count` services with concurrent clients, each of which takes the next service.
    /// Returns the total time.
    fn register_all(&self, count: usize, upstream_port: u16) -> Result<Duration> {
        distribute(CLIENTS, self.port, count, |connection, number| {
            let [method, address] = registrations(number, upstream_port);
            self.call(connection, "/shenyu-client/register-metadata", &method)?;
            self.call(connection, "/shenyu-client/register-uri", &address)?;
            Ok(())
        })
    }

    /// Measures, for `count` new rules, the time from the call until the rule applies on every
    /// connection. The time of the call is included, because the admin answers only when the rule
    /// applies.
    fn changes_ms(&self, everywhere: &mut [Connection], count: usize) -> Result<Vec<f64>> {
        let mut connection = Connection::open(self.port)?;
        let path =
            format!("/selector?pluginId=5&name={}&currentPage=1&pageSize=12", context_path(0));
        let lines = format!("X-Access-Token: {}\r\n", self.token);
        connection.send(get_request(&path, &lines).as_bytes())?;
        let (_, body) = connection.receive_answer()?;
        let listed: Value = serde_json::from_slice(&body)?;
        let rows = listed["data"]["dataList"].as_array().cloned().unwrap_or_default();
        let selector = rows.iter().find(|row| row["name"] == context_path(0).as_str());
        let selector = selector.with_context(|| format!("no selector in {listed}"))?["id"].clone();
        let mut delays = Vec::with_capacity(count);
        for number in 0..count {
            let path = format!("{}/change{number}", context_path(0));
            let conditions = json!([{"paramType": "uri", "operator": "=", "paramName": "/", "paramValue": path}]);
            let rule = json!({
                "selectorId": selector,
                "name": path,
                "matchMode": 0,
                "sort": 1,
                "enabled": true,
                "loged": false,
                "handle": json!({"loadBalance": "random"}).to_string(),
                "ruleConditions": conditions,
            });
            let sent = Instant::now();
            self.call(&mut connection, "/rule", &rule)?;
            wait_for_all(everywhere, &path, sent).with_context(|| path.clone())?;
            delays.push(sent.elapsed().as_secs_f64() * 1e3);
        }
        Ok(delays)
    }
}

/// Returns the registrations of a service in the format of ShenYu's Java client: a method, and its
/// address.
fn registrations(number: usize, port: u16) -> [Value; CALLS_A_SERVICE] {
    let context = context_path(number);
    let name = format!("service{number}");
    let method = json!({
        "appName": name, "contextPath": context, "path": format!("{context}/find"), "pathDesc": "", "rpcType": "http",
        "ruleName": format!("{context}/find"), "enabled": true, "host": "127.0.0.1", "port": port,
        "registerMetaData": false, "pluginNames": [], "timeMillis": 1,
    });
    let address = json!({
        "protocol": "http://", "appName": name, "contextPath": context, "rpcType": "http", "host": "127.0.0.1",
        "port": port, "eventType": "REGISTER",
    });
    [method, address]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_told_apart() {
        let [one, two] = [0, 1].map(|number| registrations(number, 80));
        assert_ne!(one[0]["path"], two[0]["path"]);
        assert_eq!(one[0]["contextPath"], one[1]["contextPath"]);
    }
}
