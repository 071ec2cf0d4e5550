//! Every bound core enforces, each with its reason.

/// A run id is a directory name; 64 bytes fit every file system with room for a suffix.
pub const ID_BYTES_MAX: usize = 64;

/// Text of one tool result that a conversation keeps; the rest is in a blob. Four pages of code.
pub const OUTPUT_INLINE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of arguments one reply may bring in all. With the text twice (as reply and as a step's output) and every call
/// refused, the batch that remembers a reply stays within what the store takes at once.
pub const REPLY_ARGUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Calls of one reply that are kept. What comes after them is not even refused one by one.
pub const REPLY_CALLS_MAX: usize = 1000;

/// Bytes of a tool's name as a model gave it; ours are shorter.
pub const TOOL_NAME_BYTES_MAX: usize = 128;

/// Bytes of a plan's texts in all: it is remembered in one batch with its run.
pub const PLAN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Calls one turn may ask for. A model that asks for more is looping; the rest are refused one by one.
pub const CALLS_PER_TURN_MAX: usize = 128;

/// Calls in a row at which hooks may break before the run stops for a person.
pub const BROKEN_HOOKS_MAX: usize = 3;

/// Arguments of one call. Whole files are written through arguments, so this is also the largest such file.
pub const ARGUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Steps of one plan.
pub const STEPS_MAX: usize = 1000;

/// Commands remembered by id, so that one delivered twice is applied once. Only commands whose file outlived a
/// crash can come again, and an inbox holds far fewer.
pub const COMMANDS_REMEMBERED_MAX: usize = 256;

/// Bytes of a task, a step description, an agent's prompt or a model's answer.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Retries of one call or turn. With doubling delays more would wait for years.
pub const RETRIES_MAX: u32 = 16;

/// How often a provider that was never reached is tried before a person is asked: two to three minutes. Before the
/// first contact a wrong address is likelier than an outage; after it, an outage is waited out.
pub const FIRST_CONTACT_TRIES_MAX: u32 = 8;

/// Replies in a row that may come whole and be none before a person is asked: half a minute. What is not this protocol, or
/// without end, is mostly so each time, and each may have been paid for.
pub const GARBLED_REPLIES_MAX: u32 = 6;

/// Replies that may break off since the last whole one before a person is asked. Each may have been paid for.
pub const BROKEN_REPLIES_MAX: u32 = 16;

/// Failures in a row after which another model of the agent's list is tried. One or two are a hiccup, and a switch costs
/// the whole conversation's place in the first one's cache.
pub const FAILURES_BEFORE_SWITCH: u32 = 3;

/// A rate limit that lasts longer than this is a reason to try another model at once.
pub const SHORT_LIMIT_MS: u64 = 60_000;

/// Replies in a row that may run into the limit of output tokens without asking for anything.
pub const CUT_OFF_REPLIES_MAX: u32 = 4;

/// The longest wait between two questions to a silent model, unless it asked for a longer one: an outage that ends is
/// noticed within five minutes.
pub const MODEL_WAIT_MS_MAX: u64 = 300_000;

/// The longest wait a provider can ask for. A false header costs a day at most; a plan that is empty for longer is asked
/// again after it.
pub const WISHED_WAIT_MS_MAX: u64 = 86_400_000;

/// Bytes of a reply in its protocol's own words. Above that it is rebuilt from its text and calls.
pub const REPLY_RAW_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of the name a provider gives a call; theirs have some thirty.
pub const PROVIDER_ID_BYTES_MAX: usize = 512;

/// The first retry delay may not be longer than an hour, so that doubling it never overflows.
pub const BACKOFF_BASE_MS_MAX: u64 = 3_600_000;

/// Bytes of a state document that is imported: it is remembered in one batch.
pub const DOCUMENT_BYTES_MAX: usize = 12 * 1024 * 1024;

/// A tool call may take a day at most; what takes longer is a process of its own, not a call.
pub const TOOL_TIMEOUT_MS_MAX: u64 = 86_400_000;

/// Bytes of free text that an event line carries: enough to recognise it by; the whole is in the journal.
pub const EVENT_TEXT_BYTES_MAX: usize = 2048;

/// Bytes of each dependency's output that a step is shown: a page, since a step may build on many.
pub const DEPENDENCY_BYTES_MAX: usize = 4096;

/// Bytes of shell text that are read as commands. The bash tool takes no longer ones; what is longer is not allowed, and only
/// searched for what is denied.
pub const SHELL_BYTES_MAX: usize = 128 * 1024;

/// How deep commands may be nested, counting substitutions, compounds and commands in quotes. Deeper is a trick or a
/// generator's output; the bound keeps the reader's stack small.
pub const SHELL_DEPTH_MAX: usize = 40;

/// Commands of one line that are read. A script of more belongs in a file.
pub const SHELL_COMMANDS_MAX: usize = 2000;

/// Commands of one line that are judged, the ones other commands run included.
pub const JUDGED_COMMANDS_MAX: usize = 4000;

/// Levels of commands that run commands given as text or words (`sudo env sh -c "…"`).
pub const WRAPPED_DEPTH_MAX: usize = 8;

/// Words after a name in which a denied command's arguments are looked for, where the text could not be read.
pub const SCAN_WORDS_MAX: usize = 64;

/// Bytes of a word with wildcards that are compared with rules; a longer one is taken to meet them all. No path is longer.
pub const WILDCARD_BYTES_MAX: usize = 4096;

/// Values a word may stand for before it counts as not known.
pub const WORD_SHAPES_MAX: usize = 64;

/// Rules of one tool. Every one is tried on every command.
pub const PERMISSION_RULES_MAX: usize = 500;

/// Bytes of one rule's pattern.
pub const PERMISSION_PATTERN_BYTES_MAX: usize = 512;

/// Bytes of a handoff. It stands in the system prompt of every turn of an iteration: four thousand tokens are a lot there.
pub const HANDOFF_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a handoff's phase, next step, or entry of a list: a paragraph.
pub const HANDOFF_LINE_BYTES_MAX: usize = 2000;

/// Bytes of a handoff's notes. What is longer belongs in a file that the handoff names.
pub const HANDOFF_NOTES_BYTES_MAX: usize = 8 * 1024;

/// Entries of a handoff's lists: more than anybody reads before beginning.
pub const HANDOFF_ENTRIES_MAX: usize = 200;

/// Bytes of a completion promise: a word or a few, not a speech.
pub const PROMISE_BYTES_MAX: usize = 200;

/// Iterations of one loop.
pub const ITERATIONS_MAX: u32 = 10_000;

/// Verify commands of one run.
pub const VERIFY_COMMANDS_MAX: usize = 50;

/// Globs of protected files.
pub const PROTECT_GLOBS_MAX: usize = 100;

/// How often the same call is tried in a row before it is interrupted, unless the agent's file says otherwise.
pub const REPEATS_MAX_DEFAULT: u32 = 3;

/// The largest such number: what is remembered of calls is bounded by it.
pub const REPEATS_MAX_MAX: u32 = 50;

/// The same call with ever different results is waiting for something, up to so many times the limit above.
pub const CHANGING_REPEATS_FACTOR: u32 = 10;

/// So many times that limit of calls in a row, whatever their order, bring nothing new. Half of the calls that are looked back at.
pub const NOTHING_NEW_FACTOR: u32 = 5;

/// A repetition counts together with an earlier one only if fewer calls than so many times that limit lie between them. The first
/// round of calls in a fresh conversation is shorter: what goes on in circles there counts.
pub const REPETITION_MEMORY_FACTOR: u32 = 7;

/// With ten times the limit of repetitions, so many calls of a step that bring nothing new are a circle, however long it is: enough to
/// look at everything once more after the conversation was shortened.
pub const OLD_NEWS_CALLS: u32 = 20;

/// Calls of a step that are remembered, by a number each, to know what is new.
pub const KNOWN_CALLS_MAX: usize = 4096;

/// Replies without a word and without a call, in a row, before a person is asked.
pub const EMPTY_REPLIES_MAX: u32 = 3;

/// Claims in a row that the same tree is done which the verify commands refuted, before a person is asked.
pub const REFUTED_CLAIMS_MAX: u32 = 3;

/// Iterations in a row that changed nothing in the workspace and learned nothing, before a person is asked.
pub const IDLE_ITERATIONS_MAX: u32 = 10;

/// Protected files whose undone changes a run remembers for its report; each look names its own in the journal.
pub const UNDONE_REMEMBERED_MAX: usize = 200;

/// Turns of a conversation that are its beginning: what does not fit the window by then has little to do with its length.
pub const EARLY_TURNS: u32 = 5;

/// Conversations in a row that may be begun anew because they did not fit at their beginning. Work that is done in each of them is
/// no reason for more: each makes the same calls again.
pub const EARLY_OVERFLOWS_MAX: u32 = 2;

/// Fresh starts of a run that is no loop, which only happen when compaction no longer helps.
pub const FRESH_STARTS_MAX: u32 = 10;

/// Bytes of a verify command's output that the journal keeps inline: its end, where failures are told.
pub const CHECK_OUTPUT_BYTES_MAX: usize = 16 * 1024;

/// Bytes of the output of failed verify commands that the agent is shown, over all of them.
pub const CHECK_TEXT_BYTES_MAX: usize = 12 * 1024;

/// What an image is thought to take of the window: a token for so many pixels, at least what the services charge for the
/// smallest, at most what those take that see most finely.
pub const IMAGE_PIXELS_PER_TOKEN: u64 = 750;
pub const IMAGE_TOKENS_MIN: u64 = 100;
pub const IMAGE_TOKENS_MAX: u64 = 5_000;

/// Results and arguments shorter than this are not worth leaving out.
pub const LEFT_OUT_BYTES_MIN: usize = 400;

/// Bytes of a line that stands for something longer in a summary.
pub const SUMMARY_LINE_BYTES_MAX: usize = 200;

/// Lines of each kind in a summary.
pub const SUMMARY_LINES_MAX: usize = 40;

/// Bytes of a summary that a model wrote.
pub const SUMMARY_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a conversation that a summariser is shown.
pub const TRANSCRIPT_BYTES_MAX: usize = 400 * 1024;

/// Bytes of one message in such a transcript.
pub const TRANSCRIPT_MESSAGE_BYTES_MAX: usize = 4096;

/// After a compaction the conversation must be shorter than this percent of the threshold, or it freed too little.
pub const COMPACTED_PERCENT_MAX: u64 = 75;

/// Compactions in a row that free too little before the conversation is begun anew.
pub const FUTILE_COMPACTIONS_MAX: u32 = 2;

/// How deep anybody may let sub-agents nest. Names of runs grow with every level, and sixteen leave none that cannot be a file's.
pub const SUB_AGENT_DEPTH_MAX: u32 = 16;

/// Runs that a run may have started for it at the same time, unless it was told otherwise.
pub const PARALLEL_DEFAULT: u32 = 4;

/// The most that it may be told.
pub const PARALLEL_MAX: u32 = 64;

/// Sub-agents one run may start for its calls, one after another or at once.
pub const SPAWNS_MAX: usize = 64;

/// Tries at an errand given to a sub-agent.
pub const CHILD_TRIES_MAX: u32 = 2;

/// How long nothing may be heard of a sub-agent that is at work, without a word about it. A verify command may take half an hour,
/// and nothing is heard of it until it ends.
pub const CHILD_IDLE_MS_DEFAULT: u64 = 7_200_000;

/// Less is no silence: a model takes that long to say its first word.
pub const CHILD_IDLE_MS_MIN: u64 = 1000;

/// Nobody waits for more than a week.
pub const CHILD_IDLE_MS_MAX: u64 = 7 * 86_400_000;

/// Rounds of asking for a plan: the first, and one to mend what was wrong with it.
pub const PLAN_ROUNDS_MAX: u32 = 2;

/// Tries at a question asked beside the conversation: for a summary, for a judge's opinion.
pub const ASIDE_TRIES_MAX: u32 = 3;

/// Changed files that are remembered by name.
pub const CHANGED_FILES_MAX: usize = 1000;

/// Bytes of a warning or note that goes into an event.
pub const NOTE_BYTES_MAX: usize = 32 * 1024;

/// From how many bytes on a value of letters and digits is taken for a secret, whatever it is called.
pub const RANDOM_BYTES_MIN: usize = 20;

/// Letters of a task in the first line of a commit: what `git log --oneline` has room for.
pub const COMMIT_TITLE_LETTERS_MAX: usize = 72;

/// Bytes of a failed check's output that a report shows: a page. All of it is in the journal.
pub const REPORTED_OUTPUT_BYTES_MAX: usize = 1500;

/// Tasks of one list. Each is a piece of work for minutes or hours.
pub const TASKS_MAX: usize = 2000;

/// Bytes of a task list. It is read whole and written anew after each task.
pub const TASK_LIST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes that a task is told of what one earlier task left, and of all of them. More would be the whole prompt.
pub const TASK_OUTPUT_BYTES_MAX: usize = 8 * 1024;
pub const TASK_OUTPUTS_BYTES_MAX: usize = 48 * 1024;

/// Bytes of a diff that a judge is shown: some six thousand tokens. Whoever judges more reads the files.
pub const JUDGED_DIFF_BYTES_MAX: usize = 24 * 1024;

/// Bytes of what a step said that a report has of it; all of it is in the run.
pub const STEP_SAID_BYTES_MAX: usize = 2 * 1024;

/// How often a night's planner is asked for ideas: once, and once more with what was wrong.
pub const PREPARE_ATTEMPTS_MAX: u32 = 2;

/// Experiments of one night. Each is a run of its own that somebody reads about in the morning.
pub const EXPERIMENTS_MAX: u32 = 50;

/// Letters of an experiment's title: it is the name of a branch and a heading.
pub const IDEA_TITLE_LETTERS_MAX: usize = 120;

/// Bytes of an experiment's description. It is all that whoever tries it is told, and no book.
pub const IDEA_BYTES_MAX: usize = 8 * 1024;

/// Bytes that are kept of a command before which the files were stored. It stands in a table; all of it is in the call.
pub const RISK_BYTES_MAX: usize = 200;

/// Checkpoints that a run makes by itself before commands that may throw work away. An agent that has made so many removes the same
/// things again and again; the files are stored at the end of each turn all the same.
pub const GUARDS_MAX: usize = 500;

/// Bytes of a checkpoint's name. It is typed, and stands in a table.
pub const CHECKPOINT_NAME_BYTES_MAX: usize = 64;

/// Bytes of a path. The kernel takes no longer one, so nothing is opened by it.
pub const PATH_BYTES_MAX: usize = 4096;
