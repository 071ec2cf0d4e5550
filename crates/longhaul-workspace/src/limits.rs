//! Every bound this crate enforces, each with its reason.

use std::time::Duration;

/// Bytes of a file that is read whole into memory. Sixteen times what one call's arguments can write.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of a file that is digested. Digesting streams, so only time counts: this is about one second.
pub const DIGEST_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Entries of one directory. More than any tool shows or searches in its time; about 100 MB of names.
pub const DIRECTORY_ENTRIES_MAX: usize = 1_000_000;

/// Symbolic links followed for one path. Linux itself gives up at 40.
pub const LINKS_MAX: usize = 40;

/// Tries at resolving a path while somebody renames directories around it. Each rename costs one try at most.
pub const RESOLVE_TRIES_MAX: usize = 64;

/// Bytes of an effect key. It becomes a file name of at most 255 bytes, with room for what is put around it.
pub const KEY_BYTES_MAX: usize = 200;

/// Bytes of the name of the loader that a program names. Linux takes no longer path.
pub const LOADER_NAME_BYTES_MAX: usize = 4096;

/// Time for one git command. Checking out a very large repository takes minutes; longer means git hangs.
pub const GIT_TIME_MAX: Duration = Duration::from_secs(600);

/// Time for one git command that brings objects from another repository. The largest take hours over a slow line.
pub const FETCH_TIME_MAX: Duration = Duration::from_secs(6 * 60 * 60);

/// Time in which such a git writes nothing into the directory that it fills. A server that packs millions of objects, and git that
/// puts them in order at the end, take many minutes; a line that is dead takes for ever.
pub const FETCH_IDLE_MAX: Duration = Duration::from_secs(30 * 60);

/// Bytes kept of what git prints.
pub const GIT_OUTPUT_BYTES_MAX: u64 = 64 * 1024;

/// Bytes kept of what git complains of. It is shown and journalled, an agent can have it complain of each of its files, and the
/// last few lines say what is wrong.
pub const GIT_COMPLAINT_BYTES_MAX: usize = 1024;

/// Bytes that git may ask for at once, unless it fetches. An agent can make a small object that unfolds to any size; files of more
/// than 512 MiB git does not read into memory.
pub const GIT_ALLOCATION_BYTES_MAX: u64 = 600 * 1024 * 1024;

/// Time in which a git that reaches nobody neither works nor reads. An agent can have left a pipe where git opens a file.
pub const GIT_WAIT_MAX: Duration = Duration::from_secs(20);

/// Pause between two looks at whether a git child works.
pub const WORK_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Branches that are named of those that stay in a worktree. Each takes some asking, and what is told of them is journalled.
pub const LEFT_NAMED_MAX: usize = 5;

/// Bytes of such a name. In its file of all names git knows no bound.
pub const LEFT_NAME_BYTES_MAX: usize = 200;

/// Time that is waited for a worktree that another git is just making: it writes a few small files.
pub const NEW_WORKTREE_WAIT_MAX: Duration = Duration::from_secs(5);

/// Bytes of a list or a diff that git prints for us: half a million changed files. More is no change that anybody reads.
pub const GIT_LIST_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Files that the user's settings for git may be spread over.
pub const SETTINGS_FILES_MAX: usize = 16;

/// Repositories that lend objects to one. Git itself follows five in a row.
pub const LENDERS_MAX: usize = 16;

/// Branches of an agent's own making that are brought to the user's repository from one worktree. Somebody has to look at them.
pub const BRANCHES_BROUGHT_MAX: usize = 100;

/// Bytes of a file that is a reference. Names are shorter than this, and git reads such a file whole into memory.
pub const REFERENCE_FILE_BYTES_MAX: u64 = 64 * 1024;

/// Entries of an agent's `.git` that are looked at for what git would stop at. Git packs loose objects when there are 6,700.
pub const GIT_ENTRIES_MAX: usize = 200_000;

/// Names that are tried for a file of our own there. One that was killed leaves one.
pub const FRESH_NAMES_MAX: usize = 1000;

/// Levels of directories that are looked into for that. Names of branches have few.
pub const GIT_LEVELS_MAX: usize = 64;

/// Bytes from which the name in an address may be a token. No service gives shorter ones, and few people have such names.
pub const TOKEN_BYTES_MIN: usize = 20;

/// Files that git-lfs keeps for their size, brought from one worktree at a time. The rest comes the next time.
pub const LARGE_FILES_MAX: usize = 10_000;

/// Bytes that are read of them at a time, each file twice: half a minute. A worktree with more is not cleaned up.
pub const LARGE_FILES_BYTES_MAX: u64 = 32 * 1024 * 1024 * 1024;

/// Objects that are brought to another repository one by one; more are kept there as they come, in one file. As git has it.
pub const LOOSE_OBJECTS_MAX: u32 = 100;

/// Bytes of such objects as they come. One by one, each change of a large file would take as much as that file.
pub const LOOSE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of git's index that is copied: about five million files.
pub const GIT_INDEX_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Bytes of a small file of our own that is read whole: a landing, a session, a lease.
pub const NOTE_BYTES_MAX: u64 = 1024 * 1024;

/// Pause between two looks at a git child or at a lock: short against any git command, long against a look.
pub const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Pause between two looks at how much a git child has written.
pub const ROOM_LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// What a repository of elsewhere may take with all of its history. Far more than the largest that people work in.
pub const FETCHED_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;

/// The first such pause; each is twice the one before. Most commands take a few milliseconds.
pub const FIRST_POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Directories looked through upwards for a repository. Deeper paths do not fit into `PATH_MAX`.
pub const REPOSITORY_LEVELS_MAX: usize = 64;

/// Worktrees of one repository whose branches are kept from others. Looked at before every command, so what comes after these is not.
pub const WORKTREES_LOOKED_AT_MAX: usize = 1024;

/// Bytes of a `.git` file that is read as a link to a repository. It holds one path.
pub const GIT_LINK_BYTES_MAX: u64 = 8 * 1024;

/// Time that is waited for another landing in the same checkout: files are written in seconds.
pub const LANDING_WAIT_MAX: Duration = Duration::from_secs(10);

/// Paths named in one sentence. More are counted.
pub const PATHS_SHOWN_MAX: usize = 20;

/// Asks again and again until it is so, or the time is over.
pub(crate) fn within(time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let start = std::time::Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if start.elapsed() >= time {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// New files that are shown by name; of the others only the number is.
pub const NEW_FILES_SHOWN_MAX: usize = 60;

/// Bytes of a session's name: it is the name of a directory, and part of a branch's.
pub const SESSION_NAME_BYTES_MAX: usize = 64;

/// Runs that a session remembers. The runs themselves are kept elsewhere.
pub const SESSION_RUNS_MAX: usize = 1000;

/// How long a session's lease may be believed on another host without being kept alive. It is renewed three times in it.
pub const SESSION_EXPIRY: Duration = Duration::from_secs(300);

/// Time that is waited for a session's lock: whoever only looks has it for a moment.
pub const SESSION_WAIT_MAX: Duration = Duration::from_millis(200);

/// Bytes of a repository's address. Longer ones are refused by servers as well.
pub const ADDRESS_BYTES_MAX: usize = 2048;

/// Bytes of the name of a branch or a tag. It becomes a file name.
pub const REFERENCE_BYTES_MAX: usize = 200;

/// Files of a repository that a planner is told of by name.
pub const FILES_LISTED_MAX: usize = 300;

/// Files of a workspace that are new or changed since its last checkpoint. More is somebody's home, not a piece of work.
pub const CHECKPOINT_FILES_MAX: usize = 200_000;

/// Bytes of a file that goes into a checkpoint. Larger ones are made by programs, and would be kept again with each change.
pub const CHECKPOINT_FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Files that are stored one by one. More at once go into one pack: a file and a sync for each would take minutes.
pub const CHECKPOINT_LOOSE_MAX: usize = 512;

/// Letters of an agent's name in the name of a branch.
pub const BRANCH_AGENT_LETTERS_MAX: usize = 40;

/// Names tried for a branch. More agents of one name in one session is a program gone wrong.
pub const BRANCH_TRIES_MAX: usize = 10_000;

/// Time that is waited for an index that another part of this program is changing: a commit or the end of a merge.
pub const INDEX_WAIT_MAX: Duration = Duration::from_secs(2);
