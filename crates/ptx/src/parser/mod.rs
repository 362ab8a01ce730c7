//! Parses tokens into the tree: the parser shared by the files of this folder, and the module header.

mod constants;
mod items;
mod operands;
mod statements;
mod variables;

use super::ast::{Module, Span};
use super::error::SyntaxError;
use super::lexer::{Kind, Token, Tokens, tokens};

/// Maximum nesting depth of blocks, vectors and parentheses: far deeper than real code, far from exhausting the stack.
const DEPTH: u32 = 128;

/// The result of parsing one construct.
type Parsed<T> = Result<T, SyntaxError>;

/// Parses a module.
///
/// # Errors
/// The first position at which the text is not PTX.
pub fn parse(text: &str) -> Result<Module, SyntaxError> {
    if u32::try_from(text.len()).is_err() {
        return Err(SyntaxError::at("", Span::default(), "a text of less than 4 GiB", "a longer one"));
    }
    Parser { text, tokens: tokens(text), at: 0, depth: 0 }.module()
}

struct Parser<'t> {
    text: &'t str,
    tokens: Tokens,
    at: usize,
    depth: u32,
}

/// A token as shown in an error: on one line, and truncated.
fn shown(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().take(48) {
        match c {
            '"' | '\'' | '\\' => out.push(c),
            _ => out.extend(c.escape_debug()),
        }
    }
    if text.chars().nth(48).is_some() {
        out.push('…');
    }
    out
}

impl<'t> Parser<'t> {
    /// The token `ahead` positions ahead, or the last one.
    fn ahead(&self, ahead: usize) -> Token {
        let end = Token { kind: Kind::End, span: Span::default() };
        self.tokens.list.get(self.at + ahead).or(self.tokens.list.last()).copied().unwrap_or(end)
    }

    fn token(&self) -> Token {
        self.ahead(0)
    }

    fn kind(&self) -> Kind {
        self.token().kind
    }

    /// Consumes and returns a token; the last one is never consumed.
    fn next(&mut self) -> Token {
        let token = self.token();
        if self.at + 1 < self.tokens.list.len() {
            self.at += 1;
        }
        token
    }

    fn slice(&self, span: Span) -> &'t str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    fn is(&self, mark: u8) -> bool {
        self.kind() == Kind::Mark(mark)
    }

    /// Consumes a punctuation mark if it is next.
    fn eat(&mut self, mark: u8) -> bool {
        let there = self.is(mark);
        if there {
            self.next();
        }
        there
    }

    fn expect(&mut self, mark: u8) -> Parsed<Token> {
        if self.is(mark) { Ok(self.next()) } else { Err(self.wrong(format!("`{}`", mark as char))) }
    }

    /// The word of a directive without its dot, if the current token is one.
    fn dotted(&self) -> Option<&'t str> {
        let token = self.token();
        if token.kind == Kind::Dotted { self.slice(token.span).get(1..) } else { None }
    }

    /// Parses a name.
    fn name(&mut self, what: &str) -> Parsed<(String, Span)> {
        if self.kind() != Kind::Word {
            return Err(self.wrong(what));
        }
        let token = self.next();
        Ok((self.slice(token.span).to_owned(), token.span))
    }

    /// Parses names separated by commas.
    fn names(&mut self, what: &str) -> Parsed<Vec<String>> {
        let mut names = vec![self.name(what)?.0];
        while self.eat(b',') {
            names.push(self.name(what)?.0);
        }
        Ok(names)
    }

    /// Parses a string; returns it without its quotes and with its backslashes.
    fn string(&mut self) -> Parsed<String> {
        if self.kind() != Kind::Text {
            return Err(self.wrong("a string"));
        }
        let token = self.next();
        let text = self.slice(token.span);
        Ok(text.get(1..text.len() - 1).unwrap_or_default().to_owned())
    }

    /// Parses strings separated by commas.
    fn strings(&mut self) -> Parsed<Vec<String>> {
        let mut strings = vec![self.string()?];
        while self.eat(b',') {
            strings.push(self.string()?);
        }
        Ok(strings)
    }

    /// Parses a possibly empty list of `read`, separated by commas and ended by `close`; the opening mark is already consumed.
    fn list<T>(&mut self, close: u8, read: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        if self.eat(close) { Ok(Vec::new()) } else { self.some(close, read) }
    }

    /// [`Self::list`] with at least one element.
    fn some<T>(&mut self, close: u8, mut read: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut out = Vec::new();
        loop {
            out.push(read(self)?);
            if self.eat(close) {
                return Ok(out);
            }
            if !self.eat(b',') {
                return Err(self.wrong(format!("`,` or `{}`", close as char)));
            }
        }
    }

    /// Parses one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH {
            return Err(self.wrong(format!("at most {DEPTH} levels of nesting")));
        }
        self.depth += 1;
        let out = read(self);
        self.depth -= 1;
        out
    }

    /// The error at the current token.
    fn wrong(&self, expected: impl Into<String>) -> SyntaxError {
        self.wrong_at(self.token(), expected)
    }

    fn wrong_at(&self, token: Token, expected: impl Into<String>) -> SyntaxError {
        let expected = match token.kind {
            Kind::Bad => self.tokens.wanted.to_owned(),
            _ => expected.into(),
        };
        let found = match token.kind {
            Kind::End => "the end of the text".to_owned(),
            _ => format!("`{}`", shown(self.slice(token.span))),
        };
        SyntaxError::at(self.text, token.span, expected, found)
    }

    fn module(mut self) -> Parsed<Module> {
        let version = self.version()?;
        if self.dotted() != Some("target") {
            return Err(self.wrong("`.target`"));
        }
        self.next();
        let targets = self.names("a target such as `sm_121a`")?;
        // The manual gives 32 as the default; ptxas uses 64, and rejects 32 from sm_90 on.
        let mut address_size = 64;
        if self.dotted() == Some("address_size") {
            self.next();
            address_size = self.small("32 or 64")?;
        }
        let mut items = Vec::new();
        while self.kind() != Kind::End {
            self.item(&mut items)?;
        }
        Ok(Module { version, targets, address_size, items })
    }

    fn version(&mut self) -> Parsed<(u32, u32)> {
        if self.dotted() != Some("version") {
            return Err(self.wrong("`.version`"));
        }
        self.next();
        let pair = |text: &str| {
            let (major, minor) = text.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        match pair(self.slice(self.token().span)) {
            Some(version) if self.kind() == Kind::Number => {
                self.next();
                Ok(version)
            }
            _ => Err(self.wrong("a version such as `8.8`")),
        }
    }
}
