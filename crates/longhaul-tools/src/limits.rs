//! Every bound the tools enforce, each with its reason.

use std::time::Duration;

/// Lines `read` shows when it is not told how many. A long source file; the bytes of a result bound it further.
pub const READ_LINES_DEFAULT: u64 = 2000;

/// Bytes shown of one line. Longer lines are minified code or data, which a model cannot use line by line.
pub const LINE_BYTES_MAX: usize = 2000;

/// Bytes of a line up to which its length is measured. Beyond, the page ends: a line of a gigabyte would take a second.
pub const LINE_MEASURED_BYTES_MAX: u64 = 1024 * 1024;

/// Bytes at the start of a file in which a NUL means that it is not text. Git looks at as many.
pub const BINARY_PROBE_BYTES: usize = 8000;

/// Bytes read at once from a file or a pipe. The size of a Linux pipe.
pub const BUFFER_BYTES: usize = 64 * 1024;

/// Lines of a file that are compared to explain why an edit found nothing. A second of work at most.
pub const CLOSEST_LINES_SEARCHED_MAX: usize = 100_000;

/// Lines of a text that was not found, up to which the place that was meant is looked for line by line.
pub const CLOSEST_OLD_LINES_MAX: usize = 200;

/// Edits of one call. A model that changes more writes the file anew.
pub const EDITS_MAX: usize = 100;

/// Files of one patch. Each is a trace in the journal; more is a job for a script.
pub const PATCH_FILES_MAX: usize = 200;

/// Items of a todo list. With the letters below it fits into a conversation whole.
pub const TODO_ITEMS_MAX: usize = 100;

/// Letters shown of one item: it is a reminder, not the work.
pub const TODO_TEXT_LETTERS_MAX: usize = 120;

/// Letters of a content tag: 40 bits, enough against accidents and short to repeat.
pub const TAG_LETTERS: usize = 10;

/// Paths that are tried to find the files which a command names. A command with more words is not read by who approves it.
pub const NAMED_PATHS_MAX: usize = 2000;

/// Bytes of a file that leave for a command is bound to. Larger ones are built, not written.
pub const NAMED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of a PDF whose text is shown. It is held in memory and handed to another program.
pub const PDF_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes that are kept of a PDF's text. A book of a thousand pages has a tenth of it.
pub const PDF_TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of a file that `read` has in memory as a whole; of a larger one, only what is shown.
pub const HELD_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Bytes of an image that is shown to a model. The services take five megabytes as they are sent, which is a third more.
pub const IMAGE_BYTES_MAX: u64 = 3_750_000;

/// Pixels of an image's longer side: more is refused by the services. They make it much smaller before the model sees it.
pub const IMAGE_SIDE_MAX: u32 = 8_000;

/// Images of one result. A page that brings more is read in parts.
pub const RESULT_IMAGES_MAX: usize = 5;

/// Close lines, or places of an ambiguous edit, that are named. More would bury the message.
pub const PLACES_NAMED_MAX: usize = 10;

/// Bytes of a glob or regex pattern. People write a few dozen; a long list belongs in several calls.
pub const PATTERN_BYTES_MAX: usize = 10_000;

/// Bytes that a compiled regular expression may take: ripgrep's own bound, against `(a{1000}){1000}`.
pub const REGEX_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Threads that walk and search. More than eight wait for the same disk.
pub const WALK_THREADS_MAX: usize = 8;

/// Files that a thread takes at once: enough that threads seldom meet, few enough to share one directory.
pub const WALK_HANDFUL: usize = 64;

/// Files and directories of one walk. Ten times the largest repositories; beyond, a path has to be given.
pub const WALK_FILES_MAX: usize = 5_000_000;

/// Bytes of one `.gitignore`. Real ones have a few kilobytes.
pub const IGNORE_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Results that `glob` and `grep` show when they are not told how many: what a model reads with profit.
pub const RESULTS_DEFAULT: usize = 100;

/// Results that may be asked for. They go into a blob, of which the conversation has start and end.
pub const RESULTS_MAX: usize = 10_000;

/// Bytes shown of a line that `grep` found. Longer ones are cut around what was found.
pub const FOUND_LINE_BYTES_MAX: usize = 400;

/// Lines shown around each that `grep` found. More is what `read` is for.
pub const FOUND_CONTEXT_MAX: usize = 50;

/// Bytes of memory for one line, or one file searched across lines. A file beyond is named as not read.
pub const SEARCH_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Levels that `list` goes down. Deeper trees are looked at piece by piece.
pub const LIST_DEPTH_MAX: u64 = 20;

/// Entries that `list` shows when it is not told how many.
pub const LIST_ENTRIES_DEFAULT: usize = 500;

/// Commits that `git_log` shows when it is not told how many, and at most: what a model reads with profit.
pub const GIT_COMMITS_DEFAULT: usize = 10;
pub const GIT_COMMITS_MAX: usize = 50;

/// Files that git tools name one by one; the rest is counted. As many as fit into a conversation.
pub const GIT_ENTRIES_MAX: usize = 200;

/// Paths of one `git_add`. Each is an argument, of which Linux takes two megabytes.
pub const GIT_PATHS_MAX: usize = 200;

/// Bytes of a commit's message. It is one argument, of which Linux takes 128 KiB.
pub const GIT_MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Letters kept of what git complains about. The first lines say it.
pub const GIT_COMPLAINT_LETTERS_MAX: usize = 2000;

/// Directories of a workspace in which other projects' state is looked for, once for each workspace. Some ten milliseconds.
pub const STATES_DIRECTORIES_MAX: usize = 4000;

/// Names under which one forged file after the other is kept for people. A command that forges more has its last one left in place.
pub const ASIDES_MAX: u32 = 100;

/// State directories that are covered in a workspace. Each is a mount; who works above more of them is in the wrong place.
pub const STATES_MAX: usize = 64;

/// Bytes read of a web page. The longest ones that people write have about as many.
pub const FETCH_BYTES_MAX: usize = 5 * 1024 * 1024;

/// Bytes shown of the name of a page's charset. The longest that is registered has about as many.
pub const CHARSET_BYTES_MAX: usize = 45;

/// Redirects that are followed. Real ones are two or three.
pub const FETCH_REDIRECTS_MAX: usize = 5;

/// Time to reach a host. One that takes longer is not there.
pub const FETCH_CONNECT_TIME: Duration = Duration::from_secs(10);

/// Bytes of one shell command. Linux refuses a single argument of 128 KiB; a longer command belongs in a file.
pub const COMMAND_BYTES_MAX: usize = 120 * 1024;

/// The longest time a model may ask for one command. Longer work is to be split or run by the harness.
pub const COMMAND_TIME_MAX: Duration = Duration::from_secs(600);

/// Bytes kept from the start of a command's output, for the blob.
pub const OUTPUT_HEAD_BYTES_MAX: usize = 1024 * 1024;

/// Bytes kept from the end of a command's output, for the blob. Errors stand at the end.
pub const OUTPUT_TAIL_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of an inline result set aside for what we say about it (truncation, leftovers).
pub const NOTE_BYTES_MAX: usize = 512;

/// How far from the end of a command's output the place is looked for where it left the shell: a long path fits.
pub const MARK_BYTES_MAX: usize = 8 * 1024;

/// A line that is shown while its command still runs.
pub const SHOWN_LINE_BYTES_MAX: usize = 4 * 1024;

/// Commands a run may have in the background at a time.
pub const JOBS_MAX: usize = 16;

/// The longest time `bash_output` may wait for something new.
pub const JOB_WAIT_MAX: Duration = Duration::from_secs(60);

/// Time a hook gets to say what it thinks of a call, unless configured otherwise, and the most that can be configured.
pub const HOOK_TIME: Duration = Duration::from_secs(10);
pub const HOOK_TIME_MAX: Duration = Duration::from_secs(300);

/// What a hook may print, in bytes: more is no decision.
pub const HOOK_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// What is kept of a hook's reason, in bytes.
pub const HOOK_REASON_BYTES_MAX: usize = 4 * 1024;

/// Bytes of a changed file that are kept from its preparation until the change is made; a larger one is computed twice.
pub const PREPARED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Time a command gets between being asked to end and being killed: enough for git to remove its lock file.
pub const TERMINATE_GRACE: Duration = Duration::from_millis(500);

/// Time the output may stay open after the command ended: enough for `tee` to finish, short against a daemon.
pub const OUTPUT_GRACE: Duration = Duration::from_millis(250);

/// Rounds of looking for a call's processes and killing them. With the pause below, two seconds.
pub const KILL_ROUNDS_MAX: usize = 200;

/// Pause after the first of them, doubled from round to round: a namespace that is ending is gone after about this.
pub const KILL_FIRST_PAUSE: Duration = Duration::from_micros(500);

/// The longest pause between two such rounds: a killed process is gone within it unless it hangs in the kernel.
pub const KILL_ROUND_PAUSE: Duration = Duration::from_millis(10);

/// Bytes read of a process's environment. A process that exports more hides its marker, at its own cost of memory.
pub const ENVIRON_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Generations of our own ancestors that are never killed. Real process trees are a few dozen deep.
pub const ANCESTORS_MAX: usize = 1000;

/// Bytes of memory that a command's private directories (`/tmp`, home) may take, each. Larger things belong in the
/// workspace, which is on disk.
pub const SCRATCH_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Bytes of one file of the system's settings that a command gets a copy of; what is larger is mounted.
pub const SETTING_BYTES_MAX: u64 = 16 * 1024;

/// Bytes of all those files. Written as JSON they may take twice as many, and the kernel takes 128 KiB as one argument.
pub const SETTINGS_BYTES_MAX: usize = 48 * 1024;

/// Bytes of memory one process of a command may always have, however small the machine: linkers need that. Otherwise it
/// is half of what the machine has, so that the harness and other runs keep the rest.
pub const COMMAND_MEMORY_BYTES_MIN: u64 = 2 * 1024 * 1024 * 1024;

/// Processes and threads of one command. Parallel builds and test suites use hundreds.
pub const COMMAND_PROCESSES_MAX: u64 = 4096;

/// Bytes of one file a command may write. The largest build artefacts are smaller; a runaway log is not.
pub const COMMAND_FILE_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// Open files of one process of a command. Bundlers and language servers open tens of thousands.
pub const COMMAND_OPEN_FILES_MAX: u64 = 65_536;

/// Time the self-probe may take. It takes tens of milliseconds; a machine under load, some more.
pub const PROBE_TIME_MAX: Duration = Duration::from_secs(20);

/// Pause between two looks whether it has ended: short against its own time.
pub const PROBE_LOOK_PAUSE: Duration = Duration::from_millis(1);

/// Time the self-probe waits for a connection that should not come about. On a loopback the answer is immediate.
pub const PROBE_CONNECT_TIME_MAX: Duration = Duration::from_millis(500);

/// Time one attack of the attack suite may take. The slowest make thousands of threads on a busy machine.
pub const ATTACK_TIME_MAX: Duration = Duration::from_secs(60);

/// Pause between two looks whether an attack left something running.
pub const ATTACK_LOOK_PAUSE: Duration = Duration::from_millis(50);

/// Looks whether an attack left something running: with the pause, the two seconds after which nothing may.
pub const ATTACK_LOOKS_MAX: usize = 40;

/// Characters shown of what an attack printed.
pub const ATTACK_DETAIL_CHARS_MAX: usize = 160;

/// Bytes of a host's name. DNS has no longer ones.
pub const HOST_BYTES_MAX: usize = 253;

/// Connections through the proxy for allowed hosts at once. Package managers open dozens.
pub const TUNNELS_MAX: usize = 256;

/// Bytes of a request to that proxy. Real ones are a few hundred.
pub const PROXY_HEAD_BYTES_MAX: usize = 8 * 1024;

/// Time within which such a request must have come: it is local.
pub const PROXY_HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// Time for connecting to one address of an allowed host. Longer than any network takes that is good for anything.
pub const PROXY_CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Addresses of one host that are tried: with the time above, less than a program waits for its proxy.
pub const PROXY_ADDRESSES_MAX: usize = 4;

/// Silence after which a tunnel is closed. Servers give up idle connections sooner.
pub const TUNNEL_SILENCE_MAX: Duration = Duration::from_secs(300);

/// Hosts named in a line about what holds commands; how many more there are is said.
pub const HOSTS_SHOWN_MAX: usize = 5;

/// A verify command may take longer than a command of the agent: it may build everything and run every test.
pub const VERIFY_TIME_MAX: Duration = Duration::from_secs(1800);

/// Bytes of a glob that a complaint about it shows: enough to find it again.
pub const GLOB_SHOWN_BYTES_MAX: usize = 80;

/// How old a directory among the temporary files is before it can be a leftover: its maker locks it right after making it, and that
/// one may be among other processes than we see.
pub const LEFTOVER_AGE_MIN: Duration = Duration::from_secs(1);

/// Entries of the temporary files that are looked at for leftovers: everybody's are there, and a run waits for it.
pub const TEMPORARY_ENTRIES_MAX: usize = 20_000;

/// Protected files of one run; their contents are kept.
pub const PROTECTED_FILES_MAX: usize = 5000;

/// Bytes of all protected files together.
pub const PROTECTED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Features of one list.
pub const FEATURES_MAX: usize = 5000;
/// Bytes of a search query. Providers take a few hundred at most.
pub const SEARCH_QUERY_BYTES_MAX: usize = 1000;

/// Sources kept of one search. Providers give ten or twenty.
pub const SEARCH_SOURCES_MAX: usize = 100;

/// Sources of a search that are shown to the model; the others are in the file.
pub const SEARCH_SHOWN_MAX: usize = 20;

/// Bytes shown of what a failed search command complained.
pub const SEARCH_COMPLAINT_BYTES_MAX: usize = 2000;

/// Bytes kept of one source's text: a long article.
pub const SOURCE_TEXT_BYTES_MAX: usize = 64 * 1024;

/// Letters of a source's title, or of a file's name, that are shown: a line.
pub const SOURCE_TITLE_LETTERS_MAX: usize = 160;

/// Letters of an address. Browsers take about as many.
pub const SOURCE_URL_LETTERS_MAX: usize = 2000;

/// Letters of a source's snippet in an overview: two lines.
pub const SOURCE_SNIPPET_LETTERS_MAX: usize = 300;

/// Letters of an address that become part of a file's name.
pub const SOURCE_NAME_LETTERS_MAX: usize = 60;

/// Bytes of one file of search results. What a search prints is far smaller.
pub const INBOX_FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Bytes of search results that are put in order at once: they are in memory together.
pub const INBOX_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of an overview. It is read at the start of every iteration, so a larger one has lost its use.
pub const OVERVIEW_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a task's id: it is the name of a directory.
pub const TASK_NAME_BYTES_MAX: usize = 64;

/// A command by which longhaul itself looks at a repository; one that takes longer is done without.
pub const LOOK_COMMAND_TIME_MAX: Duration = Duration::from_secs(60);

/// Changed files, and new ones, of which a judge is shown anything.
pub const JUDGED_FILES_MAX: usize = 40;

/// Bytes of one file's changes that a judge is shown, so that a large one does not hide the others.
pub const JUDGED_FILE_BYTES_MAX: usize = 4096;
