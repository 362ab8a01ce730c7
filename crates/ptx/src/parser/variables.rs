//! Declarations: variables, parameters, registers, initialisers.

use super::super::ast::{Immediate, Init, Linkage, Space, Span, Type, Variable};
use super::super::lexer::Kind;
use super::{Parsed, Parser};

/// The linkage that a directive names.
pub(super) fn linkage(word: &str) -> Option<Linkage> {
    Some(match word {
        "extern" => Linkage::Extern,
        "visible" => Linkage::Visible,
        "weak" => Linkage::Weak,
        "common" => Linkage::Common,
        _ => return None,
    })
}

/// The state space that a directive names.
pub(super) fn space(word: &str) -> Option<Space> {
    Some(match word {
        "reg" => Space::Reg,
        "const" => Space::Const,
        "global" => Space::Global,
        "local" => Space::Local,
        "param" => Space::Param,
        "shared" => Space::Shared,
        "tex" => Space::Tex,
        _ => return None,
    })
}

impl Parser<'_> {
    /// Parses `.global .align 4 .b8 a[4] = {…}, b;` from the state space to the semicolon: one variable per name.
    pub(super) fn declaration(
        &mut self,
        linkage: Option<Linkage>,
        mut each: impl FnMut(Variable),
    ) -> Parsed<()> {
        let mut common = self.specifiers()?;
        common.linkage = linkage;
        loop {
            each(self.declared(common.clone())?);
            if self.eat(b';') {
                return Ok(());
            }
            if !self.eat(b',') {
                return Err(self.wrong("`,` or `;`"));
            }
        }
    }

    /// Parses `(.param .u64 a, …)` after its `(`.
    pub(super) fn parameters(&mut self) -> Parsed<Vec<Variable>> {
        self.list(b')', |p| {
            let common = p.specifiers()?;
            p.declared(common)
        })
    }

    /// Parses state space, alignment, vector, type and attributes, up to the name.
    fn specifiers(&mut self) -> Parsed<Variable> {
        let Some(space) = self.dotted().and_then(space) else {
            return Err(self.wrong("a state space such as `.param` or `.reg`"));
        };
        self.next();
        let mut variable = Variable {
            linkage: None,
            space,
            align: None,
            vector: 1,
            ty: Type::None,
            attributes: Vec::new(),
            name: String::new(),
            count: None,
            dims: Vec::new(),
            init: None,
            span: Span::default(),
        };
        let mut pointer = false;
        while let Some(word) = self.dotted() {
            let here = self.token();
            self.next();
            match word {
                "align" => {
                    let at = self.token();
                    let bytes = self.small("an alignment in bytes")?;
                    if !bytes.is_power_of_two() {
                        return Err(self.wrong_at(at, "an alignment that is a power of two"));
                    }
                    // After `.ptr`, this is the alignment of the pointed-to object.
                    if pointer {
                        variable.attributes.push(format!("align {bytes}"));
                    } else {
                        variable.align = Some(bytes);
                    }
                }
                "attribute" if !pointer => variable.attributes.push(self.attribute()?),
                "ptr" => {
                    pointer = true;
                    variable.attributes.push("ptr".to_owned());
                }
                _ if pointer => variable.attributes.push(word.to_owned()),
                "v2" => variable.vector = 2,
                "v4" => variable.vector = 4,
                "v8" => variable.vector = 8,
                _ => match Type::named(word) {
                    Some(ty) if variable.ty == Type::None => variable.ty = ty,
                    // LLVM, Triton and Rust say `i32`.
                    _ => match word.strip_prefix('i').map(|bits| format!("s{bits}")) {
                        Some(signed) if Type::named(&signed).is_some() => {
                            return Err(self.wrong_at(here, format!("the type `.{signed}`")));
                        }
                        _ => return Err(self.wrong_at(here, "one type such as `.b32`, or a name")),
                    },
                },
            }
        }
        if variable.ty == Type::None {
            return Err(self.wrong("a type such as `.b32`"));
        }
        Ok(variable)
    }

    /// Parses `attribute(.unified(1,2))` from the parenthesis on; blanks separate words that would otherwise merge.
    pub(super) fn attribute(&mut self) -> Parsed<String> {
        let mut text = String::from("attribute(");
        let mut depth = 1_u32;
        let mut after_word = false;
        self.expect(b'(')?;
        while depth > 0 {
            let word = matches!(self.kind(), Kind::Word | Kind::Dotted | Kind::Number);
            match self.kind() {
                Kind::Mark(b'(') => depth += 1,
                Kind::Mark(b')') => depth -= 1,
                Kind::Mark(b',') => {}
                _ if word => {}
                _ => return Err(self.wrong("an attribute, or `)`")),
            }
            if word && after_word {
                text.push(' ');
            }
            after_word = word;
            let token = self.next();
            text.push_str(self.slice(token.span));
        }
        Ok(text)
    }

    /// Parses a name with its count, dimensions and initialiser.
    fn declared(&mut self, mut variable: Variable) -> Parsed<Variable> {
        (variable.name, variable.span) = self.name("a name")?;
        if self.eat(b'<') {
            variable.count = Some(self.small("a number of registers")?);
            self.expect(b'>')?;
        }
        while self.eat(b'[') {
            let size = if self.is(b']') { None } else { Some(self.integer("a number of elements")?) };
            self.expect(b']')?;
            variable.dims.push(size);
        }
        if self.eat(b'=') {
            variable.init = Some(self.initialiser()?);
        }
        Ok(variable)
    }

    fn initialiser(&mut self) -> Parsed<Init> {
        match self.kind() {
            Kind::Mark(b'{') => {
                self.next();
                self.nested(|p| p.list(b'}', Self::initialiser)).map(Init::List)
            }
            // `addr_mode_0 = wrap`
            Kind::Word if self.ahead(1).kind == Kind::Mark(b'=') => {
                let (name, _) = self.name("a field")?;
                self.next();
                Ok(Init::Field { name, value: Box::new(self.nested(Self::initialiser)?) })
            }
            Kind::Word if !self.at_warp_size() => self.symbol(None),
            // `0xFF00(symbol)`: one byte of an address.
            Kind::Number if self.ahead(1).kind == Kind::Mark(b'(') => {
                let at = self.token();
                let Immediate::Integer { bits, .. } = self.literal()? else {
                    return Err(self.wrong_at(at, "a byte mask such as `0xFF00`"));
                };
                self.expect(b'(')?;
                let symbol = self.symbol(Some(bits))?;
                self.expect(b')')?;
                Ok(symbol)
            }
            _ => self.constant().map(Init::Number),
        }
    }

    /// Parses `symbol+4`, `generic(symbol)+4`.
    fn symbol(&mut self, mask: Option<u64>) -> Parsed<Init> {
        let (mut symbol, _) = self.name("a symbol")?;
        let generic = symbol == "generic" && self.eat(b'(');
        let mut offset = 0_i64;
        if generic {
            symbol = self.name("a symbol")?.0;
            offset = self.offset()?;
            self.expect(b')')?;
        }
        offset = offset.wrapping_add(self.offset()?);
        Ok(Init::Address { symbol, offset, generic, mask })
    }
}
