//! What is known of programs, as data: which run others, which options make them do so, which take paths.

/// A program that runs the command given in its words.
pub(super) struct Wrapper {
    pub(super) names: &'static [&'static str],
    /// Options without a value.
    pub(super) flags: &'static [&'static str],
    /// Options whose value is the next word, or attached.
    pub(super) valued: &'static [&'static str],
    /// Words between the options and the command.
    pub(super) skipped: usize,
    /// What the words mean.
    pub(super) style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// A command and its arguments.
    Words,
    /// The same, after assignments.
    Assignments,
    /// The words, joined, are read by a shell.
    Joined,
    /// A command and its arguments; further ones come from elsewhere.
    Fed,
}

const fn wrapper(
    names: &'static [&'static str],
    flags: &'static [&'static str],
    valued: &'static [&'static str],
    skipped: usize,
    style: Style,
) -> Wrapper {
    Wrapper { names, flags, valued, skipped, style }
}

pub(super) const WRAPPERS: &[Wrapper] = &[
    wrapper(
        &["sudo", "doas"],
        &["-n", "-E", "-H", "-k", "-S", "-A", "-b"],
        &["-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "-D", "-R", "--user", "--group", "--chdir"],
        0,
        Style::Assignments,
    ),
    wrapper(
        &["env"],
        &["-i", "-0", "-v", "--ignore-environment", "-"],
        &["-u", "--unset", "-C", "--chdir"],
        0,
        Style::Assignments,
    ),
    wrapper(
        &["timeout", "gtimeout"],
        &["-v", "--foreground", "--preserve-status", "--verbose"],
        &["-s", "--signal", "-k", "--kill-after"],
        1,
        Style::Words,
    ),
    wrapper(&["nice"], &[], &["-n", "--adjustment"], 0, Style::Words),
    wrapper(&["ionice"], &["-t"], &["-c", "-n", "--class", "--classdata"], 0, Style::Words),
    wrapper(
        &["nohup", "builtin", "unbuffer", "busybox", "toybox", "catchsegv", "fakeroot"],
        &[],
        &[],
        0,
        Style::Words,
    ),
    wrapper(&["setsid"], &["-w", "--wait", "-f", "--fork", "-c", "--ctty"], &[], 0, Style::Words),
    wrapper(&["stdbuf"], &[], &["-i", "-o", "-e", "--input", "--output", "--error"], 0, Style::Words),
    wrapper(&["time"], &["-p", "-v", "-a", "-q"], &["-f", "-o", "--format", "--output"], 0, Style::Words),
    wrapper(&["command"], &["-p"], &[], 0, Style::Words),
    wrapper(&["exec"], &["-c", "-l"], &["-a"], 0, Style::Words),
    wrapper(
        &["chronic", "ts", "caffeinate", "rlwrap", "xvfb-run", "dbus-run-session", "prlimit"],
        &[],
        &[],
        0,
        Style::Words,
    ),
    wrapper(&["taskset", "chrt", "gosu", "su-exec", "chroot"], &["-a"], &[], 1, Style::Words),
    wrapper(
        &["flock"],
        &[
            "-x",
            "-s",
            "-n",
            "-u",
            "-o",
            "-e",
            "-F",
            "--exclusive",
            "--shared",
            "--nonblock",
            "--nb",
            "--unlock",
            "--close",
            "--no-fork",
            "--verbose",
        ],
        &["-w", "-E", "--timeout", "--wait", "--conflict-exit-code"],
        1,
        Style::Words,
    ),
    wrapper(
        &["setarch", "linux32", "linux64", "i386", "i486", "i586", "i686", "x86_64", "uname26"],
        &[
            "-R",
            "-B",
            "-F",
            "-I",
            "-L",
            "-S",
            "-T",
            "-X",
            "-Z",
            "-3",
            "-v",
            "--addr-no-randomize",
            "--32bit",
            "--verbose",
        ],
        &[],
        1,
        Style::Words,
    ),
    wrapper(
        &["setpriv"],
        &["--no-new-privs", "--nnp", "--clear-groups", "--keep-groups", "--init-groups", "--reset-env"],
        &[
            "--reuid",
            "--regid",
            "--ruid",
            "--euid",
            "--rgid",
            "--egid",
            "--groups",
            "--inh-caps",
            "--ambient-caps",
            "--bounding-set",
            "--securebits",
            "--pdeathsig",
        ],
        0,
        Style::Words,
    ),
    wrapper(&["sg"], &["-"], &[], 1, Style::Joined),
    wrapper(&["choom"], &[], &["-n", "--adjust"], 0, Style::Words),
    wrapper(
        &["strace", "ltrace"],
        &["-f", "-ff", "-c", "-q", "-qq", "-t", "-tt", "-T", "-y", "-v"],
        &["-e", "-o", "-s", "-a"],
        0,
        Style::Words,
    ),
    wrapper(&["watch"], &["-d", "-t", "-b", "-e", "-g", "-c", "-x"], &["-n", "--interval"], 0, Style::Joined),
    wrapper(
        &["xargs", "gxargs"],
        &["-0", "-r", "-t", "-x", "--null", "--no-run-if-empty", "--verbose"],
        &[
            "-I",
            "-n",
            "-P",
            "-L",
            "-s",
            "-d",
            "-E",
            "-a",
            "--max-args",
            "--max-procs",
            "--replace",
            "--delimiter",
            "--arg-file",
            "--max-lines",
        ],
        0,
        Style::Fed,
    ),
    wrapper(
        &["npx", "bunx", "pnpx", "uvx", "pipx"],
        &["-y", "--yes", "--no", "-q"],
        &["-p", "--package"],
        0,
        Style::Words,
    ),
    wrapper(
        &["ssh"],
        &["-T", "-n", "-q", "-4", "-6", "-a", "-x", "-C", "-v"],
        &["-p", "-l", "-i"],
        1,
        Style::Joined,
    ),
];

/// Programs of which one word makes them run the words after it.
pub(super) const RUNNERS: &[(&str, &[&str])] = &[
    ("uv", &["run"]),
    ("poetry", &["run"]),
    ("pipenv", &["run"]),
    ("pdm", &["run"]),
    ("rye", &["run"]),
    ("hatch", &["run"]),
    ("bundle", &["exec"]),
    ("npm", &["exec", "x"]),
    ("pnpm", &["exec", "dlx"]),
    ("yarn", &["exec", "dlx"]),
    ("docker", &["exec", "run"]),
    ("podman", &["exec", "run"]),
    ("kubectl", &["exec"]),
    ("direnv", &["exec"]),
    ("nix", &["run", "develop", "shell"]),
    ("conda", &["run"]),
    ("cargo", &["watch"]),
    ("tmux", &["new", "new-session", "new-window", "run-shell", "send-keys", "if-shell", "split-window"]),
];

/// Shells; the first two read what we read.
pub(super) const SHELLS: &[&str] =
    &["bash", "rbash", "sh", "dash", "ash", "ksh", "mksh", "zsh", "fish", "csh", "tcsh"];

/// Interpreters with the letters of the options that take code, and the options whose value is the next word.
pub(super) const INTERPRETERS: &[(&str, &str, &[&str])] = &[
    ("python", "c", &["-W", "-X"]),
    ("pypy", "c", &["-W", "-X"]),
    ("perl", "eE", &["-I", "-M", "-m"]),
    ("ruby", "e", &["-I", "-r"]),
    ("node", "ep", &["-r", "--require"]),
    ("nodejs", "ep", &["-r", "--require"]),
    ("bun", "ep", &["-r"]),
    ("php", "rBREF", &["-d", "-c"]),
    ("lua", "e", &["-l"]),
    ("luajit", "e", &["-l"]),
    ("Rscript", "e", &[]),
    ("osascript", "e", &[]),
    ("groovy", "e", &[]),
    ("julia", "eE", &[]),
    ("elixir", "e", &[]),
    ("pwsh", "cC", &[]),
    ("scala", "e", &[]),
    ("tclsh", "c", &[]),
];

/// What `setarch` takes for a machine, each a program of its own as well.
pub(super) const MACHINES: &[&str] = &[
    "linux32", "linux64", "i386", "i486", "i586", "i686", "x86_64", "uname26", "athlon", "aarch64", "arm64",
    "armv7l", "armv8l", "arm", "ppc", "ppc64", "ppc64le", "s390", "s390x", "mips", "mips64", "sparc",
    "sparc64", "ia64", "alpha",
];

/// Modules of Python that run code from their words or their input, or run another module that does.
pub(super) const CODE_MODULES: &[&str] = &[
    "timeit",
    "code",
    "codeop",
    "pdb",
    "bdb",
    "cProfile",
    "profile",
    "trace",
    "tracemalloc",
    "runpy",
    "asyncio",
    "idlelib",
    "IPython",
    "ptpython",
    "bpython",
    "pyrepl",
    "_pyrepl",
    "pyperf",
    "kernprof",
    "viztracer",
    "scalene",
    "debugpy",
];

/// Programs that read commands of their own, or change what later commands mean: only a rule that names them allows them.
pub(super) const OPAQUE: &[&str] = &[
    "source",
    ".",
    "alias",
    "unalias",
    "shopt",
    "enable",
    "hash",
    "bind",
    "complete",
    "compgen",
    "fc",
    "coproc",
    "ed",
    "ex",
    "red",
    "vi",
    "vim",
    "view",
    "nvim",
    "vimdiff",
    "emacs",
    "nano",
    "gdb",
    "lldb",
    "expect",
    "screen",
    "at",
    "batch",
    "crontab",
    "parallel",
    "m4",
    "dc",
    "su",
    "runuser",
    "capsh",
    "newgrp",
    "pkexec",
    "script",
    "nsenter",
    "unshare",
    "systemd-run",
    "bwrap",
    "socat",
    "ksh93",
    "irb",
    "ghci",
    "jshell",
    "mail",
    "mutt",
    "ftp",
    "telnet",
    "qemu-system-x86_64",
    "ptx",
    "scriptreplay",
    "run-parts",
    "start-stop-daemon",
];

/// When a command changes what later names mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renames {
    Always,
    /// With this word.
    Word(&'static str),
    /// With this letter among its short options.
    Letter(char),
}

/// Commands that change what later names mean.
pub(super) const RENAMING: &[(&str, Renames)] = &[
    ("alias", Renames::Always),
    ("source", Renames::Always),
    (".", Renames::Always),
    ("shopt", Renames::Word("expand_aliases")),
    ("hash", Renames::Letter('p')),
    ("enable", Renames::Always),
];

/// Options that make a program run another, or write where it usually does not.
pub(super) const HAZARDS: &[(&str, &[&str])] = &[
    ("find", &["-delete", "-fprint", "-fprint0", "-fprintf", "-fls"]),
    ("fd", &["-x", "-X", "--exec", "--exec-batch"]),
    ("fdfind", &["-x", "-X", "--exec", "--exec-batch"]),
    ("sort", &["-o", "-T", "--output", "--compress-program", "--temporary-directory"]),
    ("tar", TAR),
    ("gtar", TAR),
    ("bsdtar", TAR),
    ("rg", &["--pre", "--hostname-bin", "-z", "--search-zip"]),
    ("ag", &["--pager"]),
    ("ack", &["--pager", "--ackrc"]),
    (
        "man",
        &[
            "-P",
            "--pager",
            "-H",
            "--html",
            "-C",
            "--config-file",
            "-X",
            "--gxditview",
            "-p",
            "--preprocessor",
        ],
    ),
    ("less", &["-k", "-o", "-O", "--lesskey-file", "--lesskey-src", "--log-file"]),
    ("zip", &["-T", "--test", "--unzip-command"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("scp", &["-S", "-o", "-F", "-J", "-D"]),
    ("sftp", &["-S", "-o", "-F", "-b", "-D", "-s"]),
    ("ssh", &["-o", "-F", "-L", "-R", "-D", "-J", "-W", "-w", "-M", "-S", "-f"]),
    ("curl", &["-K", "--config"]),
    ("wget", &["-e", "--execute", "--config", "--use-askpass"]),
    ("split", &["--filter"]),
    ("make", MAKE),
    ("gmake", MAKE),
    ("hg", &["--config"]),
    ("svn", &["--config-option", "--editor-cmd", "--diff-cmd", "--diff3-cmd"]),
    ("cargo", &["--config"]),
    ("npm", &["-c", "--call", "--script-shell", "--node-options"]),
    ("pnpm", &["-c", "--shell-mode", "--script-shell"]),
    ("node", &["-r", "--require", "--import", "--loader"]),
    ("go", &["-exec", "-toolexec", "-vettool"]),
    ("gcc", COMPILER),
    ("g++", COMPILER),
    ("cc", COMPILER),
    ("clang", COMPILER),
    ("rustc", &["-C", "--codegen"]),
    ("nc", &["-e", "-c", "--exec", "--sh-exec"]),
    ("ncat", &["-e", "-c", "--exec", "--sh-exec", "--lua-exec"]),
    ("netcat", &["-e", "-c"]),
    ("openssl", &["-engine", "-provider"]),
    ("nix-shell", &["--run", "--command"]),
    ("xterm", &["-e"]),
    ("apt", &["-o", "--option", "-c"]),
    ("apt-get", &["-o", "--option", "-c"]),
    ("rpm", &["--eval", "-E", "--pipe"]),
    ("mapfile", &["-C"]),
    ("readarray", &["-C"]),
    ("sqlite3", &["-cmd", "-init"]),
    ("psql", &["-f", "--file"]),
    ("date", &["-s", "--set"]),
    ("diff", &["-o", "--output"]),
    ("uniq", &[]),
    ("xz", &["--files"]),
    ("pdftex", &["-shell-escape"]),
    ("pdflatex", &["-shell-escape"]),
    ("ip", &["-b", "-batch"]),
    ("nmap", &["--script"]),
    ("tcpdump", &["-z"]),
    ("jq", &["-f", "--from-file", "-L"]),
    ("env", &["-S", "--split-string"]),
];

const TAR: &[&str] = &[
    "-I",
    "-F",
    "--use-compress-program",
    "--to-command",
    "--checkpoint-action",
    "--info-script",
    "--new-volume-script",
    "--rsh-command",
    "--rmt-command",
];
const MAKE: &[&str] = &["--eval", "-E"];
const COMPILER: &[&str] = &["-wrapper", "-fplugin", "-B", "-specs", "--specs"];

/// Texts anywhere in an argument that make a program run another.
pub(super) const HAZARD_TEXTS: &[(&str, &[&str])] = &[
    ("sqlite3", &[".shell", ".system", ".load", "load_extension", "writefile", "edit("]),
    ("psql", &["\\!", "\\copy", "program", "PROGRAM"]),
    ("mysql", &["\\!", "system"]),
    ("make", &["SHELL=", "MAKEFLAGS="]),
    ("gmake", &["SHELL=", "MAKEFLAGS="]),
    ("ssh", &["ProxyCommand", "LocalCommand"]),
    ("rsync", &["rsync-path"]),
    ("less", &["+"]),
    ("docker", &["docker.sock", "--privileged"]),
];

/// What a program does with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Names, kinds and sizes; nothing of what is in a file.
    Look,
    Read,
    Write,
}

/// Programs whose operands are paths, and how many come before those.
pub(super) const PATHS: &[(&[&str], Access, usize)] = &[
    (
        &[
            "stat", "file", "readlink", "realpath", "du", "ls", "tree", "find", "cd", "pushd", "test", "[",
            "dir",
        ],
        Access::Look,
        0,
    ),
    (
        &[
            "cat",
            "head",
            "tail",
            "less",
            "more",
            "tac",
            "nl",
            "od",
            "xxd",
            "hexdump",
            "strings",
            "base64",
            "wc",
            "sort",
            "uniq",
            "cut",
            "paste",
            "diff",
            "cmp",
            "comm",
            "md5sum",
            "sha1sum",
            "sha256sum",
            "bat",
            "source",
            ".",
            "column",
            "fold",
            "rev",
            "zcat",
            "b3sum",
            "cksum",
            "shuf",
            "split",
            "pr",
            "expand",
            "fmt",
            "join",
            "look",
            "tsort",
        ],
        Access::Read,
        0,
    ),
    (&["grep", "egrep", "fgrep", "rg", "ag", "sed", "awk", "gawk", "mawk", "jq", "yq"], Access::Read, 1),
    (
        &[
            "cp", "mv", "rm", "mkdir", "rmdir", "touch", "ln", "tee", "install", "truncate", "shred",
            "unlink", "mkfifo", "mknod", "dd", "rsync", "tar", "zip", "unzip", "gzip", "gunzip", "xz",
            "patch", "link",
        ],
        Access::Write,
        0,
    ),
    (&["chmod", "chown", "chgrp"], Access::Write, 1),
];

/// Programs that only print or compare what they are given.
pub(super) const TEXTUAL: &[&str] =
    &["echo", "printf", "true", "false", ":", "exit", "return", "seq", "expr", "basename", "dirname"];

/// Variables that change which program runs or what it does; a name that ends in `_` stands for all that start so.
pub(super) const STEERING: &[&str] = &[
    "PATH",
    "LD_",
    "DYLD_",
    "BASH_ENV",
    "BASH_FUNC_",
    "ENV",
    "IFS",
    "SHELLOPTS",
    "BASHOPTS",
    "SHELL",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PROMPT_COMMAND",
    "CDPATH",
    "GLOBIGNORE",
    "BASH_ALIASES",
    "BASH_CMDS",
    "HOME",
    "XDG_CONFIG_",
    "GIT_",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "MANOPT",
    "LESS",
    "LESSOPEN",
    "LESSCLOSE",
    "LESSKEY",
    "BROWSER",
    "PYTHON",
    "PERL",
    "RUBY",
    "NODE_OPTIONS",
    "NODE_PATH",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "CLASSPATH",
    "TAR_OPTIONS",
    "TAPE",
    "MAKEFLAGS",
    "MAKEFILES",
    "GNUMAKEFLAGS",
    "RUSTC",
    "CARGO_",
    "CC",
    "CXX",
    "LD",
    "AR",
    "SSH_ASKPASS",
    "SUDO_",
    "RIPGREP_CONFIG_PATH",
    "GREP_OPTIONS",
    "ZIPOPT",
    "npm_config_",
    "NPM_CONFIG_",
    "GOFLAGS",
    "OPENSSL_CONF",
    "GCONV_PATH",
    "TERMINFO",
    "PYTEST_",
    "PIP_",
    "VIMINIT",
    "EXINIT",
    "FZF_",
    "KUBECONFIG",
    "DOCKER_",
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "SQLITE_",
    "INPUTRC",
    "LOCPATH",
    "NLSPATH",
    "MALLOC_",
    "GLIBC_",
    "TMPDIR",
    "POSIXLY_CORRECT",
    "HISTFILE",
    "BASH_XTRACEFD",
    "COMP_",
    "OPTIND",
    "MAILCHECK",
    "MAIL",
    "TMOUT",
    "EXECIGNORE",
    "FUNCNEST",
    "BASH_COMPAT",
    "CHILD_MAX",
    "UID",
    "EUID",
    "PPID",
];

/// Variables that bash keeps as numbers: what they are given is arithmetic, and that can run commands.
pub(super) const INTEGERS: &[&str] = &[
    "RANDOM",
    "SRANDOM",
    "HISTCMD",
    "SECONDS",
    "LINENO",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "BASHPID",
    "BASH_SUBSHELL",
    "BASH_MONOSECONDS",
    "OPTIND",
    "PPID",
    "UID",
    "EUID",
];

/// Variables that steer nothing but words and colours: they may stand before a command that a rule allows by name.
pub(super) const HARMLESS_VARIABLES: &[&str] = &[
    "CI",
    "LANG",
    "LANGUAGE",
    "LC_",
    "TZ",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "COLUMNS",
    "LINES",
    "DEBUG",
    "VERBOSE",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "NODE_ENV",
    "CARGO_TERM_",
];

/// Whether a variable is in one of the lists above.
pub(super) fn listed(list: &[&str], variable: &str) -> bool {
    let whole = |entry: &&str| !entry.ends_with('_') && *entry == variable;
    let start = |entry: &&str| entry.ends_with('_') && variable.starts_with(*entry);
    let prefixed = ["PYTHON", "PERL", "RUBY", "RUSTC", "CC", "CXX"];
    list.iter().any(|entry| whole(entry) || start(entry))
        || (list.len() == STEERING.len() && prefixed.iter().any(|prefix| variable.starts_with(prefix)))
}

/// Whether an argument is one of the options, alone, with its value, shortened, or among other letters.
pub(super) fn is_option(argument: &str, option: &str) -> bool {
    if let Some(long) = option.strip_prefix("--") {
        let Some(typed) = argument.strip_prefix("--") else { return false };
        let typed = typed.split('=').next().unwrap_or(typed);
        return typed.len() > 1 && (long.starts_with(typed) || typed == long);
    }
    let Some(letters) = option.strip_prefix('-') else { return argument == option };
    if letters.len() > 1 {
        return argument == option
            || argument.strip_prefix(option).is_some_and(|rest| rest.starts_with(['=', ':']));
    }
    argument.strip_prefix('-').is_some_and(|typed| !typed.starts_with('-') && typed.contains(letters))
}
