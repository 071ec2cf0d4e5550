//! A response that came at once.

use serde_json::Value;

use super::super::lenient::str_at;
use super::super::reply::json_body;
use super::super::{Reply, WireError};
use super::reply::build;

pub fn plain(body: &[u8]) -> Result<Reply, WireError> {
    let value = json_body(body)?;
    if value.get("error").is_some_and(|error| !error.is_null()) {
        return Err(WireError::from_event(&value));
    }
    if !value.get("output").is_some_and(Value::is_array) {
        return Err(WireError::malformed("the answer has no `output`"));
    }
    if matches!(str_at(&value, "status"), "in_progress" | "queued") {
        return Err(WireError::truncated("the answer is not finished"));
    }
    build(&value, Vec::new())
}
