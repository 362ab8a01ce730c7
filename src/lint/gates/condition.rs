//! Parses conditions on architectures and evaluates them for each SM12x target.
//!
//! Evaluation uses three-valued logic: an operand that does not depend on the architecture in a known way, such as a macro of the
//! project, is neither true nor false.

use ptx::arch::{Suffix, Target};

use std::sync::Arc;

use regex::Regex;

use super::define::Definitions;
use super::derived::Derived;
use super::flag;
use super::name::{self, Meaning};
use super::token::{Kind, Token};

/// The depth limit for following definitions of names.
const DEPTH: usize = 8;

/// The nesting limit of operands; hand-written code has fewer levels.
const LEVELS: usize = 64;

/// Functions that return their arguments unchanged: conversions and constructors of pairs.
const PASSING: [&str; 10] = [
    "int",
    "float",
    "tuple",
    "list",
    "set",
    "frozenset",
    "make_pair",
    "make_tuple",
    "pair",
    "DeviceCapability",
];

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Same,
    Other,
    Less,
    Most,
    More,
    Least,
    In,
    NotIn,
}

/// An expression.
#[derive(Debug, Clone)]
enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Not(Box<Node>),
    Compare(Box<Node>, Vec<(Comparison, Node)>),
    Arithmetic(char, Box<Node>, Box<Node>),
    Number(f64),
    /// A number with a decimal point: 12.0.
    Version(f64),
    /// A toolkit version of at least this value, since no older toolkit supports SM12x.
    AtLeast(f64),
    List(Vec<Node>),
    Means(Meaning),
    /// A test of whether a macro is defined.
    Defined(String),
    Macro(String),
    /// A macro that tests for the family of a number, or for its own suffix.
    Family(f64),
    /// A test of whether a macro is defined whose definitions test the architecture.
    IsDerived(Arc<Derived>),
    /// Its value.
    Derived(Arc<Derived>),
    /// A member of an enumeration, such as `Arch.sm_120a`.
    Member(u16),
    /// A name without a known meaning.
    Named(String),
    /// The architectures of a build, of which there may be several: each answer is possible.
    Architectures,
    /// CMake's `MATCHES`.
    Matches(Box<Node>, Regex),
    Unknown,
}

/// A value for one target.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Bool(Option<bool>),
    Number(f64),
    Version(f64),
    AtLeast(f64),
    List(Vec<Value>),
    /// 120 or 121, compared in the unit of the other operand.
    Architecture(u16),
}

/// A parsed condition.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    root: Node,
}

impl Condition {
    /// Parses tokens; if they do not parse, the condition is unknown.
    pub(super) fn parse(tokens: &[Token<'_>], names: &Definitions<'_>) -> Self {
        Self { root: parse(tokens, names, DEPTH) }
    }

    /// Returns the condition that `switch` enters one of its cases.
    pub(super) fn case(value: &[Token<'_>], labels: &[&[Token<'_>]], names: &Definitions<'_>) -> Self {
        let items = labels.iter().map(|label| parse(label, names, DEPTH)).collect();
        let mut sides = (parse(value, names, DEPTH), Node::List(items));
        hold_members(&mut sides.0, &mut sides.1);
        Self { root: Node::Compare(Box::new(sides.0), vec![(Comparison::In, sides.1)]) }
    }

    /// Returns the condition that a list holds the architecture.
    pub(super) fn among(list: &[Token<'_>], names: &Definitions<'_>) -> Self {
        let architecture = Box::new(Node::Means(Meaning::Architecture));
        Self { root: Node::Compare(architecture, vec![(Comparison::In, parse(list, names, DEPTH))]) }
    }

    /// Returns the condition of `#ifdef` (`is`) or `#ifndef`.
    pub(super) fn defined(name: &str, is: bool, names: &Definitions<'_>) -> Self {
        let root = names.derived(name).map_or_else(|| Node::Defined(name.to_owned()), Node::IsDerived);
        Self { root: if is { root } else { Node::Not(Box::new(root)) } }
    }

    /// Returns its value for code of a target, or on a GPU with the target's number; `None` if unknown.
    pub(super) fn on(&self, target: Target) -> Option<bool> {
        truth(&evaluate(&self.root, target))
    }

    /// Returns the condition before a macro is defined: `!defined(NAME)` guards the definition of NAME.
    pub(super) fn before(mut self, name: &str) -> Self {
        undefine(&mut self.root, name);
        self
    }

    /// Whether it compares an architecture with a list of architectures, or with several one by one.
    pub(super) fn lists_architectures(&self) -> bool {
        lists(&self.root)
    }

    /// The macros on which it depends whose definitions test the architecture.
    pub(super) fn through(&self) -> Option<&Derived> {
        through(&self.root)
    }

    /// Whether it tests the architecture at all.
    pub(super) fn tests_architecture(&self) -> bool {
        tests(&self.root)
    }
}

fn parse(tokens: &[Token<'_>], names: &Definitions<'_>, depth: usize) -> Node {
    let mut parser = Parser { tokens, at: 0, names, depth, level: 0 };
    let root = parser.any();
    if parser.at == tokens.len() { root } else { Node::Unknown }
}

fn tests(node: &Node) -> bool {
    match node {
        Node::Any(all) | Node::All(all) | Node::List(all) => all.iter().any(tests),
        Node::Not(inner) => tests(inner),
        Node::Compare(left, rest) => tests(left) || rest.iter().any(|(_, node)| tests(node)),
        Node::Arithmetic(_, left, right) => tests(left) || tests(right),
        Node::Matches(left, _) => tests(left),
        Node::Means(_) | Node::Family(_) | Node::IsDerived(_) | Node::Derived(_) | Node::Architectures => {
            true
        }
        Node::Defined(name) | Node::Macro(name) => name::feature(name).is_some(),
        Node::Number(_)
        | Node::Version(_)
        | Node::AtLeast(_)
        | Node::Member(_)
        | Node::Named(_)
        | Node::Unknown => false,
    }
}

fn lists(node: &Node) -> bool {
    // 8.0, 80, 800 and (8, 0); a major version alone only beside its name.
    fn is_one(node: &Node, major: bool) -> bool {
        match node {
            Node::Number(n) if major => (5.0..=12.0).contains(n) && n.fract() == 0.0,
            Node::Number(n) => name::is_architecture(*n) || name::is_architecture(*n / 10.0),
            Node::Version(n) => name::is_architecture((*n * 10.0).round()),
            Node::List(pair) => match pair.as_slice() {
                [Node::Number(major), Node::Number(minor)] => name::is_architecture(major * 10.0 + minor),
                _ => false,
            },
            Node::Member(_) => true,
            _ => false,
        }
    }
    let means = |node: &Node| match node {
        Node::Means(Meaning::Architecture) => Some(false),
        Node::Means(Meaning::Major) => Some(true),
        Node::List(pair) => match pair.as_slice() {
            [Node::Means(Meaning::Major), Node::Means(Meaning::Minor)] => Some(false),
            _ => None,
        },
        _ => None,
    };
    match node {
        Node::Not(inner) => lists(inner),
        Node::Compare(left, rest) => match (means(left), rest.as_slice()) {
            (Some(major), [(Comparison::In | Comparison::NotIn, Node::List(items))]) => {
                items.len() > 1 && items.iter().all(|item| is_one(item, major))
            }
            _ => false,
        },
        Node::Any(all) | Node::All(all) => {
            let compares = |node: &&Node| match node {
                Node::Compare(left, rest) => match (means(left), rest.as_slice()) {
                    (Some(major), [(Comparison::Same | Comparison::Other, item)]) => is_one(item, major),
                    _ => false,
                },
                _ => false,
            };
            all.iter().any(lists) || all.iter().filter(compares).count() > 1
        }
        _ => false,
    }
}

fn undefine(node: &mut Node, name: &str) {
    match node {
        Node::Any(all) | Node::All(all) | Node::List(all) => all.iter_mut().for_each(|n| undefine(n, name)),
        Node::Not(inner) => undefine(inner, name),
        Node::Compare(left, rest) => {
            undefine(left, name);
            rest.iter_mut().for_each(|(_, node)| undefine(node, name));
        }
        Node::Defined(own) if own == name => *node = Node::Number(0.0),
        Node::IsDerived(derived) if derived.name == name => *node = Node::Number(0.0),
        _ => {}
    }
}

fn through(node: &Node) -> Option<&Derived> {
    match node {
        Node::Any(all) | Node::All(all) | Node::List(all) => all.iter().find_map(through),
        Node::Not(inner) | Node::Matches(inner, _) => through(inner),
        Node::Compare(left, rest) => {
            through(left).or_else(|| rest.iter().find_map(|(_, node)| through(node)))
        }
        Node::Arithmetic(_, left, right) => through(left).or_else(|| through(right)),
        Node::IsDerived(derived) | Node::Derived(derived) => Some(derived),
        _ => None,
    }
}

/// Where one side of a comparison is a member of an enumeration of architectures, a name such as `arch_enum` is the architecture.
fn hold_members(left: &mut Node, right: &mut Node) {
    fn is_member(node: &Node) -> bool {
        match node {
            Node::Member(_) => true,
            Node::List(items) => items.iter().any(is_member),
            _ => false,
        }
    }
    let architecture = |side: &mut Node, other: &Node| {
        if let Node::Named(name) = side
            && name::may_hold_member(name)
            && is_member(other)
        {
            *side = Node::Means(Meaning::Architecture);
        }
    };
    architecture(left, right);
    architecture(right, left);
}

/// Whether a regular expression of CMake matches an architecture as lists name it: `120`, `120a`, `12.0`, …
fn matches(pattern: &Regex, number: u16) -> bool {
    let (major, minor) = (number / 10, number % 10);
    let forms = [format!("{number}"), format!("{major}.{minor}")];
    let written = forms
        .iter()
        .flat_map(|form| ["", "a", "f", "-real", "a-real", "f-real"].map(|end| format!("{form}{end}")));
    written.into_iter().any(|text| pattern.is_match(&text))
}

fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => *truth,
        Value::Number(number) | Value::Version(number) => Some(*number != 0.0),
        Value::AtLeast(_) => Some(true),
        Value::List(_) | Value::Architecture(_) => None,
    }
}

fn evaluate(node: &Node, target: Target) -> Value {
    let minor = f64::from(target.number % 10);
    match node {
        Node::Any(all) => Value::Bool(any(all.iter().map(|n| truth(&evaluate(n, target))))),
        Node::All(all) => {
            let inverted = any(all.iter().map(|n| truth(&evaluate(n, target)).map(|t| !t)));
            Value::Bool(inverted.map(|t| !t))
        }
        Node::Not(inner) => Value::Bool(truth(&evaluate(inner, target)).map(|t| !t)),
        Node::Compare(left, rest) => {
            let mut left = evaluate(left, target);
            let mut failed = Vec::new();
            for (comparison, right) in rest {
                let right = evaluate(right, target);
                failed.push(compare(*comparison, &left, &right).map(|t| !t));
                left = right;
            }
            Value::Bool(any(failed.into_iter()).map(|t| !t))
        }
        Node::Arithmetic(sign, left, right) => {
            let number = |value: Value| match value {
                Value::Number(n) | Value::Version(n) => Some(n),
                Value::Architecture(n) => Some(f64::from(n)),
                Value::Bool(_) | Value::List(_) | Value::AtLeast(_) => None,
            };
            let (left, right) = (number(evaluate(left, target)), number(evaluate(right, target)));
            let (Some(left), Some(right)) = (left, right) else { return Value::Bool(None) };
            match sign {
                '*' => Value::Number(left * right),
                '+' => Value::Number(left + right),
                '-' => Value::Number(left - right),
                // Integer division: `/` in C, `//` in Python.
                '/' if right != 0.0 => Value::Number((left / right).floor()),
                '÷' if right != 0.0 => Value::Version(left / right),
                '%' if right != 0.0 => Value::Number(left % right),
                _ => Value::Bool(None),
            }
        }
        Node::Number(number) => Value::Number(*number),
        Node::Version(number) => Value::Version(*number),
        Node::AtLeast(number) => Value::AtLeast(*number),
        Node::List(items) => Value::List(items.iter().map(|n| evaluate(n, target)).collect()),
        Node::Means(Meaning::Macro) => Value::Number(f64::from(target.number) * 10.0),
        Node::Means(Meaning::Architecture) => Value::Architecture(target.number),
        Node::Means(Meaning::Major) => Value::Number(f64::from(target.number / 10)),
        Node::Means(Meaning::Minor) => Value::Number(minor),
        Node::Defined(name) => {
            let feature = name::feature(name).map(|of| of(target).is_some());
            Value::Bool(feature.or_else(|| name::is_defined(name)))
        }
        Node::Macro(name) => match name::feature(name) {
            Some(of) => Value::Number(of(target).unwrap_or(0.0)),
            None => Value::Bool(None),
        },
        Node::Family(number) => {
            let own = target.suffix != Suffix::Base && f64::from(target.number) * 10.0 == *number;
            Value::Bool(Some(own))
        }
        Node::IsDerived(derived) => Value::Bool(derived.is_defined(target)),
        Node::Derived(derived) => derived.value(target).map_or(Value::Bool(None), Value::Number),
        Node::Member(number) => Value::Number(f64::from(*number)),
        Node::Matches(left, pattern) => match evaluate(left, target) {
            Value::Architecture(number) => Value::Bool(Some(matches(pattern, number))),
            _ => Value::Bool(None),
        },
        Node::Named(_) | Node::Architectures | Node::Unknown => Value::Bool(None),
    }
}

fn any(all: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut known = Some(false);
    for one in all {
        match one {
            Some(true) => return Some(true),
            Some(false) => {}
            None => known = None,
        }
    }
    known
}

/// Converts the number of an architecture to the unit of the other operand: 1200, 120, 12.1 or 12.
fn in_unit(number: u16, other: f64) -> f64 {
    let number = f64::from(number);
    if other >= 1000.0 {
        number * 10.0
    } else if other >= 20.0 {
        number
    } else if other.fract() == 0.0 {
        (number / 10.0).floor()
    } else {
        number / 10.0
    }
}

fn compare(comparison: Comparison, left: &Value, right: &Value) -> Option<bool> {
    use std::cmp::Ordering;
    match (comparison, left, right) {
        (Comparison::In | Comparison::NotIn, left, Value::List(items)) => {
            let within = any(items.iter().map(|item| compare(Comparison::Same, left, item)));
            within.map(|within| within == (comparison == Comparison::In))
        }
        (Comparison::In | Comparison::NotIn, ..) => None,
        (_, Value::AtLeast(least), Value::Number(number)) => match comparison {
            Comparison::Same if least > number => Some(false),
            Comparison::Other if least > number => Some(true),
            Comparison::Less if least >= number => Some(false),
            Comparison::Most if least > number => Some(false),
            Comparison::More if least > number => Some(true),
            Comparison::Least if least >= number => Some(true),
            _ => None,
        },
        _ => {
            let ordering = order(left, right)?;
            Some(match comparison {
                Comparison::Same => ordering == Ordering::Equal,
                Comparison::Other => ordering != Ordering::Equal,
                Comparison::Less => ordering == Ordering::Less,
                Comparison::Most => ordering != Ordering::Greater,
                Comparison::More => ordering == Ordering::Greater,
                Comparison::Least => ordering != Ordering::Less,
                Comparison::In | Comparison::NotIn => return None,
            })
        }
    }
}

fn order(left: &Value, right: &Value) -> Option<std::cmp::Ordering> {
    match (left, right) {
        (Value::Number(l) | Value::Version(l), Value::Number(r) | Value::Version(r)) => l.partial_cmp(r),
        (Value::Architecture(l), Value::Version(r)) => (f64::from(*l) / 10.0).partial_cmp(r),
        (Value::Version(l), Value::Architecture(r)) => l.partial_cmp(&(f64::from(*r) / 10.0)),
        (Value::Architecture(l), Value::Number(r)) => in_unit(*l, *r).partial_cmp(r),
        (Value::Number(l), Value::Architecture(r)) => l.partial_cmp(&in_unit(*r, *l)),
        (Value::Architecture(l), Value::List(r)) => order(&pair(*l), &Value::List(r.clone())),
        (Value::List(l), Value::Architecture(r)) => order(&Value::List(l.clone()), &pair(*r)),
        (Value::List(l), Value::List(r)) => {
            for (l, r) in l.iter().zip(r) {
                match order(l, r)? {
                    std::cmp::Ordering::Equal => {}
                    other => return Some(other),
                }
            }
            Some(l.len().cmp(&r.len()))
        }
        _ => None,
    }
}

fn pair(number: u16) -> Value {
    Value::List(vec![Value::Number(f64::from(number / 10)), Value::Number(f64::from(number % 10))])
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    names: &'a Definitions<'a>,
    /// How many more definitions may be followed.
    depth: usize,
    /// The current nesting level of operands.
    level: usize,
}

impl Parser<'_> {
    fn peek(&self, ahead: usize) -> Option<&Token<'_>> {
        self.tokens.get(self.at + ahead)
    }

    fn takes(&mut self, words: &[&str]) -> bool {
        let found = self.peek(0).is_some_and(|t| words.iter().any(|w| t.is(w)));
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> Node {
        let mut all = vec![self.all()];
        while self.takes(&["||", "or", "OR"]) {
            all.push(self.all());
        }
        if all.len() == 1 { all.remove(0) } else { Node::Any(all) }
    }

    fn all(&mut self) -> Node {
        let mut all = vec![self.not()];
        while self.takes(&["&&", "and", "AND"]) {
            all.push(self.not());
        }
        if all.len() == 1 { all.remove(0) } else { Node::All(all) }
    }

    fn not(&mut self) -> Node {
        let mut inverted = false;
        while self.takes(&["!", "not", "NOT"]) {
            inverted = !inverted;
        }
        let inner = self.comparison();
        if inverted { Node::Not(Box::new(inner)) } else { inner }
    }

    fn comparison(&mut self) -> Node {
        let left = self.sum();
        let mut rest = Vec::new();
        let mut left = left;
        if self.takes(&["MATCHES"]) {
            return self.pattern(left);
        }
        while let Some(comparison) = self.operator() {
            let listed = comparison == Comparison::In && self.tokens[self.at - 1].is("IN_LIST");
            let mut right = if listed { self.list_of_cmake() } else { self.sum() };
            hold_members(rest.last_mut().map_or(&mut left, |(_, node)| node), &mut right);
            rest.push((comparison, right));
        }
        if rest.is_empty() { left } else { Node::Compare(Box::new(left), rest) }
    }

    fn operator(&mut self) -> Option<Comparison> {
        if self.peek(0)?.is("not") && self.peek(1)?.is("in") {
            self.at += 2;
            return Some(Comparison::NotIn);
        }
        let found = match self.peek(0)? {
            t if t.is("==") => Comparison::Same,
            t if t.is("!=") => Comparison::Other,
            t if t.is("<") => Comparison::Less,
            t if t.is("<=") => Comparison::Most,
            t if t.is(">") => Comparison::More,
            t if t.is(">=") => Comparison::Least,
            t if t.is("in") || t.is("IN_LIST") => Comparison::In,
            t if t.kind == Kind::Name => {
                match t.text.trim_start_matches("VERSION_").trim_start_matches("STR") {
                    "EQUAL" => Comparison::Same,
                    "LESS" => Comparison::Less,
                    "LESS_EQUAL" => Comparison::Most,
                    "GREATER" => Comparison::More,
                    "GREATER_EQUAL" => Comparison::Least,
                    _ => return None,
                }
            }
            _ => return None,
        };
        self.at += 1;
        Some(found)
    }

    /// Parses the regular expression of `MATCHES`.
    fn pattern(&mut self, left: Node) -> Node {
        let named = self.at.checked_sub(2).map_or("", |n| self.tokens[n].text);
        let several = name::holds_several(named);
        let Some(token) = self.peek(0) else { return Node::Unknown };
        let pattern = Regex::new(token.text.trim_matches('"'));
        self.at += 1;
        let left = match left {
            Node::Named(name) if name::may_hold_member(&name) => Node::Means(Meaning::Architecture),
            other => other,
        };
        let left = if several { Node::Architectures } else { left };
        pattern.map_or(Node::Unknown, |pattern| Node::Matches(Box::new(left), pattern))
    }

    /// Parses the list of `IN_LIST`: the values of `set(…)`, or a variable that holds the architectures of the build.
    fn list_of_cmake(&mut self) -> Node {
        let Some(token) = self.peek(0) else { return Node::Unknown };
        let (kind, name) = (token.kind, token.text.to_owned());
        self.at += 1;
        let values = match self.names.bodies(&name) {
            [body] => body.iter().filter_map(|t| flag::written(t.text)),
            _ if kind == Kind::Name && name::may_hold_member(&name) => return Node::Architectures,
            _ => return Node::Unknown,
        };
        Node::List(values.map(|number| Node::Number(f64::from(number))).collect())
    }

    fn sum(&mut self) -> Node {
        let mut left = self.product();
        while let Some(sign) = self.sign(&["+", "-"]) {
            left = Node::Arithmetic(sign, Box::new(left), Box::new(self.product()));
        }
        left
    }

    fn product(&mut self) -> Node {
        let mut left = self.operand();
        while let Some(sign) = self.sign(&["*", "/", "//", "%"]) {
            let real = self.names.divides_really && self.tokens[self.at - 1].is("/");
            let sign = if real { '÷' } else { sign };
            left = Node::Arithmetic(sign, Box::new(left), Box::new(self.operand()));
        }
        left
    }

    fn sign(&mut self, signs: &[&str]) -> Option<char> {
        let token = self.peek(0)?;
        let sign = signs.iter().find(|s| token.is(s))?.chars().next();
        self.at += 1;
        sign
    }

    fn operand(&mut self) -> Node {
        if self.level == LEVELS {
            self.at = self.tokens.len();
            return Node::Unknown;
        }
        self.level += 1;
        let node = self.single();
        self.level -= 1;
        node
    }

    fn single(&mut self) -> Node {
        let Some(token) = self.peek(0) else { return Node::Unknown };
        let (kind, text) = (token.kind, token.text.to_owned());
        self.at += 1;
        match (kind, text.as_str()) {
            (Kind::Number, text) => {
                let digits = text.trim_end_matches(['u', 'U', 'l', 'L', 'f', 'F']).replace(['_', '\''], "");
                let node = if digits.contains('.') { Node::Version } else { Node::Number };
                digits.parse().map_or(Node::Unknown, node)
            }
            (Kind::Text, text) => match flag::numbered(text) {
                Some(n) => Node::Number(f64::from(n)),
                None => flag::quoted(text).map_or(Node::Unknown, |n| {
                    if text.contains('.') { Node::Version(n) } else { Node::Number(n) }
                }),
            },
            (Kind::Sign, "(" | "[" | "{") => self.bracket(&text),
            (Kind::Sign, "-" | "+" | "*" | "&" | "~") => {
                self.operand();
                Node::Unknown
            }
            (Kind::Name, "defined") => {
                let open = self.takes(&["("]);
                let name = self.peek(0).map(|t| t.text.to_owned()).unwrap_or_default();
                self.at += 1;
                if open && !self.takes(&[")"]) {
                    return Node::Unknown;
                }
                self.names.derived(&name).map_or(Node::Defined(name), Node::IsDerived)
            }
            (Kind::Name, _) => self.path(text),
            _ => Node::Unknown,
        }
    }

    /// Parses a group, a tuple, a list or a set.
    fn bracket(&mut self, open: &str) -> Node {
        let close = match open {
            "(" => ")",
            "[" => "]",
            _ => "}",
        };
        let mut items = Vec::new();
        let mut commas = false;
        while !self.takes(&[close]) {
            if self.at >= self.tokens.len() {
                return Node::Unknown;
            }
            items.push(self.any());
            let comma = self.takes(&[","]);
            commas |= comma;
            if !comma && !self.peek(0).is_some_and(|t| t.is(close)) {
                // Not a list: skip to the end of the bracket.
                self.skip_to(close);
                return Node::Unknown;
            }
        }
        match (open, commas, items.len()) {
            ("(", false, 1) => items.remove(0),
            _ => Node::List(items),
        }
    }

    fn skip_to(&mut self, close: &str) {
        let mut depth = 0_usize;
        while let Some(token) = self.peek(0) {
            let end = depth == 0 && token.is(close);
            if ["(", "[", "{"].iter().any(|s| token.is(s)) {
                depth += 1;
            } else if [")", "]", "}"].iter().any(|s| token.is(s)) {
                depth = depth.saturating_sub(1);
            }
            self.at += 1;
            if end {
                return;
            }
        }
    }

    /// Parses a name with members, calls and indices.
    fn path(&mut self, first: String) -> Node {
        // f"{major}{minor}"
        if first == "f"
            && let Some(token) = self.peek(0).filter(|t| t.kind == Kind::Text)
        {
            let is_pair = name::writes_pair(token.text);
            self.at += 1;
            return if is_pair { Node::Means(Meaning::Architecture) } else { Node::Unknown };
        }
        let mut names = vec![first];
        let mut index = None;
        let mut argument = None;
        loop {
            if self.takes(&[".", "->"])
                || (self.peek(0).is_some_and(|t| t.is(":")) && self.peek(1).is_some_and(|t| t.is(":")))
            {
                if self.peek(0).is_some_and(|t| t.is(":")) {
                    self.at += 2;
                }
                names.push(self.peek(0).map(|t| t.text.to_owned()).unwrap_or_default());
                self.at += 1;
                index = None;
            } else if self.peek(0).is_some_and(|t| t.is("(")) {
                self.at += 1;
                let last = names.last().map_or("", String::as_str);
                if PASSING.contains(&last) {
                    return self.bracket("(");
                }
                // The text of a version is no sum of its parts.
                if last == "str" {
                    let whole = matches!(self.bracket("("), Node::Means(Meaning::Architecture));
                    return if whole { Node::Means(Meaning::Architecture) } else { Node::Unknown };
                }
                if last == "is_device_capability_family" {
                    // 120 or 12.0 stands for its major version.
                    let Node::Number(n) = self.bracket("(") else { return Node::Unknown };
                    let major = Node::Number(if n >= 20.0 { (n / 10.0).floor() } else { n });
                    return Node::Compare(
                        Box::new(Node::Means(Meaning::Major)),
                        vec![(Comparison::Same, major)],
                    );
                }
                if let Some(comparison) = asks(last) {
                    let what = self.bracket("(");
                    let architecture = Box::new(Node::Means(Meaning::Architecture));
                    return Node::Compare(architecture, vec![(comparison, what)]);
                }
                argument = if let Node::Number(n) = self.bracket("(") { Some(n) } else { None };
            } else if self.peek(0).is_some_and(|t| t.is("[")) {
                self.at += 1;
                index = match self.bracket("[") {
                    Node::List(list) => {
                        list.first().and_then(|n| if let Node::Number(n) = n { Some(*n) } else { None })
                    }
                    Node::Number(n) => Some(n),
                    _ => Some(-1.0),
                };
            } else {
                break;
            }
        }
        let last = names.last().cloned().unwrap_or_default();
        if let (true, Some(number)) = (name::is_family(&last), argument) {
            return Node::Family(number);
        }
        if name::feature(&last).is_some() {
            return Node::Macro(last);
        }
        if let ([name], None, None) = (names.as_slice(), argument, index)
            && let Some(derived) = self.names.derived(name)
        {
            return Node::Derived(derived);
        }
        if let (true, Some(number)) = (names.len() > 1, name::member(&last)) {
            return Node::Member(number);
        }
        // `self.admissible_archs` is defined in the class.
        let own = match names.as_slice() {
            [owner, name] if owner == "self" || owner == "cls" => Some(name),
            [name] => Some(name),
            _ => None,
        };
        if let (Some(name), None) = (own, argument)
            && name::meaning(&names).is_none()
            && let Some(node) = self.definition(name)
        {
            return match (node, index) {
                (node, None) => node,
                (Node::Means(Meaning::Architecture), Some(0.0)) => Node::Means(Meaning::Major),
                (Node::Means(Meaning::Architecture), Some(1.0)) => Node::Means(Meaning::Minor),
                _ => Node::Unknown,
            };
        }
        if let Some(least) = name::toolkit(&last) {
            return Node::AtLeast(least);
        }
        match (name::meaning(&names), index) {
            (Some(Meaning::Architecture), Some(0.0)) => Node::Means(Meaning::Major),
            (Some(Meaning::Architecture), Some(1.0)) => Node::Means(Meaning::Minor),
            (None, None) => Node::Named(last),
            (Some(_), Some(_)) | (None, _) => Node::Unknown,
            (Some(meaning), None) => Node::Means(meaning),
        }
    }

    /// Returns the file's definition of a name, if it is an architecture, an architecture test, or a list.
    fn definition(&self, name: &str) -> Option<Node> {
        let depth = self.depth.checked_sub(1)?;
        let mut all = self.names.bodies(name).iter().map(|tokens| parse(tokens, self.names, depth));
        // `GGML_CUDA_CC_BLACKWELL` is a constant; a variable in small letters may change.
        let constant = !name.chars().any(char::is_lowercase);
        let fits = |node: &Node| {
            tests(node)
                || matches!(node, Node::List(_))
                || (constant && matches!(node, Node::Number(n) if *n > 0.0))
        };
        // Host code often has a second definition, such as 0, which does not count.
        let mut found = all.by_ref().filter(fits);
        let Some(node) = found.next() else {
            return self.names.constant(name).map(Node::Number);
        };
        found.next().is_none().then_some(node)
    }
}

/// Returns the comparison of a function that compares the device's architecture with its argument.
fn asks(name: &str) -> Option<Comparison> {
    match name {
        "is_device_capability" => Some(Comparison::Same),
        "has_device_capability" => Some(Comparison::Least),
        _ => None,
    }
}
