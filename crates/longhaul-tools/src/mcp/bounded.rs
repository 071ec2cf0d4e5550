//! What is sent to a server elsewhere, and how much of its answer is read.
//!
//! The protocol's own client reads a body of JSON however long it is; this one ends at the same bound as every other
//! message. Refuses to send anything twice.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Client, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use serde_json::Value;
use sse_stream::{Error as SseError, Sse, SseStream};

use super::limits::MESSAGE_BYTES_MAX;
use super::names::line;

#[derive(Clone)]
pub(super) struct Bounded(pub(super) Client);

type Failed = StreamableHttpError<reqwest::Error>;

impl StreamableHttpClient for Bounded {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let accepts = format!("{EVENT_STREAM_MIME_TYPE}, {JSON_MIME_TYPE}");
        let mut request = self.0.post(uri.as_ref()).header(ACCEPT, accepts);
        for (name, value) in headers {
            refuse_reserved(&name)?;
            request = request.header(name, value);
        }
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(session) = &session {
            request = request.header(HEADER_SESSION_ID, session.as_ref());
        }
        let response = request.json(&message).send().await?;
        answered(response, &message, session.is_some()).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        self.0.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        let max = MESSAGE_BYTES_MAX;
        self.0.get_stream_with_max_sse_event_size(uri, session, last, token, headers, max).await
    }
}

/// The protocol's own headers are not for settings to change, but for the version, which the protocol adds here itself.
fn refuse_reserved(name: &HeaderName) -> Result<(), Failed> {
    let reserved = ["accept", "mcp-session-id", "last-event-id"];
    if reserved.contains(&name.as_str()) {
        return Err(StreamableHttpError::ReservedHeaderConflict(name.to_string()));
    }
    Ok(())
}

async fn answered(
    response: Response,
    message: &ClientJsonRpcMessage,
    in_session: bool,
) -> Result<StreamableHttpPostResponse, Failed> {
    let status = response.status();
    let said = |name: HeaderName| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
    if let (true, Some(wanted)) = (is_denied(status), said(WWW_AUTHENTICATE)) {
        return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(wanted)));
    }
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if status == StatusCode::NOT_FOUND && in_session {
        return Err(StreamableHttpError::SessionExpired);
    }
    let kind = said(CONTENT_TYPE).unwrap_or_default();
    let (is_json, is_stream) = (kind.starts_with(JSON_MIME_TYPE), kind.starts_with(EVENT_STREAM_MIME_TYPE));
    let session = said(HeaderName::from_static("mcp-session-id"));
    let is_over = status == StatusCode::TOO_MANY_REQUESTS;
    if is_over || (status.is_server_error() && !is_json) {
        return Err(HttpStatusError::new(status.as_u16(), said(RETRY_AFTER)).into());
    }
    if !status.is_success() {
        let body = whole(response).await?;
        return refused(status, &body, message, in_session, session);
    }
    if is_stream {
        return Ok(StreamableHttpPostResponse::Sse(events(response), session));
    }
    let body = whole(response).await?;
    match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(answer) if is_json => Ok(StreamableHttpPostResponse::Json(answer, session)),
        // What wants no answer was taken, whatever is said to it.
        Ok(_) | Err(_) if !matches!(message, ClientJsonRpcMessage::Request(_)) => {
            Ok(StreamableHttpPostResponse::Accepted)
        }
        Ok(_) => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
        Err(_) if !is_json => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
        Err(error) => Err(unexpected(format!("{error}: {}", excerpt(&body)))),
    }
}

fn is_denied(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// An answer that is no success may still say in the protocol's words what is wrong.
fn refused(
    status: StatusCode,
    body: &[u8],
    message: &ClientJsonRpcMessage,
    in_session: bool,
    session: Option<String>,
) -> Result<StreamableHttpPostResponse, Failed> {
    if in_session
        && status == StatusCode::BAD_REQUEST
        && !answers(body, message)
        && says_unknown_session(body)
    {
        return Err(StreamableHttpError::SessionExpired);
    }
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(body) {
        Ok(ServerJsonRpcMessage::Error(error)) if !is_denied(status) => Some(error),
        Ok(_) | Err(_) => None,
    };
    if let (false, ClientJsonRpcMessage::Request(request)) = (in_session, message)
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && status.is_client_error()
        && !is_denied(status)
    {
        // A server of an older version does not know this question, and may not even say which one it answers.
        let error = match error {
            Some(error) => error.error,
            None => ErrorData::invalid_request(format!("HTTP {status}"), None),
        };
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    match error {
        // One that does not say what it answers would be an answer to nothing, and the request waited for until its time is over.
        Some(error) if error.id.is_some() => {
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), session))
        }
        None if status.is_server_error() => Err(HttpStatusError::new(status.as_u16(), None).into()),
        Some(_) | None => Err(unexpected(format!("HTTP {status}: {}", excerpt(body)))),
    }
}

/// Is this an error about this very request? Then the server took it, and may have carried it out, whatever the words are.
fn answers(body: &[u8], message: &ClientJsonRpcMessage) -> bool {
    let (ClientJsonRpcMessage::Request(request), Ok(said)) = (message, serde_json::from_slice::<Value>(body))
    else {
        return false;
    };
    let asked = serde_json::to_value(&request.id).ok();
    said.get("error").is_some() && said.get("id").is_some_and(|id| Some(id) == asked.as_ref())
}

/// The protocol wants 404 for a session that is not known. Servers made after its examples say 400, and this.
fn says_unknown_session(body: &[u8]) -> bool {
    let said = String::from_utf8_lossy(body).to_ascii_lowercase();
    ["no valid session", "session not found", "invalid session", "unknown session", "server not initialized"]
        .iter()
        .any(|words| said.contains(words))
}

/// The body, if it is no larger than a message may be. What comes after that is not read.
async fn whole(mut response: Response) -> Result<Vec<u8>, Failed> {
    let too_large = || unexpected(format!("an answer is larger than {MESSAGE_BYTES_MAX} bytes"));
    if response.content_length().is_some_and(|length| length > MESSAGE_BYTES_MAX as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MESSAGE_BYTES_MAX {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The events of a stream, none larger than a message may be.
fn events(response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
    let chunks =
        stream::try_unfold((response, EventSize::default()), |(mut response, mut size)| async move {
            let chunk = response.chunk().await.map_err(std::io::Error::other)?;
            let Some(chunk) = chunk else { return Ok::<_, std::io::Error>(None) };
            if !size.fits(&chunk) {
                let why = format!("an event is larger than {MESSAGE_BYTES_MAX} bytes");
                return Err(std::io::Error::other(why));
            }
            Ok(Some((chunk, (response, size))))
        });
    SseStream::from_bytes_stream(chunks).boxed()
}

/// Bytes since the last empty line, which is what divides events.
struct EventSize {
    bytes: usize,
    line_is_empty: bool,
}

impl Default for EventSize {
    fn default() -> EventSize {
        EventSize { bytes: 0, line_is_empty: true }
    }
}

impl EventSize {
    fn fits(&mut self, chunk: &[u8]) -> bool {
        for byte in chunk {
            self.bytes += 1;
            match byte {
                b'\n' if self.line_is_empty => self.bytes = 0,
                b'\n' => self.line_is_empty = true,
                b'\r' => {}
                _ => self.line_is_empty = false,
            }
            if self.bytes > MESSAGE_BYTES_MAX {
                return false;
            }
        }
        true
    }
}

fn excerpt(body: &[u8]) -> String {
    line(&String::from_utf8_lossy(&body[..body.len().min(256)]))
}

fn unexpected(why: String) -> Failed {
    StreamableHttpError::UnexpectedServerResponse(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of any length is fine as long as each of its events is bounded.
    #[test]
    fn the_size_of_an_event_is_counted_from_the_last_empty_line() {
        let mut size = EventSize::default();
        let line = [b"data: ".as_slice(), &vec![b'x'; MESSAGE_BYTES_MAX / 2], b"\n"].concat();
        for _ in 0..3 {
            assert!(size.fits(&line) && size.fits(b"\r") && size.fits(b"\n"));
        }
        assert!(size.fits(&line));
        assert!(!size.fits(&line));
    }
}
