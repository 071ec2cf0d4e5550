//! The one place where bytes move. It owns the connection, the clocks that end a silent or endless exchange, the caps
//! that keep memory flat, and the rule that no secret leaves in an error. It refuses to follow redirects, which would
//! carry a key elsewhere, and to try twice. Dropping the future closes the exchange.

use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhaul_core::time::Timestamp;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url, redirect};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout_at};

use super::args::cut;
use super::count::{self, Question, is_unknown_question};
use super::limits;
use super::reply::limited;
use super::sse;
use super::{Allowance, Api, Delta, Kind, Progress, Reading, Reply, Request, WireError};
use crate::model::Deltas;

/// Where a model is. Its `Debug` shows no secret: keys are wrapped, and of the address, which may carry a password or a
/// key, only the host is shown.
#[derive(Clone)]
pub struct Endpoint {
    pub api: Api,
    /// With or without the protocol's own path; see `url`.
    pub base_url: String,
    pub key: Option<SecretString>,
    /// Sent with every request, over our own of the same name. Values are secrets too: some providers take keys there.
    pub headers: Vec<(String, SecretString)>,
    /// What else must not be shown: a part of a header may be repeated without the rest of it.
    pub hidden: Vec<SecretString>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = Url::parse(&self.base_url).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or("");
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("api", &self.api)
            .field("host", &host)
            .field("key", &self.key)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The address requests go to. A base without any path gets the protocol's usual `/v1`; one that already names the
    /// protocol's resource is taken as it is.
    pub fn url(&self) -> Result<Url, WireError> {
        self.resource(self.asking())
    }

    /// The resource that is asked for turns.
    fn asking(&self) -> &'static str {
        match self.api {
            Api::Anthropic => "messages",
            Api::Responses => "responses",
            Api::Chat => "chat/completions",
        }
    }

    /// The address of another resource of the same service.
    pub(super) fn resource(&self, resource: &str) -> Result<Url, WireError> {
        // The address itself is not repeated: it may have a password or a key in it.
        let bad = || {
            WireError::new(Kind::Fatal, "`base_url` is not an address that starts with http:// or https://")
        };
        let mut url = Url::parse(self.base_url.trim()).map_err(|_| bad())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(bad());
        }
        let path = url.path().trim_end_matches('/').to_owned();
        if let Some(base) = path.strip_suffix(&format!("/{}", self.asking())) {
            url.set_path(&format!("{base}/{resource}"));
            return Ok(url);
        }
        let bare = path.is_empty() || (self.api == Api::Anthropic && !path.ends_with("/v1"));
        let version = if bare { "/v1" } else { "" };
        url.set_path(&format!("{path}{version}/{resource}"));
        Ok(url)
    }

    pub(crate) fn headers(&self, accept: &'static str) -> Result<HeaderMap, WireError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        if self.api == Api::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        if let Some(key) = &self.key {
            let (name, value) = match self.api {
                Api::Anthropic => (HeaderName::from_static("x-api-key"), key.expose_secret().to_owned()),
                Api::Responses | Api::Chat => (AUTHORIZATION, format!("Bearer {}", key.expose_secret())),
            };
            headers.insert(name, secret_header("the key", &value)?);
        }
        for (name, value) in &self.headers {
            let known = HeaderName::try_from(name.as_str());
            let known =
                known.map_err(|_| WireError::new(Kind::Fatal, format!("`{name}` is not a header's name")))?;
            headers.insert(known, secret_header(name, value.expose_secret())?);
        }
        Ok(headers)
    }

    /// A text from outside, fit to be shown: secrets out, control characters out (it ends up on a terminal), and only
    /// then cut. The other way round half a key could stay.
    pub(crate) fn clean(&self, text: &str) -> String {
        let visible: String =
            self.scrub(text).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        cut(&visible, limits::ERROR_TEXT_BYTES_MAX)
    }

    fn scrub(&self, text: &str) -> String {
        let headers = self.headers.iter().map(|(_, value)| value);
        let secrets = self.key.iter().chain(headers).chain(&self.hidden);
        let known = secrets.map(|secret| secret.expose_secret().trim());
        let long = known.filter(|secret| secret.len() >= limits::SECRET_BYTES_MIN);
        long.fold(text.to_owned(), |text, secret| text.replace(secret, "[secret]"))
    }
}

/// Clocks and caps of one exchange.
#[derive(Clone, Debug)]
pub struct Options {
    pub connect_timeout: Duration,
    /// Without an event that moves the reply forward.
    pub idle_timeout: Duration,
    pub total_timeout: Duration,
    pub stream_bytes_max: u64,
    pub stream_events_max: u64,
    pub body_bytes_max: usize,
    pub caps: sse::Caps,
}

impl Options {
    /// What `limits` says.
    pub fn usual() -> Options {
        Options {
            connect_timeout: limits::CONNECT_TIMEOUT,
            idle_timeout: limits::IDLE_TIMEOUT,
            total_timeout: limits::TOTAL_TIMEOUT,
            stream_bytes_max: limits::STREAM_BYTES_MAX,
            stream_events_max: limits::STREAM_EVENTS_MAX,
            body_bytes_max: limits::BODY_BYTES_MAX,
            caps: sse::Caps::default(),
        }
    }

    fn allowance(&self) -> Allowance {
        Allowance { caps: self.caps, bytes: self.stream_bytes_max, events: self.stream_events_max }
    }
}

/// A pool of connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    pub(super) http: reqwest::Client,
    pub(super) options: Options,
}

impl Client {
    pub fn new(options: Options) -> Result<Client, WireError> {
        // Building a client without a provider of cryptography panics. A second installation changes nothing and says
        // so, which is no error here.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            reqwest::Client::builder()
                .connect_timeout(options.connect_timeout)
                .redirect(redirect::Policy::none())
                .retry(reqwest::retry::never())
                .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
        };
        // A machine without any root certificates cannot check a provider's, and then trusts none; a server of its own
        // that speaks plain HTTP it can still use.
        let http = builder().build().or_else(|_| builder().tls_certs_only([]).build());
        let http = http
            .map_err(|error| WireError::new(Kind::Fatal, format!("cannot set up TLS: {}", chain(&error))))?;
        Ok(Client { http, options })
    }

    /// Asks once and reads the reply to its end. Text is told to `deltas` as it arrives.
    pub async fn send(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        deltas: &dyn Deltas,
    ) -> Result<Reply, WireError> {
        let clocks = Clocks::start(&self.options);
        let reply = self.exchange(endpoint, request, deltas, clocks).await;
        reply.map(|reply| limited(reply, request)).map_err(|error| presentable(error, endpoint))
    }

    async fn exchange(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        deltas: &dyn Deltas,
        mut clocks: Clocks,
    ) -> Result<Reply, WireError> {
        let body = endpoint.api.encode(request).to_string();
        let accept = if request.stream { "text/event-stream" } else { "application/json" };
        let call = self.http.post(endpoint.url()?).headers(endpoint.headers(accept)?).body(body).send();
        // Without a stream the first byte comes with the last, so only the total counts.
        let head_by = if request.stream { clocks.next() } else { clocks.total };
        let response = match timeout_at(head_by, call).await {
            Ok(sent) => sent.map_err(not_sent)?,
            Err(_) => return Err(clocks.expired()),
        };
        if !response.status().is_success() {
            return Err(refused(response, clocks).await);
        }
        match form(response.headers(), request)? {
            Form::Events => self.stream(endpoint.api, response, deltas, &mut clocks).await,
            Form::Json => self.plain(endpoint.api, response, clocks).await,
        }
    }

    async fn stream(
        &self,
        api: Api,
        mut response: Response,
        deltas: &dyn Deltas,
        clocks: &mut Clocks,
    ) -> Result<Reply, WireError> {
        let mut reading = Reading::new(api, self.options.allowance());
        while reading.progress() != Progress::Done {
            let chunk = match timeout_at(clocks.next(), response.chunk()).await {
                Ok(Ok(chunk)) => chunk,
                // A reply that is whole is not thrown away for a missing trailer.
                Ok(Err(_)) | Err(_) if reading.progress() == Progress::Whole => break,
                Ok(Err(error)) => return Err(clocks.broken(chain(&error.without_url()))),
                Err(_) => return Err(clocks.expired()),
            };
            let Some(chunk) = chunk else { break };
            let mut moved = false;
            reading.take(&chunk, &mut |delta| {
                moved = true;
                pass_on(delta, deltas);
            })?;
            if moved {
                clocks.moved();
            }
        }
        // A stream that ends before it began is a reply that broke off as well: whoever says so each time has none.
        reading.finish(&mut |delta| pass_on(delta, deltas))
    }

    async fn plain(&self, api: Api, response: Response, clocks: Clocks) -> Result<Reply, WireError> {
        api.plain(&whole(response, self.options.body_bytes_max, clocks).await?)
    }

    /// How many tokens the prompt has, by the provider's own count. None where there is nobody to ask: the protocol has
    /// no such question, or the server does not know it.
    pub async fn count_tokens(
        &self,
        endpoint: &Endpoint,
        request: &Request,
    ) -> Result<Option<u64>, WireError> {
        let Some(question) = Question::new(endpoint.api, request) else { return Ok(None) };
        match self.count(endpoint, question).await {
            Ok(tokens) => Ok(Some(tokens)),
            Err(error) if is_unknown_question(&error) => Ok(None),
            Err(error) => Err(presentable(error, endpoint)),
        }
    }

    async fn count(&self, endpoint: &Endpoint, question: Question) -> Result<u64, WireError> {
        let patience = self.options.total_timeout.min(limits::COUNT_TIMEOUT);
        let clocks = Clocks::start(&Options { total_timeout: patience, ..self.options.clone() });
        let mut url = endpoint.url()?;
        url.set_path(&format!("{}/{}", url.path().trim_end_matches('/'), question.resource));
        let headers = endpoint.headers("application/json")?;
        let call = self.http.post(url).headers(headers).body(question.body.to_string()).send();
        let response = match timeout_at(clocks.total, call).await {
            Ok(sent) => sent.map_err(not_sent)?,
            Err(_) => return Err(clocks.expired()),
        };
        if !response.status().is_success() {
            return Err(refused(response, clocks).await);
        }
        let max = self.options.body_bytes_max.min(limits::COUNT_BODY_BYTES_MAX);
        count::read(&whole(response, max, clocks).await?)
    }
}

/// A body to its end, if it ends within its bounds.
pub(super) async fn whole(mut response: Response, max: usize, clocks: Clocks) -> Result<Vec<u8>, WireError> {
    let mut body = Vec::new();
    loop {
        match timeout_at(clocks.total, response.chunk()).await {
            Ok(Ok(Some(chunk))) if body.len() + chunk.len() > max => {
                return Err(WireError::new(Kind::TooLarge, format!("the answer exceeds {max} bytes")));
            }
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            Ok(Ok(None)) => return Ok(body),
            Ok(Err(error)) => return Err(WireError::truncated(chain(&error.without_url()))),
            Err(_) => return Err(clocks.expired()),
        }
    }
}

fn pass_on(delta: Delta<'_>, deltas: &dyn Deltas) {
    match delta {
        Delta::Text(piece) => deltas.text(piece),
        Delta::Thinking(_) | Delta::Arguments | Delta::Step => {}
    }
}

/// The two clocks of an exchange: one is set back by progress, one is not.
#[derive(Clone, Copy)]
pub(super) struct Clocks {
    idle_timeout: Duration,
    total_timeout: Duration,
    idle: Instant,
    pub(super) total: Instant,
    /// Has anything of the reply arrived? Then it may have to be paid for.
    begun: bool,
}

impl Clocks {
    pub(super) fn start(options: &Options) -> Clocks {
        let now = Instant::now();
        let (idle_timeout, total_timeout) = (options.idle_timeout, options.total_timeout);
        Clocks {
            idle_timeout,
            total_timeout,
            idle: after(now, idle_timeout),
            total: after(now, total_timeout),
            begun: false,
        }
    }

    fn moved(&mut self) {
        self.begun = true;
        self.idle = after(Instant::now(), self.idle_timeout);
    }

    fn next(&self) -> Instant {
        self.idle.min(self.total)
    }

    pub(super) fn expired(&self) -> WireError {
        let message = if Instant::now() >= self.total {
            format!("the reply was not complete after {:?}", self.total_timeout)
        } else {
            format!("the reply did not move forward for {:?}", self.idle_timeout)
        };
        self.broken(message)
    }

    /// A reply of which nothing had come is as good as never given; one that had begun was cut off.
    fn broken(&self, message: String) -> WireError {
        let kind = if self.begun { Kind::Truncated } else { Kind::Retryable { after: None } };
        WireError::new(kind, message)
    }
}

/// A moment that far away; a timeout beyond what the clock can count is a year.
fn after(now: Instant, timeout: Duration) -> Instant {
    now.checked_add(timeout).unwrap_or(now + Duration::from_secs(365 * 24 * 60 * 60))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Events,
    Json,
}

/// What the answer says it is. A server that ignores the wish for a stream and answers at once is understood.
fn form(headers: &HeaderMap, request: &Request) -> Result<Form, WireError> {
    let Some(kind) = headers.get(CONTENT_TYPE) else {
        return Ok(if request.stream { Form::Events } else { Form::Json });
    };
    let kind = String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase();
    let kind = kind.split(';').next().unwrap_or("").trim();
    match kind {
        "text/event-stream" => Ok(Form::Events),
        "text/html" | "application/xhtml+xml" => {
            Err(WireError::new(Kind::Foreign, "a web page came instead of a reply"))
        }
        json if json == "application/json" || json.ends_with("+json") => Ok(Form::Json),
        other => Err(WireError::new(
            Kind::Foreign,
            format!("the answer is of type `{}`, not a reply", cut(other, 60)),
        )),
    }
}

/// Reads why the provider refused: as much of its body as is worth reading, for as long as is worth waiting.
pub(super) async fn refused(mut response: Response, clocks: Clocks) -> WireError {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let mut body = Vec::new();
    while body.len() < limits::ERROR_BODY_BYTES_MAX {
        match timeout_at(clocks.next(), response.chunk()).await {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
    WireError::from_answer(status, &headers, &body, now)
}

pub(super) fn not_sent(error: reqwest::Error) -> WireError {
    // Who takes a line and answers with anything but HTTP, or with nothing, is as little the provider as nobody.
    let kind = if error.is_builder() { Kind::Fatal } else { Kind::Unreachable };
    let address = error.url().map(|url| format!("{}: ", address(url))).unwrap_or_default();
    WireError::new(kind, format!("{address}{}", chain(&error.without_url())))
}

/// Where somebody was looked for. The rest of an address may be a secret: a password, a key in its path or its query.
fn address(url: &Url) -> String {
    let port = url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

fn secret_header(what: &str, value: &str) -> Result<HeaderValue, WireError> {
    let header = HeaderValue::from_str(value.trim());
    let mut header = header.map_err(|_| {
        WireError::new(Kind::Credentials, format!("{what} has characters that no header may have"))
    })?;
    header.set_sensitive(true);
    Ok(header)
}

/// An error and what caused it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}

pub(super) fn presentable(mut error: WireError, endpoint: &Endpoint) -> WireError {
    error.message = endpoint.clean(&error.message);
    error.request_id = error.request_id.map(|id| endpoint.clean(&id));
    error
}
