//! Plugin `mock`: answers requests with a text whose placeholders are replaced by random values.

use tollhouse_plugin as plugin;
use tollhouse_shenyu::matching::CivilTime;

use crate::course::CourseEnd;
use crate::plugin::prelude::*;
use crate::view::civil_time;

/// Replacement for a placeholder that cannot be evaluated.
const ERROR: &str = "\"[#ERROR EXPRESSION#]\"";

/// Maximum length of a text for a request in bytes, because nested `array` placeholders grow
/// exponentially.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Maximum number of items of an `array`; also the maximum length of a random word in characters.
const ITEMS_MAX: u64 = 10_000;

/// Maximum nesting of `array`.
const DEPTH_MAX: u32 = 4;

/// Characters of random Chinese words: the first common ideographs.
const IDEOGRAPHS: std::ops::Range<u32> = 0x4e00..0x9fa5;

/// Rule of the plugin `mock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MockRule {
    pub status: u16,
    content: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Handle {
    #[serde(deserialize_with = "lenient::integer")]
    http_status_code: Option<i64>,
    #[serde(deserialize_with = "lenient::or_default")]
    response_content: String,
}

/// Function that returns random numbers.
pub type Chance<'a> = &'a mut dyn FnMut() -> u64;

impl MockRule {
    /// Reads a rule's handle.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, or the status is invalid.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: Handle = handle::read(handle)?;
        let status = handle.http_status_code.unwrap_or(200);
        let status = u16::try_from(status).ok().filter(|status| (200..=599).contains(status));
        let status = status.ok_or_else(|| {
            HandleError::Malformed("`httpStatusCode` must be a status from 200 to 599".to_owned())
        })?;
        Ok(Self { status, content: handle.response_content })
    }

    /// Returns the text for one request.
    pub fn text(&self, now: CivilTime, chance: Chance<'_>) -> String {
        let mut draft = Draft { now, chance, bytes_left: TEXT_BYTES_MAX };
        draft.filled(&self.content, 0).unwrap_or_else(|| ERROR.to_owned())
    }
}

/// Answer text to one request, under construction.
struct Draft<'a> {
    now: CivilTime,
    chance: Chance<'a>,
    /// Bytes that the text may still grow by; 0 once it would be too long.
    bytes_left: usize,
}

impl Draft<'_> {
    /// Returns the content with each token replaced by a value; `None` if it would be too long.
    fn filled(&mut self, content: &str, depth: u32) -> Option<String> {
        let mut made = String::with_capacity(content.len());
        let mut rest = content;
        while let Some((before, behind)) = rest.split_once("${") {
            made.push_str(before);
            let Some(end) = token_end(behind) else {
                rest = &rest[before.len()..];
                break;
            };
            let value = self.value(&behind[..end], depth);
            let value = value.unwrap_or_else(|| ERROR.to_owned());
            self.bytes_left = self.bytes_left.saturating_sub(before.len() + value.len());
            if self.bytes_left == 0 {
                return None;
            }
            made.push_str(&value);
            rest = &behind[end + 1..];
        }
        made.push_str(rest);
        Some(made)
    }

    /// Returns the value of a token as ShenYu writes it: texts and fractions in quotation marks;
    /// whole numbers, `bool` and `array` without.
    fn value(&mut self, token: &str, depth: u32) -> Option<String> {
        let (name, arguments) = token.split_once('|').map_or((token, None), |(n, a)| (n, Some(a)));
        match (name.trim(), arguments) {
            ("array", Some(arguments)) if depth < DEPTH_MAX => self.array(arguments, depth),
            ("expression", Some(code)) => self.call(code.trim()),
            (name @ ("int" | "bool"), arguments) => {
                single(name, arguments, self.now, &mut *self.chance)
            }
            (name, arguments) => {
                let value = single(name, arguments, self.now, &mut *self.chance)?;
                Some(format!("\"{value}\""))
            }
        }
    }

    /// Returns the result of one of ShenYu's functions, such as `#int(1,9)`, as JSON; `None` for
    /// other expressions, which are Java code.
    fn call(&mut self, code: &str) -> Option<String> {
        let (name, arguments) = code.strip_prefix('#')?.strip_suffix(')')?.split_once('(')?;
        let arguments: Vec<&str> = arguments.split(',').map(str::trim).collect();
        let (name, arguments) = match (name, arguments.as_slice()) {
            ("bool" | "email" | "phone" | "current", [""]) => (name, None),
            ("int" | "zh" | "en", [low, high]) => (name, Some(format!("{low}-{high}"))),
            ("current", [text]) => {
                let pattern = text.strip_prefix('\'')?.strip_suffix('\'')?;
                (name, Some(pattern.to_owned()))
            }
            ("nowDate", [""]) => ("current", Some("yyyy-MM-dd".to_owned())),
            ("nowTime", [""]) => ("current", Some("HH:mm:ss".to_owned())),
            _ => return None,
        };
        let value = single(name, arguments.as_deref(), self.now, &mut *self.chance)?;
        Some(if matches!(name, "int" | "bool") { value } else { format!("\"{value}\"") })
    }

    fn array(&mut self, arguments: &str, depth: u32) -> Option<String> {
        let (inner, count) = arguments.rsplit_once('|')?;
        let count: u64 = count.trim().parse().ok().filter(|count| *count <= ITEMS_MAX)?;
        let mut made = String::from("[");
        for place in 0..count {
            made.push_str(if place > 0 { "," } else { "" });
            let item = self.filled(inner, depth + 1)?;
            self.bytes_left = self.bytes_left.saturating_sub(item.len() + 1);
            if self.bytes_left == 0 {
                return None;
            }
            made.push_str(&item);
        }
        made.push(']');
        Some(made)
    }
}

/// Returns the index of the brace that closes a token; tokens may contain pairs of braces.
fn token_end(text: &str) -> Option<usize> {
    let mut open = 1_u32;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open += 1,
            b'}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

fn single(
    name: &str,
    arguments: Option<&str>,
    now: CivilTime,
    chance: Chance<'_>,
) -> Option<String> {
    Some(match (name, arguments) {
        ("int", Some(range)) => {
            let (low, high) = bounds::<i64>(range)?;
            let width = u64::try_from(high.checked_sub(low)?).ok()?.checked_add(1)?;
            low.checked_add(i64::try_from(chance() % width).ok()?)?.to_string()
        }
        ("double", Some(arguments)) => double(arguments, chance)?,
        ("bool", None) => chance().is_multiple_of(2).to_string(),
        ("email", None) => format!("{}@{}.com", letters(8, chance), letters(5, chance)),
        ("phone", None) => {
            let digits = (0..9).map(|_| char::from(b'0' + small(chance, 10)));
            let digits: String = digits.collect();
            format!("1{}{digits}", 3 + small(chance, 7))
        }
        ("en", Some(range)) => letters(length(range, chance)?, chance),
        ("zh", Some(range)) => {
            let count = length(range, chance)?;
            let width = u64::from(IDEOGRAPHS.end - IDEOGRAPHS.start);
            let draw = |_| {
                let offset = u32::try_from(chance() % width).unwrap_or_default();
                char::from_u32(IDEOGRAPHS.start + offset).unwrap_or('\u{4e00}')
            };
            (0..count).map(draw).collect()
        }
        ("current", pattern) => time(pattern.unwrap_or("yyyy-MM-dd HH:mm:ss"), now)?,
        ("list", Some(list)) => {
            let list = list.trim().strip_prefix('[')?.strip_suffix(']')?;
            let items: Vec<&str> = list.split(',').map(str::trim).collect();
            let place = usize::try_from(chance() % items.len() as u64).ok()?;
            (*items.get(place)?).to_owned()
        }
        _ => return None,
    })
}

fn bounds<T: std::str::FromStr + PartialOrd>(range: &str) -> Option<(T, T)> {
    let range = range.trim();
    // Both numbers may be negative, so the separator is searched from the second character.
    let at = range.char_indices().skip(1).find(|(_, character)| *character == '-')?.0;
    let (low, high) = (range[..at].trim().parse().ok()?, range[at + 1..].trim().parse().ok()?);
    (low <= high).then_some((low, high))
}

fn double(arguments: &str, chance: Chance<'_>) -> Option<String> {
    let (range, format) =
        arguments.split_once('|').map_or((arguments, None), |(r, f)| (r, Some(f)));
    let (low, high) = bounds::<f64>(range)?;
    #[expect(clippy::cast_precision_loss, reason = "53 bits of chance are what a double holds")]
    let share = (chance() >> 11) as f64 / (1_u64 << 53) as f64;
    let number = low + (high - low) * share;
    match format {
        None => Some(number.to_string()),
        Some(format) => {
            // As Java's `String.format`: text, `%.2f`, text.
            let (before, rest) = format.split_once("%.")?;
            let (digits, behind) = rest.split_once('f')?;
            let digits: usize = digits.parse().ok().filter(|digits| *digits <= 20)?;
            Some(format!("{before}{number:.digits$}{behind}"))
        }
    }
}

fn length(range: &str, chance: Chance<'_>) -> Option<u64> {
    let (low, high) = bounds::<u64>(range)?;
    (high <= ITEMS_MAX).then(|| low + chance() % (high - low + 1))
}

fn letters(count: u64, chance: Chance<'_>) -> String {
    (0..count).map(|_| char::from(b'a' + small(chance, 26))).collect()
}

fn small(chance: Chance<'_>, below: u8) -> u8 {
    u8::try_from(chance() % u64::from(below)).unwrap_or_default()
}

/// Formats a time by a Java pattern of years to seconds; `None` for other letters.
fn time(pattern: &str, now: CivilTime) -> Option<String> {
    let mut made = String::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let run = rest.len() - rest.trim_start_matches(first).len();
        match (first, run) {
            ('y', 4) => made.push_str(&format!("{:04}", now.year)),
            ('y', 2) => made.push_str(&format!("{:02}", now.year % 100)),
            ('M', 2) => made.push_str(&format!("{:02}", now.month)),
            ('d', 2) => made.push_str(&format!("{:02}", now.day)),
            ('H', 2) => made.push_str(&format!("{:02}", now.hour)),
            ('m', 2) => made.push_str(&format!("{:02}", now.minute)),
            ('s', 2) => made.push_str(&format!("{:02}", now.second)),
            (letter, _) if letter.is_ascii_alphabetic() => return None,
            _ => made.push_str(&rest[..run]),
        }
        rest = &rest[run..];
    }
    Some(made)
}

impl ShenyuPlugin for MockRule {
    const ROW: Row = Row::harmless("mock", 1).with(Seed::new("31", "Mock"));

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(Self::read(place.handle())?.into())
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(Self::read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        let text = self.text(civil_time(run.cx.now().unix_ms), &mut || run.cx.random());
        let answer = plugin::Answer::text(self.status, text.into_bytes());
        Verdict::answered(answer.with_header("Content-Type", &b"application/json"[..]))
    }

    fn explain(&self, preview: &mut Preview<'_>) -> Prediction {
        let body = self.text(civil_time(preview.exchange.now().unix_ms), &mut || 0);
        Prediction::End(CourseEnd::Answer { status: self.status, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: &str) -> String {
        let handle = serde_json::json!({"responseContent": content}).to_string();
        let rule = MockRule::read(Some(&handle)).expect("it is one");
        let now = CivilTime::parse("2026-01-02 03:04:05").expect("a time");
        let mut draw = 0_u64;
        rule.text(now, &mut || {
            draw = draw
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            draw >> 1
        })
    }

    #[test]
    fn values_are_made_up_for_each_token() {
        for (content, expected) in [
            ("plain", "plain"),
            ("${int|7-7}", "7"),
            ("${int|-3--3}", "-3"),
            ("${double|1.5-1.5|%.2f} EUR", "\"1.50\" EUR"),
            ("${list|[a]}", "\"a\""),
            ("${array|${int|1-1}|3}", "[1,1,1]"),
            ("${array|${list|[a]}|2}", "[\"a\",\"a\"]"),
            ("${array|int|1-1|2}", "[int|1-1,int|1-1]"),
            ("${current|yyyy-MM-dd}", "\"2026-01-02\""),
            ("${current}", "\"2026-01-02 03:04:05\""),
            ("${expression|#int(7,7)}", "7"),
            ("${expression|#current('yyyy')}", "\"2026\""),
            ("${expression|#nowTime()}", "\"03:04:05\""),
            ("${expression|T(java.lang.Runtime)}", ERROR),
            ("${expression|#int(7)}", ERROR),
            ("${expression|#int(1,2}", ERROR),
            ("${nothing}", ERROR),
            ("${int|9-1}", ERROR),
            ("${int|a-b}", ERROR),
            ("${array|${int|1-1}|99999999}", ERROR),
            ("${current|yyyy-QQ}", ERROR),
            ("{\"a\": ${int|1-1}", "{\"a\": 1"),
            ("open ${int|1-1", "open ${int|1-1"),
        ] {
            assert_eq!(text(content), expected, "{content}");
        }
        assert_eq!(text("${phone}").len(), 13);
        assert_eq!(text("${zh|5-5}").chars().count(), 7);
        let word = text("${en|5-8}");
        assert!(word.trim_matches('"').chars().all(|letter| letter.is_ascii_lowercase()), "{word}");
        assert!(text("${email}").contains('@'));
        assert!(["true", "false"].contains(&&*text("${bool}")));
    }

    #[test]
    fn an_answer_stays_within_its_bound() {
        assert_eq!(text("${array|${array|${array|${en|100-100}|1000}|1000}|1000}"), ERROR);
        assert_eq!(text(&"${en|9999-9999}".repeat(200)), ERROR);
        for handle in [r#"{"httpStatusCode":101}"#, r#"{"httpStatusCode":"x"}"#] {
            assert!(MockRule::read(Some(handle)).is_err(), "{handle}");
        }
    }
}
