//! What an agent has left in the `.git` of its worktree that git would stop at.
//!
//! Owns that a worktree stays one, whatever is run in it. What git never puts there goes: links, and what is waited for when it is
//! opened. What git takes a directory for a repository by, and is lost or broken (`rm -rf .git`), is made anew from the one that
//! has lent it what it had, with all that has come home; no file of the worktree is touched. Refuses to throw away what may be
//! work, which is put aside inside of it, and to put another directory in the place of `.git`: what holds an agent's commands is
//! mounted upon this one.

use std::ffi::{CStr, CString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, fsync, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::apart::{Entry, Shown, alternate, stage_anew};
use crate::git::{self, Git};
use crate::gitdirs::{self, LEADS_AWAY, Lender};
use crate::homing::Error;
use crate::{checkout, lending, limits, place};

/// Where the directory has what was broken.
pub(crate) const BROKEN: &str = "longhaul-broken";

/// What git follows or opens, with all that is below it.
const FOLLOWED: [&str; 6] = ["logs", "objects", "rebase-apply", "rebase-merge", "refs", "sequencer"];

/// Sees to the worktree at `tree`, if its directory is one of ours, without running git. What it makes anew it adds to `mended`, also
/// if it cannot make all of it.
pub(crate) fn mend(tree: &Path, mended: &mut Vec<&'static str>) -> Result<(), Error> {
    let Ok(top) = tree.canonicalize() else { return Ok(()) };
    let mut sweep = Sweep { left: limits::GIT_ENTRIES_MAX, has_opened: false };
    if gitdirs::note_of(&top).exists() {
        sweep.open_top(&top);
    }
    if !gitdirs::is_ours(&top) {
        return Ok(());
    }
    let Some(directory) = opened(&top) else { return Ok(()) };
    sweep.top(&directory);
    if sweep.has_opened {
        mended.push("modes");
    }
    match gitdirs::lender(&top) {
        Some(lender) if !is_repository(&directory) => {
            Repair::of(&top, directory, lender, mended)?.begin_with_files()
        }
        Some(_) | None => Ok(()),
    }
}

/// The same, and asks git whether it can read what is there. For a worktree alone, and before anything is kept of it.
pub(crate) fn mend_for_git(tree: &Path, mended: &mut Vec<&'static str>) -> Result<(), Error> {
    mend(tree, mended)?;
    let Ok(top) = tree.canonicalize() else { return Ok(()) };
    let (Some(lender), Some(directory)) = (gitdirs::lender(&top), opened(&top)) else { return Ok(()) };
    let names = || done(Git::at(&top).printing_much(), &["for-each-ref", "--format="]);
    let has_names = || names().map(|names| names.is_some());
    // Without an index, all that a sparse checkout leaves out would be taken for deleted.
    let has_stage = facts(&directory, c"index").is_some() && has_stage(&top)?;
    if has_names()? && has_stage && has_own(&top, &lender)? {
        return Ok(());
    }
    // What git refuses the whole directory for, as its settings, is not in any name.
    Git::at(&top).run(&["rev-parse", "--git-dir"])?;
    let mut repair = Repair::of(&top, directory, lender, mended)?;
    if !has_names()? {
        repair.names()?;
    }
    if !has_names()? {
        // It is not the file of all names that git stops at, but one of those that each have a file.
        repair.put_aside(c"refs")?;
        repair.names()?;
    }
    if !has_own(&top, &repair.lender)? {
        repair.own()?;
    }
    if !has_stage {
        repair.put_aside(c"index")?;
    }
    repair.stage()
}

/// Is the branch there that a worktree is for, if it stands on it?
fn has_own(top: &Path, lender: &Lender) -> Result<bool, git::Error> {
    let own = lender.own().map(|own| own.here);
    let head = Git::at(top).run(&["symbolic-ref", "--quiet", "HEAD"]).ok();
    if own.is_none() || own != head {
        return Ok(true);
    }
    Ok(done(Git::at(top), &["rev-parse", "--quiet", "--verify", "HEAD^{commit}"])?.is_some())
}

/// Git takes an index that was cut short for whole, and finds zeros where there is nothing.
fn has_stage(top: &Path) -> Result<bool, git::Error> {
    let listed = match done(Git::at(top).printing_much(), &["ls-files", "--stage", "-z"]) {
        // So many files nobody has cut short.
        Err(git::Error::TooMuch { .. }) => return Ok(true),
        listed => listed?,
    };
    Ok(listed.is_some_and(|listed| !checkout::split(&listed).any(|entry| entry.starts_with(b"000000 "))))
}

/// What git prints, unless it fails by what it finds. That somebody else has ended it says nothing about that.
fn done(git: Git<'_>, words: &[&str]) -> Result<Option<Vec<u8>>, git::Error> {
    let printed = git.print(words)?;
    let signal = printed.status.signal();
    // What is read beyond the end of a file that was cut short, or makes no sense.
    let by_what_is_read = [Signal::BUS, Signal::SEGV, Signal::ABORT].map(|signal| Some(signal.as_raw()));
    if signal.is_some() && !by_what_is_read.contains(&signal) {
        return Err(printed.failed(words.join(" ")));
    }
    Ok(printed.succeeded(String::new()).ok())
}

/// Was anything broken there?
pub(crate) fn has_broken(tree: &Path) -> bool {
    tree.join(".git").join(BROKEN).symlink_metadata().is_ok()
}

fn opened(top: &Path) -> Option<OwnedFd> {
    inside(File::open(top).ok()?.as_fd(), c".git").ok()
}

/// Has this what git takes a directory for a repository by, and what it needs to know which files there are?
fn is_repository(directory: &OwnedFd) -> bool {
    has_head(directory) && has(directory, &[c"objects"]) && has_names(directory) && has_index(directory)
}

/// Without one, the next commit would delete all files but those that are staged for it.
fn has_index(directory: &OwnedFd) -> bool {
    let begins = || -> io::Result<[u8; 4]> {
        let mut first = [0; 4];
        file(directory, c"index")?.read_exact(&mut first)?;
        Ok(first)
    };
    begins().is_ok_and(|first| &first == b"DIRC")
}

/// Git writes the one anew and keeps the other, whatever branches are removed.
fn has_names(directory: &OwnedFd) -> bool {
    facts(directory, c"packed-refs").is_some() && has(directory, &[c"refs", c"heads"])
}

/// Is there a directory by this way?
fn has(directory: &OwnedFd, way: &[&CStr]) -> bool {
    let own = directory.try_clone().ok();
    way.iter().fold(own, |above, name| inside(above?.as_fd(), name).ok()).is_some()
}

fn has_head(directory: &OwnedFd) -> bool {
    let is_id =
        |said: &str| matches!(said.len(), 40 | 64) && said.chars().all(|letter| letter.is_ascii_hexdigit());
    let head = read(directory, c"HEAD").unwrap_or_default();
    let says = head.trim_end();
    // Deeper than what is looked through for what git would wait for, nobody has a branch.
    let is_part = |part: &str| {
        let is_odd = |letter: char| letter.is_ascii_control() || letter == ' ';
        !part.is_empty() && !part.starts_with('.') && !part.contains("..") && !part.contains(is_odd)
    };
    let is_name = |name: &str| {
        let is_deep = name.split('/').nth(limits::GIT_LEVELS_MAX).is_some();
        name.starts_with("refs/") && !is_deep && name.split('/').all(is_part)
    };
    says.strip_prefix("ref: ").is_some_and(is_name) || is_id(says)
}

/// A small file whole, or nothing of it.
fn read(directory: &OwnedFd, name: &CStr) -> Option<String> {
    let file = file(directory, name).ok()?;
    let facts = file.metadata().ok()?;
    let is_small = facts.is_file() && facts.len() <= limits::GIT_LINK_BYTES_MAX;
    is_small.then(|| io::read_to_string(file).ok())?
}

/// Nothing is waited for, and no link is followed.
fn file(directory: &OwnedFd, name: &CStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(openat(directory, name, flags, Mode::empty())?))
}

/// Making anew what is broken, while nobody else of ours does.
struct Repair<'a> {
    top: &'a Path,
    directory: OwnedFd,
    lender: Lender,
    /// For those who are told.
    made_anew: &'a mut Vec<&'static str>,
    _lock: File,
}

impl<'a> Repair<'a> {
    fn of(
        top: &'a Path,
        directory: OwnedFd,
        lender: Lender,
        made_anew: &'a mut Vec<&'static str>,
    ) -> Result<Repair<'a>, Error> {
        let lock = lending::taken(&lender)?.ok_or(Error::Busy)?;
        Ok(Repair { top, directory, lender, made_anew, _lock: lock })
    }

    /// What can be seen to be missing without git.
    fn begin_with_files(mut self) -> Result<(), Error> {
        if is_repository(&self.directory) {
            // Another of ours has seen to it meanwhile.
            return Ok(());
        }
        if !has(&self.directory, &[c"objects"]) {
            self.put_aside(c"objects")?;
            self.make_directories(c"objects", [c"info", c"pack"])?;
            let info = inside(self.directory.as_fd(), c"objects")
                .and_then(|objects| inside(objects.as_fd(), c"info"));
            let info = info.map_err(|errno| self.failed(errno.into()))?;
            put(&info, c"alternates", &alternate(&self.lender.common)).map_err(|error| self.failed(error))?;
            self.made("objects");
        }
        if !has_head(&self.directory) {
            self.head()?;
        }
        if !has_names(&self.directory) {
            self.names()?;
        }
        if !has_index(&self.directory) {
            self.put_aside(c"index")?;
        }
        // What is staged anew is what this has.
        if !has_own(self.top, &self.lender)? {
            self.own()?;
        }
        self.stage()
    }

    /// Has the worktree stand on its own branch again.
    fn head(&mut self) -> Result<(), Error> {
        let head = match self.lender.own() {
            Some(own) => format!("ref: {}\n", own.here),
            None => self.entry().head().map_err(|error| self.broken(error))?,
        };
        if read(&self.directory, c"HEAD").is_some_and(|says| says == head) {
            return Ok(());
        }
        self.put_aside(c"HEAD")?;
        put(&self.directory, c"HEAD", head.as_bytes()).map_err(|error| self.failed(error))?;
        self.made("HEAD");
        Ok(())
    }

    /// Its own branch, as it came home, or as it was lent. What others have put onto it at home is not among the files here.
    fn own(&mut self) -> Result<(), Error> {
        if let Some(own) = self.lender.own() {
            let known = self.lender.known()?.unwrap_or_default();
            let commit = match known.get(&own.here) {
                Some(commit) => commit.to_owned(),
                None => self.lender.git().run(&["rev-parse", "--verify", "--end-of-options", &own.there])?,
            };
            Git::at(self.top).run(&["update-ref", "--end-of-options", &own.here, &commit])?;
            self.made("branch");
        }
        Ok(())
    }

    /// All branches and tags as they were shown, and the worktree's own. Those that it has by files of their own stay. What was lent
    /// stays on record as it was: else what the user has done since would be taken for ours.
    fn names(&mut self) -> Result<(), Error> {
        let shown = Shown::of(&self.entry()).map_err(|error| self.broken(error))?;
        if !has(&self.directory, &[c"refs"]) {
            self.put_aside(c"refs")?;
        }
        self.put_aside(c"packed-refs")?;
        put(&self.directory, c"packed-refs", &shown.packed).map_err(|error| self.failed(error))?;
        self.make_directories(c"refs", [c"heads", c"tags"])?;
        self.made("refs");
        // What it stood on may be among what was put aside.
        self.head()
    }

    fn stage(mut self) -> Result<(), Error> {
        if stage_anew(self.top).map_err(|error| self.broken(error))? {
            self.made("index");
        }
        Ok(())
    }

    fn made(&mut self, part: &'static str) {
        if !self.made_anew.contains(&part) {
            self.made_anew.push(part);
        }
    }

    fn put_aside(&self, name: &CStr) -> Result<(), Error> {
        if facts(&self.directory, name).is_none() {
            return Ok(());
        }
        let aside = || -> rustix::io::Result<()> {
            let broken = CString::new(BROKEN).unwrap_or_default();
            match mkdirat(&self.directory, &broken, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            // Somebody may have put a file there, which is nothing of ours.
            if !has(&self.directory, &[&broken]) {
                unlinkat(&self.directory, &broken, AtFlags::empty())?;
                mkdirat(&self.directory, &broken, Mode::from_raw_mode(0o777))?;
            }
            let broken = inside(self.directory.as_fd(), &broken)?;
            let numbered = |number: usize| {
                CString::new([name.to_bytes(), format!("-{number}").as_bytes()].concat()).unwrap_or_default()
            };
            let mut names = (1..=limits::FRESH_NAMES_MAX).map(numbered);
            let free = names.find(|name| facts(&broken, name).is_none()).ok_or(Errno::EXIST)?;
            renameat(&self.directory, name, &broken, free)
        };
        aside().map_err(|errno| self.failed(errno.into()))
    }

    fn make_directories(&self, name: &CStr, below: [&CStr; 2]) -> Result<(), Error> {
        let make = || -> rustix::io::Result<()> {
            let mode = Mode::from_raw_mode(0o777);
            let there = |made| if made == Err(Errno::EXIST) { Ok(()) } else { made };
            there(mkdirat(&self.directory, name, mode))?;
            let made = inside(self.directory.as_fd(), name)?;
            below.into_iter().try_for_each(|name| there(mkdirat(&made, name, mode)))
        };
        make().map_err(|errno| self.failed(errno.into()))
    }

    fn entry(&self) -> Entry<'_> {
        Entry { directory: &self.lender.entry, common: &self.lender.common }
    }

    fn failed(&self, error: io::Error) -> Error {
        checkout::io_error("mend", &self.top.join(".git"))(error).into()
    }

    fn broken(&self, error: place::Error) -> Error {
        Error::Broken { path: self.top.to_owned(), source: Box::new(error) }
    }
}

/// Puts a whole file in place, whatever stands there.
fn put(directory: &OwnedFd, name: &CStr, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Whatever stands by the names that are tried.
    let numbered = |number| CString::new(format!("longhaul-mending-{number}")).unwrap_or_default();
    let opened = (0..limits::FRESH_NAMES_MAX).map(numbered).find_map(|fresh| {
        let file = openat(directory, &fresh, flags, Mode::from_raw_mode(0o666)).ok()?;
        Some((File::from(file), fresh))
    });
    let (mut file, fresh) = opened.ok_or(io::ErrorKind::AlreadyExists)?;
    file.write_all(bytes)?;
    fsync(&file)?;
    Ok(renameat(directory, &fresh, directory, name)?)
}

/// Going through a directory that somebody may be changing: by open directories alone, so that no link leads elsewhere.
struct Sweep {
    left: usize,
    /// Was a directory closed to us?
    has_opened: bool,
}

impl Sweep {
    /// Opens the worktree itself, and its `.git`.
    fn open_top(&mut self, top: &Path) {
        let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        let above = top.parent().and_then(|above| File::open(above).ok());
        let Some((above, own)) = above.zip(top.file_name()) else { return };
        self.open(above.as_fd(), &name(Path::new(own)));
        if let Ok(inside) = File::open(top) {
            self.open(inside.as_fd(), c".git");
        }
    }

    /// Lets us into a directory that an agent has closed: nobody could work in there any more, git least of all.
    fn open(&mut self, above: BorrowedFd<'_>, name: &CStr) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(directory) = openat(above, name, flags, Mode::empty()) else { return };
        let is_open = |facts: &Stat| facts.st_mode & 0o700 == 0o700;
        if let Some(facts) = fstat(&directory).ok().filter(|facts| !is_open(facts)) {
            // By its number: what is called so may be another one by now.
            let place = format!("/proc/self/fd/{}", directory.as_raw_fd());
            let mode = Permissions::from_mode(facts.st_mode & 0o7777 | 0o700);
            self.has_opened |= fs::set_permissions(place, mode).is_ok();
        }
    }

    fn top(&mut self, directory: &OwnedFd) {
        for (name, kind) in self.entries(directory) {
            let is = |known: &&str| name.to_bytes() == known.as_bytes();
            let is_usual = matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Socket);
            if !is_usual || LEADS_AWAY.iter().any(is) || is_huge_at_top(directory, &name) {
                unlinkat(directory, &name, AtFlags::empty()).ok();
            } else if let Some(root) = FOLLOWED.into_iter().find(is) {
                // Each by itself: many of one kind hide nothing of another.
                self.left = limits::GIT_ENTRIES_MAX;
                self.below(root, directory, &name, limits::GIT_LEVELS_MAX);
            }
        }
    }

    fn below(&mut self, root: &str, above: &OwnedFd, name: &CStr, levels: usize) {
        self.open(above.as_fd(), name);
        let Some(directory) = inside(above.as_fd(), name).ok().filter(|_| levels > 0) else { return };
        for (name, kind) in self.entries(&directory) {
            if kind == FileType::Directory {
                self.below(root, &directory, &name, levels - 1);
                continue;
            }
            let is_huge = || root == "refs" && is_over(&directory, &name, limits::REFERENCE_FILE_BYTES_MAX);
            if kind != FileType::RegularFile || is_huge() {
                unlinkat(&directory, &name, AtFlags::empty()).ok();
            }
        }
    }

    fn entries(&mut self, directory: &OwnedFd) -> Vec<(CString, FileType)> {
        let found = Dir::read_from(directory).into_iter().flatten().flatten();
        let found = found.filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."));
        let found: Vec<_> = found.take(self.left).collect();
        self.left -= found.len();
        // Not every file system tells with the name.
        let kind = |name: &CStr, told| {
            let is_told = told != FileType::Unknown;
            let looked = || facts(directory, name).map(|facts| FileType::from_raw_mode(facts.st_mode));
            if is_told { Some(told) } else { looked() }
        };
        let named = found.iter().map(|entry| (entry.file_name().to_owned(), entry.file_type()));
        named.filter_map(|(name, told)| Some((name.clone(), kind(&name, told)?))).collect()
    }
}

/// What git reads into memory whole.
fn is_huge_at_top(directory: &OwnedFd, name: &CStr) -> bool {
    let max = match name.to_bytes() {
        b"FETCH_HEAD" | b"shallow" => limits::FILE_BYTES_MAX,
        name if name.ends_with(b"HEAD") => limits::REFERENCE_FILE_BYTES_MAX,
        _ => return false,
    };
    is_over(directory, name, max)
}

fn is_over(directory: &OwnedFd, name: &CStr, bytes_max: u64) -> bool {
    facts(directory, name).is_some_and(|facts| facts.st_size as u64 > bytes_max)
}

fn facts(directory: &OwnedFd, name: &CStr) -> Option<Stat> {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()
}

/// A directory in another one, and no link to one.
pub(crate) fn inside(directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty())
}
