//! The pinned wheels: the file and hash from which each tool is installed.

use std::fmt;
use std::path::Path;

use ptx::arch::ToolkitVersion;
use serde::{Deserialize, Serialize};

use crate::header::{self, HeaderError};

/// The built-in pins.
const BUILT_IN: &str = include_str!("pins.yaml");

/// A tool that can be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// The assembler.
    Ptxas,
    /// The disassembler.
    Nvdisasm,
    /// The cubin extractor.
    Cuobjdump,
    /// The run-time compiler's libraries.
    Nvrtc,
    /// The headers of the CUDA runtime, such as `cuda_fp16.h`.
    Headers,
    /// The headers `crt/`, which those of the runtime include.
    Crt,
    /// The headers of the CUDA core libraries: `cuda/std`, CUB, Thrust.
    Cccl,
    /// The headers of CUTLASS and `CuTe`.
    Cutlass,
}

impl Tool {
    /// Every tool.
    pub const ALL: [Self; 8] = [
        Self::Ptxas,
        Self::Nvdisasm,
        Self::Cuobjdump,
        Self::Nvrtc,
        Self::Headers,
        Self::Crt,
        Self::Cccl,
        Self::Cutlass,
    ];

    /// Returns its name on the command line, which is also the name of its folder in the cache.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ptxas => "ptxas",
            Self::Nvdisasm => "nvdisasm",
            Self::Cuobjdump => "cuobjdump",
            Self::Nvrtc => "nvrtc",
            Self::Headers => "headers",
            Self::Crt => "crt",
            Self::Cccl => "cccl",
            Self::Cutlass => "cutlass",
        }
    }

    /// Reads a name: `ptxas`, `nvrtc`, ...
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The architecture that a wheel is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// x86-64.
    X86_64,
    /// 64-bit Arm, such as DGX Spark.
    Aarch64,
}

impl Arch {
    /// Returns the architecture this program was built for, if there are wheels for it.
    #[must_use]
    pub fn host() -> Option<Self> {
        [Self::X86_64, Self::Aarch64].into_iter().find(|arch| arch.name() == std::env::consts::ARCH)
    }

    /// Returns its name in wheel file names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }
}

/// One wheel file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    /// Its file name, whose last part names its platforms.
    pub file: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// SHA-256 in lower-case hexadecimal.
    pub sha256: String,
}

/// A file inside a wheel, such as `nvidia/cu13/bin/ptxas`: a plain relative path whose folder is `bin` or `lib`. Or all files below
/// a folder `include/`, whose path ends with a slash.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Member(String);

impl Member {
    /// Returns the whole path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0
    }

    /// Whether it stands for all files below a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.0.ends_with('/')
    }

    /// Returns the last two components, such as `bin/ptxas`: its path in the installed folder. Of a folder it is `include`.
    #[must_use]
    pub fn target(&self) -> &str {
        if self.is_folder() {
            return "include";
        }
        let name = self.0.rfind('/').unwrap_or(0);
        self.0[..name].rfind('/').map_or(self.0.as_str(), |folder| &self.0[folder + 1..])
    }
}

/// Whether a relative path leads to no other folder than it says.
pub(super) fn is_plain(path: &str) -> bool {
    path.split('/').all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains('\\'))
}

impl TryFrom<String> for Member {
    type Error = String;

    fn try_from(path: String) -> Result<Self, String> {
        let whole = path.strip_suffix('/');
        let parts: Vec<&str> = whole.unwrap_or(&path).split('/').collect();
        let plain = is_plain(whole.unwrap_or(&path));
        match parts.as_slice() {
            [.., "include"] if plain && whole.is_some() => Ok(Self(path)),
            [.., folder, _] if plain && whole.is_none() && ["bin", "lib"].contains(folder) => Ok(Self(path)),
            _ => Err(format!(
                "`{path}` is not a plain path of a file in a `bin` or `lib` folder, or of a folder `include/`"
            )),
        }
    }
}

/// One version of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The tool.
    pub tool: Tool,
    /// Its version.
    pub version: ToolkitVersion,
    /// The Python package that contains it.
    pub package: String,
    /// The version of the package, if it is numbered in another way.
    #[serde(default)]
    pub package_version: Option<String>,
    /// The files to unpack.
    pub members: Vec<Member>,
    /// The wheel for x86-64.
    pub x86_64: Wheel,
    /// The wheel for 64-bit Arm.
    pub aarch64: Wheel,
}

impl Pin {
    /// Returns the wheel for `arch`.
    #[must_use]
    pub const fn wheel(&self, arch: Arch) -> &Wheel {
        match arch {
            Arch::X86_64 => &self.x86_64,
            Arch::Aarch64 => &self.aarch64,
        }
    }

    /// Returns the requirement that pip fetches.
    #[must_use]
    pub fn requirement(&self) -> String {
        match &self.package_version {
            Some(version) => format!("{}=={version}", self.package),
            None => format!("{}=={}", self.package, self.version),
        }
    }

    /// Returns tool and version, such as `ptxas 13.5.37`.
    #[must_use]
    pub fn what(&self) -> String {
        format!("{} {}", self.tool, self.version)
    }
}

/// Why pins cannot be read or resolved.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The data file is invalid.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// No pin has this name.
    #[error("`{name}` is not pinned; pinned are: latest, all, {pinned}")]
    Unknown {
        /// The name.
        name: String,
        /// All pinned names.
        pinned: String,
    },
    /// There are wheels for x86-64 and 64-bit Arm only.
    #[error(
        "there are no pinned wheels for {arch}, only for x86_64 and aarch64; name a ptxas of this machine by its path"
    )]
    Machine {
        /// The architecture of this machine.
        arch: &'static str,
    },
}

/// All pinned wheels, oldest first within a tool.
#[derive(Debug, Clone)]
pub struct Pins {
    pins: Vec<Pin>,
}

impl Pins {
    /// Parses the built-in pins.
    ///
    /// # Errors
    /// [`PinError::Header`] if the built-in file is invalid, which a test rules out.
    pub fn built_in() -> Result<Self, PinError> {
        Self::parse(Path::new("crates/toolchain/src/toolkit/pins.yaml"), BUILT_IN)
    }

    /// Parses pins from the text of a file.
    ///
    /// # Errors
    /// [`PinError::Header`] with the position in the file.
    pub fn parse(path: &Path, yaml: &str) -> Result<Self, PinError> {
        let mut pins: Vec<Pin> = header::parse_file(path, yaml)?;
        pins.sort_by_key(|pin| (pin.tool, pin.version));
        Ok(Self { pins })
    }

    /// Returns all pins, by tool and version.
    #[must_use]
    pub fn all(&self) -> &[Pin] {
        &self.pins
    }

    /// Returns the pins that `names` denote, each once. `13.5` is the newest ptxas 13.5, `13.5.37` exactly that one, `latest`
    /// the newest and `all` every ptxas; each adds the newest nvdisasm, which reads the code of all of them. The name of a
    /// tool denotes its newest version (`cuobjdump`); a version can be added (`nvrtc:13.0`), or `all`.
    ///
    /// # Errors
    /// [`PinError::Unknown`] with all pinned names.
    pub fn resolve(&self, names: &[String]) -> Result<Vec<&Pin>, PinError> {
        let mut chosen: Vec<&Pin> = Vec::new();
        for name in names {
            let (tool, version) = match name.split_once(':') {
                Some((tool, version)) => (Tool::named(tool), version),
                None => Tool::named(name)
                    .map_or((Some(Tool::Ptxas), name.as_str()), |tool| (Some(tool), "latest")),
            };
            let found = tool.map(|tool| self.matching(tool, version)).unwrap_or_default();
            if found.is_empty() {
                return Err(PinError::Unknown { name: name.clone(), pinned: self.names() });
            }
            chosen.extend(found);
            if !name.contains(':') && Tool::named(name).is_none() {
                chosen.extend(self.matching(Tool::Nvdisasm, "latest"));
            }
        }
        let mut seen = std::collections::HashSet::new();
        chosen.retain(|pin| seen.insert((pin.tool, pin.version)));
        Ok(chosen)
    }

    fn matching(&self, tool: Tool, version: &str) -> Vec<&Pin> {
        let mut pins = self.pins.iter().filter(|pin| pin.tool == tool);
        match version {
            "all" => pins.collect(),
            "latest" => pins.next_back().into_iter().collect(),
            _ => pins.rfind(|pin| pin.version.is_named(version)).into_iter().collect(),
        }
    }

    fn names(&self) -> String {
        let name = |pin: &Pin| match pin.tool {
            Tool::Ptxas => pin.version.to_string(),
            tool => format!("{tool}:{}", pin.version),
        };
        self.pins.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}
