//! Printing of long answers as JSON: within a size limit, and once for all clients that
//! concurrently request the answer.
//!
//! A text exists, and its memory is reserved, while a client waits for it or reads it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::Bytes;
use tokio::sync::OnceCell;

use super::capacity::{Capacity, CapacityPermit};
use super::failure::Failure;
use crate::answer::Answer;
use crate::code::Code;
use crate::json::{self, PrintError};
use crate::schema::descriptors;

/// First limit of a text, as a multiple of its message: names, quotes and unset fields make it two
/// to four times as long.
const USUAL_GROWTH: usize = 4;

/// Second limit, if the first does not suffice: a control character takes six bytes.
const GREATEST_GROWTH: usize = 8;

/// Number of cache entries above which unused entries are removed.
const NAMES_MAX: usize = 256;

/// Cache key of a text: answers with equal keys are equal.
pub(super) type Name = [u8; 32];

/// Cache of the texts that are being printed or read.
#[derive(Debug, Default)]
pub(super) struct Texts(Mutex<HashMap<Name, Weak<Text>>>);

#[derive(Debug, Default)]
struct Text(OnceCell<JsonText>);

#[derive(Debug)]
struct JsonText {
    text: String,
    _permit: Option<CapacityPermit>,
}

/// Reference to a text, which keeps it alive.
struct Reading(Arc<Text>);

impl AsRef<[u8]> for Reading {
    fn as_ref(&self) -> &[u8] {
        self.0.0.get().map_or(&[], |printed| printed.text.as_bytes())
    }
}

impl Texts {
    /// Prints an answer of type `message`, or shares the text of an equal `name`.
    pub(super) async fn shared(
        &self,
        name: Name,
        capacity: &Capacity,
        message: &'static str,
        answer: Answer,
    ) -> Result<Bytes, Failure> {
        text_of(self.find(name), capacity, message, answer).await
    }

    fn find(&self, name: Name) -> Arc<Text> {
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = texts.get(&name).and_then(Weak::upgrade) {
            return text;
        }
        if texts.len() >= NAMES_MAX {
            texts.retain(|_, text| text.strong_count() > 0);
        }
        let text = Arc::default();
        texts.insert(name, Arc::downgrade(&text));
        text
    }
}

/// Prints an answer for one client.
pub(super) async fn alone(
    capacity: &Capacity,
    message: &'static str,
    answer: Answer,
) -> Result<Bytes, Failure> {
    text_of(Arc::default(), capacity, message, answer).await
}

async fn text_of(
    text: Arc<Text>,
    capacity: &Capacity,
    message: &'static str,
    answer: Answer,
) -> Result<Bytes, Failure> {
    // A second caller waits for the first, and takes over if that one is cancelled.
    text.0.get_or_try_init(|| printed(capacity, message, answer)).await?;
    Ok(Bytes::from_owner(Reading(text)))
}

async fn printed(
    capacity: &Capacity,
    message: &'static str,
    answer: Answer,
) -> Result<JsonText, Failure> {
    let length = answer.length();
    // The message needs memory in addition to its text.
    let held_message = capacity.hold(length).await?;
    let (whole, held_message) = capacity.work(move || (answer.into_bytes(), held_message)).await?;
    for growth in [USUAL_GROWTH, GREATEST_GROWTH] {
        let bytes_max = growth * length;
        let permit = capacity.hold(bytes_max).await?;
        let bytes = whole.clone();
        // The job holds the reservation, because it runs on even if its caller has gone.
        let print = move || (print(message, &bytes, bytes_max), permit);
        match capacity.work(print).await? {
            (Ok(text), permit) => {
                drop(held_message);
                return Ok(json_text(capacity, text, permit));
            }
            (Err(PrintError::TooLong), _) => {}
            (Err(PrintError::Wire(_)), _) => break,
        }
    }
    // A client may have stored an invalid message; the reader gets this error.
    Err(Failure::with(Code::ExecuteException, "the answer cannot be shown"))
}

fn print(message: &'static str, bytes: &[u8], bytes_max: usize) -> Result<String, PrintError> {
    let descriptor =
        descriptors().get_message_by_name(message).expect("every type of answer is in the schema");
    json::print_within(&descriptor, bytes, bytes_max).map(|mut text| {
        text.shrink_to_fit();
        text
    })
}

/// Keeps a text, with its reservation reduced to its length.
fn json_text(capacity: &Capacity, text: String, permit: CapacityPermit) -> JsonText {
    let mut permit = Some(permit);
    // An error is ignored: a text exceeds its limit by one field at most, and exists in any case.
    let _ = capacity.try_resize(&mut permit, text.len());
    JsonText { text, _permit: permit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1;
    use prost::Message;

    fn answer(comment: &str, count: usize) -> Answer {
        let namespace =
            v1::Namespace { comment: Some(comment.repeat(count)), ..Default::default() };
        let answer = v1::DiscoverResponse { namespaces: vec![namespace], ..Default::default() };
        Answer::from(Bytes::from(answer.encode_to_vec()))
    }

    const DISCOVER: &str = "v1.DiscoverResponse";

    #[tokio::test]
    async fn answers_of_one_name_are_one_text_while_they_are_read() {
        let capacity = Capacity::default();
        let texts = Texts::default();
        let ask = || texts.shared([1; 32], &capacity, DISCOVER, answer("a", 100_000));
        let (first, second) = tokio::join!(ask(), ask());
        let (first, second) = (first.expect("printed"), second.expect("printed"));
        assert_eq!(first.as_ptr(), second.as_ptr());
        let other = texts.shared([2; 32], &capacity, DISCOVER, answer("b", 100_000)).await;
        assert_ne!(other.expect("printed"), first);
        drop((first, second));
        assert!(texts.find([1; 32]).0.get().is_none(), "nobody reads it, nothing keeps it");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_for_a_text_is_its_length_until_it_is_read() {
        let length = 1 << 20;
        let capacity = Capacity::from_bytes(6 * length);
        let first = alone(&capacity, DISCOVER, answer("a", length - 64)).await.expect("room");
        let second = alone(&capacity, DISCOVER, answer("a", length - 64)).await;
        assert!(second.is_err(), "five times its length was free, not six");
        drop(first);
        alone(&capacity, DISCOVER, answer("a", length - 64)).await.expect("room again");
    }

    #[tokio::test]
    async fn texts_that_grow_more_than_usual_are_printed_all_the_same() {
        let text = alone(&Capacity::default(), DISCOVER, answer("\u{1}", 100_000)).await;
        assert!(text.expect("printed").len() > 600_000);
    }
}
