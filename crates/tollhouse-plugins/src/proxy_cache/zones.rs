//! Zones as configured in the bootstrap file: names, sizes, and whether they are on the disk.

use std::path::PathBuf;

use serde_json::Value;
use tollhouse_plugin::{ConfError, Services};

/// Name of the default zone on the disk, used if the bootstrap file names no zones.
pub(super) const DISK_ZONE: &str = "disk_cache_one";
/// Name of the default zone in memory, used if the bootstrap file names no zones.
const MEMORY_ZONE: &str = "memory_cache";
/// Default size of a zone in memory, in bytes.
const MEMORY_BYTES_DEFAULT: u64 = 50 << 20;
/// Default size of a zone on the disk, in bytes.
const DISK_BYTES_DEFAULT: u64 = 1 << 30;
/// Default lifetime of answers on the disk in milliseconds.
const TTL_MS_DEFAULT: u64 = 10_000;

/// Default levels of folders: one level of 256 folders.
const LEVELS_DEFAULT: [u8; 1] = [2];
/// Maximum number of levels of folders, each named by one or two digits.
const LEVELS_MAX: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ZoneSettings {
    /// Settings of a zone on the disk; `None` for a zone in memory.
    pub disk: Option<DiskSettings>,
    /// Maximum bytes of the zone in memory: answers, or the names of files.
    pub memory_bytes: u64,
    pub default_ttl_ms: u64,
}

/// Folders of a zone on the disk, and their size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiskSettings {
    /// Folder of the zone; `None` for a folder below the data directory.
    pub path: Option<PathBuf>,
    /// Number of digits in the folder names of each level.
    pub levels: Vec<u8>,
    pub bytes: u64,
}

/// Returns the settings of the zone called `name`.
///
/// # Errors
/// If the zone is not configured, or its settings are invalid. The text is shown to the operator
/// who configures the route.
pub(super) fn find(name: &str, services: &Services) -> Result<ZoneSettings, ConfError> {
    let ttl = services.attribute("proxy-cache", "cache_ttl");
    let default_ttl_ms = ttl.and_then(ttl_ms).unwrap_or(TTL_MS_DEFAULT);
    let unknown = || ConfError::from(format!("cache_zone {name} not found"));
    let Some(zones) = services.attribute("proxy-cache", "zones").and_then(Value::as_array) else {
        let disk =
            DiskSettings { path: None, levels: LEVELS_DEFAULT.into(), bytes: DISK_BYTES_DEFAULT };
        let disk = match name {
            DISK_ZONE => Some(disk),
            MEMORY_ZONE => None,
            _ => return Err(unknown()),
        };
        return Ok(ZoneSettings { disk, memory_bytes: MEMORY_BYTES_DEFAULT, default_ttl_ms });
    };
    let found = zones.iter().find(|zone| zone["name"] == name).ok_or_else(unknown)?;
    let memory_bytes = size_of(found, "memory_size")?.unwrap_or(MEMORY_BYTES_DEFAULT);
    Ok(ZoneSettings { disk: disk_of(found)?, memory_bytes, default_ttl_ms })
}

fn disk_of(zone: &Value) -> Result<Option<DiskSettings>, ConfError> {
    let path = zone.get("disk_path").filter(|path| !path.is_null());
    let bytes = size_of(zone, "disk_size")?;
    if path.is_none() && bytes.is_none() {
        return Ok(None);
    }
    let path = match path.map(|path| path.as_str().ok_or_else(|| bad(zone, "disk_path"))) {
        Some(path) => Some(path?.into()),
        None => None,
    };
    let levels = match zone.get("cache_levels") {
        None | Some(Value::Null) => LEVELS_DEFAULT.into(),
        Some(levels) => levels_of(levels).ok_or_else(|| bad(zone, "cache_levels"))?,
    };
    Ok(Some(DiskSettings { path, levels, bytes: bytes.unwrap_or(DISK_BYTES_DEFAULT) }))
}

/// Parses the levels of folders; `1:2` means folders named by one digit, which contain folders
/// named by two.
fn levels_of(value: &Value) -> Option<Vec<u8>> {
    let text = match value {
        Value::String(text) => text.clone(),
        number => number.as_u64()?.to_string(),
    };
    let digits = |level: &str| level.parse().ok().filter(|digits| matches!(digits, 1 | 2));
    let levels: Vec<u8> = text.split(':').map(digits).collect::<Option<_>>()?;
    (levels.len() <= LEVELS_MAX).then_some(levels)
}

fn size_of(zone: &Value, field: &str) -> Result<Option<u64>, ConfError> {
    match zone.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => bytes(value).map(Some).ok_or_else(|| bad(zone, field)),
    }
}

fn bad(zone: &Value, field: &str) -> ConfError {
    let (name, value) = (&zone["name"], &zone[field]);
    format!("{field} {value} of cache_zone {name} makes no sense").into()
}

/// Parses a size: `50m`, `1G`, `512k`, or a number of bytes.
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
        assert!(find(DISK_ZONE, &services).unwrap().disk.is_some());
        assert!(find(MEMORY_ZONE, &services).unwrap().disk.is_none());
        assert_eq!(find("other", &services).unwrap_err().text(), "cache_zone other not found");
        let attributes = json!({"cache_ttl": "1m", "zones": [
            {"name": "a", "memory_size": "1m", "disk_size": "2G", "disk_path": "/x",
             "cache_levels": "1:2"},
            {"name": "b", "memory_size": "512k"},
        ]});
        services.attributes.insert("proxy-cache".into(), attributes);
        let zone = find("a", &services).unwrap();
        let disk = DiskSettings { path: Some("/x".into()), levels: vec![1, 2], bytes: 2 << 30 };
        assert_eq!((zone.disk, zone.memory_bytes), (Some(disk), 1 << 20));
        assert_eq!(zone.default_ttl_ms, 60_000);
        let zone = find("b", &services).unwrap();
        assert_eq!((zone.disk, zone.memory_bytes), (None, 512 << 10));
        assert!(find(DISK_ZONE, &services).is_err());
    }

    #[test]
    fn what_makes_no_sense_of_a_zone_is_refused_with_its_name() {
        for (field, value) in [
            ("cache_levels", json!("1:3")),
            ("cache_levels", json!("1:2:2:2")),
            ("cache_levels", json!("")),
            ("disk_size", json!("many")),
            ("memory_size", json!("-1m")),
            ("disk_path", json!(5)),
        ] {
            let mut services = Services::new("APISIX");
            let mut zone = json!({"name": "a", "disk_path": "/x", "disk_size": "1m"});
            zone[field] = value.clone();
            services.attributes.insert("proxy-cache".into(), json!({"zones": [zone]}));
            let expected = format!("{field} {value} of cache_zone \"a\" makes no sense");
            assert_eq!(find("a", &services), Err(expected.into()));
        }
    }
}
