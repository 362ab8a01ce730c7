//! Substitutes: tools that are shell scripts, wheels of a few hundred bytes, a pip that copies them.

use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use sm121probe::event::{Event, Sink};
use sm121probe::store::{Store, sha256};
use sm121probe::toolkit::{Arch, InstallOptions, Origin, Pins, PipSource, Place, Places};
use zip::write::{SimpleFileOptions, ZipWriter};

/// A script that answers like ptxas `version`.
pub(crate) fn ptxas(version: &str) -> String {
    let release = version.rsplit_once('.').unwrap().0;
    format!(
        "#!/bin/sh\n\
         case \"$1\" in\n\
         --version) echo 'ptxas: NVIDIA (R) Ptx optimizing assembler'; echo 'Cuda compilation tools, release {release}, V{version}';;\n\
         --help) printf -- \"--gpu-name <gpu name> (-arch)\\n Allowed values for this option: 'compute_121','sm_121a',\\n 'sm_90'.\\n Default value: 'sm_90'.\\n\";;\n\
         *) echo \"ptxas x, line 1; fatal   : Unsupported .version 99.9; current version is '9.5'\" >&2; exit 255;;\n\
         esac\n"
    )
}

/// A script that answers like nvdisasm `version`.
pub(crate) fn nvdisasm(version: &str) -> String {
    format!("#!/bin/sh\necho 'Cuda compilation tools, release x, V{version}'\n")
}

/// Writes an executable file, and creates its folders.
pub(crate) fn program(path: &Path, text: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // Beside it first: one that a killed command's child still executes cannot be written.
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&new, path).unwrap();
    path.to_owned()
}

/// A candidate for ptxas.
pub(crate) fn place(origin: Origin, path: &Path) -> Place {
    Place { origin, path: path.to_owned(), sha256: None }
}

/// Candidates for ptxas, supplied by a test.
pub(crate) fn places(ptxas: Vec<Place>) -> Places {
    Places { ptxas, ..Places::default() }
}

/// Member name, Unix mode and content.
pub(crate) type Entry<'a> = (&'a str, u32, &'a [u8]);

/// The bytes of a wheel that pip accepts.
pub(crate) fn wheel(package: &str, version: &str, entries: &[Entry<'_>]) -> Vec<u8> {
    let info = format!("{}-{version}.dist-info", package.replace('-', "_"));
    let metadata = format!("Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n");
    let tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n".to_owned();
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in [("METADATA", metadata), ("WHEEL", tags), ("RECORD", String::new())] {
        zip.start_file(format!("{info}/{name}"), SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    for (name, mode, content) in entries {
        if *mode == LINK {
            zip.add_symlink(*name, String::from_utf8_lossy(content), SimpleFileOptions::default()).unwrap();
        } else {
            zip.start_file(*name, SimpleFileOptions::default().unix_permissions(*mode)).unwrap();
            zip.write_all(content).unwrap();
        }
    }
    zip.finish().unwrap().into_inner()
}

/// The mode of a symbolic link; the content is its target.
pub(crate) const LINK: u32 = 0o120_777;

/// A folder with wheels and their pins, a cache, and a log of the calls of the fake pip.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pins: String,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("wheels")).unwrap();
        Self { folder, pins: String::new() }
    }

    /// A fixture with ptxas 13.5.37 and 12.9.86 and nvdisasm 13.5.37.
    pub(crate) fn stocked() -> Self {
        let mut bench = Self::new();
        for version in ["13.5.37", "12.9.86"] {
            let name = format!("nvidia/{version}/bin/ptxas");
            bench.add("ptxas", "fake-ptxas", version, &[&name], &[(&name, 0o744, ptxas(version).as_bytes())]);
        }
        let name = "nvidia/cu13/bin/nvdisasm";
        bench.add(
            "nvdisasm",
            "fake-nvdisasm",
            "13.5.37",
            &[name],
            &[(name, 0o744, nvdisasm("13.5.37").as_bytes())],
        );
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a wheel for both machines and pins it. Returns the wheel for this machine.
    pub(crate) fn add(
        &mut self,
        tool: &str,
        package: &str,
        version: &str,
        members: &[&str],
        entries: &[Entry<'_>],
    ) -> PathBuf {
        let bytes = wheel(package, version, entries);
        self.add_bytes(tool, package, version, members, &bytes)
    }

    /// Pins `bytes` as the wheel of both machines.
    pub(crate) fn add_bytes(
        &mut self,
        tool: &str,
        package: &str,
        version: &str,
        members: &[&str],
        bytes: &[u8],
    ) -> PathBuf {
        let mut rows = String::new();
        for arch in [Arch::X86_64, Arch::Aarch64].map(Arch::name) {
            let file = file_name(package, version, arch);
            fs::write(self.path("wheels").join(&file), bytes).unwrap();
            rows +=
                &format!(", {arch}: {{ file: {file}, bytes: {}, sha256: {} }}", bytes.len(), sha256(bytes));
        }
        let members = members.join(", ");
        self.pins += &format!(
            "- {{ tool: {tool}, version: {version}, package: {package}, members: [{members}]{rows} }}\n"
        );
        self.path("wheels").join(file_name(package, version, host().name()))
    }

    pub(crate) fn pins(&self) -> Pins {
        Pins::parse(Path::new("pins.yaml"), &self.pins).unwrap()
    }

    /// The pins as the text of a file.
    pub(crate) fn pins_text(&self) -> &str {
        &self.pins
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(Some(&self.path("cache"))).unwrap()
    }

    /// Options with a fake pip: a shell script with `before` and `after` around the copy. `$dest` is the folder for the wheel.
    pub(crate) fn pip(&self, before: &str, after: &str) -> InstallOptions {
        let script = format!(
            "#!/bin/sh\necho \"$TMPDIR $*\" >> {log}\n\
             while [ $# -gt 1 ]; do case \"$1\" in --dest) dest=$2; shift;; esac; shift; done\n\
             wheel=$(ls {wheels}/$(echo \"$1\" | sed 's/-/_/g; s/==/-/')-*{arch}.whl)\n\
             {before}\ncp \"$wheel\" \"$dest\"/\n{after}\n",
            log = self.path("log").display(),
            wheels = self.path("wheels").display(),
            arch = host().name(),
        );
        // One file per script: a thread must not write a file that another thread executes.
        let python = program(&self.path(&format!("python-{}", &sha256(script.as_bytes())[..8])), &script);
        InstallOptions { pip: PipSource { python, args: Vec::new() }, ..options() }
    }

    /// Options with this machine's real pip, which finds only the fixture's wheels.
    pub(crate) fn real_pip(&self) -> InstallOptions {
        let args = ["--no-index".into(), "--find-links".into(), self.path("wheels").into()].to_vec();
        InstallOptions { pip: PipSource { python: "python3".into(), args }, ..options() }
    }

    /// The calls of the fake pip, one per line.
    pub(crate) fn asked(&self) -> Vec<String> {
        fs::read_to_string(self.path("log")).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Names of the files in the cache's scratch folder.
    pub(crate) fn scratch(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("cache/scratch")) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn file_name(package: &str, version: &str, arch: &str) -> String {
    format!("{}-{version}-py3-none-manylinux2014_{arch}.manylinux_2_17_{arch}.whl", package.replace('-', "_"))
}

pub(crate) fn host() -> Arch {
    Arch::host().unwrap()
}

pub(crate) fn other_machine() -> Arch {
    if host() == Arch::X86_64 { Arch::Aarch64 } else { Arch::X86_64 }
}

fn options() -> InstallOptions {
    InstallOptions { limit: Duration::from_secs(120), ..InstallOptions::for_host().unwrap() }
}

pub(crate) fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Keeps events.
#[derive(Default)]
pub(crate) struct Kept(pub(crate) Mutex<Vec<Event>>);

impl Sink for Kept {
    fn emit(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}
