//! The pinned wheels: which tool comes from which file, with which hash.

use std::fmt;
use std::path::Path;

use ptx::arch::ToolkitVersion;
use serde::{Deserialize, Serialize};

use crate::header::{self, HeaderError};

/// The pins that the tool was built with.
const BUILT_IN: &str = include_str!("pins.yaml");

/// A tool that can be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// The assembler.
    Ptxas,
    /// The disassembler.
    Nvdisasm,
    /// The extractor of cubins.
    Cuobjdump,
    /// The run-time compiler's libraries.
    Nvrtc,
}

impl Tool {
    /// Every tool.
    pub const ALL: [Self; 4] = [Self::Ptxas, Self::Nvdisasm, Self::Cuobjdump, Self::Nvrtc];

    /// Its name on the command line, and of its folder in the cache.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ptxas => "ptxas",
            Self::Nvdisasm => "nvdisasm",
            Self::Cuobjdump => "cuobjdump",
            Self::Nvrtc => "nvrtc",
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

/// The machine that wheels are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// x86-64.
    X86_64,
    /// 64-bit Arm, such as DGX Spark.
    Aarch64,
}

impl Arch {
    /// The machine this program was built for, when there are wheels for it.
    #[must_use]
    pub fn host() -> Option<Self> {
        [Self::X86_64, Self::Aarch64].into_iter().find(|arch| arch.name() == std::env::consts::ARCH)
    }

    /// Its name in wheel file names.
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
    /// Its file name, whose last part names the platforms it is for.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 in lower-case hexadecimal.
    pub sha256: String,
}

/// A file inside a wheel, `nvidia/cu13/bin/ptxas`: a plain relative path whose folder is `bin` or `lib`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Member(String);

impl Member {
    /// The whole path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0
    }

    /// The last two parts, `bin/ptxas`: where it goes in the installed folder.
    #[must_use]
    pub fn target(&self) -> &str {
        let name = self.0.rfind('/').unwrap_or(0);
        self.0[..name].rfind('/').map_or(self.0.as_str(), |folder| &self.0[folder + 1..])
    }
}

impl TryFrom<String> for Member {
    type Error = String;

    fn try_from(path: String) -> Result<Self, String> {
        let parts: Vec<&str> = path.split('/').collect();
        let plain = parts
            .iter()
            .all(|part| !part.is_empty() && *part != "." && *part != ".." && !part.contains('\\'));
        match parts.as_slice() {
            [.., folder, _] if plain && ["bin", "lib"].contains(folder) => Ok(Self(path)),
            _ => Err(format!("`{path}` is not a plain path of a file in a `bin` or `lib` folder")),
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
    /// The Python package that holds it.
    pub package: String,
    /// What is unpacked.
    pub members: Vec<Member>,
    /// The wheel for x86-64.
    pub x86_64: Wheel,
    /// The wheel for 64-bit Arm.
    pub aarch64: Wheel,
}

impl Pin {
    /// The wheel for `arch`.
    #[must_use]
    pub const fn wheel(&self, arch: Arch) -> &Wheel {
        match arch {
            Arch::X86_64 => &self.x86_64,
            Arch::Aarch64 => &self.aarch64,
        }
    }

    /// Tool and version, `ptxas 13.5.37`.
    #[must_use]
    pub fn what(&self) -> String {
        format!("{} {}", self.tool, self.version)
    }
}

/// Pins that cannot be read, or a name that is not among them.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The data file is wrong.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// No pin has this name.
    #[error("`{name}` is not pinned; pinned are: latest, all, {pinned}")]
    Unknown {
        /// The name.
        name: String,
        /// All names.
        pinned: String,
    },
    /// There are wheels for x86-64 and 64-bit Arm only.
    #[error(
        "there are no pinned wheels for {arch}, only for x86_64 and aarch64; name a ptxas of this machine by its path"
    )]
    Machine {
        /// This machine.
        arch: &'static str,
    },
}

/// Every pinned wheel, oldest first within a tool.
#[derive(Debug, Clone)]
pub struct Pins {
    pins: Vec<Pin>,
}

impl Pins {
    /// The pins that the tool was built with.
    ///
    /// # Errors
    /// [`PinError::Header`] when the built-in file is wrong, which a test rules out.
    pub fn built_in() -> Result<Self, PinError> {
        Self::parse(Path::new("crates/toolchain/src/toolkit/pins.yaml"), BUILT_IN)
    }

    /// Reads pins from the text of a file.
    ///
    /// # Errors
    /// [`PinError::Header`] with the place in the file.
    pub fn parse(path: &Path, yaml: &str) -> Result<Self, PinError> {
        let mut pins: Vec<Pin> = header::parse_file(path, yaml)?;
        pins.sort_by_key(|pin| (pin.tool, pin.version));
        Ok(Self { pins })
    }

    /// All of them, by tool and version.
    #[must_use]
    pub fn all(&self) -> &[Pin] {
        &self.pins
    }

    /// What `names` ask for, each once. `13.5` is the newest ptxas 13.5 and `13.5.37` that one, `latest` the newest and `all`
    /// every ptxas, each with the newest nvdisasm, which reads the code of all of them. A tool is named by itself for its
    /// newest (`cuobjdump`), with a version (`nvrtc:13.0`), or with `all`.
    ///
    /// # Errors
    /// [`PinError::Unknown`] with all names there are.
    pub fn resolve(&self, names: &[String]) -> Result<Vec<&Pin>, PinError> {
        let mut chosen: Vec<&Pin> = Vec::new();
        for name in names {
            let (tool, version) = match name.split_once(':') {
                Some((tool, version)) => (Tool::named(tool), version),
                None => Tool::named(name)
                    .map_or((Some(Tool::Ptxas), name.as_str()), |tool| (Some(tool), "latest")),
            };
            let found = tool.map(|tool| self.of(tool, version)).unwrap_or_default();
            if found.is_empty() {
                return Err(PinError::Unknown { name: name.clone(), pinned: self.names() });
            }
            chosen.extend(found);
            if !name.contains(':') && Tool::named(name).is_none() {
                chosen.extend(self.of(Tool::Nvdisasm, "latest"));
            }
        }
        let mut seen = std::collections::HashSet::new();
        chosen.retain(|pin| seen.insert((pin.tool, pin.version)));
        Ok(chosen)
    }

    fn of(&self, tool: Tool, version: &str) -> Vec<&Pin> {
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
