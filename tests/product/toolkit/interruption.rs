//! Installations that are killed at any point, and concurrent installations.
//!
//! The child process is this test binary, running only `child_install`.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sm121probe::store::Store;
use sm121probe::toolkit::{
    Environment, InstallOptions, Pins, PipSource, Places, discover, install, installed,
};

use crate::toolkit::fakes::{Bench, Kept, names, ptxas};

const MEMBER: &str = "nvidia/cu13/bin/ptxas";

/// A fixture with one ptxas of several megabytes, so that unpacking takes time.
fn bench() -> Bench {
    let mut bench = Bench::new();
    let text = ptxas("13.5.37") + &"# padding\n".repeat(800_000);
    bench.add("ptxas", "fake-ptxas", "13.5.37", &[MEMBER], &[(MEMBER, 0o744, text.as_bytes())]);
    bench
}

#[test]
#[ignore = "the body of a child process of the tests beside it"]
fn child_install() {
    let Some(cache) = std::env::var_os("TEST_CACHE") else { return };
    let pins = fs::read_to_string(std::env::var("TEST_PINS").unwrap()).unwrap();
    let pins = Pins::parse(Path::new("pins.yaml"), &pins).unwrap();
    let store = Store::open(Some(Path::new(&cache))).unwrap();
    let pip = PipSource { python: std::env::var_os("TEST_PYTHON").unwrap().into(), args: Vec::new() };
    let options = InstallOptions { pip, ..InstallOptions::for_host().unwrap() };
    install(&store, &pins, &names(&["ptxas"]), &options, &Kept::default()).unwrap();
}

/// Starts an installation in its own process; `limits` is a shell command before it, such as `ulimit`.
fn start(bench: &Bench, options: &InstallOptions, limits: &str) -> Child {
    let pins = bench.path("pins.yaml");
    // Written once: an earlier child may be reading it.
    if !pins.exists() {
        fs::write(&pins, bench.pins_text()).unwrap();
    }
    Command::new("sh")
        .args([
            "-c",
            &format!("{limits}; exec \"$0\" --ignored --exact toolkit::interruption::child_install"),
        ])
        .arg(std::env::current_exe().unwrap())
        .env("TEST_CACHE", bench.path("cache"))
        .env("TEST_PINS", pins)
        .env("TEST_PYTHON", &options.pip.python)
        .stdout(Stdio::null())
        .stderr(File::options().create(true).append(true).open(bench.path("errors")).unwrap())
        .spawn()
        .unwrap()
}

/// Discovery finds either nothing or a complete toolkit, and an installation repairs everything and leaves nothing behind.
fn recovers(bench: &Bench, point: &str) {
    let look = || discover(None, &Places::collect(&Environment::default(), Some(&bench.path("cache"))));
    let found = look();
    assert!(found.unusable.is_empty(), "{point}: {:?}", found.unusable);
    assert!(installed(&bench.store()).iter().all(|one| one.folder.join("bin/ptxas").is_file()), "{point}");
    install(&bench.store(), &bench.pins(), &names(&["ptxas"]), &bench.pip("", ""), &Kept::default()).unwrap();
    assert_eq!(look().toolkits.len(), 1, "{point}");
    assert!(bench.scratch().is_empty(), "{point}: {:?}", bench.scratch());
}

#[test]
fn killed_while_pip_runs() {
    let kill = "kill -9 $PPID";
    for (point, before, after) in [
        ("before the download", kill, ""),
        ("in the download", "head -c 500 \"$wheel\" > \"$dest\"/part; kill -9 $PPID", ""),
        ("after the download", "", kill),
    ] {
        let bench = bench();
        let status = start(&bench, &bench.pip(before, after), ":").wait().unwrap();
        assert!(!status.success(), "{point}");
        assert!(
            installed(&bench.store()).is_empty() && bench.scratch().len() == 1,
            "{point}: {:?}",
            bench.scratch()
        );
        recovers(&bench, point);
    }
}

#[test]
fn killed_while_unpacking() {
    // A file that exceeds the limit kills its writer; the wheel itself is far smaller.
    for kilobytes in [64, 1000, 4000] {
        let bench = bench();
        let blocks = kilobytes * 2;
        let status =
            start(&bench, &bench.pip("", ""), &format!("ulimit -c 0; ulimit -f {blocks}")).wait().unwrap();
        assert!(!status.success(), "{kilobytes}");
        assert!(installed(&bench.store()).is_empty(), "{kilobytes}");
        let [left] = bench.scratch().try_into().unwrap();
        let half = bench.path("cache/scratch").join(left).join("tree/bin/ptxas");
        assert!(fs::metadata(half).unwrap().len() > 0, "{kilobytes}");
        recovers(&bench, &format!("{kilobytes} KB unpacked"));
    }
}

/// Puts the disk into the state of some point in time.
type State<'a> = &'a dyn Fn(&Bench);

#[test]
fn killed_between_unpacking_and_the_end() {
    let whole = bench();
    install(&whole.store(), &whole.pins(), &names(&["ptxas"]), &whole.pip("", ""), &Kept::default()).unwrap();
    let placed = |bench: &Bench| bench.path("cache/toolkits/ptxas/13.5.37");
    let copy = |from: &Path, to: &Path| {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    };
    // The state of the disk after each step.
    let left =
        |bench: &Bench, name: &str| bench.path("cache/scratch/install-ptxas-13.5.37-AbCdEf").join(name);
    let states: [(&str, State<'_>); 4] = [
        ("unpacked, no manifest", &|bench| {
            copy(&placed(&whole), &left(bench, "tree"));
            fs::remove_file(left(bench, "tree/manifest.json")).unwrap();
        }),
        ("manifest written", &|bench| copy(&placed(&whole), &left(bench, "tree"))),
        ("the old one moved away", &|bench| {
            copy(&placed(&whole), &left(bench, "tree"));
            copy(&placed(&whole), &left(bench, "old"));
        }),
        ("in place, scratch not cleared", &|bench| {
            copy(&placed(&whole), &placed(bench));
            copy(&placed(&whole), &left(bench, "old"));
        }),
    ];
    for (point, make) in states {
        let bench = bench();
        make(&bench);
        recovers(&bench, point);
    }
}

#[test]
fn killed_at_any_time() {
    let timed = bench();
    let begin = Instant::now();
    assert!(start(&timed, &timed.pip("", ""), ":").wait().unwrap().success());
    let whole = begin.elapsed();
    let bench = bench();
    for eighth in 0..8 {
        let mut child = start(&bench, &bench.pip("", ""), ":");
        std::thread::sleep(whole * eighth / 8);
        // By its handle, with SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        recovers(&bench, &format!("{eighth}/8"));
        fs::remove_dir_all(bench.path("cache")).unwrap();
    }
}

#[test]
fn four_at_once_fetch_once() {
    let bench = bench();
    let options = bench.pip("sleep 0.5", "");
    let children: Vec<Child> = (0..4).map(|_| start(&bench, &options, ":")).collect();
    for mut child in children {
        let ended = child.wait().unwrap();
        assert!(ended.success(), "{}", fs::read_to_string(bench.path("errors")).unwrap());
    }
    assert_eq!(bench.asked().len(), 1, "{:?}", bench.asked());
    assert_eq!(installed(&bench.store()).len(), 1);
    assert!(bench.scratch().is_empty(), "{:?}", bench.scratch());
}

#[test]
fn an_install_waits_no_longer_than_its_holder_lives() {
    let bench = bench();
    let marker = bench.path("marker");
    let holder = bench.pip(&format!("touch {}; sleep 30", marker.display()), "");
    let mut child = start(&bench, &holder, ":");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !marker.exists() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    recovers(&bench, "the holder of the lock is dead");
}
