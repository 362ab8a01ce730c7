//! Discovery and selection: every place, every kind of bad candidate, no process on a warm run.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use sm121probe::store::Store;
use sm121probe::toolkit::{Discovery, Environment, Origin, Places, discover, install};

use crate::toolkit::fakes::{Bench, Kept, names, nvdisasm, place, places, program, ptxas};

fn versions(discovery: &Discovery) -> String {
    discovery.toolkits.iter().map(|t| t.version.to_string()).collect::<Vec<_>>().join(" ")
}

fn environment(root: &Path, vars: &[(&str, &str)]) -> Environment {
    let at = |value: &str| OsString::from(value.replace('@', &root.display().to_string()));
    let vars = vars.iter().map(|(name, value)| ((*name).into(), at(value))).collect();
    Environment { vars, folder: root.join("work"), root: root.to_owned() }
}

#[test]
fn every_place_is_searched() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let site = "venv/lib/python3.12/site-packages";
    for (i, file) in [
        "home-cuda/bin/ptxas",
        "onpath/ptxas",
        "usr/local/cuda-13.0/bin/ptxas",
        "opt/nvidia/hpc_sdk/Linux_x86_64/25.9/cuda/13.0/bin/ptxas",
        "conda/bin/ptxas",
        "conda/envs/other/bin/ptxas",
        &format!("{site}/torch/bin/ptxas"),
        &format!("{site}/triton/backends/nvidia/bin/ptxas"),
        &format!("{site}/triton/backends/nvidia/bin/ptxas-blackwell"),
        &format!("{site}/nvidia/cu13/bin/ptxas"),
        &format!("{site}/nvidia/a/b/bin/ptxas"),
        "work/.venv/lib/python3.11/site-packages/nvidia/cuda_nvcc/bin/ptxas",
        "named-by-triton",
        "home/.pyenv/versions/3.11.7/lib/python3.11/site-packages/nvidia/cu13/bin/ptxas",
    ]
    .iter()
    .enumerate()
    {
        program(&root.join(file), &ptxas(&format!("13.0.{i}")));
    }
    program(&root.join("usr/local/cuda-13.0/bin/nvdisasm"), &nvdisasm("13.0.39"));
    program(&root.join(site).join("nvidia/cu13/bin/nvdisasm"), &nvdisasm("13.1.9"));
    // A link beside its target is not listed twice.
    symlink("cuda-13.0", root.join("usr/local/cuda")).unwrap();
    let environment = environment(
        root,
        &[
            ("CUDA_HOME", "@/home-cuda"),
            ("CUDA_PATH", "@/absent"),
            ("PATH", "@/onpath:relative:@/onpath"),
            ("CONDA_PREFIX", "@/conda"),
            ("CONDA_EXE", "@/conda/bin/conda"),
            ("VIRTUAL_ENV", "@/venv"),
            ("TRITON_PTXAS_PATH", "@/named-by-triton"),
            ("HOME", "@/home"),
        ],
    );
    let found = discover(None, &Places::collect(&environment, None));
    let origins: BTreeSet<(u16, Origin)> =
        found.toolkits.iter().flat_map(|t| t.origins.iter().map(|o| (t.version.patch, o.origin))).collect();
    let want = [
        (0, Origin::CudaHome),
        (1, Origin::Path),
        (2, Origin::System),
        (3, Origin::System),
        (4, Origin::Conda),
        (5, Origin::Conda),
        (6, Origin::Torch),
        (7, Origin::Triton),
        (8, Origin::TritonBlackwell),
        (9, Origin::Python),
        (10, Origin::Python),
        (11, Origin::Python),
        (12, Origin::Triton),
        (13, Origin::Python),
    ];
    assert_eq!(origins, BTreeSet::from(want));
    assert!(found.toolkits.iter().all(|t| t.origins.len() == 1), "{:#?}", found.toolkits);
    assert_eq!(found.disassembler.unwrap().version.to_string(), "13.1.9");
    let [row] = found.unusable.as_slice() else { panic!("{:?}", found.unusable) };
    assert!(row.reason.contains("CUDA_PATH") && row.path == root.join("absent/bin/ptxas"), "{row:?}");
}

#[test]
fn a_ptxas_of_triton_is_for_every_gpu_unless_another_is_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    program(&root.join("named"), &ptxas("12.8.9"));
    let bin = |venv: &str| format!("{venv}/lib/python3.12/site-packages/triton/backends/nvidia/bin");
    // Triton up to 3.5, and from 3.6.
    program(&root.join(bin("one")).join("ptxas"), &ptxas("12.8.1"));
    program(&root.join(bin("two")).join("ptxas"), &ptxas("12.8.2"));
    program(&root.join(bin("two")).join("ptxas-blackwell"), &ptxas("12.8.3"));
    let origins = |venvs: &[(&str, &str)]| -> BTreeSet<(u16, Origin)> {
        let vars = [&[("TRITON_PTXAS_PATH", "@/named")], venvs].concat();
        let found = discover(None, &Places::collect(&environment(root, &vars), None));
        found.toolkits.iter().flat_map(|t| t.origins.iter().map(|o| (t.version.patch, o.origin))).collect()
    };
    let (one, two) = (("VIRTUAL_ENV", "@/one"), ("VIRTUAL_ENV", "@/two"));
    assert_eq!(origins(&[one]), BTreeSet::from([(1, Origin::TritonOnly), (9, Origin::TritonOnly)]));
    let split = [(2, Origin::Triton), (3, Origin::TritonBlackwell), (9, Origin::Triton)];
    assert_eq!(origins(&[two]), BTreeSet::from(split));
    assert_eq!(origins(&[]), BTreeSet::from([(9, Origin::TritonNamed)]));
    assert!(Origin::TritonOnly.used_by().contains("every GPU"));
    assert!(
        Origin::Triton.used_by().contains("older GPUs") && !Origin::Triton.used_by().contains("every GPU")
    );
}

#[test]
fn the_same_binary_twice_is_one_toolkit() {
    let dir = tempfile::tempdir().unwrap();
    let a = program(&dir.path().join("a/ptxas"), &ptxas("13.1.80"));
    let b = program(&dir.path().join("b/ptxas-blackwell"), &ptxas("13.1.80"));
    let c = program(&dir.path().join("c/ptxas"), &ptxas("12.9.86"));
    let found = discover(
        None,
        &places(vec![place(Origin::Path, &a), place(Origin::TritonBlackwell, &b), place(Origin::System, &c)]),
    );
    assert_eq!(versions(&found), "12.9.86 13.1.80");
    let newest = found.toolkits.last().unwrap();
    let origins: Vec<Origin> = newest.origins.iter().map(|o| o.origin).collect();
    assert_eq!(origins, [Origin::Path, Origin::TritonBlackwell]);
    assert_eq!(newest.isa.to_string(), "9.5");
    assert_eq!(newest.targets, ["sm_90", "sm_121a"]);
    assert!(newest.knows("sm_121a".parse().unwrap()) && !newest.knows("sm_121".parse().unwrap()));
}

#[test]
fn a_bad_candidate_costs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let good = program(&at("good"), &ptxas("13.5.37"));
    let version = "echo 'Cuda compilation tools, release 13.5, V13.5.37'";
    let scripts = [
        ("fails", "exit 3".to_owned(), "status 3"),
        ("killed", "kill -9 $$".to_owned(), "signal 9"),
        ("crashes", "kill -SEGV $$".to_owned(), "signal 11"),
        ("hangs", "sleep 100".to_owned(), "did not end"),
        ("garbage", "head -c 5000 /dev/urandom".to_owned(), "names no CUDA release"),
        ("silent", String::new(), "names no CUDA release"),
        ("other", "echo nvcc 13".to_owned(), "`nvcc 13`"),
        ("helpless", format!("[ $1 = --version ] && {version}"), "--help"),
        ("hangs-later", format!("[ $1 = --version ] && {version} && exit 0; sleep 100"), "did not end"),
        ("no-targets", version.to_owned(), "lists no target"),
        ("no-isa", ptxas("13.5.37").replace("current version", "newest"), "the PTX version"),
        ("no-interpreter", "#!/nonexistent/interpreter".to_owned(), "cannot be started"),
    ];
    let mut list = vec![];
    for (name, script, _) in &scripts {
        let text = if script.starts_with("#!") { script.clone() } else { format!("#!/bin/sh\n{script}\n") };
        list.push(place(Origin::Path, &program(&at(name), &text)));
    }
    fs::create_dir(at("folder")).unwrap();
    fs::write(at("not-executable"), ptxas("13.5.37")).unwrap();
    program(&at("empty"), "");
    program(&at("elf-of-nothing"), "\x7fELF garbage");
    symlink("nowhere", at("dangling")).unwrap();
    let more = [
        ("folder", "not a file"),
        ("not-executable", "cannot be started"),
        ("elf-of-nothing", "cannot be started"),
        ("dangling", "cannot be used"),
        ("absent", "cannot be used"),
    ];
    list.extend(more.iter().map(|(name, _)| place(Origin::Path, &at(name))));
    list.push(place(Origin::Path, &good));
    list.push(place(Origin::Path, &at("empty")));
    let mut places = places(list);
    // The good one must answer even on a busy machine.
    places.limit = Duration::from_secs(3);
    let found = discover(None, &places);
    assert_eq!(versions(&found), "13.5.37", "{:#?}", found.unusable);
    for (name, reason) in
        scripts.iter().map(|(name, _, reason)| (name, reason)).chain(more.iter().map(|(n, r)| (n, r)))
    {
        let row = found.unusable.iter().find(|row| row.path == at(name));
        assert!(row.is_some_and(|row| row.reason.contains(reason)), "{name}: {row:?}");
        assert!(
            row.is_some_and(|row| row.reason.chars().count() < 300 && !row.reason.contains(char::is_control)),
            "{name}: {row:?}"
        );
    }
    assert!(found.unusable.iter().any(|row| row.path == at("empty")));
}

#[test]
fn a_warm_run_starts_nothing_and_a_changed_file_is_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Some(&dir.path().join("cache"))).unwrap();
    let log = dir.path().join("log");
    let counted =
        |version: &str| ptxas(version).replacen('\n', &format!("\necho x >> {}\n", log.display()), 1);
    let file = program(&dir.path().join("ptxas"), &counted("13.0.88"));
    let tool = dir.path().join("nvdisasm");
    program(&tool, &nvdisasm("13.5.37").replacen('\n', &format!("\necho x >> {}\n", log.display()), 1));
    let mut places = places(vec![place(Origin::Path, &file)]);
    places.nvdisasm = vec![place(Origin::Path, &tool)];
    let runs = || fs::read_to_string(&log).unwrap_or_default().lines().count();

    let cold = discover(Some(&store), &places);
    assert_eq!(runs(), 4);
    let warm = discover(Some(&store), &places);
    assert_eq!((&warm.toolkits, &warm.disassembler, runs()), (&cold.toolkits, &cold.disassembler, 4));

    program(&file, &counted("13.2.78"));
    assert_eq!(versions(&discover(Some(&store), &places)), "13.2.78");
    assert_eq!(runs(), 7);

    // A damaged entry is a cache miss, and so is an entry of another schema.
    for entry in fs::read_dir(dir.path().join("cache/entries/toolkit-1")).unwrap() {
        fs::write(entry.unwrap().path(), "damaged").unwrap();
    }
    assert_eq!(versions(&discover(Some(&store), &places)), "13.2.78");
}

#[test]
fn a_cache_that_cannot_be_written_costs_time_only() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Some(&dir.path().join("cache"))).unwrap();
    // Root ignores mode bits; a file in place of a folder stops root, too.
    fs::write(dir.path().join("cache/entries"), "").unwrap();
    let file = program(&dir.path().join("ptxas"), &ptxas("13.0.88"));
    for _ in 0..2 {
        assert_eq!(versions(&discover(Some(&store), &places(vec![place(Origin::Path, &file)]))), "13.0.88");
    }
}

#[test]
fn the_cache_is_trusted_by_manifest_only() {
    let bench = Bench::stocked();
    install(&bench.store(), &bench.pins(), &names(&["all"]), &bench.pip("", ""), &Kept::default()).unwrap();
    let look = || {
        discover(
            None,
            &Places::collect(&environment(&bench.path("nothing"), &[]), Some(&bench.path("cache"))),
        )
    };
    assert_eq!(versions(&look()), "12.9.86 13.5.37");
    assert!(look().disassembler.is_some());

    fs::remove_file(bench.path("cache/toolkits/ptxas/12.9.86/manifest.json")).unwrap();
    assert_eq!(versions(&look()), "13.5.37");

    program(&bench.path("cache/toolkits/ptxas/13.5.37/bin/ptxas"), &ptxas("13.4.59"));
    let found = look();
    assert_eq!(versions(&found), "");
    assert!(
        found.unusable.iter().any(|row| row.reason.contains("changed since it was installed")),
        "{:?}",
        found.unusable
    );

    let manifest = bench.path("cache/toolkits/nvdisasm/13.5.37/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let elsewhere = text.replace(
        &format!("\"arch\": \"{}\"", crate::toolkit::fakes::host().name()),
        &format!("\"arch\": \"{}\"", crate::toolkit::fakes::other_machine().name()),
    );
    assert_ne!(text, elsewhere);
    fs::write(&manifest, elsewhere).unwrap();
    let found = look();
    assert!(
        found.disassembler.is_none()
            && found.unusable.iter().any(|row| row.reason.contains("another machine"))
    );
    for damage in ["", "{", "{}", "[1]"] {
        fs::write(&manifest, damage).unwrap();
        assert!(look().disassembler.is_none());
    }
}

#[test]
fn names_choose_toolkits() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, version: &str| program(&dir.path().join(name), &ptxas(version));
    let second = file("second", "13.5.37").display().to_string() + "/../second";
    let list = ["12.8.93", "12.9.41", "12.9.86", "13.1.80", "13.1.115", "13.5.37"];
    let mut all: Vec<_> = list.iter().map(|version| place(Origin::Cache, &file(version, version))).collect();
    all.reverse();
    let mut places = places(all);
    let bad = program(&dir.path().join("bad"), "#!/bin/sh\nexit 1\n");
    let bad = bad.display().to_string();
    let named = format!("{}/./12.8.93", dir.path().display());
    places.add_named(&[named.clone(), bad.clone(), "13.5".to_owned()]);
    let found = discover(None, &places);
    let choose = |asked: &[&str]| {
        let chosen = found.select(&names(asked)).map_err(|error| error.to_string())?;
        Ok::<_, String>(chosen.iter().map(|t| t.version.to_string()).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(choose(&[]).unwrap(), "12.9.86 13.5.37");
    assert_eq!(choose(&["13.1"]).unwrap(), "13.1.115");
    assert_eq!(choose(&["13.5.37", "12.9.41", "13.5"]).unwrap(), "12.9.41 13.5.37");
    assert_eq!(choose(&["all"]).unwrap(), list.join(" "));
    assert_eq!(choose(&[&named]).unwrap(), "12.8.93");
    for unknown in ["13.9", "13.5.3", "x", ""] {
        let error = choose(&[unknown]).unwrap_err();
        assert!(error.contains("13.1.115") && error.contains("toolkit install"), "{error}");
    }
    let error = choose(&[&bad]).unwrap_err();
    assert!(error.contains("status 1") && error.contains(&bad), "{error}");
    let error = choose(&[&second]).unwrap_err();
    assert!(error.contains("second"), "{error}");

    let none = Discovery { unusable: found.unusable.clone(), ..Discovery::default() };
    for asked in [&[][..], &["all"], &["13.5"]] {
        let error = none.select(&names(asked)).unwrap_err().to_string();
        assert!(error.contains("status 1") && error.contains("toolkit install latest 12.9"), "{error}");
    }
    let old = discover(
        None,
        &crate::toolkit::fakes::places(vec![place(Origin::Path, &dir.path().join("12.8.93"))]),
    );
    assert_eq!(old.select(&[]).unwrap().len(), 1);
}

#[test]
fn of_one_version_the_preferred_is_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let first = program(&dir.path().join("a"), &ptxas("13.5.37"));
    let rebuilt = program(&dir.path().join("b"), &(ptxas("13.5.37") + "# rebuilt\n"));
    let found = discover(None, &places(vec![place(Origin::Path, &first), place(Origin::Conda, &rebuilt)]));
    assert_eq!(found.toolkits.len(), 2);
    for asked in [&[][..], &["all"], &["13.5"]] {
        let chosen = found.select(&names(asked)).unwrap();
        assert_eq!(chosen.iter().map(|t| t.path.as_path()).collect::<Vec<_>>(), [first.as_path()]);
    }
}
