//! Which models a provider has: the same question on every protocol, and an answer that differs in its extras.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout_at;

use super::http::{Clocks, not_sent, presentable, refused, whole};
use super::lenient::count;
use super::limits::LISTED_MODELS_MAX;
use super::{Client, Endpoint, Options, WireError};

/// A model as its provider lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub id: String,
    /// The context window, where the provider says it.
    pub window: Option<u64>,
}

impl Client {
    /// Asks which models there are.
    pub async fn list(&self, endpoint: &Endpoint, within: Duration) -> Result<Vec<Listed>, WireError> {
        let clocks =
            Clocks::start(&Options { total_timeout: within, idle_timeout: within, ..Options::usual() });
        self.listing(endpoint, clocks).await.map_err(|error| presentable(error, endpoint))
    }

    async fn listing(&self, endpoint: &Endpoint, clocks: Clocks) -> Result<Vec<Listed>, WireError> {
        let call =
            self.http.get(endpoint.resource("models")?).headers(endpoint.headers("application/json")?).send();
        let response = match timeout_at(clocks.total, call).await {
            Ok(sent) => sent.map_err(not_sent)?,
            Err(_) => return Err(clocks.expired()),
        };
        if !response.status().is_success() {
            return Err(refused(response, clocks).await);
        }
        read(&whole(response, self.options.body_bytes_max, clocks).await?)
    }
}

fn read(body: &[u8]) -> Result<Vec<Listed>, WireError> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| WireError::malformed(format!("the list of models is not JSON: {error}")))?;
    let entries = value.get("data").and_then(Value::as_array);
    let entries = entries.ok_or_else(|| WireError::malformed("the list of models has no `data`"))?;
    Ok(entries.iter().filter_map(listed).take(LISTED_MODELS_MAX).collect())
}

fn listed(entry: &Value) -> Option<Listed> {
    // A name with control characters could do things to a terminal, and nobody could type it.
    let nameable = |id: &&str| !id.is_empty() && !id.chars().any(char::is_control);
    let id = entry.get("id").and_then(Value::as_str).filter(nameable)?.to_owned();
    // The service itself, vLLM, LM Studio and llama.cpp each have their own place for it.
    let places =
        ["/max_input_tokens", "/max_model_len", "/max_context_length", "/context_window", "/meta/n_ctx"];
    let window = places.iter().find_map(|place| count(entry.pointer(place)));
    Some(Listed { id, window })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_leniently() {
        let body = r#"{"data":[{"id":"a","meta":{"n_ctx":4096}},{"id":"b","max_model_len":"8192"},{"id":""},{},7,{"id":"c\u001b[2J"}]}"#;
        let listed = read(body.as_bytes()).unwrap();
        let ids: Vec<(&str, Option<u64>)> =
            listed.iter().map(|model| (model.id.as_str(), model.window)).collect();
        assert_eq!(ids[0], ("a", Some(4096)));
        assert_eq!(ids[1].0, "b");
        assert_eq!(ids.len(), 2);
        for broken in ["", "<html>", "{}", r#"{"data":{}}"#] {
            assert!(read(broken.as_bytes()).is_err(), "{broken}");
        }
    }
}
