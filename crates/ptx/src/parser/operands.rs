//! The operands of instructions.

use super::super::ast::{Address, AddressBase, Operand};
use super::super::lexer::Kind;
use super::constants::{WARP_SIZE, binding};
use super::{Parsed, Parser};

impl Parser<'_> {
    /// Parses an operand; in a call a parenthesis opens a group, elsewhere a constant expression.
    pub(super) fn operand(&mut self, call: bool) -> Parsed<Operand> {
        let first = self.single(call)?;
        if self.eat(b'|') {
            let second = self.single(false)?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    fn single(&mut self, call: bool) -> Parsed<Operand> {
        let next = self.ahead(1);
        let names_follow = next.kind == Kind::Word && self.slice(next.span) != WARP_SIZE;
        match self.kind() {
            Kind::Word => self.named(),
            Kind::Mark(b'{') => {
                self.next();
                self.nested(|p| p.some(b'}', |p| p.operand(false))).map(Operand::Vector)
            }
            Kind::Mark(b'[') => {
                self.next();
                self.nested(Self::address)
            }
            Kind::Mark(b'(') if call => {
                self.next();
                self.nested(|p| p.list(b')', |p| p.operand(false))).map(Operand::Group)
            }
            Kind::Mark(b'!') if names_follow => {
                self.next();
                self.dotted_name("a predicate").map(Operand::Not)
            }
            Kind::Mark(b'-') if names_follow => {
                self.next();
                self.dotted_name("a register").map(Operand::Negate)
            }
            Kind::Number | Kind::Mark(b'(' | b'-' | b'+' | b'~' | b'!') => {
                self.constant().map(Operand::Immediate)
            }
            _ => Err(self.wrong("an operand")),
        }
    }

    /// Parses a name with its dotted suffixes: `%tid.x`, `r.b0`.
    pub(super) fn dotted_name(&mut self, what: &str) -> Parsed<String> {
        let (mut name, _) = self.name(what)?;
        while self.kind() == Kind::Dotted {
            let token = self.next();
            name.push_str(self.slice(token.span));
        }
        Ok(name)
    }

    fn named(&mut self) -> Parsed<Operand> {
        // Alone it is a name; in an expression it is a number.
        let next = self.ahead(1).kind;
        if self.at_warp_size() && (binding(next).is_some() || next == Kind::Mark(b'?')) {
            return self.constant().map(Operand::Immediate);
        }
        let name = self.dotted_name("an operand")?;
        if name == "_" {
            return Ok(Operand::Sink);
        }
        if matches!(self.kind(), Kind::Mark(b'+' | b'-')) {
            let offset = self.offset()?;
            return Ok(Operand::Offset(name, offset));
        }
        if self.eat(b'[') {
            let index = match self.kind() {
                Kind::Word if !self.at_warp_size() => Operand::Name(self.dotted_name("an index")?),
                _ => Operand::Immediate(self.constant()?),
            };
            self.expect(b']')?;
            return Ok(Operand::Element(name, Box::new(index)));
        }
        Ok(Operand::Name(name))
    }

    /// Parses an address after `[`.
    fn address(&mut self) -> Parsed<Operand> {
        let address = match self.kind() {
            Kind::Word if !self.at_warp_size() => {
                let name = self.dotted_name("a name")?;
                Address { base: AddressBase::Name(name), offset: self.offset()? }
            }
            Kind::Word | Kind::Number | Kind::Mark(b'(' | b'-' | b'+' | b'~') => {
                Address { base: AddressBase::Absolute(self.integer("an address")?), offset: 0 }
            }
            _ => return Err(self.wrong("an address")),
        };
        if self.eat(b']') {
            let Some(word) = self.dotted() else { return Ok(Operand::Address(address)) };
            self.next();
            return Ok(Operand::Qualified(address, word.to_owned()));
        }
        if !self.eat(b',') {
            return Err(self.wrong("`]`, `,` or an offset"));
        }
        let parts = self.some(b']', |p| p.operand(false))?;
        Ok(Operand::Composite(address, parts))
    }
}
