//! PTX text to the tree and back: everything the examples and NVRTC write, and what is refused.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]

use std::fs;
use std::path::Path;

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use ptx::{Address, AddressBase, Immediate, Init, Instruction, Item, Module, Operand, Statement, Variable};

/// The texts of a folder, with their names, in the order of the names.
fn texts(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut out: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "ptx"))
        .map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap()))
        .collect();
    out.sort();
    out
}

/// Prints a module and reads that.
fn reads_back(first: &Module, what: &str) {
    let printed = first.to_string();
    let second = ptx::parse(&printed).unwrap_or_else(|e| panic!("{what}, printed: {e}\n{printed}"));
    assert!(ptx::same_meaning(first, &second), "{what} reads back otherwise:\n{printed}");
    assert_eq!(second.to_string(), printed, "{what}: printing is not stable");
}

fn round_trip(text: &str, what: &str) -> Module {
    let module = ptx::parse(text).unwrap_or_else(|e| panic!("{what}: {e}\n{text}"));
    reads_back(&module, what);
    module
}

/// Whatever a text is: a module that reads back, or an error whose place is in the text.
fn survived(text: &str) -> bool {
    match ptx::parse(text) {
        Ok(module) => {
            reads_back(&module, text);
            true
        }
        Err(error) => {
            let (start, end) = (error.span.start as usize, error.span.end as usize);
            assert!(start <= end && text.get(start..end).is_some(), "{error}: {} in {text}", error.span);
            let place = ptx::line_column(text, start);
            assert_eq!((error.line, error.column), (place.line, place.column));
            let line = ptx::source_line(text, error.span);
            assert!(error.column <= line.chars().count() + 2, "{error} in {line}");
            false
        }
    }
}

#[test]
fn examples_and_what_nvrtc_writes_read_and_read_back() {
    for (name, text) in texts("../../examples/kernels").iter().chain(&texts("tests/nvrtc")) {
        round_trip(text, name);
    }
    assert_eq!(texts("tests/nvrtc").len(), 6);
}

#[test]
fn the_corpus_is_survived() {
    let read: Vec<String> = texts("tests/corpus")
        .iter()
        .filter(|(_, text)| survived(text))
        .map(|(name, _)| Path::new(name).file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(read, ["edge_numbers", "grammar", "long_sum"]);
}

#[test]
fn spans_cut_the_text() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/grammar.ptx"));
    let text = text.unwrap();
    let cut = |span: ptx::Span| &text[span.start as usize..span.end as usize];
    let mut seen = 0;
    for item in ptx::parse(&text).unwrap().items {
        match item {
            Item::Variable(variable) => assert_eq!(cut(variable.span), variable.name),
            Item::Function(function) => {
                assert_eq!(cut(function.span), function.name);
                for statement in function.body.unwrap_or_default() {
                    match statement {
                        Statement::Label { name, span } => assert_eq!(cut(span), name),
                        Statement::Variable(variable) => assert_eq!(cut(variable.span), variable.name),
                        Statement::Instruction(instruction) => {
                            let own = cut(instruction.span);
                            let start = if instruction.guard.is_some() { "@" } else { &instruction.opcode };
                            assert!(own.starts_with(start) && own.ends_with(';'), "{own}");
                            seen += 1;
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    assert!(seen > 20, "{seen}");
}

/// The instructions of a body.
fn instructions(body: &str) -> Vec<Instruction> {
    let module = round_trip(&format!(".version 9.0\n.target sm_121a\n.entry k {{\n{body}\n}}"), body);
    let Some(Item::Function(function)) = module.items.into_iter().next() else {
        panic!("no function: {body}")
    };
    let keep = |s| if let Statement::Instruction(i) = s { Some(i) } else { None };
    function.body.unwrap().into_iter().filter_map(keep).collect()
}

fn name(text: &str) -> Operand {
    Operand::Name(text.to_owned())
}

fn integer(value: i64) -> Operand {
    Operand::Immediate(Immediate::Integer { bits: value.cast_unsigned(), unsigned: false })
}

#[test]
fn operands_are_what_is_written() {
    let body = "@!p x.a::b.2d %tid.x, _, -5, !p, -r, a|_, {a, {b}}, [r+-8], [m, {c}, o], v+8, a[1], [16], [a].unified;
        call.uni (r), f, (a, 1);";
    let [all, call] = instructions(body).try_into().unwrap();
    let guard = all.guard.clone().unwrap();
    assert_eq!((guard.register.as_str(), guard.negated), ("p", true));
    assert_eq!((all.form().as_str(), all.has("a::b"), all.has("a")), ("x.a::b.2d", true, false));
    let at = |base: &str, offset| Address { base: AddressBase::Name(base.to_owned()), offset };
    assert_eq!(
        all.operands,
        [
            name("%tid.x"),
            Operand::Sink,
            integer(-5),
            Operand::Not("p".to_owned()),
            Operand::Negate("r".to_owned()),
            Operand::Pair(Box::new(name("a")), Box::new(Operand::Sink)),
            Operand::Vector(vec![name("a"), Operand::Vector(vec![name("b")])]),
            Operand::Address(at("r", -8)),
            Operand::Composite(at("m", 0), vec![Operand::Vector(vec![name("c")]), name("o")]),
            Operand::Offset("v".to_owned(), 8),
            Operand::Element("a".to_owned(), Box::new(integer(1))),
            Operand::Address(Address { base: AddressBase::Absolute(16), offset: 0 }),
            Operand::Qualified(at("a", 0), "unified".to_owned()),
        ]
    );
    assert_eq!(
        call.operands,
        [Operand::Group(vec![name("r")]), name("f"), Operand::Group(vec![name("a"), integer(1)])]
    );
}

#[test]
fn constants_are_folded() {
    let value = |text: &str| {
        let module = round_trip(&format!(".version 9.0\n.target sm_80\n.global .u64 x = {text};"), text);
        let Some(Item::Variable(Variable { init: Some(Init::Number(number)), .. })) =
            module.items.first().cloned()
        else {
            panic!("no number: {text}")
        };
        number
    };
    for (text, wanted) in [
        ("0x1F", 31),
        ("0b101", 5),
        ("0123", 83),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 3 - 2", 5),
        ("7 % 4 - 9 / 2", -1),
        ("-7 / 2", -3),
        ("1 << 4 >> 2", 4),
        ("-1 >> 70", -1),
        ("6 & 3 | 8 ^ 1", 11),
        ("~0", -1),
        ("!0 + !7", 1),
        ("- - + 5", 5),
        ("1 < 2", 1),
        ("-1 < 0U", 0),
        ("3 >= 4 || 2 != 2", 0),
        ("1 == 1 && 4 <= 4", 1),
        ("0 ? 1 : 1 ? 2 : 3", 2),
        ("WARP_SZ / 2", 16),
        ("(.s64)0xFFFFFFFFFFFFFFFF", -1),
        ("-9223372036854775808", i64::MIN),
        ("1 << 63", i64::MIN),
        ("1.5 < 2.5", 1),
    ] {
        let wanted = Immediate::Integer { bits: wanted.cast_unsigned(), unsigned: false };
        assert_eq!(value(text), wanted, "{text}");
    }
    for (text, wanted) in [
        ("5U", 5),
        ("18446744073709551615", u64::MAX),
        ("(.u64)-1", u64::MAX),
        ("0U - 1", u64::MAX),
        ("0x10U", 16),
        ("-1 / 2U", u64::MAX / 2),
        ("1 ? 2 : 3U", 2),
    ] {
        assert_eq!(value(text), Immediate::Integer { bits: wanted, unsigned: true }, "{text}");
    }
    for (text, wanted) in [("0f3F800000", 1.0), ("-0f3f800000", -1.0), ("0F7f800000", f32::INFINITY)] {
        assert_eq!(value(text), Immediate::F32(wanted), "{text}");
    }
    let decimal = [("1.5", 1.5), ("1.", 1.0), ("1e5", 1e5), ("-2.5e-3", -2.5e-3), ("1.0 + 2.0 * 0.5", 2.0)];
    for (text, wanted) in decimal.into_iter().chain([("0d3FF0000000000000", 1.0), ("0.5", 0.5), ("0e1", 0.0)])
    {
        assert_eq!(value(text), Immediate::F64(wanted), "{text}");
    }
}

#[test]
fn an_error_names_the_place_what_was_expected_and_what_was_found() {
    let head = ".version 9.0\n.target sm_121a\n";
    let in_body = |body: &str| format!("{head}.entry k {{\n{body}\n}}");
    for (text, wanted) in [
        (String::new(), "line 1, column 1: expected `.version`, found the end of the text"),
        (".version 9".to_owned(), "line 1, column 10: expected a version such as `8.8`, found `9`"),
        (".version 9.0\nadd;".to_owned(), "line 2, column 1: expected `.target`, found `add`"),
        (
            format!("{head}add;"),
            "line 3, column 1: expected a function, a variable or a directive of the module, found `add`",
        ),
        (format!("{head}.global x;"), "line 3, column 9: expected a type such as `.b32`, found `x`"),
        (
            format!("{head}.global .b32 .u8 x;"),
            "line 3, column 14: expected one type such as `.b32`, or a name, found `.u8`",
        ),
        (
            format!("{head}.global .b32 x"),
            "line 3, column 15: expected `,` or `;`, found the end of the text",
        ),
        (
            format!("{head}.entry k(.param .u64 p) )"),
            "line 3, column 25: expected `{`, `;` or a directive of the function, found `)`",
        ),
        (
            format!("{head}.entry k(.u64 p)"),
            "line 3, column 10: expected a state space such as `.param` or `.reg`, found `.u64`",
        ),
        (in_body("ret"), "line 5, column 1: expected an operand, found `}`"),
        (in_body("add.u32 r, a b;"), "line 4, column 14: expected `,` or `;`, found `b`"),
        (in_body("/* é */ add.u32 r, ;"), "line 4, column 20: expected an operand, found `;`"),
        (
            in_body("ld.global.b32 r, [%rd1+%r2];"),
            "line 4, column 24: expected a constant offset; PTX does not add registers to addresses, found `%r2`",
        ),
        (
            in_body("ld.global.b32 r, [%rd1-8];"),
            "line 4, column 23: expected `+`; a negative offset is written `+-4`, found `-`",
        ),
        (in_body("ld.global.b32 r, [a;"), "line 4, column 20: expected `]`, `,` or an offset, found `;`"),
        (
            in_body("mov.b64 r, 18446744073709551616;"),
            "line 4, column 12: expected a number of 64 bits, found `18446744073709551616`",
        ),
        (
            in_body("mov.b32 r, 0f3F80;"),
            "line 4, column 12: expected a number of at most 64 bits, or a float such as `0f3F800000`, found `0f3F80`",
        ),
        (in_body("mov.b32 r, 1/0;"), "line 4, column 13: expected a divisor other than 0, found `/`"),
        (in_body("mov.b32 {r, , 1;"), "line 4, column 13: expected an operand, found `,`"),
        (in_body("@p;"), "line 4, column 3: expected an instruction, found `;`"),
        (in_body("@!5 add.u32 r;"), "line 4, column 3: expected a predicate, found `5`"),
        (in_body(".loc 1 2;"), "line 4, column 9: expected a column, found `;`"),
        (in_body(";"), "line 4, column 1: expected an instruction, a declaration, a label or `}`, found `;`"),
        (
            in_body(".maxntid 3;"),
            "line 4, column 1: expected a state space such as `.reg`, `.loc` or `.pragma`, found `.maxntid`",
        ),
        (in_body("a.b32 \u{1F980};"), "line 4, column 7: expected PTX, found `🦀`"),
        (in_body("/* \n"), "line 4, column 1: expected `*/` at the end of the comment, found `/`"),
        (
            format!("{head}.file 1 \"x\ny\""),
            "line 3, column 9: expected `\"` at the end of the string, on the same line, found `\"`",
        ),
        (format!("{head}.file 1 x"), "line 3, column 9: expected a string, found `x`"),
        (
            format!("{head}.section .debug_x {{ }}}}"),
            "line 3, column 22: expected a function, a variable or a directive of the module, found `}`",
        ),
        (in_body(&"{".repeat(200)), "line 4, column 129: expected at most 128 levels of nesting, found `{`"),
    ] {
        assert!(!survived(&text), "{text}");
        assert_eq!(ptx::parse(&text).unwrap_err().to_string(), wanted, "{text}");
    }
}

/// Words, numbers, blanks and marks of a text: what the mutations move about.
fn pieces(text: &str) -> Vec<&str> {
    let class = |c: char| {
        if c.is_alphanumeric() || "_$%.".contains(c) { 1 } else { 2 + u32::from(c.is_whitespace()) }
    };
    let mut out = Vec::new();
    let mut start = 0;
    for (at, pair) in
        text.char_indices().zip(text.chars().skip(1)).map(|((i, c), d)| (i + c.len_utf8(), (c, d)))
    {
        if class(pair.0) != class(pair.1) || class(pair.0) == 2 {
            out.push(&text[start..at]);
            start = at;
        }
    }
    out.push(&text[start..]);
    out
}

/// What is mutated: one of everything, and what compilers and snippets write.
fn valid_texts() -> Vec<String> {
    let folders = ["tests/nvrtc", "tests/corpus", "../../examples/kernels"];
    let files = folders.into_iter().flat_map(texts).map(|(_, text)| text);
    files.filter(|t| ptx::parse(t).is_ok()).collect()
}

/// Words and marks of PTX: what a run of them builds gets further than arbitrary characters.
fn run_of_ptx() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-z%$_.]{1,3}",
        "[0-9.xfdeU]{1,6}",
        "[{}()\\[\\]<>,;:|!~+*/%&^?=@\" -]",
        Just(".reg .b32".to_owned()),
        Just(".callprototype".to_owned()),
        Just(".attribute(".to_owned()),
        Just(".loc 1 2 3".to_owned()),
        Just("\n".to_owned()),
    ];
    proptest::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

proptest::proptest! {
    #[test]
    fn any_text_is_survived(text in any::<String>()) {
        survived(&text);
    }

    #[test]
    fn any_bytes_are_survived(bytes in any::<Vec<u8>>()) {
        survived(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_items_are_survived(run in run_of_ptx()) {
        survived(&format!(".version 9.0 .target sm_80 {run}"));
    }

    #[test]
    fn any_body_is_survived(run in run_of_ptx()) {
        survived(&format!(".version 9.0 .target sm_80 .entry k {{ {run} }}"));
    }

    #[test]
    fn any_operands_are_survived(run in run_of_ptx()) {
        survived(&format!(".version 9.0 .target sm_80 .global .b32 a = {run}; .entry k {{ x {run}; }}"));
    }
}

#[test]
fn mutated_files_are_survived() {
    let texts = valid_texts();
    let cut: Vec<Vec<&str>> = texts.iter().map(|t| pieces(t)).collect();
    let mutation = (any::<proptest::sample::Index>(), 0..4_u8, any::<[proptest::sample::Index; 2]>());
    let config = proptest::test_runner::Config { failure_persistence: None, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let all = (any::<proptest::sample::Index>(), proptest::collection::vec(mutation, 1..4));
    let outcome = runner.run(&all, |(which, mutations)| {
        let mut text = which.get(&cut).clone();
        for (_, kind, [a, b]) in mutations {
            if text.len() < 2 {
                break;
            }
            let (a, b) = (a.index(text.len()), b.index(text.len()));
            match kind {
                0 => drop(text.remove(a)),
                1 => text.insert(a, text[a]),
                2 => text.swap(a, b),
                _ => text.insert(a, text[b]),
            }
        }
        survived(&text.concat());
        Ok(())
    });
    outcome.unwrap();
}
