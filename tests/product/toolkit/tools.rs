//! Running ptxas and nvdisasm, with scripts as substitutes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ptx::arch::Target;
use sm121probe::store::Store;
use sm121probe::toolkit::{
    Disassembler, Origin, Toolkit, UNKNOWN_OPCODE, assemble, cubin, discover, resources,
};
use sm121probe::worker::Ended;

use crate::toolkit::fakes::{place, places, program, ptxas};

const LIMIT: Duration = Duration::from_secs(60);

fn toolkit(folder: &Path, then: &str) -> Toolkit {
    let file = program(&folder.join("ptxas"), &ptxas("13.5.37"));
    let toolkit = discover(None, &places(vec![place(Origin::Path, &file)])).toolkits.remove(0);
    program(&file, &format!("#!/bin/sh\n{then}\n"));
    toolkit
}

#[test]
fn an_assembly_tells_status_words_and_whether_there_is_code() {
    let dir = tempfile::tempdir().unwrap();
    let (ptx, cubin) = (dir.path().join("x.ptx"), dir.path().join("x.cubin"));
    for (script, ended, text, produced) in [
        ("echo \"$*\" > $4", Ended::Exited(0), "", true),
        ("echo out; echo err >&2; exit 255", Ended::Exited(255), "out\nerr\n", false),
        (": > $4", Ended::Exited(0), "", false),
        ("kill -SEGV $$", Ended::Signalled(11), "", false),
        ("echo x > $4; kill -9 $$", Ended::Signalled(9), "", true),
    ] {
        // An old result must not count.
        fs::write(&cubin, "old").unwrap();
        let got = assemble(&toolkit(dir.path(), script), "sm_121a", &ptx, &cubin, None, LIMIT).unwrap();
        assert_eq!((got.ended, got.text.as_str(), got.produced), (ended, text, produced), "{script}");
    }
    assemble(&toolkit(dir.path(), "echo \"$*\" > $4"), "sm_121a", &ptx, &cubin, None, LIMIT).unwrap();
    let args = fs::read_to_string(&cubin).unwrap();
    assert_eq!(args.trim(), format!("-arch=sm_121a {} -o {}", ptx.display(), cubin.display()));
    let hangs = toolkit(dir.path(), "sleep 100");
    let got = assemble(&hangs, "sm_121a", &ptx, &cubin, None, Duration::from_millis(200)).unwrap();
    assert_eq!(got.ended, Ended::TimedOut);
    fs::remove_file(&hangs.path).unwrap();
    assert!(assemble(&hangs, "sm_121a", &ptx, &cubin, None, LIMIT).is_err());
}

/// An nvdisasm that knows an instruction by its first byte: `N` is NOP, `M` a predicated QMMA, `0` is unreadable without a position, `E`
/// prints an empty line, and anything else is unreadable.
fn disassembler(folder: &Path) -> Disassembler {
    let script = r#"#!/bin/sh
[ "$1 $2" = "-b SM121a" ] || [ "$1 $2" = "-b SM89" ] || { echo "nvdisasm fatal : Value '$2' is not defined" >&2; exit 1; }
size=$(wc -c < "$3"); at=0; bad=0; out=
while [ $at -lt $size ]; do
    address=$(printf %04x $at)
    case $(tail -c +$((at + 1)) "$3" | head -c 1) in
    N) out="$out        /*$address*/                   NOP;\n";;
    M) out="$out.L_x_1:\n        /*$address*/              @!UP0 QMMA.SF.16832.F32.E4M3.E2M1.E8 R0, R4 ;\n";;
    E) out="$out\n";;
    0) bad=1; echo "nvdisasm error   : Illegal instruction found" >&2;;
    *) bad=1; echo "nvdisasm error   : Unrecognized operation for functional unit 'uC' at address 0x0000$address" >&2
       echo "nvdisasm error   : Illegal instruction found" >&2;;
    esac
    at=$((at + 16))
done
[ $bad = 1 ] && exit 1
printf "\t.headerflags\t@\"x\"\n$out"
"#;
    let path = program(&folder.join("nvdisasm"), script);
    Disassembler { version: "13.5.37".parse().unwrap(), path, sha256: String::new() }
}

fn code(letters: &str) -> Vec<u8> {
    letters.bytes().flat_map(|letter| [&[letter][..], &[b'.'; 15]].concat()).collect()
}

#[test]
fn opcodes_stand_in_their_slots_and_unreadable_ones_are_marked() {
    let dir = tempfile::tempdir().unwrap();
    let tool = disassembler(dir.path());
    let scratch = tempfile::tempdir().unwrap();
    let opcodes = |arch, letters: &str| {
        tool.opcodes_of_raw(arch, &code(letters), scratch.path(), LIMIT).map_err(|e| e.to_string())
    };
    let qmma = "QMMA.SF.16832.F32.E4M3.E2M1.E8";
    assert_eq!(opcodes(121, "NMN").unwrap(), ["NOP", qmma, "NOP"]);
    assert_eq!(opcodes(121, "ENEM").unwrap(), [UNKNOWN_OPCODE, "NOP", UNKNOWN_OPCODE, qmma]);
    assert_eq!(opcodes(121, "E").unwrap(), [UNKNOWN_OPCODE]);
    assert_eq!(opcodes(89, "N").unwrap(), ["NOP"], "no suffix before sm_90");
    assert_eq!(
        opcodes(121, "?NM?N?").unwrap(),
        [UNKNOWN_OPCODE, "NOP", qmma, UNKNOWN_OPCODE, "NOP", UNKNOWN_OPCODE]
    );
    assert_eq!(
        opcodes(121, "N0M?NN0").unwrap(),
        ["NOP", UNKNOWN_OPCODE, qmma, UNKNOWN_OPCODE, "NOP", "NOP", UNKNOWN_OPCODE]
    );
    let error = opcodes(121, &"0".repeat(110)).unwrap_err();
    assert!(error.contains("Illegal instruction"), "{error}");
    assert_eq!(opcodes(121, "??").unwrap(), [UNKNOWN_OPCODE; 2]);
    assert_eq!(opcodes(121, "").unwrap(), Vec::<String>::new());
    let error = opcodes(999, "N").unwrap_err();
    assert!(error.contains("SM999a") && error.contains("status 1"), "{error}");
    let error = tool.opcodes_of_raw(121, &[0; 15], scratch.path(), LIMIT).unwrap_err().to_string();
    assert!(error.contains("15 bytes"), "{error}");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_broken_nvdisasm_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let tool = disassembler(dir.path());
    for (script, limit, word) in [
        ("exit 0", LIMIT, "printed nothing"),
        ("kill -SEGV $$", LIMIT, "signal 11"),
        ("sleep 100", Duration::from_millis(200), "did not end"),
        ("echo 'nvdisasm error : odd' >&2; exit 1", LIMIT, "odd"),
    ] {
        program(&tool.path, &format!("#!/bin/sh\n{script}\n"));
        let error = tool.opcodes_of_raw(121, &code("N"), dir.path(), limit).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("sm_121"), "{error}");
    }
    assert!(tool.opcodes_of_raw(121, &code("N"), &dir.path().join("absent"), LIMIT).is_err());
}

#[test]
fn a_cubin_is_assembled_once_and_carried() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Some(&dir.path().join("cache"))).unwrap();
    let log = dir.path().join("log");
    let arch: Target = "sm_121a".parse().unwrap();
    let tool = toolkit(
        dir.path(),
        &format!(
            "echo run >> {}; sleep 0.1; echo 'ptxas info    : Compiling entry function '\"'k'\"' for x'; \
             echo 'ptxas info    : Used 12 registers, used 0 barriers'; printf 'ELF\\n\\0code' > $5",
            log.display()
        ),
    );
    let runs = || fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    let ask = |ptx: &str| cubin(&tool, arch, ptx, Some(&store), LIMIT).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(ask("one").image, b"ELF\n\0code"));
        }
    });
    assert_eq!(runs(), 1, "eight that want one cubin");
    // ptxas's output is kept with the code.
    assert!(ask("one").said.contains("Used 12 registers"));
    let used = resources(&tool, arch, "one", "k", Some(&store), LIMIT).unwrap();
    assert_eq!((used.registers, runs()), (12, 1));
    assert_eq!((ask("two").image.len(), runs()), (9, 2));
    // The cache moves; ptxas need not even exist.
    fs::rename(dir.path().join("cache"), dir.path().join("moved")).unwrap();
    let moved = Store::open(Some(&dir.path().join("moved"))).unwrap();
    fs::remove_file(&tool.path).unwrap();
    assert_eq!(cubin(&tool, arch, "one", Some(&moved), LIMIT).unwrap().image, b"ELF\n\0code");
    let lost = cubin(&tool, arch, "three", Some(&moved), LIMIT).unwrap_err().to_string();
    assert!(lost.starts_with("ptxas cannot be run"), "{lost}");
}

#[test]
fn a_refusal_is_told_and_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Some(&dir.path().join("cache"))).unwrap();
    let arch: Target = "sm_121a".parse().unwrap();
    for (script, said) in [
        ("echo 'ptxas k.ptx, line 3; error   : Unknown symbol x' >&2; exit 255", "Unknown symbol x"),
        ("exit 0", "it succeeded but wrote no code"),
        ("kill -SEGV $$", "was killed by signal 11"),
    ] {
        let tool = toolkit(dir.path(), script);
        let error = cubin(&tool, arch, "one", Some(&store), LIMIT).unwrap_err().to_string();
        assert!(
            error.starts_with("ptxas 13.5.37 does not assemble it for sm_121a") && error.contains(said),
            "{error}"
        );
    }
    let tool = toolkit(dir.path(), "printf code > $5");
    assert_eq!(cubin(&tool, arch, "one", Some(&store), LIMIT).unwrap().image, b"code");
}
