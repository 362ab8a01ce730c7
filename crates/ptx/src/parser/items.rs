//! Items at module level: variables, functions, files, sections, aliases.

use super::super::ast::{Directive, Function, Item, Linkage, Span};
use super::super::lexer::Kind;
use super::variables::{linkage, space};
use super::{Parsed, Parser};

/// The syntax expected at module level, for errors.
const ITEM: &str = "a function, a variable or a directive of the module";

impl Parser<'_> {
    /// Parses the next item; a declaration of several names yields several items.
    pub(super) fn item(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        let Some(word) = self.dotted() else {
            return Err(self.wrong(ITEM));
        };
        match word {
            "file" => items.push(self.file()?),
            "section" => items.push(self.section()?),
            "alias" => {
                self.next();
                let (alias, _) = self.name("a function")?;
                self.expect(b',')?;
                let (aliasee, _) = self.name("a function")?;
                self.expect(b';')?;
                items.push(Item::Alias { alias, aliasee });
            }
            "pragma" => {
                self.next();
                let words = self.strings()?;
                self.expect(b';')?;
                items.push(Item::Pragma(words));
            }
            _ => {
                let linkage = self.linkage();
                match self.dotted() {
                    Some("entry" | "func") => items.push(Item::Function(self.function(linkage)?)),
                    Some(word) if space(word).is_some() => {
                        self.declaration(linkage, |v| items.push(Item::Variable(v)))?;
                    }
                    _ if linkage.is_some() => return Err(self.wrong("a function or a variable")),
                    _ => return Err(self.wrong(ITEM)),
                }
            }
        }
        Ok(())
    }

    /// Parses `.visible` and similar directives, if present.
    pub(super) fn linkage(&mut self) -> Option<Linkage> {
        let found = linkage(self.dotted()?)?;
        self.next();
        Some(found)
    }

    fn file(&mut self) -> Parsed<Item> {
        self.next();
        let index = self.small("the number of a file")?;
        let name = self.string()?;
        let mut stamp = None;
        if self.eat(b',') {
            let time = self.integer("a timestamp")?;
            self.expect(b',')?;
            stamp = Some((time, self.integer("a size")?));
        }
        Ok(Item::File { index, name, stamp })
    }

    fn section(&mut self) -> Parsed<Item> {
        self.next();
        let start = self.token().span.start;
        let mut end = start;
        while matches!(self.kind(), Kind::Dotted | Kind::Word) {
            end = self.next().span.end;
        }
        if end == start {
            return Err(self.wrong("the name of a section"));
        }
        let name = self.slice(Span { start, end }).to_owned();
        let from = self.expect(b'{')?.span.end;
        let mut depth = 1_u32;
        loop {
            match self.kind() {
                Kind::Mark(b'{') => depth += 1,
                Kind::Mark(b'}') => depth -= 1,
                Kind::End | Kind::Bad => return Err(self.wrong("`}` that closes the section")),
                _ => {}
            }
            let token = self.next();
            if depth == 0 {
                let text = self.slice(Span { start: from, end: token.span.start }).to_owned();
                return Ok(Item::Section { name, text });
            }
        }
    }

    fn function(&mut self, linkage: Option<Linkage>) -> Parsed<Function> {
        let entry = self.dotted() == Some("entry");
        self.next();
        let mut directives = self.attributes()?;
        let returns = if self.eat(b'(') { self.parameters()? } else { Vec::new() };
        let (name, span) = self.name("the name of a function")?;
        let params = if self.eat(b'(') { self.parameters()? } else { Vec::new() };
        directives.extend(self.directives()?);
        let body = match self.kind() {
            Kind::Mark(b'{') => {
                self.next();
                Some(self.statements()?)
            }
            Kind::Mark(b';') => {
                self.next();
                None
            }
            // ptxas accepts a declaration without its semicolon.
            Kind::Dotted | Kind::End => None,
            _ => return Err(self.wrong("`{`, `;` or a directive of the function")),
        };
        Ok(Function { linkage, entry, name, returns, params, directives, body, span })
    }

    /// Parses `.attribute(.unified(1,2))` before a function's name.
    fn attributes(&mut self) -> Parsed<Vec<Directive>> {
        let mut out = Vec::new();
        while self.dotted() == Some("attribute") {
            self.next();
            let text = self.attribute()?;
            let inner = text.strip_prefix("attribute(").and_then(|t| t.strip_suffix(')'));
            let words = vec![inner.unwrap_or_default().to_owned()];
            out.push(Directive { name: "attribute".to_owned(), values: Vec::new(), words });
        }
        Ok(out)
    }

    /// Parses `.maxntid 128, 1, 1 .noreturn …` after the parameters.
    pub(super) fn directives(&mut self) -> Parsed<Vec<Directive>> {
        let mut out = Vec::new();
        while let Some(name) = self.dotted() {
            let item = ["entry", "func", "file", "section", "alias", "attribute"].contains(&name);
            if item || linkage(name).is_some() || space(name).is_some() {
                break;
            }
            self.next();
            let mut directive = Directive { name: name.to_owned(), values: Vec::new(), words: Vec::new() };
            match self.kind() {
                // A pragma ends with a semicolon here as well; no other directive does.
                _ if name == "pragma" => {
                    directive.words = self.strings()?;
                    self.expect(b';')?;
                }
                Kind::Text => directive.words = self.strings()?,
                Kind::Number => {
                    directive.values.push(self.integer("a number")?);
                    while self.eat(b',') {
                        directive.values.push(self.integer("a number")?);
                    }
                }
                _ => {}
            }
            out.push(directive);
        }
        Ok(out)
    }
}
