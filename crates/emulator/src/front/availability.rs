//! Which targets have which forms, according to ptxas 13.5: the emulator rejects what ptxas rejects for the target of the module.
//!
//! The decoders accept every form that some target has; these are the rules for targets that lack them, by chapter of the manual. A
//! test compares all of them with the recorded matrix of snippets.

use std::fmt;

use ptx::arch::{PtxIsa, Suffix, Target};
use ptx::{Immediate, Instruction, Operand};

use crate::front::decode::Decoder;
use crate::front::words::Refusal;

/// The target of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arch {
    /// 121 for `sm_121a`.
    pub(crate) number: u32,
    /// `a` or `f`, if present.
    pub(crate) suffix: Option<char>,
}

impl Arch {
    pub(crate) fn from_target(target: Target) -> Self {
        let suffix = match target.suffix {
            Suffix::Base => None,
            Suffix::Arch => Some('a'),
            Suffix::Family => Some('f'),
        };
        Self { number: u32::from(target.number), suffix }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.number, self.suffix.map_or_else(String::new, String::from))
    }
}

/// The targets that have a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Has {
    /// This architecture and all later ones.
    From(u32),
    /// sm_90a, and from sm_100 the targets with a suffix.
    Suffixed,
    /// From sm_100 the targets with a suffix.
    Family,
    /// From sm_100 the targets with the suffix `a`.
    ArchOnly,
    /// sm_100, sm_103 and sm_110 with a suffix.
    DataCentre,
    /// sm_100 and sm_103 with a suffix.
    Family100,
    /// sm_100a and sm_103a.
    Arch100,
    /// Only sm_103a.
    Arch103,
    /// Only sm_107 with a suffix.
    Family107,
    /// Only sm_110 with a suffix.
    Family110,
    /// sm_120 and sm_121 with a suffix.
    Sm12x,
    /// sm_120a and sm_121a.
    Sm12xArch,
    /// From sm_90, but not sm_120 and sm_121.
    NotSm12x,
    /// None.
    Nobody,
}

impl Has {
    fn holds(self, arch: Arch) -> bool {
        let Arch { number, suffix } = arch;
        let (any, a) = (suffix.is_some(), suffix == Some('a'));
        match self {
            Self::From(first) => number >= first,
            Self::Suffixed => any && number >= 90,
            Self::Family => any && number >= 100,
            Self::ArchOnly => a && number >= 100,
            Self::DataCentre => any && (100..120).contains(&number),
            Self::Family100 => any && (100..110).contains(&number),
            Self::Arch100 => a && (100..110).contains(&number),
            Self::Arch103 => a && number == 103,
            Self::Family107 => any && number == 107,
            Self::Family110 => any && number == 110,
            Self::Sm12x => any && number >= 120,
            Self::Sm12xArch => a && number >= 120,
            Self::NotSm12x => (90..120).contains(&number),
            Self::Nobody => false,
        }
    }

    fn says(self) -> String {
        match self {
            Self::From(first) => format!("it requires sm_{first} or later"),
            Self::Suffixed => {
                "it requires sm_90a, or a target from sm_100 on with the suffix a or f".to_owned()
            }
            Self::Family => "it requires a target from sm_100 on with the suffix a or f".to_owned(),
            Self::ArchOnly => "it requires a target from sm_100 on with the suffix a".to_owned(),
            Self::DataCentre => "it requires sm_100, sm_103 or sm_110 with the suffix a or f".to_owned(),
            Self::Family100 => "it requires sm_100 or sm_103 with the suffix a or f".to_owned(),
            Self::Arch100 => "it requires sm_100a or sm_103a".to_owned(),
            Self::Arch103 => "it requires sm_103a".to_owned(),
            Self::Family107 => "it requires sm_107 with the suffix a or f".to_owned(),
            Self::Family110 => "it requires sm_110 with the suffix a or f".to_owned(),
            Self::Sm12x => "it requires sm_120 or sm_121 with the suffix a or f".to_owned(),
            Self::Sm12xArch => "it requires sm_120a or sm_121a".to_owned(),
            Self::NotSm12x => "it requires sm_90 to sm_110".to_owned(),
            Self::Nobody => "ptxas refuses it for every target".to_owned(),
        }
    }
}

/// The version of PTX that a form requires for several of its words together, or for an operand; the table of forms has the rest.
fn joint_version(i: &Instruction) -> (u32, u32) {
    let special = |name: &str| match name {
        "%aggr_smem_size" => (8, 1),
        _ if name.starts_with("%reserved_smem_offset") => (7, 6),
        _ => (1, 0),
    };
    let mut since = if is_256_bits(i) { (8, 8) } else { (1, 0) };
    i.each_name(|name| since = since.max(special(name)));
    since
}

/// Rejects a form that the `.version` of the module lacks; `since` is what the table of forms says.
pub(super) fn check_version(module: (u32, u32), i: &Instruction, since: (u32, u32)) -> Result<(), Refusal> {
    let since = since.max(joint_version(i));
    if module >= since {
        return Ok(());
    }
    let ((major, minor), (first, then)) = (module, since);
    let isa = u16::try_from(first).ok().zip(u16::try_from(then).ok());
    let cuda = isa.and_then(|(major, minor)| PtxIsa { major, minor }.cuda());
    let ptxas = cuda.map_or_else(String::new, |cuda| format!(" (ptxas {cuda} or later)"));
    Err(format!("it requires `.version {first}.{then}`{ptxas}; the module has {major}.{minor}"))
}

/// Rejects a form that the target of the module lacks.
pub(super) fn check(d: &Decoder<'_>, i: &Instruction) -> Result<(), Refusal> {
    let arch = d.arch();
    for has in requirements(d, i) {
        if !has.holds(arch) {
            return Err(format!("{arch} does not have it: {}", has.says()));
        }
    }
    Ok(())
}

fn any(i: &Instruction, words: &[&str]) -> bool {
    words.iter().any(|word| i.has(word))
}

fn integer(operand: Option<&Operand>) -> Option<u64> {
    match operand {
        Some(Operand::Immediate(Immediate::Integer { bits, .. })) => Some(*bits),
        _ => None,
    }
}

const CACHE_OPERATORS: [&str; 7] = ["ca", "cg", "cs", "lu", "cv", "wb", "wt"];
/// Types of two values of 8 bits.
const FP8_PAIRS: [&str; 2] = ["e4m3x2", "e5m2x2"];
/// Types of two values of 4 or 6 bits.
const NARROW_PAIRS: [&str; 3] = ["e2m3x2", "e3m2x2", "e2m1x2"];

/// The requirements on the target, by chapter.
fn requirements(d: &Decoder<'_>, i: &Instruction) -> Vec<Has> {
    let mut list = Vec::new();
    let mut when = |condition: bool, has: Has| {
        if condition {
            list.push(has);
        }
    };
    // The scope and the window of clusters.
    let cluster = any(i, &["cluster", "shared::cluster"]);
    when(cluster && !i.has("mbarrier_init"), Has::From(90));
    let special = |name: &str| {
        ["%cluster", "%ncluster", "%is_explicit_cluster", "%aggr_smem_size"]
            .iter()
            .any(|p| name.starts_with(p))
    };
    when(i.operands.iter().any(|o| matches!(o, Operand::Name(name) if special(name))), Has::From(90));
    match i.opcode.as_str() {
        "mma" => mma(i, &mut when),
        "cvt" => cvt(d, i, &mut when),
        "ldmatrix" => when(any(i, &["m16n16", "m8n16"]) && !i.has("s4"), Has::Family),
        "stmatrix" => when(true, if i.has("m16n8") { Has::Family } else { Has::From(90) }),
        "add" | "sub" | "mul" | "fma" | "min" | "max" | "neg" | "abs" | "ex2" | "tanh" => {
            arithmetic(i, &mut when)
        }
        "redux" => when(i.has("f32"), Has::Family100),
        "barrier" => when(i.has("cluster"), Has::From(90)),
        "bar" if !i.has("warp") => {
            when(integer(i.operands.first()).is_some_and(|n| n > 15), Has::Nobody);
            when(i.has("arrive") && i.operands.len() < 2, Has::Nobody);
        }
        "elect" | "griddepcontrol" | "mapa" | "getctarank" => when(true, Has::From(90)),
        "fence" | "membar" => fence(i, &mut when),
        "mbarrier" => mbarrier(i, &mut when),
        "atom" | "red" => atomic(i, &mut when),
        "ld" | "st" => memory(i, &mut when),
        "prefetch" => {
            when(any(i, &["valid_addr", "tensormap"]), Has::From(90));
            when(i.has("tensormap") && i.has("global"), Has::Nobody);
        }
        "applypriority" => when(!i.has("L2::evict_normal") || i.has("async"), Has::Nobody),
        "discard" => when(integer(i.operands.get(1)) != Some(128), Has::Nobody),
        "cp" if i.has("bulk") => bulk(i, &mut when),
        "clusterlaunchcontrol" => {
            when(true, Has::From(100));
            when(i.has("multicast::cluster::all"), Has::Family);
        }
        "setmaxnreg" => when(true, Has::Suffixed),
        "tensormap" => tensormap(i, &mut when),
        _ => {}
    }
    list
}

fn mma(i: &Instruction, when: &mut impl FnMut(bool, Has)) {
    let sparse = i.modifiers.iter().any(|m| m.starts_with("sp"));
    let fp8 = any(i, &["e4m3", "e5m2"]);
    let narrow = any(i, &["e3m2", "e2m3", "e2m1"]);
    let kind = i.modifiers.iter().find_map(|m| m.strip_prefix("kind::"));
    if let Some(kind) = kind
        && fp8
        && !narrow
        && !i.has("block_scale")
    {
        // The kind decides although nothing is scaled.
        when(
            true,
            match kind {
                "f16" | "tf32" => Has::DataCentre,
                "i8" => Has::Family110,
                "mxf4" | "mxf4nvf4" if sparse => Has::ArchOnly,
                _ => Has::Family,
            },
        );
        when(sparse && !i.has("f32"), Has::Sm12x);
    } else if any(i, &["kind::mxf4", "kind::mxf4nvf4"]) {
        when(true, if sparse { Has::Sm12xArch } else { Has::Sm12x });
    } else if i.has("kind::mxf8f6f4") || i.has("kind::f8f6f4") && narrow {
        when(true, Has::Sm12x);
    } else if fp8 {
        when(true, Has::From(89));
        when(sparse && i.has("m16n8k32"), Has::Nobody);
        if sparse && !i.has("f32") {
            when(true, if i.has("sp::ordered_metadata") { Has::Sm12x } else { Has::Nobody });
        }
    }
    when(i.has("f64") && !i.has("m8n8k4"), Has::From(90));
}

fn cvt(d: &Decoder<'_>, i: &Instruction, when: &mut impl FnMut(bool, Has)) {
    let [.., to, from] = i.modifiers.as_slice() else { return };
    let pair = [to.as_str(), from.as_str()];
    let either = |types: &[&str]| pair.iter().any(|ty| types.contains(ty));
    when(i.has("rs"), Has::Arch100);
    when(either(&["s2f6x2"]), Has::ArchOnly);
    when(either(&NARROW_PAIRS) || either(&["ue8m0x2"]) || i.has("scaled::n2::ue8m0"), Has::Family);
    when(either(&FP8_PAIRS) && either(&["bf16x2"]), Has::Family);
    when(either(&FP8_PAIRS), Has::From(89));
    // Only scale bytes are rounded in other ways than to nearest.
    let packs = FP8_PAIRS.contains(&to.as_str()) || NARROW_PAIRS.contains(&to.as_str());
    when(packs && any(i, &["rz", "rp", "rm"]), Has::Nobody);
    if to == "e2m1x2"
        && let Some(Operand::Name(name)) = i.operands.first()
    {
        when(d.register(name).is_some_and(|r| r.ty.bytes() != 1), Has::Nobody);
    }
    when(to == "tf32" && any(i, &["rn", "rz"]), Has::From(if i.has("satfinite") { 100 } else { 90 }));
    when(either(&["bf16"]) && (!either(&["f32"]) || from == "bf16" && i.has("ftz")), Has::From(90));
}

fn arithmetic(i: &Instruction, when: &mut impl FnMut(bool, Has)) {
    when(any(i, &["u8x4", "s8x4"]), Has::Sm12x);
    when(any(i, &["e4m3x4", "e5m2x4"]), Has::Arch100);
    when(i.has("f32x2"), Has::From(100));
    when(i.has("f32") && any(i, &["f16", "bf16"]), Has::From(100));
    when(any(i, &["u16x2", "s16x2"]), Has::From(90));
    when(i.has("sat") && any(i, &["u16x2", "s16x2", "u32"]), Has::Sm12x);
    when(i.has("oob"), Has::From(90));
    match i.opcode.as_str() {
        "min" | "max" => {
            when(i.operands.len() == 4, Has::From(100));
            when(i.has("relu") && i.has("s32"), Has::From(90));
            when(i.has("xorsign"), Has::From(86));
        }
        "ex2" | "tanh" => when(any(i, &["bf16", "bf16x2"]), Has::From(90)),
        _ => {}
    }
}

fn fence(i: &Instruction, when: &mut impl FnMut(bool, Has)) {
    let prefixed = |prefix: &str| i.modifiers.iter().any(|m| m.starts_with(prefix));
    when(any(i, &["acquire", "release", "mbarrier_init"]), Has::From(90));
    when(i.has("proxy") && (prefixed("async") || prefixed("tensormap")), Has::From(90));
    when(i.modifiers.iter().any(|m| m.contains("fabric")), Has::From(100));
    if prefixed("sync_restrict") {
        // A release restricts to the own CTA, an acquire to the cluster.
        when(!i.has("cluster"), Has::Nobody);
        when(i.has("release") && i.has("sync_restrict::shared::cluster"), Has::Nobody);
        when(i.has("acquire") && i.has("sync_restrict::shared::cta"), Has::Nobody);
    }
}

fn mbarrier(i: &Instruction, when: &mut impl FnMut(bool, Has)) {
    const NEWER: [&str; 8] = [
        "relaxed",
        "expect_tx",
        "complete_tx",
        "try_wait",
        "check_layout",
        "phase_type::primary",
        "layout::v0",
        "layout::v1",
    ];
    when(any(i, &NEWER), Has::From(90));
    when(i.has("release") && !i.has("noComplete"), Has::From(90));
    when(i.has("acquire") && !(i.has("test_wait") && i.has("cta")), Has::From(90));
    let counted = i.has("arrive") && i.operands.len() == 3;
    when(counted && !any(i, &["noComplete", "expect_tx"]), Has::From(90));
    if i.has("shared::cluster") {
        when(any(i, &["test_wait", "try_wait"]), Has::Nobody);
        let arrives = any(i, &["arrive", "arrive_drop"]);
        when(arrives && !matches!(i.operands.first(), Some(Operand::Sink)), Has::Nobody);
    }
}

fn atomic(i: &Instruction, when: &mut impl FnMut(bool, Has)) {
    if i.has("async") {
        return when(true, Has::From(if i.has("global") { 100 } else { 90 }));
    }
    when(i.has("noftz") && any(i, &["bf16", "bf16x2", "f32"]), Has::From(90));
    when(i.has("b128"), Has::From(90));
    let vector = any(i, &["v2", "v4", "v8"]);
    when(vector, Has::From(90));
    when(vector && i.modifiers.iter().any(|m| m.starts_with("shared")), Has::Nobody);
}

/// Whether a load or store transfers 256 bits.
fn is_256_bits(i: &Instruction) -> bool {
    let wide = i.modifiers.last().is_some_and(|ty| matches!(ty.as_str(), "b64" | "u64" | "s64" | "f64"));
    matches!(i.opcode.as_str(), "ld" | "st") && !i.has("async") && (i.has("v8") || i.has("v4") && wide)
}

fn memory(i: &Instruction, when: &mut impl FnMut(bool, Has)) {
    if i.has("bulk") {
        return when(true, Has::From(100));
    }
    if i.has("async") {
        return when(true, Has::From(if i.has("global") { 100 } else { 90 }));
    }
    let bits_256 = is_256_bits(i);
    when(bits_256, Has::From(100));
    when(bits_256 && i.modifiers.iter().any(|m| m.starts_with("shared") || m == "local"), Has::Nobody);
    let evicts = |level: &str| i.modifiers.iter().any(|m| m.starts_with(level));
    when(evicts("L2::evict") && !bits_256, Has::Nobody);
    // A cache operator and an eviction priority exclude each other.
    let priority = evicts("L1::evict") || evicts("L1::no_allocate") || evicts("L2::evict");
    when(priority && any(i, &CACHE_OPERATORS), Has::Nobody);
}

fn bulk(i: &Instruction, when: &mut impl FnMut(bool, Has)) {
    when(true, Has::From(90));
    when(i.has("cp_mask"), Has::From(100));
    let to_cluster = i.has("shared::cluster");
    let rows = any(i, &["tile::gather4", "tile::scatter4"]);
    let narrow = i.has("tile::gather4") && i.has("shared::cta") && !i.has("cta_group::1");
    when(rows, if narrow { Has::From(100) } else { Has::DataCentre });
    when(any(i, &["cta_group::1", "cta_group::2"]), Has::DataCentre);
    let relaxed = i.has("relaxed");
    when(relaxed && to_cluster && i.has("global") && !i.has("shared::cta"), Has::NotSm12x);
    let scoped = any(i, &["cta", "cluster", "gpu", "sys"]);
    when(relaxed != scoped, Has::Nobody);
    let within = to_cluster && i.has("shared::cta");
    when(within && any(i, &["gpu", "sys"]), Has::Nobody);
    when(within && i.has("L2::cache_hint"), Has::Nobody);
    when(i.has("multicast::cluster::32b"), Has::Family107);
    when(i.modifiers.iter().any(|m| m.starts_with("multicast::")) && !to_cluster, Has::Nobody);
    when(i.has("reduce") && !to_cluster && i.has("add") && i.has("s64"), Has::Nobody);
    let plain = !any(i, &["tensor", "commit_group", "wait_group"]);
    let size = if i.has("prefetch") { 1 } else { 2 };
    when(plain && integer(i.operands.get(size)).is_some_and(|bytes| !bytes.is_multiple_of(16)), Has::Nobody);
}

fn tensormap(i: &Instruction, when: &mut impl FnMut(bool, Has)) {
    if !i.has("replace") {
        return when(true, Has::From(90));
    }
    when(true, Has::Suffixed);
    let value = integer(i.operands.last());
    let above = |most: u64| value.is_some_and(|v| v > most);
    let enumerated =
        any(i, &["elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity", "fill_mode"]);
    when(enumerated && value.is_none(), Has::Nobody);
    when(i.has("swizzle_atomicity"), Has::Family);
    when(i.has("swizzle_atomicity") && above(3), Has::Nobody);
    when(i.has("elemtype") && above(12), Has::Family);
    when(i.has("elemtype") && above(15), Has::Nobody);
    when(i.has("interleave_layout") && above(2), Has::Nobody);
    when(i.has("fill_mode") && above(1), Has::Nobody);
    when(i.has("swizzle_mode") && above(3), Has::Arch103);
    when(i.has("swizzle_mode") && above(4), Has::Nobody);
}
