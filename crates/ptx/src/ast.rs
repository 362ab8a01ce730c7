//! The syntax tree of a PTX module: its text and positions, without any meaning.

use std::fmt;

/// A byte range of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The end: one past the last byte.
    pub end: u32,
}

/// A PTX module.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Module {
    /// `.version`: major and minor number.
    pub version: (u32, u32),
    /// `.target`: architecture first, then options such as `texmode_independent` or `debug`.
    pub targets: Vec<String>,
    /// `.address_size`: 32 or 64.
    pub address_size: u32,
    /// Everything after the header, in order.
    pub items: Vec<Item>,
}

/// An item at the top level of a module.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A module-scope variable.
    Variable(Variable),
    /// An entry or a device function.
    Function(Function),
    /// `.file 1 "name"`, with an optional timestamp and size.
    File {
        /// The number that `.loc` uses.
        index: u32,
        /// The path.
        name: String,
        /// Timestamp and size, if present.
        stamp: Option<(u64, u64)>,
    },
    /// A debug section (`.section .debug_info { … }`), kept verbatim.
    Section {
        /// Its name.
        name: String,
        /// The text between the braces.
        text: String,
    },
    /// `.alias new, old;`
    Alias {
        /// The new name.
        alias: String,
        /// The aliased function.
        aliasee: String,
    },
    /// `.pragma "…", "…";` at module level.
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
    /// The type of tables such as `.branchtargets`, which have none.
    None,
}

impl Type {
    /// Returns the type named by `word`, such as `b32` for `.b32`.
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

    /// Returns its size in bytes; 0 for predicates and opaque types.
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
    /// `.visible` and similar directives.
    pub linkage: Option<Linkage>,
    /// The state space.
    pub space: Space,
    /// `.align`, if present.
    pub align: Option<u32>,
    /// 2, 4 or 8 for `.v2`, `.v4` or `.v8`; 1 otherwise.
    pub vector: u8,
    /// The element type.
    pub ty: Type,
    /// Attributes of a parameter as written, without the dot (`ptr`, `global`, `align 16`), or `.attribute(…)` texts.
    pub attributes: Vec<String>,
    /// The name.
    pub name: String,
    /// `n` of `.reg .b32 r<n>`, which declares `r0` to `r(n-1)`.
    pub count: Option<u32>,
    /// Array dimensions, outermost first; `None` for `[]`.
    pub dims: Vec<Option<u64>>,
    /// The initialiser.
    pub init: Option<Init>,
    /// The position of the name in the text.
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
        /// The name of the field.
        name: String,
        /// The value: a number, or a word as an address without offset.
        value: Box<Init>,
    },
    /// The address of a variable or function plus an offset, optionally as `generic(…)`; a mask such as `0xFF(x)` selects one byte.
    Address {
        /// The symbol.
        symbol: String,
        /// The offset in bytes.
        offset: i64,
        /// Whether it is written `generic(symbol)`.
        generic: bool,
        /// The byte mask, if present.
        mask: Option<u64>,
    },
}

/// `.entry` or `.func`.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// `.visible` and similar directives.
    pub linkage: Option<Linkage>,
    /// Whether it is a kernel (`.entry`).
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
    /// The position of the name in the text.
    pub span: Span,
}

/// A performance or control directive such as `.maxntid 128, 1, 1`, `.noreturn`, `.reqnctapercluster 2`.
#[derive(Debug, Clone, PartialEq)]
pub struct Directive {
    /// Its name without the dot.
    pub name: String,
    /// Its numeric arguments.
    pub values: Vec<u64>,
    /// Its string arguments, for `.pragma` and directives such as `.abi_preserve`; otherwise empty.
    pub words: Vec<String>,
}

/// A statement of a body.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `name:`
    Label {
        /// Its name.
        name: String,
        /// Its position in the text.
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
        /// The number of the `.file`.
        file: u32,
        /// The line.
        line: u32,
        /// The column.
        column: u32,
        /// The rest (`, function_name …, inlined_at …`), as written; may be empty.
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
        /// The return parameters.
        returns: Vec<Variable>,
        /// The parameters.
        params: Vec<Variable>,
        /// `.noreturn` and similar directives.
        directives: Vec<Directive>,
    },
}

/// `@p` or `@!p`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The predicate register.
    pub register: String,
    /// Whether it is negated (`!`).
    pub negated: bool,
}

/// An instruction.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// The guard predicate.
    pub guard: Option<Guard>,
    /// The first word, such as `mma`.
    pub opcode: String,
    /// The other words in order, without dots: `["sync", "aligned", "m16n8k32", …]`; `::` stays inside a word
    /// (`shared::cta`, `kind::mxf8f6f4`).
    pub modifiers: Vec<String>,
    /// The operands.
    pub operands: Vec<Operand>,
    /// The range from the guard to the semicolon.
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
    /// `-x` (texture and `set` instructions allow it on registers).
    Negate(String),
    /// `a|b`
    Pair(Box<Operand>, Box<Operand>),
    /// `{a, b, …}`
    Vector(Vec<Operand>),
    /// `[base+offset]`
    Address(Address),
    /// `[base].unified`: an address and the word after the bracket, without its dot.
    Qualified(Address, String),
    /// `[base, {…}, …]`, for tensor, texture and surface operands: the base and the other parts.
    Composite(Address, Vec<Operand>),
    /// `name+offset` outside brackets (`mov.b64 x, array+8`).
    Offset(String, i64),
    /// `array[1]`, `array[r]`: an array element; the index is a number or a register.
    Element(String, Box<Operand>),
    /// `(a, b)`: the arguments or results of a call.
    Group(Vec<Operand>),
}

/// The contents of an address operand's brackets.
#[derive(Debug, Clone, PartialEq)]
pub struct Address {
    /// The register, variable or number.
    pub base: AddressBase,
    /// The offset in bytes.
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

/// A numeric literal.
#[derive(Debug, Clone, Copy)]
pub enum Immediate {
    /// An integer literal with its sign applied (`-1` is `0xFFFF…FF`).
    Integer {
        /// Its two's complement bits.
        bits: u64,
        /// Whether it is written with a `U` or exceeds i64.
        unsigned: bool,
    },
    /// `0f3F800000`, with its sign applied.
    F32(f32),
    /// `0d…` or a decimal such as `1.5`, with its sign applied.
    F64(f64),
}

impl PartialEq for Immediate {
    /// Compares bits, so that a NaN equals itself.
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
    /// Returns opcode and modifiers as written: `mma.sync.aligned.m16n8k32`.
    #[must_use]
    pub fn form(&self) -> String {
        let mut text = self.opcode.clone();
        for modifier in &self.modifiers {
            text.push('.');
            text.push_str(modifier);
        }
        text
    }

    /// Calls `f` with the guard's register and every name in the operands.
    pub fn each_name<'a>(&'a self, mut f: impl FnMut(&'a str)) {
        if let Some(guard) = &self.guard {
            f(&guard.register);
        }
        self.operands.iter().for_each(|operand| crate::registers::names(operand, &mut f));
    }

    /// Whether it has this modifier.
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
