//! A server elsewhere, over streamable HTTP.
//!
//! Owns telling what was surely not carried out from what may have been. Refuses to follow redirects, which would carry a
//! header elsewhere, and to send a request twice: what was sent may have had its effect.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::common::client_side_sse::FixedInterval;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::transport::{DynamicTransportError, StreamableHttpClientTransport};

use super::bounded::Bounded;
use super::limits;
use crate::http;

pub(super) type Transport = StreamableHttpClientTransport<Bounded>;

pub(super) fn transport(url: &str, headers: &[(String, String)]) -> Result<Transport, String> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(parsed(headers)?)
        .max_sse_event_size(limits::MESSAGE_BYTES_MAX)
        .reinit_on_expired_session(false);
    let mut retry = FixedInterval::default();
    retry.max_times = Some(limits::STREAM_RETRIES_MAX);
    config.retry_config = Arc::new(retry);
    // A connection that was kept may have died with its server, and then nobody knows what became of a request on it. A new
    // one is refused before anything is sent.
    let client =
        http::client(|builder| builder.connect_timeout(limits::CONNECT_TIME).pool_max_idle_per_host(0))?;
    Ok(Transport::with_client(Bounded(client), config))
}

/// Why a request was surely not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// The server was started again since, or has forgotten us: it is to be greeted anew.
    SessionUnknown,
    NobodyListens,
}

impl NotTaken {
    /// `None` for everything that may have reached the server's work.
    pub(super) fn of(error: &DynamicTransportError) -> Option<NotTaken> {
        let error = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>()?;
        if let StreamableHttpError::Client(error) = error {
            return error.is_connect().then_some(NotTaken::NobodyListens);
        }
        matches!(error, StreamableHttpError::SessionExpired).then_some(NotTaken::SessionUnknown)
    }
}

impl fmt::Display for NotTaken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            NotTaken::SessionUnknown => "it does not know the session",
            NotTaken::NobodyListens => "no connection could be made",
        })
    }
}

fn parsed(headers: &[(String, String)]) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let header = |(name, value): &(String, String)| {
        let known =
            HeaderName::try_from(name.as_str()).map_err(|_| format!("`{name}` is not a header's name"))?;
        // The value itself is not repeated: it may be a key.
        let mut value = HeaderValue::try_from(value.as_str())
            .map_err(|_| format!("the value of header `{name}` cannot be sent"))?;
        value.set_sensitive(true);
        Ok((known, value))
    };
    headers.iter().map(header).collect()
}
