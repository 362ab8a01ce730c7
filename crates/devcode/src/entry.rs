//! What a scan finds: pieces of device code, the files that hold them, and what could not be read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ptx::arch::{PtxIsa, Suffix, Target, ToolkitVersion};

/// Where something lies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file as it was found, with `!member` for every archive on the way: `x.whl!lib/libfoo.so`.
    pub file: Arc<str>,
    /// The ELF section that holds it (`.nv_fatbin`), where there is one.
    pub section: Option<Arc<str>>,
    /// Bytes from the start of the file (of the member, in an archive) to it.
    pub offset: u64,
    /// The how-many-th piece of device code of its file, from 0.
    pub index: u32,
}

impl Place {
    /// The whole of `file`.
    #[must_use]
    pub fn of(file: impl Into<Arc<str>>) -> Self {
        Self { file: file.into(), section: None, offset: 0, index: 0 }
    }
}

impl fmt::Display for Place {
    /// `x.whl!lib/libfoo.so .nv_fatbin+0x1540`; the offset only where it is not 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match (&self.section, self.offset) {
            (Some(section), offset) => write!(f, " {section}+{offset:#x}"),
            (None, 0) => Ok(()),
            (None, offset) => write!(f, " +{offset:#x}"),
        }
    }
}

/// What kind of device code it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CodeKind {
    /// Machine code, ready to load.
    Cubin,
    /// Machine code that waits for the device linker (`nvcc -dc`).
    Relocatable,
    /// PTX text.
    Ptx,
    /// NVVM code for link-time optimisation (`nvcc -dlto`).
    LtoIr,
    /// LLVM bitcode: a compiler's input, which no driver loads.
    Bitcode,
    /// A kind that the format numbers and nobody documents.
    Other(u16),
}

impl CodeKind {
    /// Its name in tables and files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cubin => "cubin",
            Self::Relocatable => "relocatable",
            Self::Ptx => "ptx",
            Self::LtoIr => "ltoir",
            Self::Bitcode => "bitcode",
            Self::Other(_) => "other",
        }
    }
}

/// Which part of the file told the suffix of the target, or that nothing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToldBy {
    /// The flags of the fatbin's entry.
    FatbinFlags,
    /// `e_flags` of the cubin.
    ElfFlags,
    /// The section `.nv.compat` of the cubin.
    Compat,
    /// The options of ptxas that the cubin's note quotes: a hint, since tools may remove or copy it.
    Tkinfo,
    /// The `.target` of the PTX.
    PtxTarget,
    /// The architecture or the toolkit has no other suffix.
    NoOther,
    /// Nothing: the suffix is unknown.
    Nothing,
}

impl ToldBy {
    /// Its name in tables and files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::FatbinFlags => "fatbin flags",
            Self::ElfFlags => "e_flags",
            Self::Compat => ".nv.compat",
            Self::Tkinfo => "tkinfo",
            Self::PtxTarget => ".target",
            Self::NoOther => "no other exists",
            Self::Nothing => "nothing",
        }
    }
}

/// How the code is stored in a fatbin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    /// As it is.
    None,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Its name in tables and files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Kernels of one piece of code: some hundred times what the largest libraries have.
pub(super) const KERNELS_LIMIT: usize = 1 << 20;

/// A kernel and what it takes; `None` where the file does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kernel {
    /// The name, as linked (mangled).
    pub name: String,
    /// Registers per thread.
    pub registers: Option<u32>,
    /// Static shared memory per CTA, bytes: from sm_90 on with the 1 KiB that the system takes of it, once linked.
    pub shared: Option<u64>,
    /// Stack per thread, bytes: what a launch sets aside in local memory. Before linking it is the kernel's own frame.
    pub stack: Option<u64>,
    /// The greatest number of threads of a CTA.
    pub max_threads: Option<u32>,
    /// Instructions of PTX by class, `mma.block_scale` or `trap`, and the `other`; empty of everything else.
    pub instructions: BTreeMap<&'static str, u32>,
}

/// One piece of device code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it lies.
    pub place: Place,
    /// What it is.
    pub kind: CodeKind,
    /// The architecture: 121 for `sm_121a`; 0 where there is none (bitcode, damaged PTX).
    pub number: u16,
    /// The suffix; `None` where the file does not tell base from `f`.
    pub suffix: Option<Suffix>,
    /// What told the suffix.
    pub told_by: ToldBy,
    /// `.version` of PTX.
    pub isa: Option<PtxIsa>,
    /// How it is stored.
    pub compression: Compression,
    /// Bytes in the file.
    pub bytes: u64,
    /// Bytes once unpacked.
    pub unpacked: u64,
    /// The ptxas that made it, where its note says.
    pub toolkit: Option<ToolkitVersion>,
    /// The name of the source file that the fatbin gives it.
    pub name: Option<String>,
    /// The kernels; empty where the code could not be unpacked, and then there is a [`Problem`] too, and for kinds that are
    /// not read.
    pub kernels: Vec<Kernel>,
}

impl Entry {
    /// The target, where it is known whole.
    #[must_use]
    pub fn target(&self) -> Option<Target> {
        (self.number != 0).then_some(())?;
        self.suffix.map(|suffix| Target { number: self.number, suffix })
    }

    /// `sm_121a`; `sm_121?` where the suffix is unknown; empty where there is no architecture.
    #[must_use]
    pub fn target_text(&self) -> String {
        match (self.number, self.target()) {
            (0, _) => String::new(),
            (_, Some(target)) => target.to_string(),
            (number, None) => format!("sm_{number}?"),
        }
    }
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// A host's shared library, executable or object.
    HostElf,
    /// A cubin by itself.
    Cubin,
    /// A fatbin by itself.
    Fatbin,
    /// PTX by itself.
    Ptx,
    /// A zip archive; wheels are such.
    Zip,
    /// An `ar` archive.
    Ar,
    /// LLVM bitcode.
    Bitcode,
}

impl Format {
    /// Its name in tables and files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::HostElf => "ELF",
            Self::Cubin => "cubin",
            Self::Fatbin => "fatbin",
            Self::Ptx => "PTX",
            Self::Zip => "zip",
            Self::Ar => "ar",
            Self::Bitcode => "bitcode",
        }
    }
}

/// A file that holds device code, or could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The file, `!member` included.
    pub file: Arc<str>,
    /// What it is.
    pub format: Format,
    /// Its size in bytes.
    pub bytes: u64,
    /// Pieces of device code in it; those of members of an archive count for the members alone.
    pub entries: u32,
    /// The shared libraries that a host's ELF asks for: a library that wants `libcudart.so.13` and holds no device code has
    /// it elsewhere, or was built without.
    pub needs: Vec<String>,
}

/// What a scan did not read, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub trouble: Trouble,
}

/// What may be wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The system refuses it.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// It ends before what it says it holds.
    #[error("is cut short: {0}")]
    Truncated(String),
    /// It contradicts its own format.
    #[error("is damaged: {0}")]
    Damaged(String),
    /// A member of an archive is encrypted.
    #[error("is encrypted")]
    Encrypted,
    /// It uses a form of its format that is not read here.
    #[error("uses {0}, which is not read")]
    Unsupported(String),
    /// It is beyond a limit of the scan.
    #[error("is left out: {0}")]
    TooLarge(String),
    /// A folder that was met before on the way to itself.
    #[error("is a link to a folder above it")]
    Loop,
}

impl Trouble {
    /// What to do about it.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "check that the path exists and may be read by this user",
            Self::Truncated(_) => "the copy is incomplete: download or build it again",
            Self::Damaged(_) => {
                "download or build it again; if it stays so, cuobjdump's word on it helps a report"
            }
            Self::Encrypted => "decrypt the archive and audit the unpacked folder",
            Self::Unsupported(_) => "unpack it with its own tool and audit the result",
            Self::TooLarge(_) => "unpack it and audit the folder, or raise the limit",
            Self::Loop => "nothing: its contents are audited where they lie",
        }
    }
}

/// What a scan hands over, in the order of the files.
#[derive(Debug)]
pub enum Found<'a> {
    /// A piece of device code.
    Entry {
        /// What is known of it.
        entry: Entry,
        /// The code unpacked: an ELF image or PTX text, for a disassembler. Empty where it could not be unpacked, and for
        /// kinds that are not read.
        code: &'a [u8],
    },
    /// A file is finished: after its entries.
    Holder(Holder),
    /// Something was not read; the scan goes on.
    Problem(Problem),
}

/// How far a scan goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Archives within archives.
    pub depth: u32,
    /// The largest piece of device code once unpacked, bytes.
    pub code: u64,
    /// The largest member of an archive once unpacked, bytes.
    pub member: u64,
    /// All members of one file once unpacked, bytes.
    pub total: u64,
    /// How many times larger a member may be than it is packed, once it is above 16 MiB.
    pub ratio: u64,
    /// The largest number of pieces of device code in one file.
    pub entries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 4, code: 192 << 20, member: 8 << 30, total: 64 << 30, ratio: 200, entries: 1 << 20 }
    }
}
