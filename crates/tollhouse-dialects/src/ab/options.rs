//! Command line of ab (ApacheBench 2.3).
//!
//! ab uses HTTP/1.0 and closes each connection unless `-k` is given; so does the resulting case.
//! The number of threads equals the number of cores, while ab has a single thread.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::getopt::{self, Grammar, Line, Order};
use crate::{Action, set_header};
use tollhouse_load::case::{Body, Case, HttpVersion, Load, RequestForm};
use tollhouse_load::error::BenchError;
use tollhouse_load::failure::{Failure, FailureClass};
use tollhouse_load::result::CaseResult;

pub use super::address::Address;

#[derive(Debug, Clone, PartialEq)]
pub struct AbCommand {
    pub case: Case,
    pub address: Address,
    /// Proxy as written on the command line.
    pub proxy: Option<String>,
    /// Maximum number of requests.
    pub requests: u64,
    pub concurrency: u64,
    /// Parts of the result that are printed.
    pub sheet: Sheet,
    /// File for the percentiles in CSV format.
    pub csv: Option<PathBuf>,
    /// Treatment of answers that cannot be received.
    pub on_receive_error: OnReceiveError,
}

impl AbCommand {
    /// Whether a failure ends the run. Without `-r`, an answer that cannot be received does.
    pub fn ends_on(&self, failure: &Failure) -> bool {
        self.on_receive_error == OnReceiveError::End && RECEIVE_ERRORS.contains(&failure.class)
    }

    /// Refuses the result of a run that a failure ended.
    ///
    /// # Errors
    /// If an answer could not be received; the text says how many requests completed before.
    pub fn accept(&self, result: &CaseResult) -> Result<(), BenchError> {
        let failures = &result.counts.failures;
        let found = RECEIVE_ERRORS.iter().find(|class| failures.contains_key(class.as_str()));
        match found.filter(|_| self.on_receive_error == OnReceiveError::End) {
            None => Ok(()),
            Some(class) => Err(BenchError::Case {
                key: AB.tool.into(),
                why: format!(
                    "an answer could not be received ({class}); total of {} requests completed; \
                     -r counts such failures instead of ending",
                    result.counts.completed
                ),
            }),
        }
    }
}

/// Failures that `-r` tolerates.
const RECEIVE_ERRORS: [FailureClass; 2] = [FailureClass::Reset, FailureClass::Timeout];

/// Treatment of answers that cannot be received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnReceiveError {
    /// Ends the run, the default.
    End,
    /// Counts the request as failed (`-r`).
    Count,
}

/// Parts of the result that are printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sheet {
    /// Whether the table of percentiles is printed.
    pub percentiles: bool,
    /// Whether standard deviation, median, and warnings about them are printed.
    pub confidence: bool,
    pub progress: bool,
    /// Whether documents of different length are accepted.
    pub variable_length: bool,
    pub sends_body: bool,
}

/// Number of requests with `-t`, unless `-n` follows it.
const REQUESTS_OF_TIME_LIMIT: u64 = 50_000;
/// Maximum number of concurrent requests, as in ab.
const CONCURRENCY_MAX: u64 = 20_000;
/// Timeout if `-s` is absent.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Highest supported verbosity; above it ab prints every answer.
const VERBOSITY_MAX: u64 = 1;
/// Largest number of seconds and requests; larger values could overflow.
const VALUE_MAX: u64 = 1_000_000_000;

const AB: Grammar = Grammar {
    tool: "ab",
    flags: "wikVdSqlrhI",
    valued: "nctsbBpuTvxyzCHAPXgemZfE",
    long: &[],
    order: Order::First,
};

/// Parses a command line, without the tool's name.
///
/// # Errors
/// If ab would refuse it too, or it is not supported here; the text gives the reason.
pub fn parse(arguments: &[String]) -> Result<Action<AbCommand>, BenchError> {
    let refuse = |why: String| BenchError::Case { key: AB.tool.into(), why };
    let line = getopt::parse(&AB, arguments).map_err(refuse)?;
    let has = |letter| line.options.iter().any(|(option, _)| *option == letter);
    if has('h') {
        return Ok(Action::Print(USAGE.to_owned()));
    }
    if has('V') {
        let version = env!("CARGO_PKG_VERSION");
        return Ok(Action::Print(format!("ab options, read by tollhouse {version}\n")));
    }
    command(&line).map(Action::Run).map_err(refuse)
}

fn command(line: &Line) -> Result<AbCommand, String> {
    let mut values = Values::default();
    for (letter, value) in &line.options {
        values.take(*letter, value)?;
    }
    let [url] = line.operands.as_slice() else {
        return Err("wrong number of arguments; one URL with a path is needed".into());
    };
    let address = Address::parse(url)?;
    if values.concurrency > values.requests {
        return Err("Cannot use concurrency level greater than total number of requests".into());
    }
    values.into_command(address)
}

/// Values of a command line, with ab's defaults.
struct Values {
    requests: u64,
    concurrency: u64,
    time_limit: Option<Duration>,
    timeout: Duration,
    method: Option<(String, char)>,
    body: Option<PathBuf>,
    content_type: Option<String>,
    /// Cookies and authorization. Headers from `-H` follow them.
    headers: Vec<(String, String)>,
    own_headers: Vec<(String, String)>,
    keep_alive: bool,
    proxy: Option<String>,
    certificate: Option<PathBuf>,
    sheet: Sheet,
    csv: Option<PathBuf>,
    on_receive_error: OnReceiveError,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            requests: 1,
            concurrency: 1,
            time_limit: None,
            timeout: TIMEOUT_DEFAULT,
            method: None,
            body: None,
            content_type: None,
            headers: Vec::new(),
            own_headers: Vec::new(),
            keep_alive: false,
            proxy: None,
            certificate: None,
            sheet: Sheet {
                percentiles: true,
                confidence: true,
                progress: true,
                variable_length: false,
                sends_body: false,
            },
            csv: None,
            on_receive_error: OnReceiveError::End,
        }
    }
}

impl Values {
    fn take(&mut self, letter: char, value: &str) -> Result<(), String> {
        match letter {
            'n' | 'c' | 't' | 's' => self.take_number(letter, value)?,
            'p' | 'u' | 'i' | 'm' => self.take_method(letter, value)?,
            'C' | 'A' | 'P' | 'H' => self.take_header(letter, value)?,
            'T' => self.content_type = Some(value.to_owned()),
            'X' => self.proxy = Some(value.to_owned()),
            'E' => self.certificate = Some(value.into()),
            'e' => self.csv = Some(value.into()),
            'k' => self.keep_alive = true,
            'd' => self.sheet.percentiles = false,
            'S' => self.sheet.confidence = false,
            'q' => self.sheet.progress = false,
            'l' => self.sheet.variable_length = true,
            'r' => self.on_receive_error = OnReceiveError::Count,
            _ => return unsupported(letter, value),
        }
        Ok(())
    }

    fn take_number(&mut self, letter: char, value: &str) -> Result<(), String> {
        let number = value.parse::<u64>().ok().filter(|number| *number <= VALUE_MAX);
        match (letter, number) {
            ('n', Some(number)) if number > 0 => self.requests = number,
            ('n', _) => return Err(format!("Invalid number of requests: {value}")),
            ('c', Some(number)) if (1..=CONCURRENCY_MAX).contains(&number) => {
                self.concurrency = number;
            }
            ('c', _) => {
                return Err(format!("Invalid Concurrency {value} [Range 1..{CONCURRENCY_MAX}]"));
            }
            ('t', Some(number)) if number > 0 => {
                self.time_limit = Some(Duration::from_secs(number));
                self.requests = REQUESTS_OF_TIME_LIMIT;
            }
            ('s', Some(number)) if number > 0 => self.timeout = Duration::from_secs(number),
            _ => return Err(format!("-{letter} {value}: a whole number of seconds is needed")),
        }
        Ok(())
    }

    fn take_method(&mut self, letter: char, value: &str) -> Result<(), String> {
        let name = match letter {
            'p' => "POST",
            'u' => "PUT",
            'i' => "HEAD",
            _ => value,
        };
        // `-m` sets the method of a body, so only the other three exclude each other.
        let is_mixed = self
            .method
            .as_ref()
            .is_some_and(|(_, by)| letter != 'm' && *by != 'm' && *by != letter);
        if is_mixed {
            return Err(format!("Cannot mix {name} with other methods"));
        }
        if matches!(letter, 'p' | 'u') {
            if let Err(why) = std::fs::metadata(value) {
                return Err(format!("Could not open {name} data file ({value}): {why}"));
            }
            self.body = Some(value.into());
            self.sheet.sends_body = true;
        }
        let is_named_already = matches!(&self.method, Some((_, 'm')));
        if letter == 'm' || !is_named_already {
            self.method = Some((name.to_owned(), letter));
        }
        Ok(())
    }

    fn take_header(&mut self, letter: char, value: &str) -> Result<(), String> {
        let basic = || format!("Basic {}", STANDARD.encode(value));
        match letter {
            'C' => self.headers.push(("Cookie".into(), value.to_owned())),
            'A' => self.headers.push(("Authorization".into(), basic())),
            'P' => self.headers.push(("Proxy-Authorization".into(), basic())),
            _ => {
                let header = value.split_once(':');
                let (name, value) = header.ok_or_else(|| format!("-H `{value}` has no colon"))?;
                self.own_headers.push((name.trim().to_owned(), value.trim().to_owned()));
            }
        }
        Ok(())
    }

    fn into_command(self, address: Address) -> Result<AbCommand, String> {
        let mut case = Case::new(address.url());
        case.name = format!("{} requests, {} at a time", self.requests, self.concurrency);
        case.load = Load {
            connections: usize::try_from(self.concurrency).unwrap_or(usize::MAX),
            requests: Some(self.requests),
            duration: self.time_limit,
            timeout: self.timeout,
            keep_alive: self.keep_alive,
            keep_samples: true,
            ..Load::default()
        };
        case.checks.any_status = true;
        case.checks.same_length = !self.sheet.variable_length;
        case.http.version = HttpVersion::Http10;
        case.http.headers = self.all_headers();
        if let Some((method, _)) = self.method {
            case.http.method = method;
        }
        case.http.body = self.body.map(Body::File);
        // ab does not verify certificates.
        case.tls.insecure = address.is_tls;
        case.tls.cert.clone_from(&self.certificate);
        case.tls.key = self.certificate;
        if let Some(proxy) = &self.proxy {
            go_through(proxy, &address, &mut case)?;
        }
        Ok(AbCommand {
            case,
            address,
            proxy: self.proxy,
            requests: self.requests,
            concurrency: self.concurrency,
            sheet: self.sheet,
            csv: self.csv,
            on_receive_error: self.on_receive_error,
        })
    }

    fn all_headers(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        all.push(("User-Agent".to_owned(), "ApacheBench/2.3 (tollhouse)".to_owned()));
        all.push(("Accept".to_owned(), "*/*".to_owned()));
        all.extend(self.headers.iter().cloned());
        if self.body.is_some() {
            let kind = self.content_type.as_deref().unwrap_or("text/plain");
            all.push(("Content-type".to_owned(), kind.to_owned()));
        }
        for (name, value) in &self.own_headers {
            let replaces = ["host", "user-agent", "accept"].iter();
            if replaces.clone().any(|known| name.eq_ignore_ascii_case(known)) {
                set_header(&mut all, name, value.clone());
            } else {
                all.push((name.clone(), value.clone()));
            }
        }
        all
    }
}

/// Sends requests to a proxy, with the whole URL in the request line.
fn go_through(proxy: &str, address: &Address, case: &mut Case) -> Result<(), String> {
    if address.is_tls {
        return Err(
            "-X with https needs a tunnel, which is not supported; measure the proxy with \
                    http, or the server without -X"
                .into(),
        );
    }
    let has_port = proxy.rsplit_once(':').is_some_and(|(host, _)| !host.ends_with(':'));
    case.connect_to = Some(if has_port { proxy.to_owned() } else { format!("{proxy}:80") });
    case.http.form = RequestForm::Absolute;
    Ok(())
}

/// Refuses unsupported flags, each with the reason.
fn unsupported(letter: char, value: &str) -> Result<(), String> {
    let why = match letter {
        // ab prints nothing more up to this level either.
        'v' if value.parse().is_ok_and(|level: u64| level <= VERBOSITY_MAX) => return Ok(()),
        // All protocols that are safe to use are offered anyway.
        'f' if value.eq_ignore_ascii_case("ALL") => return Ok(()),
        'v' => "answers are not printed; look at one with curl -v",
        'b' => "the kernel chooses the size of socket buffers by itself",
        'B' => {
            "connections leave from the address that the kernel chooses; `tollhouse bench \
                connections` can spread over many"
        }
        'I' => "the name of the server is part of every TLS handshake here",
        'Z' => "cipher suites are chosen by rustls, none of them weak",
        'f' => "TLS 1.2 and 1.3 are offered, and the server chooses",
        'g' => {
            "requests are not written one by one; `tollhouse bench http --json FILE` keeps their \
             distribution, and -e writes percentiles"
        }
        'w' | 'x' | 'y' | 'z' => {
            "HTML tables are not printed; leave it out for text, or write a page with `tollhouse bench \
             http --html FILE`"
        }
        _ => "is not supported",
    };
    Err(format!("-{letter}: {why}"))
}

const USAGE: &str = "\
Usage: tollhouse bench ab [options] [http[s]://]hostname[:port]/path
Options are:
    -n requests     Requests in all (1)
    -c concurrency  Requests at a time (1)
    -t seconds      The longest to measure; implies -n 50000 unless -n follows
    -s seconds      The longest a request may take (30)
    -k              Keep connections
    -i              Use HEAD
    -m method       Use this method
    -p file         Send this file by POST
    -u file         Send this file by PUT
    -T type         Content type of that file (text/plain)
    -C name=value   Add a cookie; may be repeated
    -H line         Add a header; may be repeated
    -A user:pass    Authorization by Basic
    -P user:pass    The same for the proxy
    -X proxy:port   Send requests to a proxy (http only)
    -E file         Client certificate and key (PEM)
    -l              Accept documents of different length
    -r              Count failures to receive instead of ending
    -e file         Write percentiles as CSV
    -d              No table of percentiles
    -S              No standard deviation, median and warnings
    -q              No progress
    -V              Print the version
    -h              Print this list
Not supported, each with its reason when used: -b -B -f (but ALL) -g -I -v (above 1) -w -x -y -z -Z.
";

#[cfg(test)]
mod tests;
