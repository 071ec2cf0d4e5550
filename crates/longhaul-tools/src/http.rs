//! The one way in which an HTTP client is made, but for the models' own.
//!
//! Owns what holds for all of them: TLS without a provider panics, a redirect is somebody's decision, a request is sent once,
//! and what is small on the wire is small here.

use reqwest::{Client, ClientBuilder, redirect};

/// A client with `more` set on it.
pub fn client(more: impl Fn(ClientBuilder) -> ClientBuilder) -> Result<Client, String> {
    // Building a client without a provider of cryptography panics. A second installation changes nothing and says so.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || {
        let builder = Client::builder()
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_gzip()
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        more(builder)
    };
    // A machine without any root certificates trusts none; a server of its own over plain HTTP it can still use.
    let client = builder().build().or_else(|_| builder().tls_certs_only([]).build());
    client.map_err(|error| format!("cannot set up TLS: {error}"))
}
