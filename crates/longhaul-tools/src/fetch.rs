//! `fetch`: reads a page of the web.
//!
//! Owns one GET without cookies, keys or a proxy, to hosts that the user has listed. A name is resolved once, what it resolved to
//! is checked, and the connection goes to just that; a redirect is a new question. Refuses to send anything but the address.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Outcome, Output, Trace};
use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::{Response, StatusCode, Url, dns};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{invalid, parse, schema};
use crate::charset::Charset;
use crate::html;
use crate::http;
use crate::limits;
use crate::output;
use crate::sandbox::{Network, admitted, is_public};
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, blocking};

/// What a name stands for. The system's resolver, or a test's.
pub type Resolve = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The address: http or https.
    url: String,
}

pub struct Fetch {
    spec: ToolSpec,
    network: Network,
    resolve: Resolve,
    is_open: fn(IpAddr) -> bool,
}

impl Fetch {
    pub fn new(network: Network) -> Fetch {
        let resolve = |name: &str, port| Ok((name, port).to_socket_addrs()?.collect());
        Fetch::resolving(network, Arc::new(resolve), is_public)
    }

    /// The same with a resolver of one's own, and addresses that are as good as public.
    pub fn resolving(network: Network, resolve: Resolve, is_open: fn(IpAddr) -> bool) -> Fetch {
        let spec = ToolSpec {
            name: "fetch".to_owned(),
            description: "Reads a web page or file by HTTP GET and shows it as text. Only hosts that the user has listed can be \
                          reached."
                .to_owned(),
            class: EffectClass::Repeatable,
            schema: schema::<Args>(),
        };
        Fetch { spec, network, resolve, is_open }
    }

    async fn get(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args: Args = parse(args, &self.spec.schema)?;
        let got = self.within(context, &args.url).await?;
        Ok(got.outcome(context).await)
    }

    /// What is behind an address, within the call's time.
    async fn within(&self, context: &Context, url: &str) -> Result<Got, Outcome> {
        let limit = tokio::time::sleep(context.timeout);
        tokio::select! {
            got = self.follow(url) => got,
            () = limit => {
                let message = format!("timed out after {} ms", context.timeout.as_millis());
                Err(Outcome::failed(Failure::Timeout, message))
            }
            () = context.cancel.cancelled() => {
                Err(Outcome::failed(Failure::Cancelled, "stopped because the run was paused"))
            }
        }
    }

    /// The whole text behind an address, for a tool that reads it itself.
    pub(crate) async fn whole(&self, context: &Context, url: &str) -> Result<String, Outcome> {
        let got = self.within(context, url).await?;
        if got.cut {
            return Err(tool_failed(format!("the answer has more than {} bytes", limits::FETCH_BYTES_MAX)));
        }
        if !got.status.is_success() {
            return Err(judged(got.status, Output::default()));
        }
        Ok(got.charset.text(&got.body))
    }

    /// Goes where the address leads, asking anew at every turn.
    async fn follow(&self, text: &str) -> Result<Got, Outcome> {
        let mut url =
            Url::parse(text).map_err(|error| invalid(format!("`url` is not an address: {error}")))?;
        for _ in 0..=limits::FETCH_REDIRECTS_MAX {
            let response = self.ask(&url).await?;
            let Some(next) = redirected(&response) else { return Got::read(url, response).await };
            url = url
                .join(&next)
                .map_err(|_| tool_failed(format!("{url} leads to `{next}`, which is no address")))?;
        }
        Err(tool_failed(format!("more than {} redirects", limits::FETCH_REDIRECTS_MAX)))
    }

    async fn ask(&self, url: &Url) -> Result<Response, Outcome> {
        let pinned = Arc::new(Pinned(self.permitted(url).await?));
        let client = http::client(|builder| {
            builder
                .connect_timeout(limits::FETCH_CONNECT_TIME)
                .no_proxy()
                .referer(false)
                .dns_resolver(Arc::clone(&pinned))
        });
        let client = client.map_err(tool_failed)?;
        client.get(url.clone()).send().await.map_err(|error| unreachable(url, &error))
    }

    /// Why an address would not be gone to, as far as that can be said without asking for its name.
    pub fn objection(&self, address: &str) -> Option<String> {
        match Url::parse(address) {
            Ok(url) => self.permit(&url).err(),
            Err(error) => Some(format!("`{address}` is not an address: {error}")),
        }
    }

    /// The addresses behind a name that may be connected to.
    async fn permitted(&self, url: &Url) -> Result<Vec<SocketAddr>, Outcome> {
        let (host, port) = self.permit(url).map_err(not_permitted)?;
        let (resolve, name) = (Arc::clone(&self.resolve), host.trim_matches(['[', ']']).to_owned());
        let found = blocking(move || resolve(&name, port)).await?.map_err(|error| {
            Outcome::failed(Failure::Network, format!("the name {host} could not be resolved: {error}"))
        })?;
        let open: Vec<SocketAddr> = found
            .into_iter()
            .filter(|address| self.network == Network::Full || (self.is_open)(address.ip()))
            .collect();
        if open.is_empty() {
            return Err(not_permitted(format!(
                "{host} leads to no public address, and is not gone to; {OF_THIS_MACHINE}"
            )));
        }
        Ok(open)
    }

    /// The host and the port, if the settings allow them.
    fn permit<'a>(&self, url: &'a Url) -> Result<(&'a str, u16), String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("only http and https can be fetched, not {}", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("an address with a user or a password is not fetched".to_owned());
        }
        let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(0));
        let target = format!("{host}:{port}");
        let why = match &self.network {
            Network::Full => return Ok((host, port)),
            Network::None => "no host is allowed".to_owned(),
            Network::Hosts(rules) => match admitted(rules, target.as_bytes()) {
                Ok(_) => return Ok((host, port)),
                Err(why) => format!("{why}; allowed: {}", self.network),
            },
        };
        let named = host.trim_matches(['[', ']']);
        let is_local = named == "localhost" || named.parse().is_ok_and(|address| !(self.is_open)(address));
        let advice = if is_local { OF_THIS_MACHINE } else { "a person can list it in `permissions.network`" };
        Err(format!("{target} may not be reached ({why}); {advice}"))
    }
}

/// Listing a host would not help there.
const OF_THIS_MACHINE: &str = "what is on this machine or in its own network is reached only with \
    `permissions.network: full`, which a person can set";

/// Answers every name with what was checked, so that nobody resolves it a second time.
struct Pinned(Vec<SocketAddr>);

impl dns::Resolve for Pinned {
    fn resolve(&self, _: dns::Name) -> dns::Resolving {
        let addresses: dns::Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

impl Tool for Fetch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, context: &'a Context, args: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.get(context, args).await.unwrap_or_else(|outcome| outcome) })
    }
}

/// An answer, read as far as it may be.
struct Got {
    url: Url,
    status: StatusCode,
    kind: String,
    charset: Charset,
    body: Vec<u8>,
    cut: bool,
}

impl Got {
    async fn read(url: Url, mut response: Response) -> Result<Got, Outcome> {
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("text/plain");
        let charset = Charset::of(kind);
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let status = response.status();
        let mut got = Got { url, status, kind, charset, body: Vec::new(), cut: false };
        if !got.is_text() {
            return Ok(got);
        }
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(&got.url, &error))? {
            let room = limits::FETCH_BYTES_MAX - got.body.len();
            got.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                got.cut = true;
                break;
            }
        }
        Ok(got)
    }

    fn is_text(&self) -> bool {
        const WORDS: [&str; 6] = ["json", "xml", "javascript", "yaml", "toml", "x-www-form-urlencoded"];
        self.kind.starts_with("text/") || WORDS.iter().any(|word| self.kind.contains(word))
    }

    async fn outcome(self, context: &Context) -> Outcome {
        let Got { url, status, kind, .. } = &self;
        if !self.is_text() {
            return tool_failed(format!("{url} answers {kind}, which is not text"));
        }
        let text = self.charset.text(&self.body);
        let text = if kind.contains("html") { html::readable(&text) } else { text };
        let unread = match &self.charset {
            Charset::Utf8 | Charset::Windows1252 => String::new(),
            Charset::Unknown(name) => format!("; read as UTF-8, for its charset {name} is not known here"),
        };
        let head = format!("{url} ({}, {kind}, {} bytes{unread})\n\n", status.as_u16(), self.body.len());
        let note =
            if self.cut { format!("\n[cut after {} bytes]", limits::FETCH_BYTES_MAX) } else { String::new() };
        let output = output::bounded_text(context, &(head + &text), &note).await;
        judged(*status, output)
    }
}

fn judged(status: StatusCode, output: Output) -> Outcome {
    if status.is_success() {
        return Outcome::Done { output };
    }
    let failure = match status.as_u16() {
        429 => Failure::RateLimit,
        500..=599 => Failure::Network,
        _ => Failure::Tool,
    };
    Outcome::Failed { failure, message: format!("the server answers {status}"), output }
}

fn redirected(response: &Response) -> Option<String> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    response.status().is_redirection().then(|| location.to_owned())
}

fn unreachable(url: &Url, error: &reqwest::Error) -> Outcome {
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        reason = cause.to_string();
        source = cause.source();
    }
    Outcome::failed(Failure::Network, format!("{url} could not be read: {reason}"))
}

fn tool_failed(message: String) -> Outcome {
    Outcome::failed(Failure::Tool, message)
}

fn not_permitted(message: String) -> Outcome {
    Outcome::failed(Failure::NotPermitted, message)
}
