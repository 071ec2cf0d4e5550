//! A server that is a program: found, hashed, started, and ended with everything it started.
//!
//! Owns its surroundings (no terminal, an environment by allow-list, the sandbox's world with what it is made of) and watching what it prints, so that neither an
//! endless line nor endless chatter fills our memory. Refuses to leave anything of it running.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use rustix::process::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::limits;
use super::log::Log;
use crate::process::{CALL_MARKER, RUN_MARKER, Tree};
use crate::sandbox::{Job, Kept, More, Network, Sandbox, Wrapped};

/// What a server may know of our environment: where things are, never who we are to others (keys, tokens, sockets).
const PASSED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Programs that execute a file they are given: of these the file is hashed as well.
const INTERPRETERS: &[&str] = &[
    "node", "nodejs", "bun", "deno", "tsx", "python", "python3", "uv", "ruby", "perl", "php", "java", "sh",
    "bash", "dash", "zsh",
];

/// Programs that fetch or find by a name what they run.
const FINDERS: &[&str] = &[
    "npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "uvx", "pipx", "poetry", "docker", "podman", "go", "cargo",
];

/// A program with everything it is started with.
pub(super) struct Program {
    pub(super) file: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) cwd: PathBuf,
    pub(super) setsid: Option<PathBuf>,
    /// Holds it.
    pub(super) sandbox: Sandbox,
    /// What it reaches, if not what commands do.
    pub(super) network: Option<Network>,
}

impl Program {
    /// Of our environment what may be passed, under what is configured.
    pub(super) fn environment(
        ours: &BTreeMap<String, String>,
        configured: BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let passed = PASSED.iter().filter_map(|name| Some(((*name).to_owned(), ours.get(*name)?.clone())));
        let mut environment: BTreeMap<String, String> = passed.collect();
        environment.extend(configured);
        environment
    }

    /// The files that would be executed, with the hash of each. Reads them whole, so it may block for a while.
    pub(super) fn hashes(&self) -> io::Result<BTreeMap<String, String>> {
        self.files().iter().map(|file| Ok((file.display().to_string(), hash(file)?))).collect()
    }

    /// The program, and what it is given to run if it is an interpreter, or `env` in front of one: the first file, and every other
    /// that is code. Data that a server works on is not pinned: it changes.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.file.clone()];
        let name = plain(&self.file);
        if INTERPRETERS.contains(&name) || name == "env" {
            let given = self.arguments.iter().map(|argument| self.cwd.join(argument));
            let given = given.filter(|path| path.is_file()).enumerate();
            files.extend(given.filter(|(index, path)| *index == 0 || is_code(path)).map(|(_, path)| path));
        }
        files
    }

    /// What of its code no hash holds, in words: an interpreter that is given no file, and a program that finds its code by a
    /// name, are pinned by their command line alone.
    pub(super) fn unpinned(&self) -> Option<String> {
        let runner = self.runner()?;
        if FINDERS.contains(&runner) {
            return Some(format!(
                "only its command line and {runner} itself are pinned; the code that {runner} fetches or finds is not"
            ));
        }
        let script = self.arguments.iter().position(|argument| self.cwd.join(argument).is_file());
        let before = &self.arguments[..script.unwrap_or(self.arguments.len())];
        if before.iter().any(|argument| holds_code(runner, argument)) {
            return Some(
                "its code is pinned only as its command line says it; what that code runs or loads is not"
                    .to_owned(),
            );
        }
        script.is_none().then(|| {
            format!(
                "only its command line and {runner} itself are pinned; the code that {runner} finds is not"
            )
        })
    }

    /// The interpreter or finder that is started, also behind `env`.
    fn runner(&self) -> Option<&str> {
        let is_runner = |name: &&str| INTERPRETERS.contains(name) || FINDERS.contains(name);
        match plain(&self.file) {
            "env" => self.arguments.iter().map(|argument| plain(Path::new(argument))).find(is_runner),
            name => Some(name).filter(is_runner),
        }
    }

    /// The program as it is to be started for whom `mark` says.
    fn wrapped(&self, mark: &Mark<'_>) -> io::Result<Wrapped> {
        let words = std::iter::once(self.file.clone().into_os_string());
        let words: Vec<OsString> = words.chain(self.arguments.iter().map(OsString::from)).collect();
        let markers = [(CALL_MARKER, Some(mark.key)), (RUN_MARKER, mark.run)];
        let markers = markers.into_iter().filter_map(|(name, value)| Some((name.into(), value?.into())));
        let environment = self.environment.iter().map(|(name, value)| (name.into(), value.into()));
        let environment: Vec<(OsString, OsString)> = environment.chain(markers).collect();
        let more = More {
            cwd: Some(self.cwd.canonicalize()?),
            shown: self.files().iter().flat_map(|file| belongs_to(file, &homes())).collect(),
            network: self.network.clone(),
            lasting: true,
        };
        let workspace = mark.root.canonicalize()?;
        let job = Job { workspace: &workspace, words: &words, environment: &environment, more };
        let wrapped = self.sandbox.wrap(&job).map_err(io::Error::other)?;
        Ok(wrapped.in_session(self.setsid.as_deref()))
    }
}

/// A program's name without its version: `python3.12` is `python3`.
fn plain(file: &Path) -> &str {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or("");
    name.split('.').next().unwrap_or(name)
}

/// Is this the option behind which the code itself stands? Short ones may stand together: `bash -lc`.
fn holds_code(interpreter: &str, argument: &str) -> bool {
    let letters: &[char] = match interpreter {
        "sh" | "bash" | "dash" | "zsh" | "python" | "python3" => &['c'],
        "php" => &['r'],
        _ => &['e', 'E', 'p'],
    };
    let is_long = ["--eval", "--print"].iter().any(|long| argument.starts_with(long));
    let is_short = |short: &str| {
        short.len() <= limits::SHORT_OPTIONS_MAX && !short.starts_with('-') && short.contains(letters)
    };
    is_long || argument.strip_prefix('-').is_some_and(is_short)
}

fn is_code(path: &Path) -> bool {
    const ENDINGS: [&str; 14] =
        ["py", "js", "mjs", "cjs", "ts", "mts", "rb", "pl", "php", "lua", "sh", "bash", "jar", "wasm"];
    let executable = path.metadata().is_ok_and(|facts| facts.permissions().mode() & 0o111 != 0);
    executable || path.extension().and_then(|end| end.to_str()).is_some_and(|end| ENDINGS.contains(&end))
}

/// What a program needs to be there of where it was installed: its directory, both as it is called and as links lead there;
/// with a `bin` what is beside that, and in a `node_modules` all of it.
fn belongs_to(file: &Path, homes: &[PathBuf]) -> Vec<PathBuf> {
    // What lies directly in a home directory has more beside its programs than what belongs to one of them.
    let is_homely =
        |place: &Path| homes.iter().any(|home| home.starts_with(place) || place.parent() == Some(home));
    let installed = |file: &Path| {
        let modules = file.ancestors().filter(|dir| dir.ends_with("node_modules")).last();
        let directory = file.parent()?;
        let whole = directory.parent().filter(|place| directory.ends_with("bin") && !is_homely(place));
        Some(modules.or(whole).unwrap_or(directory).to_owned())
    };
    [Some(file.to_owned()), file.canonicalize().ok()]
        .iter()
        .flatten()
        .filter_map(|file| installed(file))
        .collect()
}

/// The user's home, by its name and where links lead from there.
fn homes() -> Vec<PathBuf> {
    let named = std::env::var_os("HOME").map(PathBuf::from);
    let real = named.as_ref().and_then(|home| home.canonicalize().ok());
    named.into_iter().chain(real).collect()
}

/// Finds a program as a shell would: with a slash from `cwd`, else in `PATH`.
pub(super) fn find(program: &str, cwd: &Path, environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(cwd.join(program)).filter(|file| file.is_file());
    }
    let path = environment.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
    std::env::split_paths(path).map(|dir| cwd.join(dir).join(program)).find(|file| file.is_file())
}

fn hash(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() > limits::PROGRAM_BYTES_MAX {
        return Err(io::Error::other("it is too large to be hashed"));
    }
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; crate::limits::BUFFER_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize().to_hex().to_string()),
            count => hasher.update(&buffer[..count]),
        };
    }
}

/// What marks a server's processes, so that none of them is left.
pub(super) struct Mark<'a> {
    pub(super) run: Option<&'a str>,
    pub(super) key: &'a str,
    /// Where it may write: where the run works.
    pub(super) root: &'a Path,
}

/// A running server. Its tree comes first, so that an abandoned one is killed before it is let go.
pub(super) struct Process {
    tree: Tree,
    child: Child,
    stderr: JoinHandle<()>,
    /// Cleared up last.
    _kept: Kept,
}

impl Process {
    /// Starts it; its output and input are what messages go through.
    pub(super) fn start(
        program: &Program,
        mark: &Mark<'_>,
        log: &Log,
    ) -> io::Result<(Process, Watched<ChildStdout>, ChildStdin)> {
        let wrapped = program.wrapped(mark)?;
        let reach = wrapped.reach();
        let mut command = Command::from(wrapped.command);
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = streams.kill_on_drop(true).spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let leader = pid.ok_or_else(|| io::Error::other("the server has no process number"))?;
        let tree = Tree::new(leader, mark.key, reach);
        let lost = || io::Error::other("the server has no pipes");
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(lost());
        };
        log.note(&format!("started {}", program.file.display()));
        let stderr = tokio::spawn(copy(stderr, log.clone()));
        Ok((Process { tree, child, stderr, _kept: wrapped.kept }, Watched::new(stdout), stdin))
    }

    /// How it ended, if it does so soon: its output closes a moment before. What it said last is read by then, unless something
    /// that it has started still holds its standard error.
    pub(super) async fn ended(&mut self) -> Option<ExitStatus> {
        let status = timeout(crate::limits::OUTPUT_GRACE, self.child.wait()).await.ok()?.ok()?;
        if !self.stderr.is_finished() {
            timeout(crate::limits::OUTPUT_GRACE, &mut self.stderr).await.ok();
        }
        Some(status)
    }

    /// Waits for it to end now that its input is closed, then asks it, then kills it and all it started.
    pub(super) async fn end(self) {
        let Process { tree, mut child, stderr, _kept } = self;
        if timeout(limits::CLOSE_TIME, child.wait()).await.is_err() {
            tree.terminate();
            timeout(crate::limits::TERMINATE_GRACE, child.wait()).await.ok();
        }
        // Without the thread pool there is no runtime left to report to either; the tree's drop has killed by then.
        tokio::task::spawn_blocking(move || tree.kill()).await.ok();
        timeout(crate::limits::OUTPUT_GRACE, child.wait()).await.ok();
        stderr.abort();
    }
}

/// Copies what the server says on its standard error, line by line; a line without end is cut where it gets too long.
async fn copy(stderr: ChildStderr, log: Log) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut reader).take(crate::limits::BUFFER_BYTES as u64);
        match bounded.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => log.heard(String::from_utf8_lossy(&line).trim_end()),
        }
    }
}

/// Why reading was given up, if it was.
#[derive(Clone, Default)]
pub(super) struct Verdict(Arc<Mutex<Option<String>>>);

impl Verdict {
    pub(super) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, why: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
    }
}

/// A server's output that ends when it is no longer a conversation.
pub(super) struct Watched<R> {
    inner: R,
    pub(super) verdict: Verdict,
    line_bytes: usize,
    /// Is the line we are in something other than a message? `None` as long as it is blank.
    is_garbage: Option<bool>,
    garbage_bytes: usize,
}

impl<R> Watched<R> {
    pub(super) fn new(inner: R) -> Watched<R> {
        Watched { inner, verdict: Verdict::default(), line_bytes: 0, is_garbage: None, garbage_bytes: 0 }
    }

    fn watch(&mut self, bytes: &[u8]) -> Result<(), String> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let first = piece.iter().find(|byte| !byte.is_ascii_whitespace());
            self.is_garbage = self.is_garbage.or(first.map(|byte| *byte != b'{'));
            self.line_bytes += piece.len();
            if self.is_garbage == Some(true) {
                self.garbage_bytes += piece.len();
            }
            if self.garbage_bytes > limits::GARBAGE_BYTES_MAX {
                let max = limits::GARBAGE_BYTES_MAX;
                return Err(format!("it printed more than {max} bytes that are no messages"));
            }
            if self.line_bytes > limits::MESSAGE_BYTES_MAX {
                return Err(format!("it sent a message of more than {} bytes", limits::MESSAGE_BYTES_MAX));
            }
            if piece.ends_with(b"\n") {
                self.line_bytes = 0;
                self.is_garbage = None;
            }
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let watched = self.watch(&buffer.filled()[before..]);
        Poll::Ready(watched.map_err(|why| {
            self.verdict.set(&why);
            io::Error::other(why)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners_pass_and_floods_do_not() {
        let mut watched = Watched::new(());
        assert_eq!(watched.watch(b"Welcome!\n\n  {\"jsonrpc\": 1}\n{"), Ok(()));
        assert_eq!((watched.garbage_bytes, watched.line_bytes), (9, 1));
        let chatter = vec![b'x'; limits::GARBAGE_BYTES_MAX];
        assert_eq!(watched.watch(&chatter), Ok(()), "it is part of a message");
        assert_eq!(watched.watch(b"\n"), Ok(()));
        assert!(watched.watch(&chatter).unwrap_err().contains("no messages"));
        let mut watched = Watched::new(());
        assert_eq!(watched.watch(b"{"), Ok(()));
        assert!(
            watched.watch(&vec![b'x'; limits::MESSAGE_BYTES_MAX]).unwrap_err().contains("message of more")
        );
    }

    /// A12: a server that is installed in the home directory sees what belongs to it, and not the rest of the home.
    #[test]
    fn a_program_of_the_home_directory_does_not_open_it() {
        let homes = ["/home/me".into(), "/data/me".into()];
        let shown = |file: &str| belongs_to(Path::new(file), &homes);
        for (file, opened) in [
            ("/home/me/bin/server", "/home/me/bin"),
            ("/data/me/bin/server", "/data/me/bin"),
            ("/home/me/secrets/bin/server", "/home/me/secrets/bin"),
            ("/home/bin/server", "/home/bin"),
            ("/home/me/tools/server/bin/server", "/home/me/tools/server"),
            ("/home/me/x/node_modules/a/node_modules/b/cli.js", "/home/me/x/node_modules"),
            ("/opt/server/bin/server", "/opt/server"),
            ("/opt/server/server", "/opt/server"),
        ] {
            assert_eq!(shown(file), [PathBuf::from(opened)], "{file}");
        }
    }

    fn program(dir: &Path, file: &str, arguments: &[&str]) -> Program {
        Program {
            file: dir.join(file),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            environment: BTreeMap::new(),
            cwd: dir.to_owned(),
            setsid: None,
            sandbox: Sandbox::off(),
            network: None,
        }
    }

    /// A59: whoever accepts a server is told which of its code is not held by a hash.
    #[test]
    fn code_that_is_not_pinned_is_told_from_code_that_is() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("server.js"), "").unwrap();
        let said = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            program(dir.path(), words[0], &words[1..]).unpinned().unwrap_or_default()
        };
        for pinned in
            ["server", "node server.js", "node --inspect server.js -e prod", "env A=b node server.js"]
        {
            assert_eq!(said(pinned), "", "{pinned}");
        }
        for inline in [
            "sh -c ./server.js",
            "bash -lc x",
            "python3.12 -Ic x",
            "node -e x",
            "node --eval=x",
            "perl -we x",
            "php -r x",
            "env A=b sh -c x",
            "sh -c x server.js",
        ] {
            assert!(
                said(inline).contains("what that code runs or loads is not"),
                "{inline}: {}",
                said(inline)
            );
        }
        for (found, name) in [
            ("npx -y server", "the code that npx fetches"),
            ("env A=b npx server.js", "the code that npx fetches"),
            ("python3 -m server", "the code that python3 finds"),
            ("uv run server", "the code that uv finds"),
        ] {
            assert!(said(found).contains(name), "{found}: {}", said(found));
        }
    }

    #[test]
    fn a_script_is_hashed_with_its_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["python3.12", "server.py", "data.db"] {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        let program = |file: &str, arguments: &[&str]| program(dir.path(), file, arguments);
        let hashed = |program: Program| program.hashes().unwrap().into_keys().collect::<Vec<_>>();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let both = hashed(program("python3.12", &["-u", "server.py", "data.db"]));
        assert_eq!(both, [path("python3.12"), path("server.py")]);
        assert_eq!(hashed(program("server.py", &["data.db"])), [path("server.py")]);
        assert!(program("none", &[]).hashes().is_err());
    }

    #[test]
    fn the_environment_is_an_allow_list_under_what_is_configured() {
        let ours = [("PATH", "/bin"), ("ANTHROPIC_API_KEY", "sk"), ("HOME", "/h")];
        let ours = ours.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let configured = [("HOME".to_owned(), "/other".to_owned())].into();
        let environment = Program::environment(&ours, configured);
        assert_eq!(
            environment.into_iter().map(|(name, value)| name + "=" + &value).collect::<Vec<_>>(),
            ["HOME=/other", "PATH=/bin"]
        );
    }
}
