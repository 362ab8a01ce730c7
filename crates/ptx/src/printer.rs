//! Prints the tree as text, which parses back to the same tree except for spans.

use std::fmt::{self, Display, Formatter, Write};

use super::ast::{
    Address, AddressBase, Directive, Function, Immediate, Init, Instruction, Item, Linkage, Module, Operand,
    Space, Statement, Type, Variable,
};

impl Display for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, ".version {}.{}", self.version.0, self.version.1)?;
        writeln!(f, ".target {}", self.targets.join(", "))?;
        writeln!(f, ".address_size {}", self.address_size)?;
        for item in &self.items {
            writeln!(f, "{item}")?;
        }
        Ok(())
    }
}

impl Display for Item {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(variable) => write!(f, "{variable};"),
            Self::Function(function) => write!(f, "{function}"),
            Self::File { index, name, stamp } => {
                write!(f, ".file {index} \"{name}\"")?;
                stamp.iter().try_for_each(|(time, size)| write!(f, ", {time}, {size}"))
            }
            Self::Section { name, text } => write!(f, ".section {name}\n{{{text}}}"),
            Self::Alias { alias, aliasee } => write!(f, ".alias {alias}, {aliasee};"),
            Self::Pragma(words) => pragma(f, words),
        }
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(linkage) = self.linkage {
            write!(f, "{linkage} ")?;
        }
        f.write_str(if self.entry { ".entry " } else { ".func " })?;
        for directive in self.directives.iter().filter(|d| d.name == "attribute") {
            write!(f, ".attribute({}) ", directive.words.join(", "))?;
        }
        if !self.returns.is_empty() {
            parameters(f, &self.returns)?;
            f.write_char(' ')?;
        }
        f.write_str(&self.name)?;
        parameters(f, &self.params)?;
        for directive in self.directives.iter().filter(|d| d.name != "attribute") {
            write!(f, "\n{directive}")?;
        }
        match &self.body {
            Some(body) => {
                f.write_char('\n')?;
                block(f, body, 0)
            }
            None => f.write_char(';'),
        }
    }
}

impl Display for Directive {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.name)?;
        let mut first = true;
        let mut part = |f: &mut Formatter<'_>, text: &dyn Display| {
            f.write_str(if first { " " } else { ", " })?;
            first = false;
            write!(f, "{text}")
        };
        for value in &self.values {
            part(f, value)?;
        }
        for word in &self.words {
            part(f, &format_args!("\"{word}\""))?;
        }
        f.write_str(if self.name == "pragma" { ";" } else { "" })
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        statement(f, self, 0)
    }
}

/// Prints a statement; `depth` is that of its block.
fn statement(f: &mut Formatter<'_>, statement: &Statement, depth: usize) -> fmt::Result {
    match statement {
        Statement::Label { name, .. } => write!(f, "{name}:"),
        Statement::Variable(variable) => write!(f, "{variable};"),
        Statement::Instruction(instruction) => write!(f, "{instruction}"),
        Statement::Block(body) => block(f, body, depth),
        Statement::Loc { file, line, column, rest } => write!(f, ".loc {file} {line} {column}{rest}"),
        Statement::Pragma(words) => pragma(f, words),
        Statement::BranchTargets { name, labels } => {
            write!(f, "{name}: .branchtargets {};", labels.join(", "))
        }
        Statement::CallTargets { name, functions } => {
            write!(f, "{name}: .calltargets {};", functions.join(", "))
        }
        Statement::CallPrototype { name, returns, params, directives } => {
            write!(f, "{name}: .callprototype ")?;
            parameters(f, returns)?;
            f.write_str(" _ ")?;
            parameters(f, params)?;
            directives.iter().try_for_each(|d| write!(f, " {d}"))?;
            f.write_char(';')
        }
    }
}

fn block(f: &mut Formatter<'_>, body: &[Statement], depth: usize) -> fmt::Result {
    f.write_str("{\n")?;
    for each in body {
        // Labels are indented one level less.
        let indent = if matches!(each, Statement::Label { .. }) { depth } else { depth + 1 };
        write!(f, "{:1$}", "", indent * 4)?;
        statement(f, each, depth + 1)?;
        f.write_char('\n')?;
    }
    write!(f, "{:1$}}}", "", depth * 4)
}

fn pragma(f: &mut Formatter<'_>, words: &[String]) -> fmt::Result {
    f.write_str(".pragma ")?;
    separated(f, words.iter().map(|w| format!("\"{w}\"")))?;
    f.write_char(';')
}

fn parameters(f: &mut Formatter<'_>, list: &[Variable]) -> fmt::Result {
    f.write_char('(')?;
    separated(f, list)?;
    f.write_char(')')
}

fn separated<T: Display>(f: &mut Formatter<'_>, list: impl IntoIterator<Item = T>) -> fmt::Result {
    for (at, each) in list.into_iter().enumerate() {
        f.write_str(if at == 0 { "" } else { ", " })?;
        write!(f, "{each}")?;
    }
    Ok(())
}

impl Display for Variable {
    /// Prints the declaration without a semicolon, since a parameter has none.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(linkage) = self.linkage {
            write!(f, "{linkage} ")?;
        }
        write!(f, "{}", self.space)?;
        let attribute = |a: &&String| a.starts_with("attribute(");
        self.attributes.iter().filter(attribute).try_for_each(|a| write!(f, " .{a}"))?;
        if let Some(align) = self.align {
            write!(f, " .align {align}")?;
        }
        if self.vector > 1 {
            write!(f, " .v{}", self.vector)?;
        }
        if self.ty != Type::None {
            write!(f, " {}", self.ty)?;
        }
        self.attributes.iter().filter(|a| !attribute(a)).try_for_each(|a| write!(f, " .{a}"))?;
        write!(f, " {}", self.name)?;
        if let Some(count) = self.count {
            write!(f, "<{count}>")?;
        }
        for size in &self.dims {
            match size {
                Some(size) => write!(f, "[{size}]")?,
                None => f.write_str("[]")?,
            }
        }
        self.init.iter().try_for_each(|init| write!(f, " = {init}"))
    }
}

impl Display for Init {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(list) => {
                f.write_char('{')?;
                separated(f, list)?;
                f.write_char('}')
            }
            Self::Number(number) => write!(f, "{number}"),
            Self::Field { name, value } => write!(f, "{name} = {value}"),
            Self::Address { symbol, offset, generic, mask } => {
                if let Some(mask) = mask {
                    write!(f, "0x{mask:X}(")?;
                }
                if *generic {
                    write!(f, "generic({symbol})")?;
                } else {
                    f.write_str(symbol)?;
                }
                added(f, *offset)?;
                f.write_str(if mask.is_some() { ")" } else { "" })
            }
        }
    }
}

impl Display for Instruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(guard) = &self.guard {
            write!(f, "@{}{} ", if guard.negated { "!" } else { "" }, guard.register)?;
        }
        f.write_str(&self.opcode)?;
        for modifier in &self.modifiers {
            f.write_char('.')?;
            f.write_str(modifier)?;
        }
        if !self.operands.is_empty() {
            f.write_char(' ')?;
            separated(f, &self.operands)?;
        }
        f.write_char(';')
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let between = |f: &mut Formatter<'_>, open, list: &[Self], close| {
            f.write_char(open)?;
            separated(f, list)?;
            f.write_char(close)
        };
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Sink => f.write_char('_'),
            Self::Immediate(number) => write!(f, "{number}"),
            Self::Not(name) => write!(f, "!{name}"),
            Self::Negate(name) => write!(f, "-{name}"),
            Self::Pair(first, second) => write!(f, "{first}|{second}"),
            Self::Vector(list) => between(f, '{', list, '}'),
            Self::Group(list) => between(f, '(', list, ')'),
            Self::Address(address) => write!(f, "[{address}]"),
            Self::Qualified(address, word) => write!(f, "[{address}].{word}"),
            Self::Composite(address, parts) => {
                write!(f, "[{address}, ")?;
                separated(f, parts)?;
                f.write_char(']')
            }
            Self::Element(name, index) => write!(f, "{name}[{index}]"),
            Self::Offset(name, offset) => {
                f.write_str(name)?;
                // An offset of 0 is printed; otherwise it would parse as a plain name.
                if *offset == 0 { f.write_str("+0") } else { added(f, *offset) }
            }
        }
    }
}

impl Display for Address {
    /// Prints the address without its brackets.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.base {
            AddressBase::Name(name) => f.write_str(name)?,
            AddressBase::Absolute(at) => write!(f, "{at}")?,
        }
        added(f, self.offset)
    }
}

/// Prints `+8`, `+-8` or nothing.
fn added(f: &mut Formatter<'_>, offset: i64) -> fmt::Result {
    if offset == 0 { Ok(()) } else { write!(f, "+{offset}") }
}

impl Display for Immediate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Integer { bits, unsigned: false } => write!(f, "{}", bits.cast_signed()),
            // A literal beyond i64 is unsigned without a `U`.
            Self::Integer { bits, unsigned: true } if i64::try_from(bits).is_err() => write!(f, "{bits}"),
            Self::Integer { bits, unsigned: true } => write!(f, "{bits}U"),
            Self::F32(value) => write!(f, "0f{:08X}", value.to_bits()),
            Self::F64(value) => write!(f, "0d{:016X}", value.to_bits()),
        }
    }
}

impl Display for Linkage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Extern => ".extern",
            Self::Visible => ".visible",
            Self::Weak => ".weak",
            Self::Common => ".common",
        })
    }
}

impl Display for Space {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reg => ".reg",
            Self::Const => ".const",
            Self::Global => ".global",
            Self::Local => ".local",
            Self::Param => ".param",
            Self::Shared => ".shared",
            Self::Tex => ".tex",
        })
    }
}

impl Display for Type {
    /// Prints the type with its dot; nothing for [`Type::None`].
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::B8 => ".b8",
            Self::B16 => ".b16",
            Self::B32 => ".b32",
            Self::B64 => ".b64",
            Self::B128 => ".b128",
            Self::U8 => ".u8",
            Self::U16 => ".u16",
            Self::U32 => ".u32",
            Self::U64 => ".u64",
            Self::S8 => ".s8",
            Self::S16 => ".s16",
            Self::S32 => ".s32",
            Self::S64 => ".s64",
            Self::F16 => ".f16",
            Self::F16x2 => ".f16x2",
            Self::Bf16 => ".bf16",
            Self::Bf16x2 => ".bf16x2",
            Self::F32 => ".f32",
            Self::F64 => ".f64",
            Self::Pred => ".pred",
            Self::TexRef => ".texref",
            Self::SamplerRef => ".samplerref",
            Self::SurfRef => ".surfref",
            Self::None => "",
        })
    }
}
