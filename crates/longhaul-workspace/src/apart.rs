//! A worktree with a git directory of its own.
//!
//! Owns what parts a run's worktree from the user's `.git`: references, settings, index and objects of its own, made from the
//! user's, whose objects are lent to be read. Whatever is done there, the user's repository is what it was until `homing` brings
//! something there. It goes on listing the worktree, and so keeps its branch from being removed or checked out elsewhere. Refuses
//! to hand on keys that the user's settings hold.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::carry;
use crate::checkout::{path_bytes, path_of, split};
use crate::git::{self, Git};
use crate::gitdirs::{self, Lender, WORKTREE_OF};
use crate::keys::without_key;
use crate::lending::{self, BROUGHT, COMING, KEPT_BACK, LENT, OWN, Own};
use crate::limits;
use crate::place::{Error, sync_parent};

/// Where the repository keeps what it knows of one worktree (gitrepository-layout: `worktrees/<id>/`), and its own directory.
pub(crate) struct Entry<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) common: &'a Path,
}

/// What of the user's settings a repository has to say for itself.
const FORMAT: &[&str] = &["extensions.objectformat", "extensions.partialclone"];

/// Who makes commits.
const WHO: &[&str] = &["author.", "committer.", "user."];

/// The sections of settings that a worktree gets.
const HANDED_ON: &[&str] = &[
    "advice",
    "alias",
    "am",
    "apply",
    "author",
    "blame",
    "branch",
    "checkout",
    "clean",
    "color",
    "column",
    "commit",
    "commitgraph",
    "committer",
    "core",
    "diff",
    "feature",
    "fetch",
    "filter",
    "format",
    "gc",
    "grep",
    "i18n",
    "index",
    "init",
    "interactive",
    "lfs",
    "log",
    "merge",
    "notes",
    "pack",
    "pull",
    "push",
    "rebase",
    "remote",
    "rerere",
    "reset",
    "sequence",
    "sparse",
    "stash",
    "status",
    "submodule",
    "switch",
    "tag",
    "trailer",
    "url",
    "user",
    "versionsort",
    "worktree",
];

/// What git keeps of a worktree for the repository that it is linked to, and what is no good elsewhere.
const LINKS: &[&str] = &[
    "HEAD",
    "commondir",
    "config.worktree",
    "gitdir",
    "locked",
    "modules",
    "longhaul-lock",
    LENT,
    BROUGHT,
    COMING,
    OWN,
];

/// Gives the worktree at `path` a directory of its own. Killed at any moment, the same once more does it again.
pub(crate) fn part(path: &Path, entry: &Entry<'_>) -> Result<(), Error> {
    let (fresh, link) = (in_the_making(path), path.join(".git"));
    remove(&fresh)?;
    note(path, entry)?;
    make(&fresh, path, entry).inspect_err(|_| drop(remove(&fresh)))?;
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(io_error("remove", &link)(error));
        }
        Ok(()) | Err(_) => {}
    }
    fs::rename(&fresh, &link).map_err(io_error("rename", &fresh))?;
    sync_parent(&link)?;
    // It is no longer what is staged, and git would look after it.
    fs::remove_file(entry.directory.join("index")).ok();
    Ok(())
}

/// Takes what is checked out for staged, where nothing says what is, and answers whether that was so. No file is touched.
pub(crate) fn stage_anew(path: &Path) -> Result<bool, Error> {
    if path.join(".git/index").exists() {
        return Ok(false);
    }
    // Beside its place until it is whole: without what is left out, everything that is would seem deleted.
    let (fresh, place) = (path.join(".git/longhaul-index"), path.join(".git/index"));
    fs::remove_file(&fresh).ok();
    let git = || Git::at(path).printing_much().with("GIT_INDEX_FILE", &fresh);
    // On a branch that has no commit yet, nothing is. One whose commit is lost had some.
    let is_begun = git().print(&["rev-parse", "--quiet", "--verify", "HEAD"])?.status.code() == Some(1);
    git().run(&["read-tree", if is_begun { "--empty" } else { "HEAD" }])?;
    if git().run(&["config", "--type=bool", "--get", "core.sparseCheckout"]).is_ok_and(|said| said == "true")
    {
        // What is left out of the checkout is not missing.
        let all = git().bytes(&["ls-files", "-z"])?;
        let shown = git().reading(all.clone()).bytes(&["sparse-checkout", "check-rules", "-z"])?;
        let shown: BTreeSet<&[u8]> = split(&shown).collect();
        let left_out = split(&all).filter(|name| !shown.contains(name));
        let left_out: Vec<u8> = left_out.flat_map(|name| [name, b"\0"].concat()).collect();
        git().reading(left_out).bytes(&["update-index", "-z", "--skip-worktree", "--stdin"])?;
    }
    fs::rename(&fresh, &place).map_err(io_error("rename", &fresh))?;
    Ok(true)
}

/// Has the branch of a worktree brought home that it was made for, whatever was checked out there when it was parted. May be said
/// again; a branch that the user has renamed since is left to him.
pub(crate) fn claim(entry: &Entry<'_>, branch: &str) -> Result<(), Error> {
    let (head, reference) = (entry.directory.join("HEAD"), format!("refs/heads/{branch}"));
    let line = format!("ref: {reference}\n");
    let says = gitdirs::small(&head).unwrap_or_default();
    // Another way of keeping references has something else there.
    if says == line || says.ends_with("/.invalid\n") {
        return Ok(());
    }
    let asked = ["rev-parse", "--quiet", "--verify", "--end-of-options", &reference];
    if entry.git().run(&asked).is_err() {
        return Ok(());
    }
    write(&entry.directory.join(OWN), format!("{reference}\n").as_bytes())?;
    write(&head, line.as_bytes())
}

/// Notes beside a worktree whose it is.
pub(crate) fn note(path: &Path, entry: &Entry<'_>) -> Result<(), Error> {
    write(&gitdirs::note_of(path), &[path_bytes(entry.directory), b"\n"].concat())
}

/// Where the directory is before it is whole.
pub(crate) fn in_the_making(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".git-making");
    path.with_file_name(name)
}

pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn make(fresh: &Path, path: &Path, entry: &Entry<'_>) -> Result<(), Error> {
    for below in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
        let directory = fresh.join(below);
        fs::create_dir_all(&directory).map_err(io_error("create", &directory))?;
    }
    let listed = ["config", "--list", "--null", "--show-scope"];
    let listed = entry.git().printing_much().bytes(&listed)?;
    write(&fresh.join("config"), &settings(&listed, &lists(fresh, path, entry)?))?;
    let shown = Shown::of(entry)?;
    shown.record(entry)?;
    shown.write_to(fresh)?;
    write(&fresh.join("objects/info/alternates"), &alternate(entry.common))?;
    if let Some(ends) = gitdirs::history_ends(entry.common) {
        write(&fresh.join("shallow"), ends.as_bytes())?;
    }
    // What `worktree add` has written for a sparse checkout goes before what the user's has.
    copy_own(&entry.directory.join("info/sparse-checkout"), &fresh.join("info/sparse-checkout"))?;
    for name in ["hooks", "info/attributes", "info/exclude", "info/grafts", "info/sparse-checkout"] {
        copy(&entry.common.join(name), &fresh.join(name))?;
    }
    // What is staged and under way.
    let names = fs::read_dir(entry.directory).map_err(io_error("read", entry.directory))?;
    for name in names.flatten().map(|found| found.file_name()) {
        let is_own =
            !LINKS.iter().any(|link| name == *link) && !path_bytes(Path::new(&name)).ends_with(b".lock");
        if is_own {
            copy_own(&entry.directory.join(&name), &fresh.join(&name))?;
        }
    }
    if let Ok(index) = File::open(fresh.join("index")) {
        index.sync_all().map_err(io_error("sync", fresh))?;
    }
    write(&fresh.join(WORKTREE_OF), &[path_bytes(entry.directory), b"\n"].concat())?;
    let head = match &shown.own {
        Some((own, _)) => format!("ref: {}\n", own.here),
        None => entry.head()?,
    };
    let own = head.strip_prefix("ref: ").unwrap_or_default();
    match own {
        "" => drop(fs::remove_file(entry.directory.join(OWN))),
        own => write(&entry.directory.join(OWN), own.as_bytes())?,
    }
    let commit = shown.own.map_or_else(|| entry.commit(), |(_, was)| Ok(was));
    if let (Some(branch), Ok(commit)) = (head.strip_prefix("ref: "), commit) {
        // As a file of its own it can be compared without git.
        let file = fresh.join(branch.trim_end());
        let above = file.parent().unwrap_or(fresh);
        fs::create_dir_all(above).map_err(io_error("create", above))?;
        write(&file, format!("{commit}\n").as_bytes())?;
    }
    write(&fresh.join("HEAD"), head.as_bytes())
}

impl Entry<'_> {
    /// Git as in that worktree, wherever its files are.
    pub(crate) fn git(&self) -> Git<'_> {
        Git::at(self.common).with("GIT_DIR", self.directory)
    }

    pub(crate) fn head(&self) -> Result<String, Error> {
        if let Ok(branch) = self.git().run(&["symbolic-ref", "--quiet", "HEAD"]) {
            return Ok(format!("ref: {branch}\n"));
        }
        Ok(format!("{}\n", self.commit()?))
    }

    fn commit(&self) -> Result<String, Error> {
        Ok(self.git().run(&["rev-parse", "--verify", "HEAD^{commit}"])?)
    }
}

/// Where git is told what to ignore and what files are, by a file outside of the repository, which can be read from nowhere here.
const LISTS: [(&str, &str, &str); 2] = [
    ("core.excludesfile", "ignore", "info/longhaul-exclude"),
    ("core.attributesfile", "attributes", "info/longhaul-attributes"),
];

/// Copies those files, and answers the settings that name the copies.
fn lists(fresh: &Path, path: &Path, entry: &Entry<'_>) -> Result<Vec<(&'static str, PathBuf)>, Error> {
    let mut found = Vec::new();
    for (key, usual, name) in LISTS {
        let named = entry.git().bytes(&["config", "--null", "--type=path", "--get", key]);
        let named = named.map(|named| split(&named).next().map(path_of).unwrap_or_default());
        let file = named.unwrap_or_else(|_| git::user_settings().join(usual));
        let is_list = |facts: &fs::Metadata| facts.is_file() && facts.len() <= limits::FILE_BYTES_MAX;
        if file.is_absolute() && file.metadata().is_ok_and(|facts| is_list(&facts)) {
            copy(&file, &fresh.join(name))?;
            found.push((key, path.join(".git").join(name)));
        }
    }
    Ok(found)
}

/// How git begins a file of references.
const PACKED: &[u8] = b"# pack-refs with: sorted \n";

/// What an agent can look at of what there is in the user's repository.
pub(crate) struct Shown {
    /// All branches and tags, as git keeps them in one file.
    pub(crate) packed: Vec<u8>,
    /// The same as what was lent, for the record; none if there is one, which goes on.
    lent: Option<Vec<u8>>,
    /// What the worktree's own branch was, if that is on record.
    own: Option<(Own, String)>,
    /// Names that stand for others.
    links: Vec<(PathBuf, Vec<u8>)>,
}

impl Shown {
    /// As they are, or, if they were shown before, as they were then: files that were made from that are still there.
    pub(crate) fn of(entry: &Entry<'_>) -> Result<Shown, Error> {
        let lender = Lender { common: entry.common.to_owned(), entry: entry.directory.to_owned() };
        let now = Shown::as_it_is(entry)?;
        let Some(known) = lender.known()? else { return Ok(now) };
        let own = lender.own().and_then(|own| known.get(&own.here).map(str::to_owned).map(|was| (own, was)));
        let is_link = |name: &str| now.links.iter().any(|(link, _)| link == Path::new(name));
        let lines = known.iter().filter(|(name, _)| !is_link(name));
        let lines: String = lines.map(|(name, commit)| format!("{commit} {name}\n")).collect();
        let packed = [PACKED, lines.as_bytes()].concat();
        Ok(Shown { packed, lent: None, own, links: now.links })
    }

    fn as_it_is(entry: &Entry<'_>) -> Result<Shown, Error> {
        let asked = ["for-each-ref", "--format=%(objectname) %(refname) %(symref)"];
        let printed = entry.git().printing_much().bytes(&asked)?;
        let (mut packed, mut lent, mut links) = (PACKED.to_vec(), Vec::new(), Vec::new());
        for line in printed.split(|byte| *byte == b'\n') {
            let mut words = line.splitn(3, |byte| *byte == b' ');
            let (Some(commit), Some(name)) = (words.next(), words.next()) else { continue };
            let leads_to = words.next().unwrap_or_default();
            if KEPT_BACK.iter().any(|kept| name.starts_with(kept.as_bytes())) {
                continue;
            }
            let line = [commit, b" ", name, b"\n"].concat();
            lent.extend(&line);
            if leads_to.is_empty() {
                packed.extend(line);
            } else {
                links.push((path_of(name), [b"ref: ", leads_to, b"\n"].concat()));
            }
        }
        Ok(Shown { packed, lent: Some(lent), own: None, links })
    }

    fn record(&self, entry: &Entry<'_>) -> Result<(), Error> {
        let path = entry.directory.join(LENT);
        self.lent
            .as_ref()
            .map_or(Ok(()), |lent| lending::whole(&path, lent).map_err(io_error("write", &path)))
    }

    fn write_to(&self, fresh: &Path) -> Result<(), Error> {
        for (name, text) in &self.links {
            let link = fresh.join(name);
            let above = link.parent().unwrap_or(fresh);
            fs::create_dir_all(above).map_err(io_error("create", above))?;
            write(&link, text)?;
        }
        write(&fresh.join("packed-refs"), &self.packed)
    }
}

/// The settings of the user's repository, as a file. `listed` has a scope before each; those of other files are read there.
fn settings(listed: &[u8], lists: &[(&str, PathBuf)]) -> Vec<u8> {
    let words: Vec<&[u8]> = split(listed).collect();
    let is_own = |pair: &&[&[u8]]| pair[0] == b"local" || pair[0] == b"worktree";
    // Who the user is may hang on where the repository is, and this one is elsewhere.
    let is_name = |pair: &&[&[u8]]| WHO.iter().any(|section| pair[1].starts_with(section.as_bytes()));
    let pairs = words.chunks_exact(2).filter(|pair| is_own(pair) || is_name(pair));
    let pairs = pairs.map(|pair| match pair[1].iter().position(|byte| *byte == b'\n') {
        Some(end) => (&pair[1][..end], Some(&pair[1][end + 1..])),
        None => (pair[1], None),
    });
    let is_format = |key: &[u8]| FORMAT.iter().any(|name| key == name.as_bytes());
    let (format, others): (Vec<_>, Vec<_>) = pairs.partition(|(key, _)| is_format(key));
    let version: &[u8] = if format.is_empty() { b"0" } else { b"1" };
    let mut text = Settings::default();
    text.add(b"core.repositoryformatversion", Some(version));
    text.add(b"core.bare", Some(b"false"));
    let is_list = |key: &[u8]| lists.iter().any(|(list, _)| key == list.as_bytes());
    for (key, value) in others.into_iter().filter(|(key, _)| is_handed_on(key) && !is_list(key)) {
        text.add(key, value.map(without_key).as_deref());
    }
    for (key, place) in lists {
        text.add(key.as_bytes(), Some(path_bytes(place)));
    }
    for (key, value) in format {
        text.add(key, value);
    }
    text.bytes
}

/// Is it something that git goes by in any worktree of the repository? Sections of other programs may hold keys, and so may those
/// about servers.
fn is_handed_on(key: &[u8]) -> bool {
    // The last two have git put into its directory what it is refused for.
    let own: &[&[u8]] = &[
        b"core.bare",
        b"core.repositoryformatversion",
        b"core.worktree",
        b"core.fsmonitor",
        b"core.prefersymlinkrefs",
    ];
    let section = key.split(|byte| *byte == b'.').next().unwrap_or_default();
    let is_known = HANDED_ON.iter().any(|name| section == name.as_bytes());
    is_known && !own.contains(&key) && without_key(key) == key
}

/// A file of settings in the making.
#[derive(Default)]
struct Settings {
    bytes: Vec<u8>,
    section: Vec<u8>,
}

impl Settings {
    /// Adds a setting as git names it: what is between the first point and the last may be anything.
    fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        let point = |byte: &u8| *byte == b'.';
        let Some((first, last)) = key.iter().position(point).zip(key.iter().rposition(point)) else { return };
        if self.section != key[..last] {
            self.section = key[..last].to_vec();
            self.bytes.extend([b"[", &key[..first]].concat());
            if first < last {
                self.bytes.extend([b" \"", &escaped(&key[first + 1..last])[..], b"\""].concat());
            }
            self.bytes.extend(b"]\n");
        }
        self.bytes.extend([b"\t", &key[last + 1..]].concat());
        if let Some(value) = value {
            self.bytes.extend([b" = \"", &escaped(value)[..], b"\""].concat());
        }
        self.bytes.push(b'\n');
    }
}

fn escaped(text: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b'"' => b"\\\"".to_vec(),
        b'\\' => b"\\\\".to_vec(),
        b'\n' => b"\\n".to_vec(),
        other => vec![*other],
    };
    text.iter().flat_map(escape).collect()
}

/// The line by which git finds the objects that a repository lends.
pub(crate) fn alternate(common: &Path) -> Vec<u8> {
    let objects = common.join("objects");
    let path = path_bytes(&objects);
    if path.contains(&b'\n') {
        return [b"\"", &escaped(path)[..], b"\"\n"].concat();
    }
    [path, b"\n"].concat()
}

/// What only a worktree has. An agent may have put links there before it had a directory of its own, and those are left out.
fn copy_own(from: &Path, to: &Path) -> Result<(), Error> {
    let is_link = from.symlink_metadata().is_ok_and(|facts| facts.is_symlink());
    if is_link { Ok(()) } else { copy(from, to) }
}

/// What is there already stays, and what is not there is not missed. Of a link, what it leads to is copied: it may lead elsewhere from
/// here.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    match from.canonicalize() {
        Ok(from) if to.symlink_metadata().is_err() => carry::copy(&from, to),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let written = File::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(io_error("write", path))
}

fn io_error<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Error + 'a {
    move |source| Error::Io { action, path: path.to_owned(), source }
}

/// Makes a repository know a worktree again whose entry is lost. Git passes over an entry until it names a place.
pub(crate) fn register(path: &Path, entry: &Entry<'_>, branch: &str) -> Result<(), Error> {
    fs::create_dir_all(entry.directory).map_err(io_error("create", entry.directory))?;
    write(&entry.directory.join("commondir"), b"../..\n")?;
    write(&entry.directory.join("HEAD"), format!("ref: refs/heads/{branch}\n").as_bytes())?;
    let named = entry.directory.join("gitdir.new");
    write(&named, &[path_bytes(path), b"/.git\n"].concat())?;
    fs::rename(&named, entry.directory.join("gitdir")).map_err(io_error("rename", &named))
}
