//! The built-in tools beside the programs people know: `grep` beside ripgrep, `glob` beside fd, in turns over the same tree. A
//! comparison of times is worth nothing if the answers differ, so those are compared as well.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{Outcome, Trace};
use longhaul_tools::{Blobs, Cancel, CancelSwitch, Context, Edit, Glob, Grep, Read, Sandbox, Tool};
use longhaul_workspace::{Workspace, digest_of};
use serde_json::{Value, json};

use super::ground::Ground;
use super::report::{Row, Target};
use super::stats::{median, millis};
use crate::failure::Failure;

/// How much is searched, and how often.
#[derive(Clone, Copy, Debug)]
pub struct ToolSizes {
    pub files: usize,
    pub file_bytes: usize,
    pub rounds: usize,
    pub huge_bytes: u64,
    pub edited_bytes: usize,
}

impl ToolSizes {
    /// About 200 MB of text.
    pub const FULL: ToolSizes = ToolSizes {
        files: 8000,
        file_bytes: 25_000,
        rounds: 9,
        huge_bytes: 1 << 30,
        edited_bytes: 10_000_000,
    };

    /// Enough to see every row.
    pub const QUICK: ToolSizes =
        ToolSizes { files: 100, file_bytes: 2_000, rounds: 1, huge_bytes: 1 << 24, edited_bytes: 100_000 };
}

const RATIO_MAX: f64 = 1.2;
const PAGE_MS_MAX: f64 = 100.0;
const EDIT_MS_MAX: f64 = 50.0;

pub fn measure(ground: &Ground, sizes: &ToolSizes, said: &dyn Fn(&str)) -> Result<Vec<Row>, Failure> {
    said("a tree to search");
    let tree = ground.place("tree")?;
    grow(&tree, sizes)?;
    let bench = Bench::new(&tree)?;
    said("grep beside rg");
    let mut rows = Vec::new();
    for (names, pattern) in [
        (["grep_word", "grep_word_same"], "quokka"),
        (["grep_regex", "grep_regex_same"], r"\b[n-z]\w+ka \d{3}\b"),
    ] {
        let args = json!({ "pattern": pattern, "mode": "count", "limit": 10_000 });
        let rival = ["rg", "--no-config", "--count", "--no-messages", "-e", pattern, "."];
        rows.extend(bench.beside(names, &Grep::new(), &args, &[&rival], sizes)?);
    }
    said("glob beside fd");
    let args = json!({ "pattern": "**/*.rs", "order": "path", "limit": 10_000 });
    let rivals = ["fdfind", "fd"].map(|name| [name, "--glob", "*.rs", "--type", "f", "--color", "never"]);
    let rivals: Vec<&[&str]> = rivals.iter().map(<[&str; 7]>::as_slice).collect();
    rows.extend(bench.beside(["glob", "glob_same"], &Glob::new(), &args, &rivals, sizes)?);
    said("a page of a huge file, and an edit");
    rows.push(bench.page(sizes)?);
    rows.push(bench.edit(sizes)?);
    Ok(rows)
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    context: Context,
    blobs: Arc<Held>,
    _switch: CancelSwitch,
}

impl Bench {
    fn new(tree: &Path) -> Result<Bench, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("cannot measure tools: {error}"));
        let (switch, cancel) = Cancel::new();
        let blobs = Arc::new(Held::default());
        let run = RunId::parse("run_bench").map_err(|error| failed(&error))?;
        let context = Context {
            workspace: Arc::new(Workspace::open(tree).map_err(|error| failed(&error))?),
            key: format!("{run}.call_1"),
            run,
            asked_at: Timestamp::default(),
            timeout: Duration::from_secs(600),
            cwd: None,
            seen: None,
            rules: Arc::new([]),
            printed: Arc::new(longhaul_tools::Unheard),
            cancel,
            blobs: Arc::clone(&blobs) as Arc<dyn Blobs>,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(Bench { runtime, context, blobs, _switch: switch })
    }

    /// Two rows: the time beside that of the first rival there is, and whether both say the same.
    fn beside(
        &self,
        [name, name_same]: [&'static str; 2],
        tool: &dyn Tool,
        args: &Value,
        rivals: &[&[&str]],
        sizes: &ToolSizes,
    ) -> Result<[Row; 2], Failure> {
        let Some(rival) = rivals.iter().find(|rival| is_there(rival[0])) else {
            let about = format!("SKIP: {} is not installed", rivals.last().map_or("it", |rival| rival[0]));
            return Ok([name, name_same].map(|name| Row::new(name, &*about, 0.0, "").target(Target::Skipped)));
        };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let (mut our_answer, mut their_answer) = (Vec::new(), Vec::new());
        // The first round only warms up what both read.
        for round in 0..=sizes.rounds {
            let started = Instant::now();
            our_answer = self.lines(&self.call(tool, args, &[])?);
            let our_time = millis(started.elapsed());
            let started = Instant::now();
            their_answer = said_by(rival, self.context.workspace.root())?;
            let their_time = millis(started.elapsed());
            if round > 0 || sizes.rounds == 1 {
                ours.push(our_time);
                theirs.push(their_time);
            }
        }
        let (time, rival_time) = (median(&ours), median(&theirs));
        let about = format!("{} files; {} takes {rival_time:.1} ms", sizes.files, rival[0]);
        let same = f64::from(our_answer == their_answer);
        Ok([
            Row::new(name, about, time, "ms").ratio(time / rival_time).target(Target::RatioAtMost(RATIO_MAX)),
            Row::new(name_same, format!("same {} lines as {}", our_answer.len(), rival[0]), same, "")
                .target(Target::Exactly(1.0)),
        ])
    }

    fn page(&self, sizes: &ToolSizes) -> Result<Row, Failure> {
        let mut file = fs::File::create(self.context.workspace.root().join("huge.txt"))?;
        file.write_all("a line of the huge file\n".repeat(50_000).as_bytes())?;
        file.set_len(sizes.huge_bytes)?;
        let started = Instant::now();
        self.call(&Read::new(Sandbox::off()), &json!({ "path": "huge.txt", "offset": 1000 }), &[])?;
        let about = format!("one page of a file of {} MB", sizes.huge_bytes >> 20);
        Ok(Row::new("read_page", about, millis(started.elapsed()), "ms").target(Target::AtMost(PAGE_MS_MAX)))
    }

    /// Beside what cannot be avoided: the same bytes written to a new file, synced and renamed for good.
    fn edit(&self, sizes: &ToolSizes) -> Result<Row, Failure> {
        let root = self.context.workspace.root();
        let text = "one more line of a long file\n".repeat(sizes.edited_bytes / 29) + "the end\n";
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..sizes.rounds {
            put(root, "long.txt", &text)?;
            let args = json!({ "path": "long.txt", "old": "the end", "new": "no end" });
            let started = Instant::now();
            let tool = Edit::new();
            let traces = self.runtime.block_on(tool.prepare(&self.context, &Json::of(&args)));
            let traces = traces.map_err(|outcome| broken(&outcome))?;
            self.call(&tool, &args, &traces)?;
            ours.push(millis(started.elapsed()));
            let started = Instant::now();
            put(root, "bare.txt", &text)?;
            bare.push(millis(started.elapsed()));
        }
        let (time, bare) = (median(&ours), median(&bare));
        let about =
            format!("prepare and edit {} KB; writing them takes {bare:.1} ms", sizes.edited_bytes / 1000);
        Ok(Row::new("edit", about, time, "ms").ratio(time / bare).target(Target::AtMost(EDIT_MS_MAX)))
    }

    fn call(&self, tool: &dyn Tool, args: &Value, traces: &[Trace]) -> Result<Outcome, Failure> {
        let outcome = self.runtime.block_on(tool.run(&self.context, &Json::of(args), traces));
        if outcome.is_done() { Ok(outcome) } else { Err(broken(&outcome)) }
    }

    /// The whole answer in order, without what the tool says about it.
    fn lines(&self, outcome: &Outcome) -> Vec<String> {
        let Outcome::Done { output } = outcome else { return Vec::new() };
        let kept = output.blob.as_ref().and_then(|hash| self.blobs.fetch(hash).ok());
        let text =
            kept.map_or_else(|| output.text.to_string(), |kept| String::from_utf8_lossy(&kept).into_owned());
        in_order(text.lines().filter(|line| !line.starts_with('[')))
    }
}

/// Nothing of it is left to be written in somebody else's time.
fn put(directory: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let temporary = directory.join("bare.tmp");
    let mut file = fs::File::create(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, directory.join(name))?;
    Ok(fs::File::open(directory)?.sync_all()?)
}

fn broken(outcome: &Outcome) -> Failure {
    Failure::usage(format!("a tool failed: {}", outcome.error().unwrap_or("without a word")))
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

fn said_by(command: &[&str], directory: &Path) -> Result<Vec<String>, Failure> {
    let mut child = Command::new(command[0]);
    let output = child.args(&command[1..]).current_dir(directory).stdin(Stdio::null()).output()?;
    Ok(in_order(String::from_utf8_lossy(&output.stdout).lines()))
}

fn in_order<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut lines: Vec<String> = lines.map(|line| line.trim_start_matches("./").to_owned()).collect();
    lines.sort_unstable();
    lines
}

/// A tree like a repository's: some ignored, some hidden, some binary, words of which one is rare.
fn grow(tree: &Path, sizes: &ToolSizes) -> Result<(), Failure> {
    const WORDS: [&str; 8] =
        ["alpha", "bravo ", "kookaburra\n", "fn main", "let x = ", "wallaby;\n", "emu", " = koala\n"];
    fs::create_dir(tree.join(".git"))?;
    fs::write(tree.join(".gitignore"), "target/\n*.tmp\n")?;
    let mut state = 1u32;
    for index in 0..sizes.files {
        let kind = ["rs", "py", "md", "txt", "tmp"][index % 5];
        let top = if index % 50 == 49 { "target" } else { ["src", "lib", "docs", ".hidden"][index / 7 % 4] };
        let directory = tree.join(format!("{top}/{:02}/{}", index % 40, index / 40 % 10));
        fs::create_dir_all(&directory)?;
        let mut text = if index % 97 == 0 { "binary \0 quokka\n".to_owned() } else { String::new() };
        while text.len() < sizes.file_bytes {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push_str(WORDS[(state >> 13) as usize % WORDS.len()]);
            if state >> 20 == 77 {
                text.push_str(&format!(" quokka {}\n", state % 1000));
            }
        }
        fs::write(directory.join(format!("file_{index}.{kind}")), text)?;
    }
    Ok(())
}

/// Long answers, held for comparing.
#[derive(Default)]
struct Held(Mutex<BTreeMap<String, Vec<u8>>>);

impl Blobs for Held {
    fn keep(&self, bytes: &[u8]) -> Result<String, String> {
        let hash = digest_of(bytes);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(hash.clone(), bytes.to_vec());
        Ok(hash)
    }

    fn fetch(&self, hash: &str) -> Result<Vec<u8>, String> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(hash).cloned().ok_or_else(|| "not kept".to_owned())
    }
}
