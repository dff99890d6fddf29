//! `tollhouse bench http`: measures HTTP/1.1 and HTTP/2 requests.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tollhouse_load::case::{Body, Case, Checks, HttpRequest, Protocol, RequestForm};
use tollhouse_load::error::BenchError;
use tollhouse_load::plan::Plan;

use super::load::LoadArguments;
use super::measure::measure;
use super::output::{OutputArguments, SessionArguments};
use super::tls::TlsArguments;

/// Arguments of `bench http`.
#[derive(Debug, Args)]
pub struct HttpArguments {
    /// Target: http://, https:// or h2c:// (HTTP/2 without TLS).
    url: String,
    #[command(flatten)]
    request: RequestArguments,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    tls: TlsArguments,
    #[command(flatten)]
    checks: CheckArguments,
    #[command(flatten)]
    session: SessionArguments,
    #[command(flatten)]
    outputs: OutputArguments,
}

/// The request.
#[derive(Debug, Args)]
#[command(next_help_heading = "Request")]
struct RequestArguments {
    /// The method [default: GET, and POST with a body].
    #[arg(short = 'X', long, value_name = "METHOD")]
    method: Option<String>,
    /// A header line; may be repeated.
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = parse_header)]
    header: Vec<(String, String)>,
    /// The body: as written, or `@FILE`.
    #[arg(short, long, value_name = "TEXT|@FILE")]
    body: Option<String>,
    /// Fill in `{{.RequestNumber}}`, `{{randomInt 1 100}}` and the like for every request, in path,
    /// header values and body.
    #[arg(long)]
    template: bool,
    /// Use the lines of a file in turn, each `[METHOD] URL [WEIGHT]`.
    #[arg(long, value_name = "FILE")]
    urls: Option<PathBuf>,
    /// Basic authentication.
    #[arg(short = 'u', long, value_name = "USER:PASSWORD", conflicts_with = "bearer")]
    basic: Option<String>,
    /// Bearer authentication.
    #[arg(long, value_name = "TOKEN")]
    bearer: Option<String>,
    /// Speak HTTP/2: by ALPN over TLS, by prior knowledge without.
    #[arg(short = '2', long)]
    http2: bool,
}

/// Address to connect to, if not the URL's host.
#[derive(Debug, Args)]
#[command(next_help_heading = "Place")]
#[group(multiple = false)]
struct PlaceArguments {
    /// Connect to this address instead of the URL's.
    #[arg(long, value_name = "HOST:PORT")]
    connect_to: Option<String>,
    /// Connect to a Unix socket.
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Send requests through this proxy, for targets without TLS.
    #[arg(short = 'x', long, value_name = "HOST:PORT")]
    proxy: Option<String>,
}

/// Conditions for an answer to count as success.
#[derive(Debug, Args)]
#[command(next_help_heading = "Checks (an answer that fails one is a failure)")]
struct CheckArguments {
    /// Statuses that count as success [default: 100 to 399].
    #[arg(long, value_name = "STATUS,…", value_delimiter = ',')]
    expect_status: Vec<u16>,
    /// Exact length of the body.
    #[arg(long, value_name = "BYTES")]
    expect_bytes: Option<u64>,
    /// Require all bodies to be as long as the first one.
    #[arg(long)]
    expect_same_length: bool,
    /// Text that the body must contain.
    #[arg(long, value_name = "TEXT")]
    expect_text: Option<String>,
    /// A regular expression that the body must match.
    #[arg(long, value_name = "REGEX")]
    expect_match: Option<String>,
    /// A value that must be in the body, such as `/code=200` or `/data/name=ann`.
    #[arg(long, value_name = "/POINTER=VALUE", value_parser = parse_expected_json)]
    expect_json: Option<(String, serde_json::Value)>,
}

/// Measures the URL.
///
/// # Errors
/// If the URL cannot be measured.
pub fn run(arguments: &HttpArguments) -> Result<ExitCode, BenchError> {
    let mut plan = Plan::from_case(arguments.case()?);
    arguments.session.complete(&mut plan);
    measure(&plan, &arguments.outputs)
}

impl HttpArguments {
    fn case(&self) -> Result<Case, BenchError> {
        let mut case = Case::new(&self.url);
        case.load = self.load.load();
        case.tls = self.tls.options();
        case.checks = self.checks.checks();
        case.http = self.request.request();
        if self.request.http2 {
            case.protocol = Some(Protocol::Http2);
        }
        if !matches!(case.protocol(), Protocol::Http1 | Protocol::Http2) {
            let why = "is not http://, https:// or h2c://; `bench grpc`, `bench websocket` and `bench tcp` \
                       measure the others";
            return Err(BenchError::Target { target: self.url.clone(), why: why.into() });
        }
        self.place.apply(&mut case)?;
        Ok(case)
    }
}

impl RequestArguments {
    fn request(&self) -> HttpRequest {
        let body = self.body.as_deref().map(|body| match body.strip_prefix('@') {
            Some(path) => Body::File(path.into()),
            None => Body::Text(body.to_owned()),
        });
        let mut headers = self.header.clone();
        headers.extend(self.basic.as_deref().map(HttpRequest::basic_authorization));
        let bearer = self.bearer.as_deref().map(|token| format!("Bearer {token}"));
        headers.extend(bearer.map(|value| ("Authorization".to_owned(), value)));
        let method_default = if body.is_some() { "POST" } else { "GET" };
        HttpRequest {
            method: self.method.clone().unwrap_or_else(|| method_default.to_owned()),
            headers,
            body,
            template: self.template,
            urls_file: self.urls.clone(),
            ..HttpRequest::default()
        }
    }
}

impl PlaceArguments {
    fn apply(&self, case: &mut Case) -> Result<(), BenchError> {
        if let Some(path) = &self.unix {
            case.connect_to = Some(format!("unix:{}", path.display()));
        }
        if let Some(place) = &self.connect_to {
            case.connect_to = Some(place.clone());
        }
        if let Some(proxy) = &self.proxy {
            if !case.target.starts_with("http://") || case.protocol() != Protocol::Http1 {
                let why =
                    "is for http:// targets over HTTP/1.1; tunnels through a proxy are not built";
                return Err(BenchError::Case { key: "--proxy".into(), why: why.into() });
            }
            case.connect_to =
                Some(proxy.trim_start_matches("http://").trim_end_matches('/').to_owned());
            case.http.form = RequestForm::Absolute;
        }
        Ok(())
    }
}

impl CheckArguments {
    fn checks(&self) -> Checks {
        Checks {
            status: self.expect_status.clone(),
            body_bytes: self.expect_bytes,
            same_length: self.expect_same_length,
            body_contains: self.expect_text.clone(),
            body_matches: self.expect_match.clone(),
            body_json: self.expect_json.clone(),
            ..Checks::default()
        }
    }
}

/// Parses a header line as curl does; an empty value is allowed.
pub(super) fn parse_header(line: &str) -> Result<(String, String), String> {
    let (name, value) = line.split_once(':').ok_or("write `Name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Parses `/pointer=value`; a value that is not JSON is a text.
fn parse_expected_json(text: &str) -> Result<(String, serde_json::Value), String> {
    let (pointer, value) = text.split_once('=').ok_or("write /POINTER=VALUE, such as /code=200")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((pointer.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        http: HttpArguments,
    }

    fn case(words: &[&str]) -> Case {
        let words = std::iter::once(&"bench").chain(words);
        let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        let case = line.http.case().expect("a case");
        case.validate().expect("a case that can be measured");
        case
    }

    #[test]
    fn a_request_is_read_from_words() {
        let case =
            case(&["http://h/", "-H", "a: b:c", "-b", "@file", "-u", "me:secret", "--template"]);
        assert_eq!(case.http.method, "POST");
        assert_eq!(case.http.body, Some(Body::File("file".into())));
        let basic = "Basic bWU6c2VjcmV0".to_owned();
        let expected = [("a".to_owned(), "b:c".to_owned()), ("Authorization".to_owned(), basic)];
        assert_eq!(case.http.headers, expected);
        assert!(case.http.template);
    }

    #[test]
    fn places_and_protocols_are_read_from_words() {
        let unix = case(&["http://h/", "--unix", "/run/a.sock", "-X", "PUT", "-2"]);
        assert_eq!(unix.connect_to.as_deref(), Some("unix:/run/a.sock"));
        assert_eq!((unix.protocol(), unix.http.method.as_str()), (Protocol::Http2, "PUT"));
        let proxied = case(&["http://h/", "-x", "http://127.0.0.1:3128/", "--bearer", "t"]);
        assert_eq!(proxied.connect_to.as_deref(), Some("127.0.0.1:3128"));
        assert_eq!(proxied.http.form, RequestForm::Absolute);
        assert_eq!(proxied.http.headers[0].1, "Bearer t");
    }

    #[test]
    fn checks_are_read_from_words() {
        let json = ["http://h/", "--expect-status", "200,204", "--expect-json", "/a/b=x"];
        let case_json = case(&json);
        assert_eq!(case_json.checks.status, [200, 204]);
        assert_eq!(case_json.checks.body_json, Some(("/a/b".to_owned(), json!("x"))));
        let number = case(&["http://h/", "--expect-json", "/code=200", "--expect-bytes", "2"]);
        assert_eq!(number.checks.body_json, Some(("/code".to_owned(), json!(200))));
        assert_eq!(number.checks.body_bytes, Some(2));
    }

    #[test]
    fn targets_of_other_commands_and_proxies_for_tls_are_refused() {
        for words in [&["ws://h/"][..], &["https://h/", "-x", "p:1"], &["tcp://h:1"]] {
            let line = Line::try_parse_from(std::iter::once(&"bench").chain(words)).expect("words");
            assert!(line.http.case().is_err(), "{words:?}");
        }
    }
}
