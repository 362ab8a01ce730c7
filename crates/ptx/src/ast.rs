//! The syntax tree of a PTX module: what is written and where, with no meaning attached.

use std::fmt;

/// A range of bytes of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte behind the last.
    pub end: u32,
}

/// A module.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Module {
    /// `.version`: major and minor.
    pub version: (u32, u32),
    /// `.target`: architecture first, then options such as `texmode_independent` or `debug`.
    pub targets: Vec<String>,
    /// `.address_size`: 32 or 64.
    pub address_size: u32,
    /// Everything behind the header, in order.
    pub items: Vec<Item>,
}

/// An item at the top level of a module.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A module-scope variable.
    Variable(Variable),
    /// An entry or a device function.
    Function(Function),
    /// `.file 1 "name"`, with optional timestamp and size.
    File {
        /// The number that `.loc` uses.
        index: u32,
        /// The path.
        name: String,
        /// Timestamp and size, when given.
        stamp: Option<(u64, u64)>,
    },
    /// A debug section, kept as it stands (`.section .debug_info { … }`); the text between the braces.
    Section {
        /// Its name.
        name: String,
        /// What stands between the braces.
        text: String,
    },
    /// `.alias new, old;`
    Alias {
        /// The new name.
        alias: String,
        /// What it stands for.
        aliasee: String,
    },
    /// `.pragma "…", "…";` at the top level.
    Pragma(Vec<String>),
}

/// `.extern`, `.visible`, `.weak`, `.common`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// `.extern`
    Extern,
    /// `.visible`
    Visible,
    /// `.weak`
    Weak,
    /// `.common`
    Common,
}

/// State space of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.reg`
    Reg,
    /// `.const`
    Const,
    /// `.global`
    Global,
    /// `.local`
    Local,
    /// `.param`
    Param,
    /// `.shared`
    Shared,
    /// `.tex` (deprecated)
    Tex,
}

/// A fundamental type, with the opaque reference types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the PTX type of its name")]
pub enum Type {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
    Pred,
    TexRef,
    SamplerRef,
    SurfRef,
    /// `.branchtargets`-like tables have no type.
    None,
}

impl Type {
    /// The type that `word` names, as in `.b32` without the dot.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Some(match word {
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "b128" => Self::B128,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "pred" => Self::Pred,
            "texref" => Self::TexRef,
            "samplerref" => Self::SamplerRef,
            "surfref" => Self::SurfRef,
            _ => return None,
        })
    }

    /// Size in bytes; 0 for predicates and opaque types.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::F16x2 | Self::Bf16x2 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
            Self::B128 => 16,
            Self::Pred | Self::TexRef | Self::SamplerRef | Self::SurfRef | Self::None => 0,
        }
    }
}

/// A variable: module scope, function scope, parameter or register.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// `.visible` and the like.
    pub linkage: Option<Linkage>,
    /// Where it lives.
    pub space: Space,
    /// `.align`, when written.
    pub align: Option<u32>,
    /// `.v2`, `.v4` or `.v8`; 1 otherwise.
    pub vector: u8,
    /// The element type.
    pub ty: Type,
    /// Attributes of a parameter as written without the dot (`ptr`, `global`, `align 16`), or `.attribute(…)` texts.
    pub attributes: Vec<String>,
    /// The name.
    pub name: String,
    /// `<n>` of `.reg .b32 r<n>`: names `r0` to `r(n-1)`.
    pub count: Option<u32>,
    /// Array dimensions, outermost first; `None` for `[]`.
    pub dims: Vec<Option<u64>>,
    /// The initialiser.
    pub init: Option<Init>,
    /// The name in the text.
    pub span: Span,
}

/// An initialiser.
#[derive(Debug, Clone, PartialEq)]
pub enum Init {
    /// `{ …, … }`
    List(Vec<Init>),
    /// A number.
    Number(Immediate),
    /// `addr_mode_0 = wrap`: a part of a sampler or texture reference.
    Field {
        /// What is set.
        name: String,
        /// To what: a number, or a word as an address without offset.
        value: Box<Init>,
    },
    /// The address of a variable or function plus an offset; with `generic(…)` or not; a mask such as `0xFF(x)` takes one byte.
    Address {
        /// The symbol.
        symbol: String,
        /// Added to it.
        offset: i64,
        /// `generic(symbol)`.
        generic: bool,
        /// The byte mask, when written.
        mask: Option<u64>,
    },
}

/// `.entry` or `.func`.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// `.visible` and the like.
    pub linkage: Option<Linkage>,
    /// Whether it is a kernel.
    pub entry: bool,
    /// The name.
    pub name: String,
    /// The return parameters of a `.func`.
    pub returns: Vec<Variable>,
    /// The parameters.
    pub params: Vec<Variable>,
    /// Directives between the parameters and the body.
    pub directives: Vec<Directive>,
    /// The body; `None` for a declaration.
    pub body: Option<Vec<Statement>>,
    /// The name in the text.
    pub span: Span,
}

/// A performance or control directive such as `.maxntid 128, 1, 1`, `.noreturn`, `.reqnctapercluster 2`.
#[derive(Debug, Clone, PartialEq)]
pub struct Directive {
    /// Its name without the dot.
    pub name: String,
    /// Its numbers.
    pub values: Vec<u64>,
    /// Its strings, for `.pragma` and `.abi_preserve`-like directives; otherwise empty.
    pub words: Vec<String>,
}

/// A statement of a body.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `name:`
    Label {
        /// Its name.
        name: String,
        /// Where.
        span: Span,
    },
    /// A register, local, shared or param declaration (one per declared name).
    Variable(Variable),
    /// An instruction.
    Instruction(Instruction),
    /// `{ … }`
    Block(Vec<Statement>),
    /// `.loc file line column`
    Loc {
        /// The number of `.file`.
        file: u32,
        /// The line.
        line: u32,
        /// The column.
        column: u32,
        /// What follows (`, function_name …, inlined_at …`), as written; empty when nothing does.
        rest: String,
    },
    /// `.pragma "…";`
    Pragma(Vec<String>),
    /// `name: .branchtargets L1, L2;`
    BranchTargets {
        /// The table's name.
        name: String,
        /// The labels.
        labels: Vec<String>,
    },
    /// `name: .calltargets f, g;`
    CallTargets {
        /// The table's name.
        name: String,
        /// The functions.
        functions: Vec<String>,
    },
    /// `name: .callprototype (…) _ (…);`
    CallPrototype {
        /// The prototype's name.
        name: String,
        /// Return parameters.
        returns: Vec<Variable>,
        /// Parameters.
        params: Vec<Variable>,
        /// `.noreturn` and the like.
        directives: Vec<Directive>,
    },
}

/// `@p` or `@!p`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The predicate register.
    pub register: String,
    /// `!`.
    pub negated: bool,
}

/// An instruction.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// The guard predicate.
    pub guard: Option<Guard>,
    /// The first word: `mma`.
    pub opcode: String,
    /// The other words in the order written, without dots: `["sync", "aligned", "m16n8k32", …]`; `::` stays inside a word
    /// (`shared::cta`, `kind::mxf8f6f4`).
    pub modifiers: Vec<String>,
    /// The operands.
    pub operands: Vec<Operand>,
    /// From the guard to the semicolon.
    pub span: Span,
}

/// An operand.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A register, a variable, a label, a function, or a special register (`%tid.x` is one name).
    Name(String),
    /// `_`
    Sink,
    /// A number.
    Immediate(Immediate),
    /// `!p`
    Not(String),
    /// `-x` (texture and set forms write it on registers).
    Negate(String),
    /// `a|b`
    Pair(Box<Operand>, Box<Operand>),
    /// `{a, b, …}`
    Vector(Vec<Operand>),
    /// `[base+offset]`
    Address(Address),
    /// `[base].unified`: the word behind the bracket, without its dot.
    Qualified(Address, String),
    /// `[base, {…}, …]`: tensor, texture and surface operands; the parts behind the base.
    Composite(Address, Vec<Operand>),
    /// `name+offset` outside brackets (`mov.b64 x, array+8`).
    Offset(String, i64),
    /// `array[1]`, `array[r]`: an element of an array; the index is a number or a register.
    Element(String, Box<Operand>),
    /// `(a, b)`: arguments or results of a call.
    Group(Vec<Operand>),
}

/// What brackets contain.
#[derive(Debug, Clone, PartialEq)]
pub struct Address {
    /// The register, variable, or number.
    pub base: AddressBase,
    /// Added to it, in bytes.
    pub offset: i64,
}

/// The base of an address.
#[derive(Debug, Clone, PartialEq)]
pub enum AddressBase {
    /// A register or variable.
    Name(String),
    /// `[16]`
    Absolute(u64),
}

/// A number as PTX writes it.
#[derive(Debug, Clone, Copy)]
pub enum Immediate {
    /// An integer literal, sign applied (`-1` is `0xFFFF…FF`); `true` when it was written unsigned (`5U`) or exceeds i64.
    Integer {
        /// Its two's complement bits.
        bits: u64,
        /// Whether it was written with a `U`.
        unsigned: bool,
    },
    /// `0f3F800000`, sign applied.
    F32(f32),
    /// `0d…` or a decimal such as `1.5`, sign applied.
    F64(f64),
}

impl PartialEq for Immediate {
    /// Bit for bit, so that a NaN equals itself.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Integer { bits: a, unsigned: u }, Self::Integer { bits: b, unsigned: v }) => {
                a == b && u == v
            }
            (Self::F32(a), Self::F32(b)) => a.to_bits() == b.to_bits(),
            (Self::F64(a), Self::F64(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

impl Instruction {
    /// Opcode and modifiers as written: `mma.sync.aligned.m16n8k32`.
    #[must_use]
    pub fn form(&self) -> String {
        let mut text = self.opcode.clone();
        for modifier in &self.modifiers {
            text.push('.');
            text.push_str(modifier);
        }
        text
    }

    /// Calls `f` with the register of the guard and every name in the operands.
    pub fn each_name<'a>(&'a self, mut f: impl FnMut(&'a str)) {
        if let Some(guard) = &self.guard {
            f(&guard.register);
        }
        self.operands.iter().for_each(|operand| crate::registers::names(operand, &mut f));
    }

    /// Whether a modifier is there.
    #[must_use]
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.iter().any(|m| m == modifier)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}
