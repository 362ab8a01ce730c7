//! The results of a scan: pieces of device code, the files that contain them, and problems.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use ptx::arch::{PtxIsa, Suffix, Target, ToolkitVersion};

/// The location of a piece of device code or of a problem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The path of the file, with `!member` for every enclosing archive: `x.whl!lib/libfoo.so`.
    pub file: Arc<str>,
    /// The ELF section that contains it (`.nv_fatbin`), if any.
    pub section: Option<Arc<str>>,
    /// Byte offset from the start of the section, or else of the file (in an archive, of the member).
    pub offset: u64,
    /// Index among the pieces of device code of its file, from 0.
    pub index: u32,
}

impl Place {
    /// Returns the location of the whole of `file`.
    #[must_use]
    pub fn in_file(file: impl Into<Arc<str>>) -> Self {
        Self { file: file.into(), section: None, offset: 0, index: 0 }
    }
}

impl fmt::Display for Place {
    /// `x.whl!lib/libfoo.so .nv_fatbin+0x1540`; without a section, the offset is printed only if it is not 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match (&self.section, self.offset) {
            (Some(section), offset) => write!(f, " {section}+{offset:#x}"),
            (None, 0) => Ok(()),
            (None, offset) => write!(f, " +{offset:#x}"),
        }
    }
}

/// A kind of device code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CodeKind {
    /// Machine code, ready to load.
    Cubin,
    /// Machine code for the device linker (`nvcc -dc`).
    Relocatable,
    /// PTX text.
    Ptx,
    /// NVVM IR for link-time optimisation (`nvcc -dlto`).
    LtoIr,
    /// LLVM bitcode: input of a compiler, which no driver loads.
    Bitcode,
    /// An undocumented kind, with its number in the format.
    Other(u16),
}

impl CodeKind {
    /// The name in tables and files.
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

/// The part of a file from which the suffix of the target was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToldBy {
    /// The flags of the fatbin entry.
    FatbinFlags,
    /// `e_flags` of the cubin.
    ElfFlags,
    /// The section `.nv.compat` of the cubin.
    Compat,
    /// The ptxas options quoted in the cubin's note: a hint, since tools may remove or copy the note.
    Tkinfo,
    /// The `.target` directive of the PTX.
    PtxTarget,
    /// The architecture or the toolkit supports no other suffix.
    NoOther,
    /// Nothing: the suffix is unknown.
    Nothing,
}

impl ToldBy {
    /// The name in tables and files.
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

/// The compression of code in a fatbin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    /// Uncompressed.
    None,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// The name in tables and files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Limit on the kernels of one piece of code, a few hundred times what the largest libraries have.
pub(super) const KERNELS_LIMIT: usize = 1 << 20;

/// A kernel and its resources; `None` if the file does not state them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kernel {
    /// The mangled name.
    pub name: String,
    /// Registers per thread.
    pub registers: Option<u32>,
    /// Static shared memory per CTA in bytes; in linked code for sm_90 and later, it includes the 1 KiB that the system reserves.
    pub shared: Option<u64>,
    /// Stack per thread in bytes, which a launch reserves in local memory. Before linking, it is the frame of the kernel alone.
    pub stack: Option<u64>,
    /// Maximum threads per CTA.
    pub max_threads: Option<u32>,
    /// PTX instruction counts by class, such as `mma.block_scale`, `trap` or `other`; empty for code other than PTX.
    pub instructions: BTreeMap<&'static str, u32>,
    /// What its PTX does besides computing in registers; empty for code other than PTX.
    pub effects: Effects,
}

/// The effects of a kernel's PTX.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// Whether it may read or write memory other than its parameters, constants and stack, or do anything else that is not listed here.
    pub others: bool,
    /// Whether it has a trap or a breakpoint.
    pub traps: bool,
    /// The functions that it calls by name.
    pub calls: BTreeSet<String>,
}

/// One piece of device code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its location.
    pub place: Place,
    /// Its kind.
    pub kind: CodeKind,
    /// The architecture: 121 for `sm_121a`; 0 if there is none (bitcode, damaged PTX).
    pub number: u16,
    /// The suffix; `None` if the file does not distinguish base from `f`.
    pub suffix: Option<Suffix>,
    /// The part of the file from which the suffix was read.
    pub told_by: ToldBy,
    /// `.version` of PTX.
    pub isa: Option<PtxIsa>,
    /// Its compression.
    pub compression: Compression,
    /// Size in the file, in bytes.
    pub bytes: u64,
    /// Unpacked size in bytes.
    pub unpacked: u64,
    /// The ptxas version that produced it, if its note states one.
    pub toolkit: Option<ToolkitVersion>,
    /// The source file name recorded in the fatbin.
    pub name: Option<String>,
    /// The kernels; empty if the code could not be unpacked, which is also reported as a [`Problem`], and for kinds that are
    /// not parsed.
    pub kernels: Vec<Kernel>,
}

impl Entry {
    /// Returns the target if both architecture and suffix are known.
    #[must_use]
    pub fn target(&self) -> Option<Target> {
        (self.number != 0).then_some(())?;
        self.suffix.map(|suffix| Target { number: self.number, suffix })
    }

    /// Formats the target as `sm_121a`, or `sm_121?` if the suffix is unknown; empty without an architecture.
    #[must_use]
    pub fn target_text(&self) -> String {
        match (self.number, self.target()) {
            (0, _) => String::new(),
            (_, Some(target)) => target.to_string(),
            (number, None) => format!("sm_{number}?"),
        }
    }
}

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// A host shared library, executable or object file.
    HostElf,
    /// A standalone cubin.
    Cubin,
    /// A standalone fatbin.
    Fatbin,
    /// A PTX file.
    Ptx,
    /// A zip archive, such as a wheel.
    Zip,
    /// An `ar` archive.
    Ar,
    /// A tar archive, plain or compressed by gzip, such as a source distribution.
    Tar,
    /// LLVM bitcode.
    Bitcode,
}

impl Format {
    /// The name in tables and files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::HostElf => "ELF",
            Self::Cubin => "cubin",
            Self::Fatbin => "fatbin",
            Self::Ptx => "PTX",
            Self::Zip => "zip",
            Self::Ar => "ar",
            Self::Tar => "tar",
            Self::Bitcode => "bitcode",
        }
    }
}

/// A file in a format that can contain device code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The path, including `!member`.
    pub file: Arc<str>,
    /// Its format.
    pub format: Format,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of pieces of device code in it; those in the members of an archive count only for the members.
    pub entries: u32,
    /// The shared libraries that a host ELF file needs. A library that needs `libcudart.so.13` but contains no device code loads
    /// it from elsewhere, or was built without it.
    pub needs: Vec<String>,
}

/// Something that a scan could not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its location.
    pub place: Place,
    /// The reason.
    pub trouble: Trouble,
}

/// The reason why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The operating system refused access.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The file ends before the contents that it announces.
    #[error("is cut short: {0}")]
    Truncated(String),
    /// The file contradicts its format.
    #[error("is damaged: {0}")]
    Damaged(String),
    /// A member of an archive is encrypted.
    #[error("is encrypted")]
    Encrypted,
    /// The file uses an unsupported variant of its format.
    #[error("uses {0}, which is not read")]
    Unsupported(String),
    /// The file exceeds a limit of the scan.
    #[error("is left out: {0}")]
    TooLarge(String),
    /// The folder is a link to one of its parents.
    #[error("is a link to a folder above it")]
    Loop,
}

impl Trouble {
    /// Returns advice on how to proceed.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "check that the path exists and may be read by this user",
            Self::Truncated(_) => "the copy is incomplete: download or build it again",
            Self::Damaged(_) => {
                "download or build it again; if the problem persists, include cuobjdump's output in a report"
            }
            Self::Encrypted => "decrypt the archive and audit the unpacked folder",
            Self::Unsupported(_) => "unpack it with its own tool and audit the result",
            Self::TooLarge(_) => "unpack it and audit the folder, or raise the limit",
            Self::Loop => "no action needed: its contents are audited at their real location",
        }
    }
}

/// An item that a scan passes to its sink, in file order.
#[derive(Debug)]
pub enum Found<'a> {
    /// A piece of device code.
    Entry {
        /// The facts about it.
        entry: Entry,
        /// The unpacked code: an ELF image or PTX text. Empty if it could not be unpacked, and for kinds that are not
        /// parsed.
        code: &'a [u8],
    },
    /// A file, after all of its entries.
    Holder(Holder),
    /// Something that could not be read; the scan continues.
    Problem(Problem),
}

/// The limits of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum nesting depth of archives.
    pub depth: u32,
    /// Maximum unpacked size of a piece of device code, in bytes.
    pub code: u64,
    /// Maximum unpacked size of an archive member, in bytes.
    pub member: u64,
    /// Maximum total unpacked size of one file, in bytes; a file is further limited to `ratio` times its size plus 256 MiB.
    pub total: u64,
    /// Maximum ratio of unpacked to packed size of a member above 16 MiB.
    pub ratio: u64,
    /// Maximum number of pieces of device code in one file.
    pub entries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 4, code: 192 << 20, member: 8 << 30, total: 64 << 30, ratio: 200, entries: 1 << 20 }
    }
}
