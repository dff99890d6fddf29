//! `registry.locations`: networks with the location of their hosts, and their syntax.

use ipnet::IpNet;
use serde_json::{Map, Value, json};

use super::shape::{Read, Shape, collect, refuse};
use super::shape_net::network;

/// Location of the hosts in a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLocation {
    pub network: IpNet,
    pub region: String,
    pub zone: String,
    pub campus: String,
}

const FIELDS: [&str; 4] = ["network", "region", "zone", "campus"];

/// Maximum number of networks: each registration compares them one by one.
const LOCATIONS_MAX: usize = 1_000;

/// Syntax of a list of tables, which may also be written as JSON text.
pub(crate) struct HostLocations;

impl Shape for HostLocations {
    type Value = Vec<HostLocation>;
    fn takes() -> String {
        "list of tables such as {network: 10.1.0.0/16, region: r, zone: z, campus: c}, as JSON in a \
         variable or flag"
            .to_owned()
    }
    fn read(value: &Value) -> Read<Vec<HostLocation>> {
        let from_text;
        let items = match value {
            Value::Array(items) => items,
            Value::String(text) if text.trim().is_empty() => return Ok(Vec::new()),
            Value::String(text) => match serde_json::from_str(text) {
                Ok(Value::Array(items)) => {
                    from_text = items;
                    &from_text
                }
                _ => return no_list(),
            },
            _ => return no_list(),
        };
        if items.len() > LOCATIONS_MAX {
            return refuse(format!("{} networks are too many", items.len()), "give at most 1000");
        }
        collect(items.iter().map(read_one))
    }
    fn show(value: &Vec<HostLocation>) -> String {
        let items = value.iter().map(|it| {
            json!({
                "network": it.network.to_string(),
                "region": it.region,
                "zone": it.zone,
                "campus": it.campus,
            })
        });
        Value::Array(items.collect()).to_string()
    }
}

fn no_list<T>() -> Read<T> {
    refuse(
        "not a list of locations",
        "write a list of tables such as [{\"network\": \"10.0.0.0/8\"}]",
    )
}

fn read_one(value: &Value) -> Read<HostLocation> {
    let Value::Object(fields) = value else { return no_list() };
    if let Some(name) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        let near = tollhouse_stdx::nearest(name, FIELDS.into_iter());
        let hint = near.map_or_else(
            || format!("its fields are {}", FIELDS.join(", ")),
            |near| format!("did you mean \"{near}\"?"),
        );
        return refuse(format!("unknown field \"{name}\" of a location"), hint);
    }
    let Some(Value::String(text)) = fields.get("network") else {
        return refuse("a location without a network", "give it, such as 10.0.0.0/8");
    };
    Ok(HostLocation {
        network: network(text.trim())?,
        region: part(fields, "region")?,
        zone: part(fields, "zone")?,
        campus: part(fields, "campus")?,
    })
}

fn part(fields: &Map<String, Value>, name: &str) -> Read<String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => refuse(format!("invalid {name} {other}"), "give a text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_read_from_tables_and_text_and_shown_so_that_they_are_read_again() {
        let table = json!([{"network": "10.1.0.0/16", "region": "r", "zone": "z"}]);
        let read = HostLocations::read(&table).expect("a list of locations");
        assert_eq!((&*read[0].region, &*read[0].campus), ("r", ""));
        let shown = HostLocations::show(&read);
        assert_eq!(HostLocations::read(&Value::String(shown)).ok(), Some(read));
        for bad in [
            json!("x"),
            json!([1]),
            json!([{"region": "r"}]),
            json!([{"network": "x"}]),
            json!([{"network": "10.0.0.0/8", "regoin": "r"}]),
            json!([{"network": "10.0.0.0/8", "region": 1}]),
        ] {
            assert!(HostLocations::read(&bad).is_err(), "{bad}");
        }
    }
}
