//! What a server may ask of us, and what we listen to: where the run works, progress, and that its tools have changed.
//!
//! Owns answering `roots/list`. Refuses everything else a server could ask for: to use the user's model (sampling) and to
//! ask the user (elicitation) are not even announced.

#![expect(
    deprecated,
    reason = "the newest revision of MCP drops roots; the servers people run today ask for them"
)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ListRootsResult, ProgressNotificationParam, Root,
    RootsCapabilities,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};

use super::limits;
use super::log::Log;
use super::names::line;

/// Who is told what a server does while it works.
pub type Listener = Arc<dyn Fn(&str) + Send + Sync>;

/// The one listener of all servers, who may come late.
pub(super) type Listening = Arc<RwLock<Option<Listener>>>;

/// What was heard from one server since it was started.
pub(super) struct Heard {
    server: String,
    log: Log,
    listening: Listening,
    tools_changed: AtomicBool,
    /// Lines of progress that may still be shown for the call under way.
    progress_left: AtomicU32,
}

impl Heard {
    pub(super) fn new(server: &str, log: Log, listening: Listening) -> Heard {
        Heard {
            server: server.to_owned(),
            log,
            listening,
            tools_changed: AtomicBool::new(false),
            progress_left: AtomicU32::new(0),
        }
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Did the server say that its tools have changed, since this was last asked?
    pub(super) fn take_tools_changed(&self) -> bool {
        self.tools_changed.swap(false, Ordering::SeqCst)
    }

    pub(super) fn call_begins(&self) {
        self.progress_left.store(limits::PROGRESS_LINES_MAX, Ordering::SeqCst);
    }

    fn progress(&self, progress: &ProgressNotificationParam) {
        let took =
            self.progress_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let Ok(left) = took else { return };
        let total = progress.total.map_or(String::new(), |total| format!(" of {total}"));
        let message = progress.message.as_deref().map_or(String::new(), |message| format!(", {message}"));
        let more = if left == 1 { " (further progress is not shown)" } else { "" };
        let text = format!("{}: {}{total}{message}{more}", self.server, progress.progress);
        let text = self.log.struck(&line(&text));
        self.log.note(&text);
        let listener = self.listening.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            listener(&text);
        }
    }
}

pub(super) struct Client {
    pub(super) heard: Arc<Heard>,
    /// The directory the run works in, as a URI; `None` if the server is not to know it.
    pub(super) root: Option<String>,
}

impl ClientHandler for Client {
    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.root.iter().map(Root::new).collect()))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.heard.progress(&params);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.heard.tools_changed.store(true, Ordering::SeqCst);
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = self.root.is_some().then(RootsCapabilities::default);
        ClientConfig::new(capabilities, Implementation::new("longhaul", env!("CARGO_PKG_VERSION")))
    }
}

/// A directory as a URI.
pub(super) fn file_uri(path: &std::path::Path) -> String {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;

    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(*byte));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_uri() {
        assert_eq!(file_uri(std::path::Path::new("/a b/ü#.c")), "file:///a%20b/%C3%BC%23.c");
    }
}
