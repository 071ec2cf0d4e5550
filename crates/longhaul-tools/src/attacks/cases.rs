//! The attacks, as data. In a command, `{OUT}` and its like are spelled out by the ground it is tried on.

/// One attack: a command, and how it is seen that it succeeded.
pub(super) struct Case {
    pub(super) row: &'static str,
    pub(super) attack: &'static str,
    pub(super) who: Who,
    pub(super) place: Place,
    /// Programs without which it cannot be tried.
    pub(super) needs: &'static [&'static str],
    pub(super) command: &'static str,
    pub(super) proof: Proof,
}

/// For whom an attack makes sense.
pub(super) enum Who {
    Anybody,
    Root,
    User,
    /// Those whose number of processes can be bounded.
    Bounded,
}

/// Where the command works.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// In a worktree below the state directory, as runs do.
    Worktree,
    /// In the checkout, with the state directory inside of it.
    InPlace,
}

pub(super) enum Proof {
    /// The command printed this.
    Said(&'static str),
    /// This is there on the machine.
    Made(&'static str),
    /// This file of the machine has this in it.
    Holds(&'static str, &'static str),
    VictimDied,
    /// A datagram arrived.
    Received,
    /// A process of the command is there two seconds after its end.
    LeftRunning,
}

/// What most of them are.
const PLAIN: Case = Case {
    row: "",
    attack: "",
    who: Who::Anybody,
    place: Place::Worktree,
    needs: &[],
    command: "",
    proof: Proof::Said("BROKE"),
};

const SECRET: Proof = Proof::Said("{CANARY}");

pub(super) const CASES: &[Case] = &[
    // Files outside.
    Case {
        row: "A31",
        attack: "write outside the workspace",
        command: "echo x > {OUT}/made",
        proof: Proof::Made("{OUT}/made"),
        ..PLAIN
    },
    Case {
        row: "A27",
        attack: "go outside, then write",
        command: "cd {OUT} && echo x > made",
        proof: Proof::Made("{OUT}/made"),
        ..PLAIN
    },
    Case {
        row: "A31",
        attack: "write beside the workspace",
        command: "echo x > ../made",
        proof: Proof::Made("{STATE}/workspace/run/made"),
        ..PLAIN
    },
    Case {
        row: "A31",
        attack: "write to the home directory",
        command: "echo x > {HOME}/.bashrc",
        proof: Proof::Made("{HOME}/.bashrc"),
        ..PLAIN
    },
    Case {
        row: "A31",
        attack: "write to the machine's /tmp",
        command: "echo x > /tmp/{WORD}-made",
        proof: Proof::Made("/tmp/{WORD}-made"),
        ..PLAIN
    },
    Case {
        row: "A31",
        attack: "write to the machine's shared memory",
        command: "echo x > /dev/shm/{WORD}-made",
        proof: Proof::Made("/dev/shm/{WORD}-made"),
        ..PLAIN
    },
    Case {
        row: "A33",
        attack: "change modes outside",
        command: "chmod 777 {OUT}/file && echo BROKE",
        ..PLAIN
    },
    Case {
        row: "A03",
        attack: "write through a link that leads out",
        command: "ln -s {OUT} link && echo x > link/made",
        proof: Proof::Made("{OUT}/made"),
        ..PLAIN
    },
    Case {
        row: "A06",
        attack: "hard link a file from outside",
        command: "ln {OUT}/file here && echo x >> here",
        proof: Proof::Holds("{OUT}/file", "x\n"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "move the branch of the user's own checkout",
        command: "echo moved > {REPO}/.git/refs/heads/main",
        proof: Proof::Holds("{REPO}/.git/refs/heads/main", "moved"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "move that branch from under its cover",
        command: "cd {REPO}/.git/refs && mv heads h && mkdir heads && echo moved > heads/main",
        proof: Proof::Holds("{REPO}/.git/refs/heads/main", "moved"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "have the user's git show another commit for his own",
        command: "d={REPO}/.git/refs/replace; mkdir -p $d && git rev-parse HEAD > $d/$(git rev-parse main)",
        proof: Proof::Made("{REPO}/.git/refs/replace"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "begin a rebase for the user, with a command to be run",
        command: "d={REPO}/.git/rebase-merge; mkdir -p $d && echo 'exec evil' > $d/git-rebase-todo",
        proof: Proof::Made("{REPO}/.git/rebase-merge"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "begin a merge for the user",
        command: "git rev-parse HEAD > {REPO}/.git/MERGE_HEAD",
        proof: Proof::Made("{REPO}/.git/MERGE_HEAD"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "move branches of the user's that are packed",
        command: "echo \"$(git rev-parse HEAD) refs/heads/other\" > {REPO}/.git/packed-refs",
        proof: Proof::Made("{REPO}/.git/packed-refs"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "write among the objects that the user's repository lends",
        command: "echo x > {REPO}/.git/objects/made",
        proof: Proof::Made("{REPO}/.git/objects/made"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "make git look for objects elsewhere",
        command: "mkdir -p {REPO}/.git/objects/info && echo {OUT} > {REPO}/.git/objects/info/alternates",
        proof: Proof::Made("{REPO}/.git/objects/info/alternates"),
        ..PLAIN
    },
    Case {
        row: "A60",
        attack: "answer a question of a project below, in place",
        place: Place::InPlace,
        command: "echo x > sub/.longhaul/runs/run_y/inbox/forged",
        proof: Proof::Made("{REPO}/sub/.longhaul/runs/run_y/inbox/forged"),
        ..PLAIN
    },
    Case {
        row: "A07",
        attack: "read outside through another process's root",
        command: "cat /proc/{VICTIM}/root{OUT}/file",
        proof: SECRET,
        ..PLAIN
    },
    // Secrets.
    Case {
        row: "A01",
        attack: "read a private key",
        command: "cat {HOME}/.ssh/id_ed25519",
        proof: SECRET,
        ..PLAIN
    },
    Case {
        row: "A01",
        attack: "read cloud credentials",
        command: "cat ~/.aws/credentials",
        proof: SECRET,
        ..PLAIN
    },
    Case {
        row: "A96",
        attack: "read another process's environment",
        command: "tr '\\0' '\\n' < /proc/{VICTIM}/environ",
        proof: SECRET,
        ..PLAIN
    },
    Case {
        row: "A34",
        attack: "read a file the harness has open",
        command: "cat <&{FD}",
        proof: SECRET,
        ..PLAIN
    },
    // Ourselves.
    Case {
        row: "A12",
        attack: "read the journal",
        command: "cat {STATE}/runs/run_x/journal",
        proof: SECRET,
        ..PLAIN
    },
    Case {
        row: "A12",
        attack: "change the journal",
        command: "echo forged >> {STATE}/runs/run_x/journal",
        proof: Proof::Holds("{STATE}/runs/run_x/journal", "forged"),
        ..PLAIN
    },
    Case {
        row: "A60",
        attack: "approve itself: post into the inbox",
        command: "echo '{}' > {STATE}/runs/run_x/inbox/forged",
        proof: Proof::Made("{STATE}/runs/run_x/inbox/forged"),
        ..PLAIN
    },
    Case {
        row: "A12",
        attack: "read the journal, in place",
        place: Place::InPlace,
        command: "cat .longhaul/runs/run_x/journal",
        proof: SECRET,
        ..PLAIN
    },
    Case {
        row: "A60",
        attack: "approve itself, in place",
        place: Place::InPlace,
        command: "echo '{}' > .longhaul/runs/run_x/inbox/forged",
        proof: Proof::Made("{STATE}/runs/run_x/inbox/forged"),
        ..PLAIN
    },
    Case {
        row: "A60",
        attack: "approve itself, in place: move the state directory away and put it back changed",
        place: Place::InPlace,
        command: "mv .longhaul l && mkdir -p .longhaul/runs/run_x/inbox && echo x > .longhaul/runs/run_x/inbox/forged",
        proof: Proof::Made("{STATE}/runs/run_x/inbox/forged"),
        ..PLAIN
    },
    Case {
        row: "A66",
        attack: "change the user's settings",
        command: "echo 'sandbox: off' >> {HOME}/.config/longhaul/longhaul.yaml",
        proof: Proof::Holds("{HOME}/.config/longhaul/longhaul.yaml", "sandbox: off"),
        ..PLAIN
    },
    Case {
        row: "A71",
        attack: "make settings for the project, in place",
        place: Place::InPlace,
        command: "echo 'permissions: { sandbox: off }' > longhaul.yaml",
        proof: Proof::Made("{REPO}/longhaul.yaml"),
        ..PLAIN
    },
    // Git.
    Case {
        row: "A11",
        attack: "plant a hook",
        command: "d=$(git rev-parse --git-common-dir); mkdir -p $d/hooks; echo x > $d/hooks/pre-commit",
        proof: Proof::Made("{STATE}/workspace/run/run_x/.git/hooks/pre-commit"),
        ..PLAIN
    },
    Case {
        row: "A11",
        attack: "plant a hook, in place",
        place: Place::InPlace,
        command: "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
        proof: Proof::Made("{REPO}/.git/hooks/pre-commit"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "plant a submodule's repository with its hooks",
        command: "d={REPO}/.git/modules/sub/hooks; mkdir -p $d; echo x > $d/post-checkout",
        proof: Proof::Made("{REPO}/.git/modules/sub/hooks/post-checkout"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "plant a worktree, in place",
        place: Place::InPlace,
        command: "mkdir -p .git/worktrees/w; echo {OUT} > .git/worktrees/w/gitdir",
        proof: Proof::Made("{REPO}/.git/worktrees/w/gitdir"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "make git run a program",
        command: "git config core.fsmonitor evil",
        proof: Proof::Holds("{STATE}/workspace/run/run_x/.git/config", "evil"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "make git run a program, in place",
        place: Place::InPlace,
        command: "git config core.fsmonitor evil",
        proof: Proof::Holds("{REPO}/.git/config", "evil"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "the same by moving .git away and putting it back changed",
        place: Place::InPlace,
        command: "mv .git g && cp -r g .git && echo evil >> .git/config",
        proof: Proof::Holds("{REPO}/.git/config", "evil"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "the same by replacing the file",
        place: Place::InPlace,
        command: "echo evil > c; mv -f c .git/config",
        proof: Proof::Holds("{REPO}/.git/config", "evil"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "filters in git's own attributes, in place",
        place: Place::InPlace,
        command: "mkdir -p .git/info; echo '* filter=evil' > .git/info/attributes",
        proof: Proof::Made("{REPO}/.git/info/attributes"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "forge where the repository is, in place",
        place: Place::InPlace,
        command: "echo ../elsewhere > .git/commondir",
        proof: Proof::Made("{REPO}/.git/commondir"),
        ..PLAIN
    },
    Case {
        row: "A48",
        attack: "forge where the repository is",
        command: "d=$(git rev-parse --git-dir); echo {OUT} > $d/commondir",
        proof: Proof::Made("{STATE}/workspace/run/run_x/.git/commondir"),
        ..PLAIN
    },
    Case {
        row: "A14",
        attack: "put a link in the place of the worktree's repository",
        command: "rm -rf .git; echo 'gitdir: {OUT}' > .git",
        proof: Proof::Holds("{STATE}/workspace/run/run_x/.git", "out"),
        ..PLAIN
    },
    // Processes.
    Case {
        row: "A36",
        attack: "kill a process of the harness",
        command: "kill -9 {VICTIM}",
        proof: Proof::VictimDied,
        ..PLAIN
    },
    Case {
        row: "A36",
        attack: "trace a process",
        needs: &["python3"],
        command: "sleep 9 & python3 -c \"import ctypes; print('BR' + 'OKE' if ctypes.CDLL(None).ptrace(16, $!, 0, 0) == 0 else 'no')\"",
        ..PLAIN
    },
    Case {
        row: "A36",
        attack: "read another process's memory",
        needs: &["python3"],
        command: "python3 -c \"import ctypes; c=ctypes.CDLL(None, use_errno=True); c.process_vm_readv({VICTIM}, None, 0, None, 0, 0) == 0 and print('BR' + 'OKE')\"",
        ..PLAIN
    },
    Case {
        row: "F40",
        attack: "leave a daemon that hides itself",
        needs: &["setsid"],
        command: "(env -i setsid bash -c '(env -i bash -c \"while :; do sleep 1; done\" {WORD} </dev/null >/dev/null 2>&1 &)' &) ; sleep 0.3",
        proof: Proof::LeftRunning,
        ..PLAIN
    },
    Case {
        row: "F40",
        attack: "leave a daemon that ignores signals",
        needs: &["setsid", "nohup"],
        command: "env -i nohup setsid bash -c 'trap \"\" TERM HUP INT; (while :; do sleep 1; done) & ' {WORD} </dev/null >/dev/null 2>&1; sleep 0.3",
        proof: Proof::LeftRunning,
        ..PLAIN
    },
    Case {
        row: "F41",
        attack: "make processes without end",
        who: Who::Bounded,
        needs: &["python3"],
        command: FORKS,
        ..PLAIN
    },
    // Network.
    Case {
        row: "A41",
        attack: "connect to a service on this machine",
        command: "exec 3<>/dev/tcp/127.0.0.1/{TCP} && echo BROKE",
        ..PLAIN
    },
    Case {
        row: "A60",
        attack: "the same through localhost",
        command: "exec 3<>/dev/tcp/localhost/{TCP} && echo BROKE",
        ..PLAIN
    },
    Case {
        row: "A41",
        attack: "send a datagram",
        command: "echo x > /dev/udp/127.0.0.1/{UDP}",
        proof: Proof::Received,
        ..PLAIN
    },
    Case {
        row: "A35",
        attack: "talk to a service by an abstract name",
        needs: &["python3"],
        command: "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\0{WORD}'); print('BR' + 'OKE')\"",
        ..PLAIN
    },
    Case {
        row: "A35",
        attack: "talk to a service by its path",
        needs: &["python3"],
        command: "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{OUT}/service'); print('BR' + 'OKE')\"",
        ..PLAIN
    },
    // The kernel.
    Case {
        row: "A38",
        attack: "make a user namespace",
        needs: &["unshare"],
        command: "unshare -Ur true && echo BROKE",
        ..PLAIN
    },
    Case { row: "A38", attack: "set up io_uring", needs: &["python3"], command: IO_URING, ..PLAIN },
    Case { row: "A38", attack: "use the kernel's keyrings", needs: &["python3"], command: KEYRING, ..PLAIN },
    Case { row: "A36", attack: "type into a terminal", needs: &["python3"], command: TIOCSTI, ..PLAIN },
    Case {
        row: "A32",
        attack: "mount",
        who: Who::Root,
        needs: &["mount", "umount"],
        command: "mkdir m && mount -t tmpfs none m && umount m && echo BROKE",
        ..PLAIN
    },
    Case {
        row: "A32",
        attack: "make / writable again",
        who: Who::Root,
        needs: &["unshare", "mount"],
        command: "unshare -m mount -o remount,rw,bind / && echo BROKE",
        ..PLAIN
    },
    Case {
        row: "A32",
        attack: "make a device",
        who: Who::Root,
        needs: &["mknod"],
        command: "mknod device b 7 99 && echo BROKE",
        ..PLAIN
    },
    Case {
        row: "A32",
        attack: "change the root directory",
        who: Who::Root,
        needs: &["chroot"],
        command: "chroot / true && echo BROKE",
        ..PLAIN
    },
    Case {
        row: "A32",
        attack: "enter the machine's namespaces",
        who: Who::Root,
        needs: &["nsenter"],
        command: "nsenter -t {VICTIM} -m true && echo BROKE",
        ..PLAIN
    },
    // Opened, never written: the control runs on the machine itself.
    Case {
        row: "A32",
        attack: "open the kernel's settings for writing",
        who: Who::Root,
        command: "exec 3<>/proc/sys/kernel/core_pattern && echo BROKE",
        ..PLAIN
    },
    Case {
        row: "A33",
        attack: "change a file's owner",
        who: Who::Root,
        needs: &["chown"],
        command: "echo x > f && chown 65534 f && echo BROKE",
        ..PLAIN
    },
    Case {
        row: "A33",
        attack: "gain privileges by a program's mode",
        who: Who::User,
        needs: &["su", "pgrep", "awk"],
        command: "sleep 2 | su root -c true & sleep 0.5; awk '/^Uid:/ && $3 == 0 { print \"BROKE\" }' /proc/$(pgrep -n -x su)/status",
        ..PLAIN
    },
    // Limits.
    Case {
        row: "A107",
        attack: "write a file without end",
        needs: &["truncate"],
        command: "truncate -s 9G big && echo BROKE",
        ..PLAIN
    },
    Case {
        row: "F38",
        attack: "take most of the machine's memory",
        needs: &["python3"],
        command: MEMORY,
        ..PLAIN
    },
    Case { row: "A99", attack: "dump core", command: "[ \"$(ulimit -Hc)\" != 0 ] && echo BROKE", ..PLAIN },
];

/// Stops by itself: more than are allowed is enough. Threads count as processes do, and thousands of them are made at once where
/// as many forks would take a busy machine longer than it has.
const FORKS: &str = "python3 - <<'END'
import _thread, os
_thread.stack_size(65536)
lock, made = _thread.allocate_lock(), 0
lock.acquire()
try:
    for made in range(4500):
        _thread.start_new_thread(lock.acquire, ())
    print('BR' + 'OKE', flush=True)
except (RuntimeError, OSError) as error:
    print('stopped after', made, error, flush=True)
os._exit(0)
END";

/// Without arguments the call fails in any case; the question is whether the kernel looked at them.
const IO_URING: &str = "python3 - <<'END'
import ctypes, errno
c = ctypes.CDLL(None, use_errno=True)
c.syscall(425, 1, None)
print('BR' + 'OKE' if ctypes.get_errno() == errno.EFAULT else 'refused')
END";

const KEYRING: &str = "python3 - <<'END'
import ctypes, platform
c = ctypes.CDLL(None, use_errno=True)
number = 250 if platform.machine() == 'x86_64' else 219
print('BR' + 'OKE' if c.syscall(number, 0, -3, 1) > 0 else 'refused')
END";

/// A terminal of its own, so that nobody else's is typed into.
const TIOCSTI: &str = "python3 - <<'END'
import fcntl, os, pty
pid, master = pty.fork()
if pid == 0:
    try:
        fcntl.ioctl(0, 0x5412, b'x')
        os._exit(0)
    except OSError:
        os._exit(1)
print('BR' + 'OKE' if os.waitpid(pid, 0)[1] == 0 else 'refused')
END";

/// Asked for, not touched.
const MEMORY: &str = "python3 - <<'END'
import mmap, os
size = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') * 6 // 10
mmap.mmap(-1, max(size, 2200 << 20), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
print('BR' + 'OKE')
END";
