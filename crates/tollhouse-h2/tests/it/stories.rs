//! Stories of header blocks: what many requests of one connection look like as another encoder, that of the `h2` crate,
//! compresses them, with tables from none to the largest; each block must come to what was sent. The blocks are taken
//! off the frames here, so that nothing of our connection stands between.

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::oneshot;
use tollhouse_h2::Field;
use tollhouse_h2::frame::PREFACE;
use tollhouse_h2::hpack::Decoder;

/// A field, and whether no table may remember it.
type Line = (String, String, bool);

/// Requests of one story: enough that small tables turn over many times.
const REQUESTS: usize = 200;

const TYPE_HEADERS: u8 = 1;
const TYPE_SETTINGS: u8 = 4;
const TYPE_CONTINUATION: u8 = 9;
const FLAG_ACK: u8 = 0x1;
const FLAG_END_HEADERS: u8 = 0x4;
const SETTING_TABLE_BYTES: u16 = 1;

/// The request of a place in a story: a browser's, a program's and a call of gRPC by turns, with what changes between
/// requests, what stays, what is secret, and now and then a value longer than a frame.
fn request(place: usize) -> Request<()> {
    let target = format!("https://shop.example/{}/{place}", ["", "api", "pkg.Service"][place % 3]);
    let mut request = Request::builder().method(["GET", "PUT", "POST"][place % 3]).uri(target);
    let headers = request.headers_mut().expect("the parts are right");
    match place % 3 {
        0 => browser(headers, place),
        1 => program(headers, place),
        _ => grpc(headers, place),
    }
    request.body(()).expect("the parts are right")
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("printable")
}

fn browser(headers: &mut HeaderMap, place: usize) {
    headers.insert(
        "user-agent",
        value("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
    );
    headers.insert("accept", value("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"));
    headers.insert("accept-encoding", value("gzip, deflate, br"));
    headers.append(COOKIE, value(&format!("session={}", "0123456789abcdef".repeat(1 + place % 5))));
    headers.append(COOKIE, value(&format!("seen={}", place / 10)));
    headers.insert("if-none-match", value(&format!("\"{:x}\"", place.wrapping_mul(2_654_435_761))));
}

fn program(headers: &mut HeaderMap, place: usize) {
    let mut secret = value(&format!("Bearer {}", "eyJhbGciOi".repeat(1 + place % 7)));
    secret.set_sensitive(true);
    headers.insert(AUTHORIZATION, secret);
    headers.insert("content-type", value("application/json"));
    headers.insert("x-request-id", value(&format!("{place:032x}")));
    if place % 40 == 1 {
        headers.insert("x-baggage", value(&"b=1;".repeat(6_000)));
    }
}

fn grpc(headers: &mut HeaderMap, place: usize) {
    headers.insert("te", value("trailers"));
    headers.insert("content-type", value("application/grpc+proto"));
    headers.insert("grpc-timeout", value(&format!("{}m", 100 + place % 4)));
    headers.insert("x-empty", value(""));
    headers.insert("x-latin", HeaderValue::from_bytes(b"caf\xe9 \xff").expect("allowed"));
}

/// What a request comes to, in no order.
fn lines_of(request: &Request<()>) -> Vec<Line> {
    let uri = request.uri();
    let pseudo = [
        (":method", request.method().as_str()),
        (":scheme", uri.scheme_str().expect("it has one")),
        (":authority", uri.authority().expect("it has one").as_str()),
        (":path", uri.path()),
    ];
    let pseudo = pseudo.map(|(name, value)| (name.to_owned(), value.to_owned(), false));
    let fields = request
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), latin(value.as_bytes()), value.is_sensitive()));
    let mut lines: Vec<Line> = pseudo.into_iter().chain(fields).collect();
    lines.sort();
    lines
}

/// Bytes as text of one character each.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Sends the story, once the other side's settings are in force.
async fn write_stories(pipe: DuplexStream, in_force: oneshot::Receiver<()>) {
    let (mut sender, connection) = h2::client::handshake(pipe).await.unwrap();
    let driver = tokio::task::spawn_local(connection);
    in_force.await.unwrap();
    // Nobody answers: whoever waits for an answer holds its stream.
    let mut held = Vec::new();
    for place in 0..REQUESTS {
        sender = sender.ready().await.unwrap();
        held.push(sender.send_request(request(place), true).unwrap());
    }
    // Ends with the pipe, which the reader lets go of when it has all blocks.
    let _ = driver.await;
}

/// Reads the frames of a client, and gives back its header blocks.
async fn blocks(
    mut pipe: DuplexStream,
    table_bytes: u32,
    in_force: oneshot::Sender<()>,
) -> Vec<Vec<u8>> {
    let mut preface = [0; PREFACE.len()];
    pipe.read_exact(&mut preface).await.unwrap();
    assert_eq!(preface, *PREFACE);
    let mut settings = vec![0, 0, 6, TYPE_SETTINGS, 0, 0, 0, 0, 0];
    settings.extend(SETTING_TABLE_BYTES.to_be_bytes());
    settings.extend(table_bytes.to_be_bytes());
    pipe.write_all(&settings).await.unwrap();
    let mut in_force = Some(in_force);
    let mut blocks = Vec::new();
    let mut block = Vec::new();
    while blocks.len() < REQUESTS {
        let mut head = [0; 9];
        pipe.read_exact(&mut head).await.unwrap();
        let [a, b, c, kind, flags, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        pipe.read_exact(&mut payload).await.unwrap();
        match kind {
            TYPE_SETTINGS if flags & FLAG_ACK != 0 => {
                in_force.take().expect("settings are acknowledged once").send(()).unwrap();
            }
            TYPE_HEADERS | TYPE_CONTINUATION => {
                block.extend(payload);
                if flags & FLAG_END_HEADERS != 0 {
                    blocks.push(std::mem::take(&mut block));
                }
            }
            _ => {}
        }
    }
    blocks
}

#[test]
fn stories_of_another_encoder_are_decoded_with_tables_of_any_size() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for table_bytes in [0, 64, 300, 4_096, 65_535] {
        let (theirs, ours) = duplex(64 << 10);
        let (tell_in_force, in_force) = oneshot::channel();
        let story = tokio::task::LocalSet::new().block_on(&runtime, async {
            tokio::task::spawn_local(write_stories(theirs, in_force));
            blocks(ours, table_bytes, tell_in_force).await
        });
        let mut decoder = Decoder::default();
        decoder.set_limit(table_bytes);
        let mut sizes = Vec::new();
        for (place, block) in story.iter().enumerate() {
            sizes.push(block.len());
            let mut lines: Vec<Line> = Vec::new();
            let mut visit = |field: Field<'_>| {
                lines.push((latin(field.name), latin(field.value), field.is_sensitive));
            };
            decoder.decode(block, &mut visit).unwrap();
            lines.sort();
            assert_eq!(lines, lines_of(&request(place)), "request {place}, {table_bytes} bytes");
        }
        // The same request again is a few bytes with a table, and as long as ever without one.
        let (first, later) = (sizes[2], sizes[2 + 12]);
        let is_remembered = table_bytes >= 4_096;
        assert_eq!(later * 2 < first, is_remembered, "{table_bytes}: {first}, then {later}");
    }
}
