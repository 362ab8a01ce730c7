//! Recordings: read, written and read again; every kind of damage is named.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use vectors::digests::Digests;
use vectors::{BUILTIN, Op, Recording, Source, VectorsError, builtin};

#[test]
fn the_built_in_recordings_are_whole() {
    let [device, model]: [Recording; 2] = builtin().unwrap().try_into().unwrap();
    assert_eq!(device.device, "NVIDIA H100 80GB HBM3");
    assert_eq!(device.source, Source::Device { capability: "9.0".to_owned(), driver: 13000 });
    assert_eq!(device.ops.len(), 336);
    for op in &device.ops {
        let Op::Warp(op) = op else { panic!("{} is no warp", op.name()) };
        assert_eq!(op.cases, 8, "{}", op.name);
        assert_eq!(op.input(7).len(), op.n_in);
        assert_eq!(op.output(7).len(), op.n_out);
        assert!(op.input(8).is_empty());
    }
    assert_eq!(model.source, Source::Model);
    assert_eq!(model.ops.len(), 70);
}

#[test]
fn what_is_written_is_read_again() {
    let folder = TempDir::new().unwrap();
    for (recording, (name, archive)) in builtin().unwrap().into_iter().zip(BUILTIN) {
        let at = folder.path().join(name.trim_end_matches(".zip"));
        recording.write(&at, |path, bytes| fs::write(path, bytes)).unwrap();
        assert_eq!(Recording::load(&at).unwrap(), recording, "{name}: from a folder");
        let zip = at.with_extension("zip");
        recording.write(&zip, |path, bytes| fs::write(path, bytes)).unwrap();
        assert_eq!(Recording::load(&zip).unwrap(), recording, "{name}: from an archive");
        assert_eq!(Recording::from_zip(Path::new(name), archive).unwrap(), recording);
        let again = folder.path().join("again.zip");
        recording.write(&again, |path, bytes| fs::write(path, bytes)).unwrap();
        assert_eq!(fs::read(again).unwrap(), fs::read(zip).unwrap(), "{name}: the same bytes twice");
    }
}

/// A small recording of each kind in a folder, to be damaged.
fn samples() -> (TempDir, TempDir) {
    let mut recordings = builtin().unwrap().into_iter().map(|mut recording| {
        recording.ops.drain(2..);
        let folder = TempDir::new().unwrap();
        recording.write(folder.path(), |path, bytes| fs::write(path, bytes)).unwrap();
        folder
    });
    (recordings.next().unwrap(), recordings.next().unwrap())
}

fn replace(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{from} is not in {}", file.display());
    fs::write(file, text.replacen(from, to, 1)).unwrap();
}

/// The error that a damaged folder gives, and that it names the file.
fn error(folder: &Path, file: &str) -> String {
    let text = Recording::load(folder).unwrap_err().to_string();
    assert!(text.contains(file), "`{text}` does not name {file}");
    text
}

#[test]
fn words_that_are_cut_short_are_named() {
    for (folder, words) in [(samples().0, "vectors.bin"), (samples().1, "mma.bin")] {
        let at = folder.path().join(words);
        let whole = fs::read(&at).unwrap();
        fs::write(&at, &whole[..whole.len() - 1]).unwrap();
        assert!(error(folder.path(), words).contains("truncated"));
        fs::write(&at, []).unwrap();
        error(folder.path(), words);
        fs::write(&at, [whole, vec![0]].concat()).unwrap();
        assert!(error(folder.path(), words).contains("different recordings"));
        fs::remove_file(&at).unwrap();
        error(folder.path(), words);
    }
}

#[test]
fn documents_that_lie_are_named() {
    let damage = [
        ("\"offset\": 0", "\"offset\": 4", "the data before it end at 0"),
        ("\"offset\": 0", "\"offset\": 400000000", "beyond the end of the file"),
        ("\"n_in\": 7", "\"n_in\": 8", "kinds"),
        ("\"n_in\": 7", "\"n_in\": 99999999999", "implausibl"),
        ("\"n_out\": 4", "\"n_out\": 0", "implausibl"),
        ("\"cases\": 8", "\"cases\": 0", "implausibl"),
        ("\"cases\": 8", "\"cases\": 39", "ends at"),
        ("\"cases\": 8", "\"cases\": 41", "ends at"),
        ("\"cases\": 8", "\"cases\": -1", "invalid value"),
        ("\"ptx\"", "\"text\"", "missing field `ptx`"),
    ];
    for (from, to, expected) in damage {
        let folder = samples().0;
        replace(&folder.path().join("vectors.json"), from, to);
        let text = error(folder.path(), "vectors.");
        assert!(text.contains(expected), "{from} to {to}: {text}");
    }
    let damage = [
        ("\"k\": 8", "\"k\": 0", "implausibl"),
        ("\"k\": 8", "\"k\": 99999999", "implausibl"),
        ("\"a\": \"f16\"", "\"a\": \"f17\"", "`f17` is not a PTX format"),
        ("\"d\": \"f32\"", "\"d\": \"e4m3\"", "accumulates in e4m3"),
        ("\"chunks\": 0", "\"chunks\": 3", "3 chunks over K = 8"),
        ("\"cases\": 8", "\"cases\": 1048577", "1048577 cases"),
        ("\"a\": \"f16\"", "\"a\": \"e4m3\"", "longer than 8 bits"),
    ];
    for (from, to, expected) in damage {
        let folder = samples().1;
        replace(&folder.path().join("mma.json"), from, to);
        let text = error(folder.path(), "mma.");
        assert!(text.contains(expected), "{from} to {to}: {text}");
    }
}

#[test]
fn what_is_no_recording_is_named() {
    let folder = TempDir::new().unwrap();
    assert!(error(folder.path(), "").contains("not a recording"));
    let at = folder.path().join("vectors.json");
    fs::write(&at, "{\n \"device\": 3 }").unwrap();
    fs::write(folder.path().join("vectors.bin"), []).unwrap();
    assert!(error(folder.path(), "vectors.json:2:").contains("invalid type"));
    let missing = folder.path().join("nowhere");
    assert!(matches!(Recording::load(&missing), Err(VectorsError::Read { .. })));
    assert!(error(&at, "vectors.json").contains("neither a folder nor a zip archive"));
    for (name, archive) in BUILTIN {
        let cut = &archive[..archive.len() / 2];
        assert!(matches!(Recording::from_zip(Path::new(name), cut), Err(VectorsError::Archive { .. })));
        let mut flipped = archive.to_vec();
        flipped[archive.len() / 2] ^= 0xFF;
        let text = Recording::from_zip(Path::new(name), &flipped).unwrap_err().to_string();
        assert!(text.contains(name) && text.contains("damaged"), "{text}");
    }
}

#[test]
fn a_recording_holds_one_kind() {
    let [mut device, model]: [Recording; 2] = builtin().unwrap().try_into().unwrap();
    let folder = TempDir::new().unwrap();
    device.ops.truncate(1);
    device.ops.extend(model.ops.into_iter().take(1));
    assert!(matches!(
        device.write(folder.path(), |path, bytes| fs::write(path, bytes)),
        Err(VectorsError::Mixed)
    ));
    device.ops.clear();
    assert!(matches!(
        device.write(folder.path(), |path, bytes| fs::write(path, bytes)),
        Err(VectorsError::Mixed)
    ));
}

#[test]
fn digests_are_read_again_and_damage_is_named() {
    let whole = Digests::builtin().unwrap();
    let folder = TempDir::new().unwrap();
    let at = folder.path().join("digests.json");
    whole.write(&at, |path, bytes| fs::write(path, bytes)).unwrap();
    assert_eq!(Digests::load(&at).unwrap(), whole);
    let first = format!("{:016x}", whole.functions[0].digests[0]);
    for damaged in [&first[1..], "", &first.replace(|c: char| c.is_ascii_digit(), "g")] {
        whole.write(&at, |path, bytes| fs::write(path, bytes)).unwrap();
        replace(&at, &first, damaged);
        // Sixteen digits less leave whole digests: the next comparison finds one too few.
        match Digests::load(&at) {
            Ok(fewer) => assert_eq!(fewer.functions[0].digests.len(), whole.functions[0].digests.len() - 1),
            Err(error) => assert!(error.to_string().contains("digests.json"), "{error}"),
        }
    }
    assert!(matches!(Digests::load(&folder.path().join("none.json")), Err(VectorsError::Read { .. })));
}
