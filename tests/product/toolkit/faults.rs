//! Every way in which a fetch can fail: nothing is installed, nothing remains, and the error names the remedy.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use sm121probe::toolkit::{InstallError, InstallOptions, PipSource, install, installed};

use crate::toolkit::fakes::{Bench, Kept, LINK, host, names, other_machine, ptxas, wheel};

const MEMBER: &str = "nvidia/cu13/bin/ptxas";

/// Installs ptxas 13.5.37, which must fail and leave nothing.
fn refused(bench: &Bench, options: &InstallOptions, words: &[&str]) {
    let error = install(&bench.store(), &bench.pins(), &names(&["ptxas:13.5.37"]), options, &Kept::default())
        .unwrap_err();
    let error = error.to_string();
    for word in words.iter().chain(&["ptxas 13.5.37"]) {
        assert!(error.contains(word), "no `{word}` in: {error}");
    }
    assert!(installed(&bench.store()).iter().all(|one| one.version.to_string() != "13.5.37"));
    assert!(!bench.path("cache/toolkits/ptxas/13.5.37").exists());
    assert!(bench.scratch().is_empty(), "{:?}", bench.scratch());
}

fn with_entries(entries: &[crate::toolkit::fakes::Entry<'_>]) -> Bench {
    let mut bench = Bench::new();
    bench.add("ptxas", "fake-ptxas", "13.5.37", &[MEMBER], entries);
    bench
}

fn good() -> Bench {
    with_entries(&[(MEMBER, 0o744, ptxas("13.5.37").as_bytes())])
}

#[test]
fn a_wheel_that_is_not_the_pinned_one_is_refused() {
    let bench = good();
    let file = bench.path("wheels");
    let file = fs::read_dir(file)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.to_string_lossy().contains(host().name()))
        .unwrap();
    let bytes = fs::read(&file).unwrap();
    let changed = ["is not the pinned file", "sha256", "mirror"];
    let mut flipped = bytes.clone();
    flipped[40] ^= 1;
    fs::write(&file, &flipped).unwrap();
    refused(&bench, &bench.pip("", ""), &changed);
    for length in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&file, &bytes[..length]).unwrap();
        refused(&bench, &bench.pip("", ""), &changed);
    }
    let other = wheel("fake-ptxas", "13.5.37", &[(MEMBER, 0o744, b"#!/bin/sh\necho evil\n")]);
    fs::write(&file, other).unwrap();
    refused(&bench, &bench.real_pip(), &changed);
}

#[test]
fn a_wheel_without_its_member_is_refused() {
    let absent = with_entries(&[("nvidia/cu13/bin/nvcc", 0o744, b"x")]);
    refused(&absent, &absent.pip("", ""), &[MEMBER, "no such file"]);
    let link = with_entries(&[(MEMBER, LINK, b"/bin/sh")]);
    refused(&link, &link.pip("", ""), &[MEMBER, "not a regular file"]);
    let folder = with_entries(&[("nvidia/cu13/bin/ptxas/inner", 0o744, b"x")]);
    refused(&folder, &folder.pip("", ""), &[MEMBER, "no such file"]);
}

#[test]
fn a_pinned_wheel_that_is_damaged_inside_is_refused() {
    let plain = wheel("fake-ptxas", "13.5.37", &[(MEMBER, 0o744, ptxas("13.5.37").as_bytes())]);
    let mut tried = 0;
    // Hashes match the damaged bytes: this tests the reading of archives, cut at every 7th byte.
    for length in (0..plain.len()).step_by(7) {
        let mut bench = Bench::new();
        bench.add_bytes("ptxas", "fake-ptxas", "13.5.37", &[MEMBER], &plain[..length]);
        refused(&bench, &bench.pip("", ""), &["cannot be unpacked"]);
        tried += 1;
    }
    assert!(tried > 20);
    let mut bench = Bench::new();
    bench.add_bytes(
        "ptxas",
        "fake-ptxas",
        "13.5.37",
        &[MEMBER],
        b"<html>sign in to the hotel network</html>",
    );
    refused(&bench, &bench.pip("", ""), &["cannot be unpacked"]);
}

#[test]
fn a_tool_for_another_machine_is_refused() {
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\0\0rest".to_vec();
    let numbers = [62_u16, 183];
    let own = if host().name() == "x86_64" { numbers } else { [183, 62] };
    elf[18..20].copy_from_slice(&own[1].to_le_bytes());
    let bench = with_entries(&[(MEMBER, 0o744, &elf)]);
    refused(&bench, &bench.pip("", ""), &[MEMBER, "another machine", host().name()]);
    elf[18..20].copy_from_slice(&own[0].to_le_bytes());
    let bench = with_entries(&[(MEMBER, 0o744, &elf)]);
    install(&bench.store(), &bench.pins(), &names(&["ptxas"]), &bench.pip("", ""), &Kept::default()).unwrap();
}

#[test]
fn pip_without_the_wheel_is_an_error_with_its_words() {
    let bench = good();
    for entry in fs::read_dir(bench.path("wheels")).unwrap() {
        let path = entry.unwrap().path();
        if !path.to_string_lossy().contains(other_machine().name()) {
            fs::remove_file(path).unwrap();
        }
    }
    refused(
        &bench,
        &bench.real_pip(),
        &["fake-ptxas==13.5.37", "No matching distribution", "pip config list"],
    );
}

#[test]
fn pip_that_fails_hangs_or_brings_something_else() {
    let bench = good();
    let said = "echo 'WARNING: Retrying (Retry(total=0)) after connection broken by Unreachable(1)' >&2; echo 'ERROR: No route' >&2; exit 1";
    refused(
        &bench,
        &bench.pip(said, ""),
        &["No route", "index cannot be reached: Unreachable(1)", "network"],
    );
    refused(&bench, &bench.pip("exit 7", ""), &["status 7"]);
    refused(&bench, &bench.pip("kill -9 $$", ""), &["signal 9"]);
    refused(&bench, &bench.pip("exit 0", ""), &["not the pinned file", "it fetched: nothing"]);
    refused(
        &bench,
        &bench.pip("cp \"$wheel\" \"$dest\"/x-1.0.tar.gz; exit 0", ""),
        &["it fetched: x-1.0.tar.gz"],
    );
    let no_pip = bench.pip("echo '/usr/bin/python3: No module named pip' >&2; exit 1", "");
    refused(&bench, &no_pip, &["has no pip", "apt install python3-pip", "SM121PROBE_PYTHON"]);

    let start = Instant::now();
    let hangs = InstallOptions {
        limit: Duration::from_millis(500),
        ..bench.pip("echo part > \"$dest\"/part; sleep 600", "")
    };
    refused(&bench, &hangs, &["did not fetch", "500ms", "network"]);
    assert!(start.elapsed() < Duration::from_secs(300), "the child was waited for");

    let absent = PipSource { python: "/nonexistent/python3".into(), args: Vec::new() };
    let no_python = InstallOptions { pip: absent, ..bench.pip("", "") };
    refused(&bench, &no_python, &["/nonexistent/python3", "apt install python3-pip", "SM121PROBE_PYTHON"]);
}

#[test]
fn offline_never_fetches() {
    let bench = good();
    let options = InstallOptions { offline: true, ..bench.pip("", "") };
    refused(&bench, &options, &["offline", "toolkit install ptxas:13.5.37", "by its path"]);
    assert!(bench.asked().is_empty());
}

#[test]
fn one_bad_wheel_does_not_stop_the_others() {
    let mut bench = Bench::stocked();
    let member = "nvidia/bin/ptxas";
    bench.add("ptxas", "fake-ptxas", "13.0.48", &[member], &[]);
    bench.add("ptxas", "fake-ptxas", "13.0.88", &[member], &[]);
    let error =
        install(&bench.store(), &bench.pins(), &names(&["all"]), &bench.pip("", ""), &Kept::default())
            .unwrap_err();
    let error = error.to_string();
    assert!(error.lines().count() == 2 && error.contains("13.0.48") && error.contains("13.0.88"), "{error}");
    assert_eq!(installed(&bench.store()).len(), 3);
    // A failed download hides no bad wheel, in either order.
    let no_others = "case \"$wheel\" in *13.0*) ;; *) echo 'ERROR: No route' >&2; exit 1 ;; esac";
    let error = install(
        &Bench::stocked().store(),
        &bench.pins(),
        &names(&["all"]),
        &bench.pip(no_others, ""),
        &Kept::default(),
    )
    .unwrap_err();
    let InstallError::Several(all) = &error else { panic!("{error}") };
    assert_eq!(all.len(), 3, "{error}");
    // A missing pip is reported once for all wheels.
    let bench = Bench::stocked();
    let error =
        install(&bench.store(), &bench.pins(), &names(&["all"]), &bench.pip("exit 1", ""), &Kept::default())
            .unwrap_err();
    assert!(!matches!(error, InstallError::Several(_)), "{error}");
}

#[test]
fn a_cache_that_cannot_be_written_is_an_error_with_the_remedy() {
    // Root ignores mode bits; a file in place of a folder stops root, too.
    for (in_the_way, scratch_is_file) in [("locks", false), ("scratch", true), ("toolkits", false)] {
        let bench = good();
        let store = bench.store();
        fs::write(bench.path("cache").join(in_the_way), "").unwrap();
        let error = install(&store, &bench.pins(), &names(&["ptxas"]), &bench.pip("", ""), &Kept::default())
            .unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("SM121PROBE_CACHE") && error.contains("ptxas 13.5.37"),
            "{in_the_way}: {error}"
        );
        assert!(
            error.contains(&Path::new("cache").join(in_the_way).display().to_string()),
            "{in_the_way}: {error}"
        );
        assert!(scratch_is_file || bench.scratch().is_empty());
    }
}
