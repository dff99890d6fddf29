//! Zones as the bootstrap file gives them: names, sizes, and whether they are on the disk.

use serde_json::Value;
use tollhouse_plugin::Services;

/// The zone on the disk that exists where the bootstrap file names none.
pub(super) const DISK_ZONE: &str = "disk_cache_one";
/// The zone in memory that exists where the bootstrap file names none.
const MEMORY_ZONE: &str = "memory_cache";
/// Bytes of a zone in memory that has no size.
const MEMORY_BYTES_DEFAULT: u64 = 50 << 20;
/// Bytes of a zone on the disk that has no size.
const DISK_BYTES_DEFAULT: u64 = 1 << 30;
/// How long an answer lives on the disk that does not say, where the bootstrap file does not either.
const TTL_MS_DEFAULT: u64 = 10_000;

/// A zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ZoneSettings {
    pub is_on_disk: bool,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    pub default_ttl_ms: u64,
}

/// The zone of that name.
pub(super) fn find(name: &str, services: &Services) -> Option<ZoneSettings> {
    let ttl = services.attribute("proxy-cache", "cache_ttl");
    let default_ttl_ms = ttl.and_then(ttl_ms).unwrap_or(TTL_MS_DEFAULT);
    let zone = |is_on_disk, memory_bytes, disk_bytes| ZoneSettings {
        is_on_disk,
        memory_bytes,
        disk_bytes,
        default_ttl_ms,
    };
    let Some(zones) = services.attribute("proxy-cache", "zones").and_then(Value::as_array) else {
        let is_known = name == DISK_ZONE || name == MEMORY_ZONE;
        let known = zone(name == DISK_ZONE, MEMORY_BYTES_DEFAULT, DISK_BYTES_DEFAULT);
        return is_known.then_some(known);
    };
    let found = zones.iter().find(|zone| zone["name"] == name)?;
    let is_on_disk = found.get("disk_path").or(found.get("disk_size")).is_some();
    let memory_bytes = bytes(&found["memory_size"]).unwrap_or(MEMORY_BYTES_DEFAULT);
    let disk_bytes = bytes(&found["disk_size"]).unwrap_or(DISK_BYTES_DEFAULT);
    Some(zone(is_on_disk, memory_bytes, disk_bytes))
}

/// `50m`, `1G`, `512k`, or a number of bytes.
fn bytes(value: &Value) -> Option<u64> {
    let Value::String(text) = value else { return value.as_u64() };
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn ttl_ms(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => {
            let time = tollhouse_stdx::duration::parse(text).ok()?;
            u64::try_from(time.as_millis()).ok()
        }
        other => other.as_u64()?.checked_mul(1_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn zones_are_those_of_the_bootstrap_file_or_the_usual_two() {
        let mut services = Services::new("APISIX");
        assert!(find(DISK_ZONE, &services).unwrap().is_on_disk);
        assert!(!find(MEMORY_ZONE, &services).unwrap().is_on_disk);
        assert_eq!(find("other", &services), None);
        let attributes = json!({"cache_ttl": "1m", "zones": [
            {"name": "a", "memory_size": "1m", "disk_size": "2G", "disk_path": "/x"},
            {"name": "b", "memory_size": "512k"},
        ]});
        services.attributes.insert("proxy-cache".into(), attributes);
        let zone = find("a", &services).unwrap();
        assert_eq!((zone.is_on_disk, zone.disk_bytes), (true, 2 << 30));
        assert_eq!(zone.default_ttl_ms, 60_000);
        let zone = find("b", &services).unwrap();
        assert_eq!((zone.is_on_disk, zone.memory_bytes), (false, 512 << 10));
        assert_eq!(find(DISK_ZONE, &services), None);
    }
}
