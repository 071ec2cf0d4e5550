//! A server elsewhere, over streamable HTTP.
//!
//! Owns the one HTTP client for servers. Refuses to follow redirects, which would carry a header elsewhere, and to send a
//! request twice: what was sent may have had its effect.

use std::collections::HashMap;
use std::sync::Arc;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::FixedInterval;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::limits;

pub(super) type Transport = StreamableHttpClientTransport<reqwest::Client>;

pub(super) fn transport(url: &str, headers: &[(String, String)]) -> Result<Transport, String> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(parsed(headers)?)
        .max_sse_event_size(limits::MESSAGE_BYTES_MAX)
        .reinit_on_expired_session(false);
    let mut retry = FixedInterval::default();
    retry.max_times = Some(limits::STREAM_RETRIES_MAX);
    config.retry_config = Arc::new(retry);
    Ok(Transport::with_client(client()?, config))
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

fn client() -> Result<reqwest::Client, String> {
    // Building a client without a provider of cryptography panics. A second installation changes nothing and says so.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || {
        reqwest::Client::builder()
            .connect_timeout(limits::CONNECT_TIME)
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            // The SDK reads an answer that is no stream whole: what is small on the wire must be small here.
            .no_gzip()
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
    };
    // A machine without any root certificates trusts none; a server of its own over plain HTTP it can still use.
    let client = builder().build().or_else(|_| builder().tls_certs_only([]).build());
    client.map_err(|error| format!("cannot set up TLS: {error}"))
}
