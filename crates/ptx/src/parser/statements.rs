//! The statements of a body: labels, declarations, blocks, tables, instructions.

use super::super::ast::{Guard, Instruction, Span, Statement};
use super::super::lexer::Kind;
use super::variables::space;
use super::{Parsed, Parser};

impl Parser<'_> {
    /// Parses statements up to the closing `}`; the opening brace is already consumed.
    pub(super) fn statements(&mut self) -> Parsed<Vec<Statement>> {
        self.nested(|p| {
            let mut out = Vec::new();
            loop {
                match p.kind() {
                    Kind::Mark(b'}') => {
                        p.next();
                        return Ok(out);
                    }
                    Kind::Mark(b'{') => {
                        p.next();
                        out.push(Statement::Block(p.statements()?));
                    }
                    Kind::Dotted => p.directive(&mut out)?,
                    Kind::Word if p.ahead(1).kind == Kind::Mark(b':') => {
                        let label = p.labelled()?;
                        out.push(label);
                    }
                    Kind::Word | Kind::Mark(b'@') => out.push(Statement::Instruction(p.instruction()?)),
                    _ => return Err(p.wrong("an instruction, a declaration, a label or `}`")),
                }
            }
        })
    }

    fn directive(&mut self, out: &mut Vec<Statement>) -> Parsed<()> {
        match self.dotted() {
            Some("loc") => out.push(self.loc()?),
            Some("pragma") => {
                self.next();
                let words = self.strings()?;
                self.expect(b';')?;
                out.push(Statement::Pragma(words));
            }
            _ => {
                let linkage = self.linkage();
                if self.dotted().and_then(space).is_none() {
                    return Err(self.wrong("a state space such as `.reg`, `.loc` or `.pragma`"));
                }
                self.declaration(linkage, |v| out.push(Statement::Variable(v)))?;
            }
        }
        Ok(())
    }

    /// Parses `.loc 1 2 3, function_name $name+4, inlined_at 1 2 3`.
    fn loc(&mut self) -> Parsed<Statement> {
        self.next();
        let file = self.small("the number of a file")?;
        let line = self.small("a line")?;
        let column = self.small("a column")?;
        let start = self.token().span.start;
        let mut end = start;
        while self.eat(b',') {
            let what = self.token();
            let (word, _) = self.name("`function_name` or `inlined_at`")?;
            match word.as_str() {
                "function_name" => {
                    end = self.name("a label")?.1.end;
                    if self.eat(b'+') {
                        end = self.token().span.end;
                        self.small("an offset")?;
                    }
                }
                "inlined_at" => {
                    self.small("the number of a file")?;
                    self.small("a line")?;
                    end = self.token().span.end;
                    self.small("a column")?;
                }
                _ => return Err(self.wrong_at(what, "`function_name` or `inlined_at`")),
            }
        }
        let rest = self.slice(Span { start, end }).to_owned();
        Ok(Statement::Loc { file, line, column, rest })
    }

    /// Parses `name:` and the table that follows it, if any.
    fn labelled(&mut self) -> Parsed<Statement> {
        let (name, span) = self.name("a label")?;
        self.expect(b':')?;
        let statement = match self.dotted() {
            Some("branchtargets") => {
                self.next();
                Statement::BranchTargets { name, labels: self.names("a label")? }
            }
            Some("calltargets") => {
                self.next();
                Statement::CallTargets { name, functions: self.names("a function")? }
            }
            Some("callprototype") => {
                self.next();
                let returns = if self.eat(b'(') { self.parameters()? } else { Vec::new() };
                self.name("`_`")?;
                let params = if self.eat(b'(') { self.parameters()? } else { Vec::new() };
                Statement::CallPrototype { name, returns, params, directives: self.directives()? }
            }
            _ => return Ok(Statement::Label { name, span }),
        };
        self.expect(b';')?;
        Ok(statement)
    }

    fn instruction(&mut self) -> Parsed<Instruction> {
        let start = self.token().span.start;
        let guard = if self.eat(b'@') {
            let negated = self.eat(b'!');
            Some(Guard { register: self.dotted_name("a predicate")?, negated })
        } else {
            None
        };
        let (opcode, _) = self.name("an instruction")?;
        let mut modifiers = Vec::new();
        while let Some(word) = self.dotted() {
            modifiers.push(word.to_owned());
            self.next();
        }
        let mut operands = Vec::new();
        if !self.is(b';') {
            let call = opcode == "call";
            operands.push(self.operand(call)?);
            while self.eat(b',') {
                operands.push(self.operand(call)?);
            }
        }
        if !self.is(b';') {
            return Err(self.wrong("`,` or `;`"));
        }
        let end = self.next().span.end;
        Ok(Instruction { guard, opcode, modifiers, operands, span: Span { start, end } })
    }
}
