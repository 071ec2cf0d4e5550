//! A directory to work in, a state directory, and the built program in between. Owns what must be true of a run's end,
//! and that no process or mount outlives a test.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

pub const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");

/// How long anything may take that must happen at all. Only a hanging test gets near it.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Rig {
    directory: TempDir,
    /// Where runs are kept: below `directory`, or on a file system of its own.
    pub state_dir: PathBuf,
    /// Where what belongs to the user is.
    pub home: PathBuf,
    /// Are the agents' commands held? That has tests of its own, and mostly would only depend on the machine here.
    is_held: bool,
}

impl Rig {
    pub fn new() -> Rig {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("work")).unwrap();
        let state_dir = directory.path().join("state");
        let home = directory.path().join("home");
        Rig { directory, state_dir, home, is_held: false }
    }

    /// The same with the runs in the project, as users have it.
    pub fn in_project(mut self) -> Rig {
        self.state_dir = self.work().join(".longhaul");
        self
    }

    /// The same with nothing set at all: the runs are in the project, and commands are held. `None` where they cannot be.
    pub fn held_in_the_project(mut self) -> Option<Rig> {
        if !has("bwrap") {
            skip("bubblewrap is not installed, so commands cannot be held");
            return None;
        }
        self.is_held = true;
        Some(self.in_project())
    }

    /// Work of `steps` steps, each of which writes a file and lets a command leave its call's name in `witness`.
    pub fn with_steps(steps: usize) -> Rig {
        let rig = Rig::new();
        rig.plan(&(1..=steps).map(|number| format!("step-{number}")).collect::<Vec<_>>());
        let mut script = "conversations:\n".to_owned();
        for number in 1..=steps {
            script.push_str(&format!(
                "  - match: {{ step: step-{number} }}\n    turns:\n      - text: On it.\n        calls: \
                 [ {{ tool: write, args: {{ path: out/{number}.txt, content: \"{}\" }} }}, \
                 {{ tool: bash, args: {{ command: 'echo $LONGHAUL_CALL >> witness' }} }} ]\n      \
                 - text: Step {number} is done.\n",
                content(number)
            ));
        }
        rig.script(&script);
        rig
    }

    /// Work of one step and one turn of `calls`, in the script's notation.
    pub fn with_calls(calls: &str) -> Rig {
        let rig = Rig::new();
        rig.script(&format!(
            "conversations:\n  - turns:\n      - text: On it.\n        calls: [ {calls} ]\n      - text: All is done.\n"
        ));
        rig
    }

    pub fn script(&self, text: &str) {
        fs::write(self.work().join("script.yaml"), text).unwrap();
    }

    fn plan(&self, steps: &[String]) {
        let mut text = "steps:\n".to_owned();
        for (index, step) in steps.iter().enumerate() {
            let before = if index > 0 { steps[index - 1].as_str() } else { "" };
            text.push_str(&format!("  - {{ id: {step}, description: {step}, dependencies: [{before}] }}\n"));
        }
        fs::write(self.work().join("plan.yaml"), text).unwrap();
    }

    pub fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn run_args(&self) -> Vec<&'static str> {
        let plan = if self.work().join("plan.yaml").exists() { "plan.yaml" } else { "none" };
        vec!["run", "the task", "--in-place", "--plan", plan, "--model", "scripted/script.yaml"]
    }

    pub fn create(&self) -> String {
        let mut args = self.run_args();
        args.splice(0..2, ["create", "--task", "the task"]);
        self.says(&args).trim().to_owned()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        self.dress(Command::new(LONGHAUL), args)
    }

    /// The program behind another one: `strace`, `faketime`.
    pub fn command_under(&self, wrapper: &[String], args: &[&str]) -> Command {
        let mut command = Command::new(&wrapper[0]);
        command.args(&wrapper[1..]).arg(LONGHAUL);
        self.dress(command, args)
    }

    fn dress(&self, mut command: Command, args: &[&str]) -> Command {
        command
            .args(args)
            .current_dir(self.work())
            .env("LONGHAUL_STATE_DIR", &self.state_dir)
            .env("RUST_BACKTRACE", "0")
            .env("HOME", &self.home)
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if self.is_held {
            command.env_remove("LONGHAUL_SANDBOX");
        } else {
            command.env("LONGHAUL_SANDBOX", "off");
        }
        command
    }

    /// Does it and waits.
    pub fn does(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Does it, successfully: what it printed.
    pub fn says(&self, args: &[&str]) -> String {
        let output = self.does(args);
        assert!(output.status.success(), "{args:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.says(args)).unwrap()
    }

    pub fn start(&self, args: &[&str]) -> Live {
        Live::start(self.command(args))
    }

    pub fn status(&self, id: &str) -> String {
        self.json(&["show", id, "--json"])["status"].as_str().unwrap().to_owned()
    }

    pub fn runs(&self) -> Vec<String> {
        let Ok(found) = fs::read_dir(self.state_dir.join("runs")) else { return Vec::new() };
        let names = found.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("run_")).collect()
    }

    pub fn run_dir(&self, id: &str) -> PathBuf {
        self.state_dir.join("runs").join(id)
    }

    pub fn witness(&self) -> Vec<String> {
        let text = fs::read_to_string(self.work().join("witness")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What must be true of a run of [`Rig::with_steps`] that has ended, however it got there. Answers how many of its
    /// commands were cut short.
    pub fn check_end(&self, id: &str, steps: usize) -> usize {
        assert_eq!(self.status(id), "completed");
        self.says(&["store", "verify", id]);
        let calls = self.calls(id);
        assert_eq!(calls.len(), steps * 2, "each step's calls are there once");
        let witness = self.witness();
        let mut cut_short = 0;
        for (call, (tool, state)) in &calls {
            let times = witness.iter().filter(|line| **line == format!("{id}.{call}")).count();
            match (tool.as_str(), state.as_str()) {
                ("write", "done") => {}
                ("bash", "done") => assert_eq!(times, 1, "{call} is done and left {times} lines"),
                ("bash", "unknown") => {
                    assert!(times <= 1, "{call} left {times} lines");
                    cut_short += 1;
                }
                other => panic!("{call} ended as {other:?}"),
            }
        }
        (1..=steps).for_each(|number| self.check_file(number));
        let left: Vec<_> = fs::read_dir(self.work().join("out")).unwrap().collect();
        assert_eq!(left.len(), steps, "nothing is left lying about: {left:?}");
        self.check_events(id, steps);
        assert_eq!(processes_of(id), [0; 0], "no process of the run is left");
        cut_short
    }

    pub fn check_file(&self, number: usize) {
        let text = fs::read_to_string(self.work().join(format!("out/{number}.txt"))).unwrap();
        assert_eq!(text, content(number));
    }

    /// No gaps, and each step begun once and completed once.
    fn check_events(&self, id: &str, steps: usize) {
        let events = self.events(id);
        for (index, event) in events.iter().enumerate() {
            assert_eq!(event["seq"], index + 1);
        }
        for kind in ["step_started", "step_completed"] {
            let of_kind = events.iter().filter(|event| event["type"] == kind);
            let mut named: Vec<&str> = of_kind.map(|event| event["stepId"].as_str().unwrap()).collect();
            assert_eq!(named.len(), steps, "{kind}: {named:?}");
            named.sort_unstable();
            named.dedup();
            assert_eq!(named.len(), steps, "{kind} of a step is there twice");
        }
    }

    pub fn events(&self, id: &str) -> Vec<Value> {
        let lines = self.says(&["events", id, "--json"]);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Each call's tool and how it ended, by its name.
    pub fn calls(&self, id: &str) -> BTreeMap<String, (String, String)> {
        let listed = self.json(&["tools", id, "--json"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let calls = listed["calls"].as_array().unwrap();
        calls
            .iter()
            .map(|call| (text(&call["callId"]), (text(&call["callName"]), text(&call["result"]["state"]))))
            .collect()
    }
}

impl Drop for Rig {
    /// What a killed run left running ends with its test.
    fn drop(&mut self) {
        self.runs().iter().for_each(|id| kill_processes_of(id));
    }
}

fn content(number: usize) -> String {
    format!("the content of file {number}")
}

pub fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// A process that is killed when its test ends, however that ends.
pub struct Live(Child);

impl Live {
    pub fn start(mut command: Command) -> Live {
        Live(command.spawn().unwrap())
    }

    /// As the leader of a group of its own, as a shell starts what is typed.
    pub fn start_in_group(mut command: Command) -> Live {
        command.process_group(0);
        Live::start(command)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid().cast_signed()).unwrap(), signal).unwrap();
    }

    /// What a terminal does when Ctrl-C is typed.
    pub fn signal_group(&self, signal: Signal) {
        kill_process_group(Pid::from_raw(self.pid().cast_signed()).unwrap(), signal).unwrap();
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    pub fn kill(&mut self) {
        // It may have ended by itself in this moment, which is as good.
        self.0.kill().ok();
        self.0.wait().unwrap();
    }

    /// Waits for its end: how it ended, and what it said. The pipes are read to their end only after it, so nothing
    /// that says more than a pipe holds is started this way.
    pub fn wait(&mut self) -> Output {
        until("a process ends", || self.has_ended());
        let status: ExitStatus = self.0.wait().unwrap();
        let read = |from: Option<&mut dyn std::io::Read>| {
            let mut bytes = Vec::new();
            if let Some(from) = from {
                from.read_to_end(&mut bytes).unwrap();
            }
            bytes
        };
        let stdout = read(self.0.stdout.as_mut().map(|pipe| pipe as &mut dyn std::io::Read));
        let stderr = read(self.0.stderr.as_mut().map(|pipe| pipe as &mut dyn std::io::Read));
        Output { status, stdout, stderr }
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        self.wait().status.code()
    }
}

impl From<Child> for Live {
    fn from(child: Child) -> Live {
        Live(child)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Looks again and again until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The processes that tool calls of the run have started and that still live.
pub fn processes_of(id: &str) -> Vec<u32> {
    let marker = format!("LONGHAUL_RUN={id}");
    let numbers = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        name.parse::<u32>().ok()
    });
    numbers
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == marker.as_bytes())
        })
        .collect()
}

pub fn kill_processes_of(id: &str) {
    for pid in processes_of(id) {
        // It may have ended in this moment, which is as good.
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).ok();
    }
}

/// Is a program of this name there?
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Says that a test proves nothing here, and why.
pub fn skip(missing: &str) {
    eprintln!("SKIP: {missing}");
}

/// Chance that can be repeated: the same seed draws the same numbers.
pub struct Chance(u64);

impl Chance {
    /// Draws from `LONGHAUL_TEST_SEED` if that is set, else from the time; says which seed it was.
    pub fn new() -> Chance {
        let given = std::env::var("LONGHAUL_TEST_SEED").ok().and_then(|text| text.parse().ok());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = given.unwrap_or(now.as_nanos() as u64);
        println!("LONGHAUL_TEST_SEED={seed}");
        Chance(seed)
    }

    pub fn split(&mut self) -> Chance {
        Chance(self.next())
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// A file system for a test alone, unmounted when it ends. `None` where mounting is not possible, which is said.
pub struct Mount {
    pub at: PathBuf,
}

impl Mount {
    pub fn tmpfs(at: PathBuf, bytes: u64) -> Option<Mount> {
        fs::create_dir_all(&at).unwrap();
        let options = format!("size={bytes},mode=0700");
        Mount::with(at, &["-t", "tmpfs", "-o", &options, "tmpfs"])
    }

    /// Mounts an image that has an ext4 file system.
    pub fn image(at: PathBuf, image: &Path) -> Option<Mount> {
        fs::create_dir_all(&at).unwrap();
        // A sandbox that somebody starts meanwhile takes the mounts there are along, and the old ones live as long as it does: mounted
        // again, it would be the very file system that was shut down.
        let users = || Command::new("losetup").arg("-j").arg(image).output();
        until("nobody has the image mounted", || {
            users().is_ok_and(|found| found.stdout.is_empty()) || !has("losetup")
        });
        Mount::with(at, &["-o", "loop", image.to_str().unwrap()])
    }

    fn with(at: PathBuf, args: &[&str]) -> Option<Mount> {
        if !has("mount") {
            skip("there is no `mount` program");
            return None;
        }
        let output = Command::new("mount").args(args).arg(&at).output().unwrap();
        if output.status.success() {
            return Some(Mount { at });
        }
        skip(&format!("this user cannot mount: {}", told(&output).replace('\n', " ")));
        None
    }

    pub fn unmount(&self) -> bool {
        Command::new("umount").arg(&self.at).output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !self.unmount() {
            Command::new("umount").arg("-l").arg(&self.at).output().ok();
        }
    }
}
