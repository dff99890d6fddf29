//! Clocks and dates. Local time is UTC, because the process has no time zone.

use std::time::{SystemTime, UNIX_EPOCH};

use mlua::{IntoLua, LuaString, Result, Table, Value};
use tollhouse_stdx::civil::CivilTime;

use super::builder::{Host, error, with};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

pub(super) fn add(host: &Host) -> Result<()> {
    host.add("now", |_, ()| Ok(unix_seconds()))?;
    host.add("seconds", |_, ()| Ok(unix_seconds().floor()))?;
    host.add("start_time", |_, ()| Ok(unix_seconds()))?;
    host.add("http_time", |_, seconds: f64| {
        let date = CivilTime::from_unix_seconds(seconds as i64).http_date();
        Ok(String::from_utf8_lossy(&date).into_owned())
    })?;
    host.add("cookie_time", |_, seconds: f64| {
        let time = CivilTime::from_unix_seconds(seconds as i64);
        let date = String::from_utf8_lossy(&time.http_date()).into_owned();
        Ok(date.replacen(' ', ", ", 0).replace(
            &format!("{:02} {} ", time.day, MONTHS[usize::from(time.month.clamp(1, 12)) - 1]),
            &format!("{:02}-{}-", time.day, MONTHS[usize::from(time.month.clamp(1, 12)) - 1]),
        ))
    })?;
    host.add("parse_http_time", |_, text: LuaString| Ok(parse_http_date(&text.to_str()?)))?;
    host.add("mktime", |_, table: Table| {
        let field = |name: &str| table.get::<Option<f64>>(name);
        let (Some(year), Some(month), Some(day)) = (field("year")?, field("month")?, field("day")?)
        else {
            return error("field 'day' missing in date table");
        };
        let days = days_from_civil(year as i64, month as i64, day as i64);
        let (hour, min) = (field("hour")?.unwrap_or(12.0), field("min")?.unwrap_or(0.0));
        let seconds = hour * 3600.0 + min * 60.0 + field("sec")?.unwrap_or(0.0);
        Ok(days as f64 * 86_400.0 + seconds)
    })?;
    host.add("date", |lua, (format, seconds): (Option<String>, Option<f64>)| {
        let format = format.unwrap_or_else(|| "%c".to_owned());
        let format = format.strip_prefix('!').unwrap_or(&format);
        let seconds = seconds.unwrap_or_else(unix_seconds) as i64;
        let time = CivilTime::from_unix_seconds(seconds);
        if format == "*t" {
            let table = lua.create_table()?;
            for (name, value) in [
                ("year", i64::from(time.year)),
                ("month", i64::from(time.month)),
                ("day", i64::from(time.day)),
                ("hour", i64::from(time.hour)),
                ("min", i64::from(time.minute)),
                ("sec", i64::from(time.second)),
                ("wday", i64::from(time.weekday) + 1),
            ] {
                table.set(name, value)?;
            }
            table.set("isdst", false)?;
            return Ok(Value::Table(table));
        }
        formatted(format, &time, seconds).into_lua(lua)
    })
}

/// Returns the time of the request's core, or of the system without a request.
fn unix_seconds() -> f64 {
    if let Some(now) = with(|access| access.now()) {
        return now.unix_ms as f64 / 1000.0;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64())
}

fn formatted(format: &str, time: &CivilTime, seconds: i64) -> String {
    let mut out = String::new();
    let mut chars = format.chars();
    let month = MONTHS[usize::from(time.month.clamp(1, 12)) - 1];
    let weekday = WEEKDAYS[usize::from(time.weekday) % 7];
    while let Some(next) = chars.next() {
        if next != '%' {
            out.push(next);
            continue;
        }
        let (h, m, s) = (time.hour, time.minute, time.second);
        let part = match chars.next() {
            Some('Y') => time.year.to_string(),
            Some('y') => format!("{:02}", time.year % 100),
            Some('m') => format!("{:02}", time.month),
            Some('d') => format!("{:02}", time.day),
            Some('H') => format!("{h:02}"),
            Some('M') => format!("{m:02}"),
            Some('S') => format!("{s:02}"),
            Some('b' | 'B') => month.to_owned(),
            Some('a') => weekday[..3].to_owned(),
            Some('A') => weekday.to_owned(),
            Some('w') => time.weekday.to_string(),
            Some('s') => seconds.to_string(),
            Some('Z') => "UTC".to_owned(),
            Some('z') => "+0000".to_owned(),
            Some('F' | 'x') => format!("{:04}-{:02}-{:02}", time.year, time.month, time.day),
            Some('T' | 'X') => format!("{h:02}:{m:02}:{s:02}"),
            Some('c') => {
                let day = time.day;
                format!("{} {month} {day:2} {h:02}:{m:02}:{s:02} {}", &weekday[..3], time.year)
            }
            Some('%') => "%".to_owned(),
            Some(other) => format!("%{other}"),
            None => "%".to_owned(),
        };
        out.push_str(&part);
    }
    out
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year + (month - 1).div_euclid(12);
    let month = (month - 1).rem_euclid(12) + 1;
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Parses a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn parse_http_date(text: &str) -> Option<f64> {
    let rest = text.split_once(", ")?.1;
    let mut words = rest.split([' ', '-', ':']);
    let day: i64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let year: i64 = words.next()?.parse().ok()?;
    let mut number = || words.next()?.parse::<i64>().ok();
    let (hour, minute, second) = (number()?, number()?, number()?);
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(seconds as f64)
}
