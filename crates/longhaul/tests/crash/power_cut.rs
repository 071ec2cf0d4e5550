//! The power goes: what was not synced is gone.
//!
//! An ext4 file system in a file is told to shut down without writing its log, the process is killed, and the file
//! system is mounted again. This models lost unsynced data, not torn sectors; those are the store's own tests' matter.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

use crate::rig::{Chance, Live, Mount, Rig, has, kill_processes_of, skip, told, until};

const CUTS: usize = 8;
const STEPS: usize = 5;

/// `EXT4_IOC_SHUTDOWN` with "no log flush": nothing that is not on disk by now ever gets there.
const SHUT_DOWN: &str = "import fcntl, os, struct, sys\n\
                         fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";

/// F07, F09, I1: at a power cut after any event that was shown, that event and all before it are there when the power
/// comes back, the journal is sound, and the run completes.
#[test]
fn what_was_shown_survives_a_power_cut() {
    cuts(CUTS, |events| {
        let mut rig = Rig::with_steps(STEPS);
        let disk = Disk::new(&rig, rig.path().join("disk"))?;
        rig.state_dir = disk.mount.at.join("state");
        let (id, shown, _mount) = cut(&rig, disk, events)?;
        if rig.status(&id) != "completed" {
            rig.says(&["resume", &id]);
        }
        // The workspace is on another disk, which had no power cut.
        rig.check_end(&id, STEPS);
        Some(shown)
    });
}

/// F07, AX2: with the workspace on the disk that loses power too, every file whose writing is on record as done has its
/// content when the power comes back, and the run completes with all files right.
#[test]
fn what_was_written_survives_a_power_cut() {
    cuts(CUTS / 2, |events| {
        let mut rig = Rig::with_steps(STEPS);
        let files = ["plan.yaml", "script.yaml"].map(|name| (name, fs::read(rig.work().join(name)).unwrap()));
        let disk = Disk::new(&rig, rig.work())?;
        for (name, content) in files {
            fs::write(rig.work().join(name), content).unwrap();
        }
        Command::new("sync").arg("-f").arg(rig.work()).status().unwrap();
        rig.state_dir = rig.work().join(".longhaul");
        rig.home = rig.work().join("home");
        let (id, shown, _mount) = cut(&rig, disk, events)?;
        for number in 1..=STEPS {
            let call = format!("call_{}", number * 2 - 1);
            if rig.calls(&id).get(&call).is_some_and(|(_, state)| state == "done") {
                rig.check_file(number);
            }
        }
        if rig.status(&id) != "completed" {
            rig.says(&["resume", &id]);
        }
        assert_eq!(rig.status(&id), "completed");
        (1..=STEPS).for_each(|number| rig.check_file(number));
        // What a command left behind without syncing may be gone; it is never there twice.
        let mut witness = rig.witness();
        let lines = witness.len();
        witness.sort();
        witness.dedup();
        assert_eq!(witness.len(), lines);
        Some(shown)
    });
}

/// F07: what the very first command has acknowledged is there after a power cut, and it is known whose it is: the user's secret,
/// the mark, and what keeps all of it out of git. On the disk that is cut are once the user's home and once the project.
#[test]
fn the_first_command_survives_a_power_cut() {
    if !can_cut_power() {
        return;
    }
    for is_home in [true, false] {
        let mut rig = Rig::with_steps(1).in_project();
        let work = rig.work();
        let files = ["plan.yaml", "script.yaml"].map(|name| (name, fs::read(work.join(name)).unwrap()));
        let at = if is_home { rig.path().join("disk") } else { work.clone() };
        let Some(Disk { image, mount }) = Disk::new(&rig, at.clone()) else { return };
        if is_home {
            rig.home = at.join("home");
        } else {
            files.iter().for_each(|(name, content)| fs::write(work.join(name), content).unwrap());
        }
        Command::new("sync").arg("-f").arg(&at).status().unwrap();
        let id = rig.create();
        fs::write(at.join("unsynced"), "gone").unwrap();
        cut_power(&at);
        until("nothing holds the file system", || mount.unmount());
        drop(mount);
        let Some(_mount) = Mount::image(at.clone(), &image) else { return };
        assert_ne!(
            fs::read_to_string(at.join("unsynced")).unwrap_or_default(),
            "gone",
            "the power was not cut"
        );
        assert_eq!(rig.status(&id), "created", "is_home: {is_home}");
        assert_eq!(
            fs::read_to_string(rig.state_dir.join(".gitignore")).unwrap(),
            "*\n",
            "is_home: {is_home}"
        );
    }
}

/// Cuts the power that many times, each time on a new disk, with `one` given the number of events to wait for.
fn cuts(count: usize, one: impl Fn(u64) -> Option<usize>) {
    if !can_cut_power() {
        return;
    }
    let mut chance = Chance::new();
    let mut shown_in_all = 0;
    for cut in 0..count {
        // The first cuts come right after the first events, where names are new; the others anywhere.
        let events = if cut < 2 { cut as u64 + 1 } else { 1 + chance.below(STEPS as u64 * 8) };
        let Some(shown) = one(events) else { return };
        shown_in_all += shown;
    }
    println!("{count} cuts, {shown_in_all} events were shown before them and found after");
}

/// A file system in a file, which can be mounted again.
struct Disk {
    image: PathBuf,
    mount: Mount,
}

impl Disk {
    fn new(rig: &Rig, at: PathBuf) -> Option<Disk> {
        let image = rig.path().join("image");
        fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).output().unwrap();
        assert!(made.status.success(), "{}", told(&made));
        let mount = Mount::image(at, &image)?;
        Some(Disk { image, mount })
    }
}

/// Starts a run, cuts the power when `events` of it were shown, and brings the power back. Answers the run, how many
/// events had been shown by then, and the disk as it was left, all of them on it.
fn cut(rig: &Rig, disk: Disk, events: u64) -> Option<(String, usize, Mount)> {
    let Disk { image, mount } = disk;
    let at = mount.at.clone();
    let id = rig.create();
    let mut live = rig.start(&["resume", &id]);
    let (shown, mut follower) = follow(rig, &id, events);
    // Never synced: if this survives, the cut was none and proves nothing.
    fs::write(at.join("unsynced"), "gone").unwrap();
    cut_power(&at);
    live.kill();
    follower.kill();
    kill_processes_of(&id);
    until("nothing holds the file system", || mount.unmount());
    drop(mount);
    let mount = Mount::image(at.clone(), &image)?;
    let unsynced = fs::read_to_string(at.join("unsynced")).unwrap_or_default();
    assert_ne!(unsynced, "gone", "the power was not cut");
    assert_eq!(rig.runs(), [id.as_str()], "a run whose events were shown is there");
    rig.says(&["store", "verify", &id]);
    let found: Vec<String> = rig.says(&["events", &id, "--json"]).lines().map(str::to_owned).collect();
    assert!(found.len() >= shown.len(), "{} events were shown, {} are there", shown.len(), found.len());
    assert_eq!(found[..shown.len()], shown[..], "what was shown is not what is there");
    Some((id, shown.len(), mount))
}

/// Reads events as they are shown, until there are that many or no more come.
fn follow(rig: &Rig, id: &str, events: u64) -> (Vec<String>, Live) {
    let mut child = rig.command(&["events", id, "--follow", "--json"]).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let shown = lines.take(usize::try_from(events).unwrap()).map(|line| line.unwrap()).collect();
    (shown, Live::from(child))
}

fn cut_power(disk: &Path) {
    let output = Command::new("python3").args(["-c", SHUT_DOWN]).arg(disk).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
}

fn can_cut_power() -> bool {
    if !geteuid().is_root() {
        skip("a power cut needs root, to mount a file system");
        return false;
    }
    for program in ["mkfs.ext4", "mount", "umount", "python3"] {
        if !has(program) {
            skip(&format!("a power cut needs `{program}`, which is not installed"));
            return false;
        }
    }
    true
}
