//! Pins: the built-in ones, and their names.

use std::path::Path;

use sm121probe::toolkit::{Arch, Pins, Tool};

use crate::toolkit::fakes::names;

const PTXAS: &str = "12.8.61 12.8.93 12.9.41 12.9.86 13.0.48 13.0.88 13.1.80 13.1.115 13.2.51 13.2.78 13.2.86 13.3.33 13.3.73 \
                     13.4.59 13.4.92 13.5.37";

fn resolved(asked: &[&str]) -> String {
    let pins = Pins::built_in().unwrap();
    let found: Vec<String> = pins.resolve(&names(asked)).unwrap().iter().map(|pin| pin.what()).collect();
    found.join(" ")
}

#[test]
fn the_promised_versions_are_pinned() {
    let pins = Pins::built_in().unwrap();
    let of = |tool| {
        let versions: Vec<String> =
            pins.all().iter().filter(|pin| pin.tool == tool).map(|pin| pin.version.to_string()).collect();
        versions.join(" ")
    };
    assert_eq!(of(Tool::Ptxas), PTXAS);
    assert_eq!(of(Tool::Nvrtc), "12.8.93 12.9.86 13.0.88 13.5.37");
    assert_eq!((of(Tool::Nvdisasm).as_str(), of(Tool::Cuobjdump).as_str()), ("13.5.37", "13.5.37"));
}

#[test]
fn every_wheel_is_named_after_its_package_version_and_machine() {
    for pin in Pins::built_in().unwrap().all() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let wheel = pin.wheel(arch);
            let requirement = pin.requirement();
            let (package, version) = requirement.split_once("==").unwrap();
            let start = format!("{}-{version}-py3-none-", package.replace('-', "_"));
            let ends = [format!("_{}.whl", arch.name()), "-any.whl".to_owned()];
            assert!(
                wheel.file.starts_with(&start) && ends.iter().any(|end| wheel.file.ends_with(end)),
                "{wheel:?}"
            );
            assert!(
                wheel.sha256.len() == 64 && wheel.sha256.bytes().all(|b| b.is_ascii_hexdigit()),
                "{wheel:?}"
            );
            assert!(wheel.bytes > 100_000, "{wheel:?}");
        }
        let targets: Vec<&str> = pin.members.iter().map(|member| member.target()).collect();
        match pin.tool {
            Tool::Nvrtc => assert!(
                targets[0].starts_with("lib/libnvrtc.so.")
                    && targets[1].starts_with("lib/libnvrtc-builtins.so.")
            ),
            Tool::Headers | Tool::Crt | Tool::Cccl | Tool::Cutlass => {
                assert!(pin.members.iter().all(|member| member.is_folder()) && targets == ["include"]);
            }
            tool => assert_eq!(targets, [format!("bin/{tool}")]),
        }
    }
}

#[test]
fn names_are_versions_tools_or_both() {
    assert_eq!(resolved(&["latest"]), "ptxas 13.5.37 nvdisasm 13.5.37");
    assert_eq!(resolved(&["13.2"]), "ptxas 13.2.86 nvdisasm 13.5.37");
    assert_eq!(resolved(&["13.1"]), "ptxas 13.1.115 nvdisasm 13.5.37", "versions are numbers");
    assert_eq!(resolved(&["12.9", "13.5.37", "latest"]), "ptxas 12.9.86 nvdisasm 13.5.37 ptxas 13.5.37");
    assert_eq!(resolved(&["nvrtc:13.0", "cuobjdump"]), "nvrtc 13.0.88 cuobjdump 13.5.37");
    assert_eq!(resolved(&["nvrtc"]), "nvrtc 13.5.37");
    assert_eq!(resolved(&["ptxas:12.8"]), "ptxas 12.8.93");
    assert_eq!(resolved(&["all"]).matches("ptxas").count(), PTXAS.split_whitespace().count());
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    for name in ["11.8", "13.5.3", "", "nvcc", "nvrtc:12.0", "nvcc:13.5", "ptxas:"] {
        let error = Pins::built_in().unwrap().resolve(&names(&[name])).unwrap_err().to_string();
        assert!(
            error.contains(&format!("`{name}`"))
                && error.contains("13.5.37")
                && error.contains("nvrtc:13.0.88"),
            "{error}"
        );
    }
}

#[test]
fn a_wrong_line_is_named() {
    let pin = |member: &str| {
        let wheel = "{ file: f.whl, bytes: 1, sha256: aa }";
        format!(
            "# pins\n- {{ tool: ptxas, version: 13.5.37, package: p, members: [{member}], x86_64: {wheel}, aarch64: {wheel} }}\n"
        )
    };
    let parse = |yaml: &str| Pins::parse(Path::new("pins.yaml"), yaml).map_err(|error| error.to_string());
    parse(&pin("nvidia/cu13/bin/ptxas")).unwrap();
    for member in [
        "../../bin/ptxas",
        "/bin/ptxas",
        "bin/..",
        "a/../bin/ptxas",
        "bin//ptxas",
        "ptxas",
        "nvidia/etc/ptxas",
        "'bin\\x/bin/a\\b'",
    ] {
        let error = parse(&pin(member)).unwrap_err();
        assert!(error.starts_with("pins.yaml:2:") && error.contains("plain path"), "{member}: {error}");
    }
    let error = parse(&pin("bin/ptxas").replace("version: 13.5.37", "version: 13.5")).unwrap_err();
    assert!(error.starts_with("pins.yaml:2:") && error.contains("13.5.37"), "{error}");
    let error = parse(&pin("bin/ptxas").replace("tool: ptxas", "tool: nvcc")).unwrap_err();
    assert!(error.starts_with("pins.yaml:2:") && error.contains("nvcc"), "{error}");
}
