//! What is read out of files that are whole.

use devcode::{CodeKind, Compression, Format, Limits};
use ptx::arch::{PtxIsa, Suffix};

use crate::build::{Answer, ar, data, gzip, host, of_bytes, of_bytes_within, of_paths, tar, zip};

/// The pieces of `zstd.fatbin` and `lz4.fatbin`, with the compression left open.
const PIECES: [&str; 5] = [
    "cubin sm_121a by fatbin flags, *, beta(8 0 0 128) alpha(10 2048 64 256)",
    "cubin sm_121f by fatbin flags, *, beta(8 0 0 128) alpha(10 2048 64 256)",
    "cubin sm_80 by no other exists, *, beta(8 0 0 128) alpha(10 1024 64 256)",
    "ptx sm_121a by .target, *, alpha(- - - 256) beta(- - - 128)",
    "ptx sm_121f by .target, *, alpha(- - - 256) beta(- - - 128)",
];

fn pieces(compression: &str) -> Vec<String> {
    PIECES.iter().map(|line| line.replace('*', compression)).collect()
}

fn clean(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.troubles(), [""; 0]);
    answer.lines()
}

#[test]
fn a_cubin_tells_target_toolkit_and_kernels() {
    for (file, want, toolkit) in [
        (
            "sm_121a-13.5.cubin",
            "cubin sm_121a by .nv.compat, none, beta(8 0 0 128) alpha(10 2048 64 256)",
            "13.5.37",
        ),
        (
            "sm_121f-13.5.cubin",
            "cubin sm_121f by tkinfo, none, beta(8 0 0 128) alpha(10 2048 64 256)",
            "13.5.37",
        ),
        ("sm_90a-12.9.cubin", "cubin sm_90a by e_flags, none, beta(8 0 0 128) alpha(10 2048 64 256)", ""),
    ] {
        let answer = of_bytes(file, data(file));
        assert_eq!(clean(&answer), [want], "{file}");
        let entry = &answer.entries[0];
        assert_eq!(entry.toolkit.map_or(String::new(), |t| t.to_string()), toolkit);
        assert_eq!(answer.holders[0].format, Format::Cubin);
        assert_eq!((entry.place.to_string().as_str(), answer.holders[0].entries), (file, 1));
        assert!(answer.code[0].starts_with(b"\x7fELF"));
    }
}

#[test]
fn without_the_note_base_and_f_cannot_be_told_apart_and_a_can() {
    let strip = |file: &str| {
        let mut bytes = data(file);
        let at = bytes.windows(6).position(|w| w == b"-arch ").unwrap();
        bytes[at..at + 6].copy_from_slice(b"-xxxx ");
        let answer = of_bytes(file, bytes);
        assert_eq!(answer.troubles(), [""; 0]);
        (answer.entries[0].target_text(), answer.entries[0].suffix, answer.entries[0].told_by.word())
    };
    assert_eq!(strip("sm_121f-13.5.cubin"), ("sm_121?".to_owned(), None, "nothing"));
    assert_eq!(strip("sm_121a-13.5.cubin"), ("sm_121a".to_owned(), Some(Suffix::Arch), ".nv.compat"));
}

#[test]
fn a_fatbin_is_read_whatever_its_compression() {
    for (file, compression) in [("lz4.fatbin", "lz4"), ("zstd.fatbin", "zstd")] {
        let answer = of_bytes(file, data(file));
        assert_eq!(clean(&answer), pieces(compression), "{file}");
        assert!(answer.entries.iter().all(|e| e.name.as_deref() == Some("two.cu")));
        assert_eq!(answer.entries.iter().map(|e| e.place.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(answer.entries[3].isa, Some(PtxIsa { major: 8, minor: 8 }));
        assert!(answer.entries.iter().all(|e| e.bytes < e.unpacked), "{file}");
        assert_eq!((answer.holders[0].format, answer.holders[0].entries), (Format::Fatbin, 5));
        assert!(answer.code[4].starts_with(b".version 8.8"));
    }
}

#[test]
fn a_concatenated_entry_gives_each_of_its_pieces() {
    let answer = of_bytes("concat.fatbin", data("concat.fatbin"));
    let mut lines = clean(&answer);
    // The only target without relatives is stored alone, the others as one block of PTX and one of machine code.
    assert_eq!(lines.remove(0), pieces("zstd")[2]);
    lines.rotate_left(2);
    assert_eq!(lines, [&pieces("zstd")[..2], &pieces("zstd")[3..]].concat());
    assert_eq!(answer.code[3][..4], *b"\x7fELF");
}

#[test]
fn ptx_is_read_by_its_directives_alone() {
    let text = "// made by somebody\n/* .target sm_1 */ .version 9.7 // .entry no\n.target sm_131f, debug\n.address_size 64\n\
                .extern .func f;\n.visible .entry /* x */ one (.param .u64 p) .maxntid 16, 4\n{ .pragma \".entry two\"; bra.entry x; }\n\
                .weak .entry two(){ new.instruction.target %r1; }\n.entry one;\n";
    let answer = of_bytes("cache/x", text.into());
    assert_eq!(clean(&answer), ["ptx sm_131f by .target, none, one(- - - 64) two(- - - -)"]);
    assert_eq!(answer.entries[0].isa, Some(PtxIsa { major: 9, minor: 7 }));
    assert_eq!(answer.holders[0].format, Format::Ptx);
}

#[test]
fn ptx_may_begin_with_long_comments() {
    let code = ".version 9.0\n.target sm_90\n.entry e(.param .u64 p) { ret; }\n";
    let line = "// what a generator writes about itself\n";
    for comments in [line.repeat(200), format!("/*{}*/", "*".repeat(5000)), line.repeat(4000)] {
        let answer = of_bytes("long.ptx", format!("{comments}{code}").into());
        assert_eq!(
            answer.holders.first().map(|holder| holder.format),
            Some(Format::Ptx),
            "{}",
            comments.len()
        );
    }
    // Nothing else follows.
    assert!(of_bytes("long.txt", line.repeat(4000).into()).holders.is_empty());
}

#[test]
fn fatbins_are_found_in_every_section_of_a_host_file() {
    let (lz4, zstd) = (data("lz4.fatbin"), data("zstd.fatbin"));
    // Linkers pad, and join what each object brings.
    let joined = [&lz4[..], &[0; 40], &zstd].concat();
    let in_data = [&[7; 64][..], &zstd].concat();
    let file = host(&[
        (".nv_fatbin", &joined),
        ("__nv_relfatbin", &lz4),
        (".data", &in_data),
        (".text", b"nothing"),
    ]);
    let answer = of_bytes("lib.so", file);
    let want = [pieces("lz4"), pieces("zstd"), pieces("lz4"), pieces("zstd")].concat();
    assert_eq!(clean(&answer), want);
    let places: Vec<_> = answer.entries.iter().map(|e| e.place.to_string()).collect();
    assert_eq!(places[0], "lib.so .nv_fatbin+0x88");
    assert_eq!(places[15], "lib.so .data+0xc8");
    assert_eq!((answer.holders[0].entries, answer.holders[0].format), (20, Format::HostElf));
    let none = of_bytes("lib.so", host(&[(".text", b"nothing")]));
    assert_eq!((clean(&none), none.holders[0].entries), (vec![], 0));
}

#[test]
fn a_cubin_in_a_data_section_is_found_without_a_fatbin() {
    let (a, f) = (data("sm_121a-13.5.cubin"), data("sm_121f-13.5.cubin"));
    let text = host(&[(".text", b"a host's ELF file is none")]);
    let rodata = [&[1; 24][..], &a, &[0; 2], &f, &[0; 2], &text].concat();
    let answer = of_bytes("lib.so", host(&[(".rodata", &rodata)]));
    let kernels = "none, beta(8 0 0 128) alpha(10 2048 64 256)";
    let want =
        [format!("cubin sm_121a by .nv.compat, {kernels}"), format!("cubin sm_121f by tkinfo, {kernels}")];
    assert_eq!(clean(&answer), want);
    assert_eq!(answer.entries[0].place.to_string(), "lib.so .rodata+0x18");
    assert_eq!(answer.entries[0].bytes, a.len() as u64);
    // Where a section lies behind the tables of headers, it ends the image.
    let mut moved = a.clone();
    let table = u64::from_le_bytes(a[40..48].try_into().unwrap()) as usize;
    let (header, end) = (table + 4 * 64, a.len() as u64);
    let [at, len] =
        [24, 32].map(|i| u64::from_le_bytes(a[header + i..header + i + 8].try_into().unwrap()) as usize);
    moved.extend_from_slice(&a[at..at + len]);
    moved[header + 24..header + 32].copy_from_slice(&end.to_le_bytes());
    let rodata = [&moved[..], &[3; 100]].concat();
    let answer = of_bytes("lib.so", host(&[(".rodata", &rodata)]));
    assert_eq!(clean(&answer), want[..1]);
    assert_eq!(answer.entries[0].bytes, moved.len() as u64);
}

#[test]
fn the_magic_number_alone_is_no_fatbin_outside_of_its_sections() {
    let mut constant = vec![0; 256];
    constant[64..68].copy_from_slice(&0xBA55_ED50_u32.to_le_bytes());
    let answer = of_bytes("tool", host(&[(".rodata", &constant)]));
    assert_eq!((clean(&answer), answer.holders[0].entries), (vec![], 0));
    let answer = of_bytes("tool", host(&[(".nv_fatbin", &constant)]));
    assert_eq!(answer.problems.len(), 1);
}

#[test]
fn archives_hold_what_their_members_hold() {
    let object = host(&[("__nv_relfatbin", &data("lz4.fatbin"))]);
    let library = ar(&[("a_name_that_is_long.cu.o", &object), ("b.o", b"text"), ("c.o", &object)]);
    let cubin = data("sm_121a-13.5.cubin");
    for stored in [false, true] {
        let inner = zip(&[("k.cubin", &cubin), ("readme.txt", b"text")], stored);
        let wheel = zip(&[("p/lib.a", &library), ("p/x.zip", &inner), ("p/k.ptx", &data("two.ptx"))], stored);
        let answer = of_bytes("p.whl", wheel);
        let lines = clean(&answer);
        assert_eq!(lines[..10], [pieces("lz4"), pieces("lz4")].concat());
        assert!(lines[10].starts_with("cubin sm_121a") && lines[11].starts_with("ptx sm_121f"), "{lines:?}");
        let files: Vec<_> = answer.holders.iter().map(|h| (&*h.file, h.format.word(), h.entries)).collect();
        let want = [
            ("p.whl!p/lib.a!a_name_that_is_long.cu.o", "ELF", 5),
            ("p.whl!p/lib.a!c.o", "ELF", 5),
            ("p.whl!p/lib.a", "ar", 0),
            ("p.whl!p/x.zip!k.cubin", "cubin", 1),
            ("p.whl!p/x.zip", "zip", 0),
            ("p.whl!p/k.ptx", "PTX", 1),
            ("p.whl", "zip", 0),
        ];
        assert_eq!(files, want);
    }
}

#[test]
fn a_large_member_goes_through_a_file_and_not_through_memory() {
    let mut seed = 1_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 24) as u8
    })
    .take(20 << 20)
    .collect();
    let library = host(&[(".rodata", &noise), (".nv_fatbin", &data("zstd.fatbin"))]);
    let answer = of_bytes("x.whl", zip(&[("lib.so", &library)], false));
    assert_eq!(clean(&answer), pieces("zstd"));
}

#[test]
fn bitcode_is_named_and_not_read() {
    let answer = of_bytes("libdevice.10.bc", b"BC\xc0\xde1234".to_vec());
    assert_eq!(clean(&answer), ["bitcode  by nothing, none, "]);
    assert_eq!(answer.entries[0].kind, CodeKind::Bitcode);
}

#[test]
fn a_folder_comes_in_the_order_of_its_names_and_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_owned();
    std::fs::create_dir(root.join("b")).unwrap();
    for name in ["b/2.cubin", "b/1.cubin", "a.cubin"] {
        std::fs::write(root.join(name), data("sm_121a-13.5.cubin")).unwrap();
    }
    std::os::unix::fs::symlink("b", root.join("lib64")).unwrap();
    std::os::unix::fs::symlink("a.cubin", root.join("c.cubin")).unwrap();
    let answer = of_paths(&[root.clone(), root.join("b")], &Limits::default());
    assert_eq!(answer.troubles(), [""; 0]);
    let files: Vec<_> =
        answer.entries.iter().map(|e| e.place.file.strip_prefix(&*root.to_string_lossy()).unwrap()).collect();
    assert_eq!(files, ["/a.cubin", "/b/1.cubin", "/b/2.cubin"]);
}

#[test]
fn fifty_megabytes_of_ptx_are_read() {
    let module = String::from_utf8(data("two.ptx")).unwrap();
    let (head, body) = module.split_once(".visible").unwrap();
    let line = "    mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};\n";
    let mut text = head.to_owned();
    let mut kernels = 0;
    while text.len() < 50 << 20 {
        text.push_str(&format!(
            ".visible{}",
            body.replace("alpha", &format!("alpha{kernels}")).replace("beta", &format!("beta{kernels}"))
        ));
        text.push_str(&format!(".func f{kernels}() {{\n{}}}\n", line.repeat(2000)));
        kernels += 2;
    }
    let answer = of_bytes("large.ptx", text.into());
    assert_eq!(answer.troubles(), [""; 0]);
    assert_eq!(answer.entries[0].kernels.len(), kernels);
    assert_eq!(answer.entries[0].compression, Compression::None);
}

#[test]
fn tar_archives_are_read_plain_and_compressed_and_to_their_end() {
    let cubin = data("sm_121a-13.5.cubin");
    let inner = tar(&[("inner/k.cubin", &cubin)]);
    let members: &[(&str, &[u8])] = &[("a/readme.txt", b"text"), ("a/k.cubin", &cubin), ("a/in.tar", &inner)];
    let plain = tar(members);
    let want = ["cubin sm_121a by .nv.compat, none, beta(8 0 0 128) alpha(10 2048 64 256)"; 2];
    for (name, bytes) in [("x.tar", plain.clone()), ("x.tar.gz", gzip(&plain)), ("x.tgz", gzip(&plain))] {
        let answer = of_bytes(name, bytes);
        assert_eq!(clean(&answer), want, "{name}");
        let places: Vec<String> = answer.entries.iter().map(|entry| entry.place.to_string()).collect();
        assert_eq!(places, [format!("{name}!a/k.cubin"), format!("{name}!a/in.tar!inner/k.cubin")]);
    }
    // What was read before the end is kept, and the rest is no silence.
    let packed = gzip(&plain);
    let cut = of_bytes("x.tar.gz", packed[..packed.len() - 20].to_vec());
    assert_eq!(cut.troubles().len(), 1, "{:?}", cut.troubles());
    // Data in an archive is no code, and no trouble; nor is a compressed file that is no archive by name.
    assert_eq!(of_bytes("zones.tar.gz", gzip(&tar(&[("a", b"b")]))).troubles(), [""; 0]);
    assert_eq!(of_bytes("x.gz", gzip(b"text")).troubles(), [""; 0]);
    let tight = Limits { member: 1000, ..Limits::default() };
    let large = of_bytes_within("x.tar", plain, &tight);
    assert!(large.troubles()[0].contains("1000 is the limit"), "{:?}", large.troubles());
}
