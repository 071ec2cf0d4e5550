//! A server elsewhere, over streamable HTTP.
//!
//! Refuses to follow redirects, which would carry a header elsewhere, and to send a request twice: what was sent may have
//! had its effect.

use std::collections::HashMap;
use std::sync::Arc;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::FixedInterval;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

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
    let client = http::client(|builder| builder.connect_timeout(limits::CONNECT_TIME))?;
    Ok(Transport::with_client(Bounded(client), config))
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
