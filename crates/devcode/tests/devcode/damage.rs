//! Files that are cut, closed, packed, nested, endless or made to harm: each is a problem with a remedy, and the rest goes on.

use std::fs;
use std::path::Path;

use devcode::{Format, Limits, Trouble};

use crate::build::{Answer, ar, data, host, of_bytes, of_paths, zip};

/// Scans a folder with this file in it and a good one behind it, which must be read in any case.
fn beside(name: &str, bytes: &[u8], limits: &Limits) -> Answer {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(name), bytes).unwrap();
    fs::write(dir.path().join("~good.cubin"), data("sm_121a-13.5.cubin")).unwrap();
    let answer = of_paths(&[dir.path().to_owned()], limits);
    assert!(answer.entries.last().unwrap().place.file.ends_with("~good.cubin"), "{name}");
    for problem in &answer.problems {
        assert!(problem.trouble.remedy().len() > 10);
        assert!(problem.place.file.contains(name), "{:?}", problem.place);
    }
    answer
}

fn trouble(name: &str, bytes: &[u8]) -> String {
    let answer = beside(name, bytes, &Limits::default());
    let words: Vec<_> = answer.problems.iter().map(|p| p.trouble.to_string()).collect();
    words.join("; ")
}

#[test]
fn every_cut_of_every_form_is_noticed() {
    let object = host(&[("__nv_relfatbin", &data("lz4.fatbin"))]);
    for (name, bytes) in [
        ("x.cubin", data("sm_121a-13.5.cubin")),
        ("x.fatbin", data("lz4.fatbin")),
        ("x.fatbin", data("zstd.fatbin")),
        ("x.fatbin", data("concat.fatbin")),
        ("x.so", object.clone()),
        ("x.a", ar(&[("x.o", &object)])),
        ("x.whl", zip(&[("x.so", &object)], false)),
    ] {
        for part in 1..16 {
            let cut = bytes.len() * part / 16;
            let answer = of_bytes(name, bytes[..cut].to_vec());
            assert!(!answer.problems.is_empty(), "{name} cut to {cut} of {} bytes", bytes.len());
        }
        assert!(of_bytes(name, bytes).problems.is_empty(), "{name}");
    }
}

#[test]
fn what_is_not_read_says_why() {
    let cubin = data("sm_121a-13.5.cubin");
    let mut no_sections = host(&[]);
    no_sections[40..48].fill(0);
    let mut packed = no_sections.clone();
    packed.extend(b"UPX!");
    let mut encrypted = zip(&[("k.cubin", &cubin)], false);
    // Bit 0 of the flags in the member's header and in the table.
    encrypted[6] |= 1;
    let table = encrypted.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    encrypted[table + 8] |= 1;
    let mut other_abi = cubin.clone();
    other_abi[7] = 0x77;
    for (name, bytes, words) in [
        ("x.cubin", &b""[..], "is cut short: it is empty"),
        ("x.ptx", b"hello", "is damaged: it is named .ptx and does not start like one"),
        ("x.ptx", b".version 9.5\n.text", "is damaged: the PTX has no `.target` that can be read"),
        ("x.tar.gz", b"\x1f\x8b\x08", "is cut short: the archive ends early"),
        ("x.so", &no_sections, "uses a form without section headers, which is not read"),
        ("x.so", &packed, "uses the packer UPX, which is not read"),
        ("x.a", b"!<thin>\nabc", "uses a thin archive, whose members are separate files, which is not read"),
        ("x.whl", &encrypted, "is encrypted"),
        ("x.cubin", &other_abi, "uses an image of OS ABI 0x77, which is not read"),
    ] {
        assert_eq!(trouble(name, bytes), words, "{name}");
    }
}

#[test]
fn compressed_code_that_is_damaged_keeps_what_its_header_says() {
    for (file, want) in [("lz4.fatbin", "its LZ4 code"), ("zstd.fatbin", "its Zstandard code")] {
        let mut bytes = data(file);
        bytes[0x8c..0xb0].fill(0xff);
        let answer = of_bytes(file, bytes);
        assert_eq!(answer.entries.len(), 5);
        assert_eq!(answer.entries[0].target_text(), "sm_121a");
        assert!(answer.entries[0].kernels.is_empty() && answer.entries[1].kernels.len() == 2);
        assert!(answer.troubles()[0].contains(want), "{:?}", answer.troubles());
    }
}

#[test]
fn what_announces_more_than_it_may_gets_no_memory() {
    let mut bytes = data("lz4.fatbin");
    for (size, words) in [
        (1_u64 << 40, "is left out: it unpacks to 1099511627776 bytes"),
        (100 << 20, "is damaged: 104857600 bytes cannot be decompressed from"),
        (8197, "is damaged: its LZ4 code"),
        (8199, "is damaged: 8199 bytes of code are declared, but 8198 were unpacked"),
    ] {
        bytes[0x10 + 0x38..0x10 + 0x40].copy_from_slice(&size.to_le_bytes());
        let answer = of_bytes("x.fatbin", bytes.clone());
        assert_eq!(answer.problems.len(), 1);
        assert!(answer.problems[0].trouble.to_string().starts_with(words), "{:?}", answer.troubles());
    }
    // Thousands of entries that each announce much, in a file that is small.
    let entry = {
        let mut entry = vec![0_u8; 72];
        entry[..4].copy_from_slice(&[2, 0, 1, 1]);
        entry[4] = 64;
        entry[8] = 8;
        entry[0x10] = 8;
        entry[0x1c] = 80;
        entry[0x28..0x2c].copy_from_slice(&0x8011_u32.to_le_bytes());
        entry[0x38..0x40].copy_from_slice(&(60_u64 << 20).to_le_bytes());
        entry
    };
    let entries = entry.repeat(2000);
    let mut fatbin = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
    fatbin.extend((entries.len() as u64).to_le_bytes());
    fatbin.extend(entries);
    let answer = of_bytes("x.fatbin", fatbin);
    assert_eq!((answer.entries.len(), answer.problems.len()), (2000, 2000));
    let beyond = answer.problems.iter().filter(|p| matches!(p.trouble, Trouble::TooLarge(_))).count();
    assert!(beyond >= 1990, "{beyond}");
}

#[test]
fn zip_bombs_are_left_out() {
    let mut zeros = host(&[(".nv_fatbin", &[0; 64])]);
    zeros.resize(17 << 20, 0);
    let bomb = zip(&[("x.so", &zeros)], false);
    assert!(bomb.len() < 200_000);
    assert!(trouble("x.whl", &bomb).ends_with(" times its size"), "{}", trouble("x.whl", &bomb));
    // Many members, each below the ratio's floor.
    zeros.truncate(2 << 20);
    let names: Vec<String> = (0..20).map(|i| format!("{i}.so")).collect();
    let members: Vec<(&str, &[u8])> = names.iter().map(|n| (n.as_str(), &zeros[..])).collect();
    let limits = Limits { total: 32 << 20, ..Limits::default() };
    let many = beside("x.whl", &zip(&members, false), &limits);
    assert!(
        many.problems.iter().any(|p| p.trouble.to_string().contains("more than 33554432 bytes")),
        "{:?}",
        many.troubles()
    );
    assert_eq!(many.holders.iter().filter(|h| h.format == Format::HostElf).count(), 16);
}

#[test]
fn archives_in_archives_end_at_the_limit() {
    let mut nested = zip(&[("k.cubin", &data("sm_121a-13.5.cubin"))], true);
    for _ in 0..3 {
        nested = zip(&[("x.zip", &nested)], true);
    }
    assert_eq!(of_bytes("x.zip", nested.clone()).entries.len(), 1);
    nested = zip(&[("x.zip", &nested)], true);
    assert_eq!(trouble("x.zip", &nested), "is left out: archives are nested more than 4 deep");
}

#[test]
fn sizes_that_lie_are_found_out() {
    let cubin = data("sm_121a-13.5.cubin");
    let good = zip(&[("k.cubin", &cubin)], false);
    let table = good.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    for (at, words) in [(24, "bytes"), (16, "is damaged: its checksum is not that of the archive")] {
        let mut bytes = good.clone();
        bytes[table + at] ^= 1;
        assert!(trouble("x.whl", &bytes).contains(words), "{}", trouble("x.whl", &bytes));
    }
    // The two pieces of a concatenated entry over each other.
    let mut concat = data("concat.fatbin");
    let second = concat.windows(4).position(|w| w == 672_u32.to_le_bytes()).unwrap();
    assert_eq!(of_bytes("x.fatbin", concat.clone()).problems.len(), 0);
    let starts: Vec<usize> =
        (second..concat.len() - 4).filter(|i| concat[*i..*i + 4] == 672_u32.to_le_bytes()).collect();
    for at in starts {
        concat[at] ^= 0x40;
    }
    assert!(!of_bytes("x.fatbin", concat).problems.is_empty());
}

#[test]
fn links_pipes_and_what_is_gone_end_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("a/b")).unwrap();
    std::os::unix::fs::symlink(root, root.join("a/b/up")).unwrap();
    std::os::unix::fs::symlink("nowhere", root.join("a/gone.so")).unwrap();
    std::os::unix::fs::symlink("self", root.join("a/self")).unwrap();
    let pipe = root.join("a/pipe.cubin");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::write(root.join("z.cubin"), data("sm_121a-13.5.cubin")).unwrap();
    let answer =
        of_paths(&[root.to_owned(), Path::new("/nowhere/at/all").to_owned(), pipe], &Limits::default());
    assert_eq!(answer.entries.len(), 1);
    let words: Vec<_> = answer.problems.iter().map(|p| p.trouble.clone()).collect();
    assert!(words.contains(&Trouble::Loop), "{words:?}");
    assert_eq!(words.iter().filter(|t| matches!(t, Trouble::Unreadable(_))).count(), 3, "{words:?}");
}

#[test]
fn what_may_not_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.cubin");
    fs::write(&file, data("sm_121a-13.5.cubin")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o0)).unwrap();
    // Root may read everything, except a link to itself.
    std::os::unix::fs::symlink("link.cubin", dir.path().join("link.cubin")).unwrap();
    let unreadable = 1 + usize::from(fs::File::open(&file).is_err());
    let answer = of_paths(&[dir.path().to_owned()], &Limits::default());
    let of = |trouble: &Trouble| matches!(trouble, Trouble::Unreadable(_));
    assert_eq!(
        answer.problems.iter().filter(|p| of(&p.trouble)).count(),
        unreadable,
        "{:?}",
        answer.problems
    );
}
