//! Every bound this crate enforces, each with its reason.

/// Bytes of an agent file. A real one is a page or two; a megabyte is a mistake.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Lines of an agent file in which front matter is looked for that was meant: further down, dashes are a rule of the prompt's own.
pub const MATTER_SOUGHT_LINES_MAX: usize = 40;

/// Letters shown of a line that is no fence: it is known by its beginning, and may be dashes without end.
pub const FENCE_LETTERS_SHOWN_MAX: usize = 60;

/// Bytes of a repository's rules that agents are given. They stand in every prompt, and longer ones are not followed.
pub const RULES_BYTES_MAX: usize = 64 * 1024;

/// Files of one directory that are looked at as agents. A roster of more is a directory of something else.
pub const ROSTER_FILES_MAX: usize = 1000;

/// Bytes of an agent's name: it is a file's.
pub const NAME_BYTES_MAX: usize = 64;

/// Entries of a list in an agent file, and bytes of each: commands and patterns of a line.
pub const LIST_ENTRIES_MAX: usize = 200;
pub const LIST_ENTRY_BYTES_MAX: usize = 4096;

/// Models of one agent. More fallbacks than there are providers help nobody.
pub const MODELS_MAX: usize = 16;

/// Bytes of a role: it is one cell of a list.
pub const ROLE_BYTES_MAX: usize = 64;

/// Bytes of a description: it is one row of a list.
pub const DESCRIPTION_BYTES_MAX: usize = 2000;

/// Turns or calls an agent may ask for. Weeks of work; more is a slip of the key.
pub const COUNT_MAX: u64 = 1_000_000;

/// Tokens an agent may ask for.
pub const TOKENS_MAX: u64 = 1_000_000_000_000;

/// US dollars an agent may ask for. More is a slip of the key.
pub const DOLLARS_MAX: f64 = 1_000_000.0;

/// The longest time an agent may ask for: thirty days.
pub const TIMEOUT_MS_MAX: u64 = 30 * 24 * 3_600_000;

/// Repetitions after which a loop may be called one. Two is the least that repeats; the most is for runs to say.
pub const DOOM_LOOP_MIN: u64 = 2;
