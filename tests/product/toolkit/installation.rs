//! Installation and removal without faults, and what must hold afterwards.

use std::fs;
use std::path::Path;

use sm121probe::event::Event;
use sm121probe::toolkit::{
    InstallOptions, Origin, PipSource, Places, Tool, discover, install, installed, remove,
};

use crate::toolkit::fakes::{Bench, Kept, host, names, other_machine};

#[test]
fn the_real_pip_installs_from_a_folder_of_wheels() {
    let bench = Bench::stocked();
    let kept = Kept::default();
    let done = install(&bench.store(), &bench.pins(), &names(&["13.5"]), &bench.real_pip(), &kept).unwrap();
    let folders: Vec<_> = done.iter().map(|one| one.folder.clone()).collect();
    assert_eq!(
        folders,
        ["ptxas/13.5.37", "nvdisasm/13.5.37"].map(|name| bench.path("cache/toolkits").join(name))
    );
    assert!(bench.scratch().is_empty(), "{:?}", bench.scratch());

    let found = discover(None, &Places::collect(&Default::default(), Some(&bench.path("cache"))));
    assert_eq!(found.toolkits[0].version.to_string(), "13.5.37");
    assert_eq!(found.toolkits[0].origins[0].origin, Origin::Cache);
    assert!(found.disassembler.is_some());

    let events = kept.0.into_inner().unwrap();
    let what = "ptxas 13.5.37".to_owned();
    // Wheels are fetched in parallel, in any order.
    let started =
        |event: &Event| matches!(event, Event::FetchStarted { what: w, bytes } if *w == what && *bytes > 100);
    assert!(events.iter().any(started), "{events:?}");
    assert!(events.contains(&Event::FetchFinished { what }), "{events:?}");
}

#[test]
fn what_is_there_is_not_fetched_again() {
    let bench = Bench::stocked();
    let first =
        install(&bench.store(), &bench.pins(), &names(&["all"]), &bench.pip("", ""), &Kept::default())
            .unwrap();
    assert_eq!(bench.asked().len(), 3);
    let nothing = PipSource { python: "/nonexistent/python".into(), args: Vec::new() };
    let options = InstallOptions { pip: nothing, offline: true, ..bench.real_pip() };
    let kept = Kept::default();
    assert_eq!(install(&bench.store(), &bench.pins(), &names(&["all"]), &options, &kept).unwrap(), first);
    assert!(kept.0.lock().unwrap().is_empty());
    assert_eq!(installed(&bench.store()).len(), 3);
}

#[test]
fn pip_is_asked_for_the_pinned_platform_and_writes_into_scratch_only() {
    let bench = Bench::stocked();
    install(&bench.store(), &bench.pins(), &names(&["ptxas:12.9"]), &bench.pip("", ""), &Kept::default())
        .unwrap();
    let asked = bench.asked().join("\n");
    let scratch = bench.path("cache/scratch/install-ptxas-12.9.86-").display().to_string();
    assert!(asked.starts_with(&scratch), "{asked}");
    let platform = format!("--platform=manylinux2014_{}", host().name());
    for word in
        ["-m pip", " download --no-deps", &platform, &format!("--dest {scratch}"), "fake-ptxas==12.9.86"]
    {
        assert!(asked.contains(word), "{word}: {asked}");
    }
}

#[test]
fn the_download_is_told_while_it_grows() {
    let mut bench = Bench::new();
    let name = "nvidia/bin/ptxas";
    // Digits of a counter, so that the wheel does not compress to nothing.
    let text: Vec<u8> = (0..200_000_u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let wheel = bench.add("ptxas", "fake-ptxas", "13.5.37", &[name], &[(name, 0o744, &text)]);
    let grow = "head -c 100000 \"$wheel\" > \"$TMPDIR\"/part; sleep 0.5; head -c 300000 \"$wheel\" > \"$TMPDIR\"/part; sleep 0.5";
    let kept = Kept::default();
    install(&bench.store(), &bench.pins(), &names(&["latest"]), &bench.pip(grow, ""), &kept).unwrap();
    let events = kept.0.into_inner().unwrap();
    let done: Vec<u64> = events
        .iter()
        .filter_map(|e| if let Event::FetchProgress { done, .. } = e { Some(*done) } else { None })
        .collect();
    assert!(done.contains(&100_000) && done.contains(&300_000) && done.is_sorted(), "{done:?}");
    assert!(done.iter().all(|bytes| *bytes <= fs::metadata(&wheel).unwrap().len()));
}

#[test]
fn only_pinned_members_are_unpacked() {
    let mut bench = Bench::new();
    let pinned = "nvidia/cu13/lib/libnvrtc.so.13";
    let entries = [
        (pinned, 0o644, &b"library"[..]),
        ("nvidia/cu13/lib/other.so", 0o644, b"unwanted"),
        ("../../../evil", 0o644, b"escaped"),
        ("/tmp/sm121probe-evil", 0o644, b"escaped"),
    ];
    bench.add("nvrtc", "fake-nvrtc", "13.5.37", &[pinned], &entries);
    install(&bench.store(), &bench.pins(), &names(&["nvrtc"]), &bench.pip("", ""), &Kept::default()).unwrap();
    let mut files = Vec::new();
    walk(bench.folder.path(), &mut files);
    let written: Vec<_> =
        files.iter().filter(|file| !file.starts_with("wheels") && !file.starts_with("cache/locks")).collect();
    let script = written.iter().find(|file| file.starts_with("python-")).unwrap().to_string();
    assert_eq!(
        written,
        [
            "cache/toolkits/nvrtc/13.5.37/lib/libnvrtc.so.13",
            "cache/toolkits/nvrtc/13.5.37/manifest.json",
            "log",
            script.as_str()
        ]
    );
    assert!(!Path::new("/tmp/sm121probe-evil").exists());
}

fn walk(root: &Path, files: &mut Vec<String>) {
    fn inner(root: &Path, folder: &Path, files: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                inner(root, &path, files);
            } else {
                files.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    inner(root, root, files);
    files.sort();
}

#[test]
fn damage_and_another_machine_are_repaired() {
    let bench = Bench::stocked();
    let again = || {
        install(&bench.store(), &bench.pins(), &names(&["ptxas"]), &bench.pip("", ""), &Kept::default())
            .unwrap()
    };
    let first = again();
    let folder = &first[0].folder;
    let file = folder.join("bin/ptxas");
    let good = fs::read(&file).unwrap();
    let mut flipped = good.clone();
    flipped[10] ^= 1;
    let manifest = folder.join("manifest.json");
    let elsewhere = fs::read_to_string(&manifest).unwrap().replace(host().name(), other_machine().name());
    let damages: [&dyn Fn(); 5] = [
        &|| fs::write(&file, &flipped).unwrap(),
        &|| fs::write(&file, &good[..20]).unwrap(),
        &|| fs::remove_file(&file).unwrap(),
        &|| fs::remove_file(&manifest).unwrap(),
        &|| fs::write(&manifest, &elsewhere).unwrap(),
    ];
    for (i, damage) in damages.iter().enumerate() {
        damage();
        assert_eq!(again(), first, "damage {i}");
        assert_eq!(bench.asked().len(), i + 2);
        assert_eq!(fs::read(&file).unwrap(), good, "damage {i}");
        assert!(bench.scratch().is_empty());
    }
}

#[test]
fn removal_takes_what_is_named() {
    let bench = Bench::stocked();
    let store = bench.store();
    let refill =
        || install(&store, &bench.pins(), &names(&["all"]), &bench.pip("", ""), &Kept::default()).unwrap();
    let there = || {
        installed(&store)
            .iter()
            .map(|one| format!("{}:{}", one.tool, one.version))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let take = |asked: &[&str]| {
        remove(&store, &names(asked)).map(|gone| gone.len()).map_err(|error| error.to_string())
    };
    assert!(take(&["13.5"]).unwrap_err().contains("installed are: nothing"));
    assert_eq!(take(&["all"]), Ok(0));
    refill();
    assert_eq!(take(&["13", "13.5.37"]), Ok(1));
    assert_eq!(there(), "ptxas:12.9.86 nvdisasm:13.5.37");
    let error = take(&["12.9", "13.5"]).unwrap_err();
    assert!(error.contains("`13.5`") && error.contains("ptxas:12.9.86 nvdisasm:13.5.37"), "{error}");
    assert_eq!(there(), "ptxas:12.9.86 nvdisasm:13.5.37", "a wrong name removes nothing");
    assert_eq!(take(&["nvdisasm", "ptxas:12.9"]), Ok(2));
    refill();
    // An incomplete toolkit can be removed, too.
    fs::remove_file(bench.path("cache/toolkits/ptxas/13.5.37/manifest.json")).unwrap();
    assert_eq!(take(&["all"]), Ok(3));
    assert_eq!(fs::read_dir(bench.path("cache/toolkits").join(Tool::Ptxas.name())).unwrap().count(), 0);
    assert!(bench.scratch().is_empty());
}

#[test]
#[ignore = "needs a network: fetches nvidia-cuda-nvdisasm with this machine's pip"]
fn a_pinned_wheel_is_fetched_from_the_index() {
    let bench = Bench::new();
    let pins = sm121probe::toolkit::Pins::built_in().unwrap();
    let options = InstallOptions::for_host().unwrap();
    install(&bench.store(), &pins, &names(&["nvdisasm"]), &options, &Kept::default()).unwrap();
    let found = discover(None, &Places::collect(&Default::default(), Some(&bench.path("cache"))));
    assert_eq!(found.disassembler.unwrap().version, pins.resolve(&names(&["nvdisasm"])).unwrap()[0].version);
}
