//! Linking of modules: what nvlink does with symbols of each linkage, names that are local, and source files.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use ptx::link::{LinkError, Object, link};
use ptx::parse;

const HEAD: &str = ".version 8.7\n.target sm_120\n.address_size 64\n";

fn linked(texts: &[&str]) -> Result<String, LinkError> {
    let texts: Vec<String> = texts
        .iter()
        .map(|t| if t.contains(".target") { (*t).to_owned() } else { format!("{HEAD}{t}") })
        .collect();
    let names: Vec<String> = (1..=texts.len()).map(|n| format!("object {n}")).collect();
    let objects: Vec<Object<'_>> =
        texts.iter().zip(&names).map(|(text, name)| Object { name, text }).collect();
    let text = link(&objects)?;
    assert_eq!(parse(&text).unwrap().to_string(), parse(&text).unwrap().to_string());
    Ok(text)
}

/// The lines of the result that contain a word.
fn lines<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.contains(word)).map(str::trim).collect()
}

#[test]
fn a_declaration_is_bound_to_the_definition_of_another_module() {
    let user = ".extern .func (.param .b32 r) f(.param .b32 x);\n.extern .global .align 4 .u32 v;\n.extern .const .align 4 .b8 t[];\n\
        .visible .entry k() { .reg .b32 a; .reg .b64 p; mov.u64 p, v; ld.const.u32 a, [t+4]; ret; }\n";
    let owner = ".visible .global .align 4 .u32 v = 7;\n.visible .const .align 4 .b8 t[8] = {1, 0, 0, 0, 2};\n\
        .visible .func (.param .b32 r) f(.param .b32 x) { ret; }\n";
    for texts in [[user, owner], [owner, user]] {
        let text = linked(&texts).unwrap();
        assert!(!text.contains(".extern"), "{text}");
        assert_eq!(lines(&text, " v"), [".visible .global .align 4 .u32 v = 7;", "mov.u64 p, v;"]);
        assert_eq!(lines(&text, ".func").len(), 2, "a declaration and a definition:\n{text}");
        assert!(text.find(".func").unwrap() < text.find(".entry").unwrap(), "{text}");
    }
    // What nobody defines stays a declaration.
    let text = linked(&[user, ".visible .entry other() { ret; }\n"]).unwrap();
    assert_eq!(lines(&text, ".extern").len(), 3, "{text}");
}

#[test]
fn the_strongest_definition_is_kept() {
    let function = |linkage: &str, opcode: &str| format!("{linkage} .func f() {{ {opcode}; }}\n");
    let (weak, other, strong) =
        (function(".weak", "ret"), function(".weak", "trap"), function(".visible", "brkpt"));
    let text = linked(&[&weak, &other]).unwrap();
    assert!(text.contains("ret") && !text.contains("trap"), "{text}");
    for texts in [[&weak, &strong, &other], [&strong, &weak, &other]] {
        let text = linked(&texts.map(String::as_str)).unwrap();
        assert!(text.contains("brkpt") && !text.contains("ret") && !text.contains("trap"), "{text}");
    }
    let error = linked(&[&weak, &strong, &strong]).unwrap_err().to_string();
    assert_eq!(error, "multiple definition of `f` in object 3, first defined in object 2");
    let text = linked(&[
        ".common .global .u32 c;\n",
        ".common .global .u32 c[4];\n",
        ".common .global .u32 c[2];\n",
    ]);
    assert_eq!(lines(&text.unwrap(), " c"), [".common .global .u32 c[4];"]);
    let text = linked(&[".common .global .u32 c;\n", ".visible .global .u32 c = 3;\n"]).unwrap();
    assert_eq!(lines(&text, " c"), [".visible .global .u32 c = 3;"]);
    // Templates and inline kernels are in every module that uses them.
    let text = linked(&[".weak .entry k() { ret; }\n", ".weak .entry k() { ret; }\n"]).unwrap();
    assert_eq!(lines(&text, ".entry").len(), 1);
}

#[test]
fn modules_that_understand_a_symbol_differently_are_refused() {
    for (a, b, wanted) in [
        (
            ".extern .global .u32 v;",
            ".visible .global .u32 v[2];",
            "a variable of 8 bytes in .global in object 2, and a variable of 4 bytes",
        ),
        (
            ".extern .const .u32 v;",
            ".visible .global .u32 v;",
            "in .global in object 2, and a variable of 4 bytes in .const in object 1",
        ),
        (".extern .func v();", ".visible .global .u32 v;", "a variable of 4 bytes"),
        (".extern .func v(.param .b32 x);", ".visible .func v(.param .b64 x) { ret; }", "takes 8 bytes"),
        (".visible .entry v() { ret; }", ".visible .entry v() { ret; }", "multiple definition of `v`"),
        (".visible .global .u32 v;", ".visible .global .u32 v;", "multiple definition of `v`"),
    ] {
        let error = linked(&[a, b]).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let error = linked(&[".visible .entry v() { ret; }", ".visible .entry {"]).unwrap_err().to_string();
    assert!(error.starts_with("object 2: line 4"), "{error}");
    let text = ".version 8.7\n.target compute\n.address_size 64\n";
    assert!(linked(&[text, ""]).unwrap_err().to_string().contains("is not an sm_ target"));
    assert_eq!(link(&[]).unwrap_err(), LinkError::Nothing);
}

#[test]
fn names_that_are_local_do_not_meet() {
    let local = |value: u32| {
        format!(
            ".global .u32 $str = {value};\n.func helper() {{ .reg .b64 p; mov.u64 p, $str; ret; }}\n\
             .visible .entry k{value}() {{ call.uni helper, (); ret; }}\n.global .u64 table[2] = {{helper, $str}};\n"
        )
    };
    let text = linked(&[&local(1), &local(2)]).unwrap();
    assert_eq!(lines(&text, ".global .u32").len(), 2, "{text}");
    // The names of the first module are changed, since a second one uses them; the second one's then belong to it alone.
    assert!(text.contains("$str$object0 = 1;") && text.contains("$str$object1 = 2;"), "{text}");
    assert!(
        text.contains("{helper$object0, $str$object0}") && text.contains("mov.u64 p, $str$object1;"),
        "{text}"
    );
    assert!(text.contains("call.uni helper$object1, ();"), "{text}");
    // A register of the same name is not the symbol.
    let hidden = ".global .u32 x = 1;\n.visible .entry a() { .reg .b32 x; mov.u32 x, 3; ret; }\n";
    let text = linked(&[hidden, ".visible .global .u32 x = 2;\n"]).unwrap();
    assert!(text.contains("mov.u32 x, 3;") && text.contains("x$object0 = 1"), "{text}");
    // Dynamic shared memory is one block, as aligned as any module wants it.
    let dynamic = |align: u32, n: u32| {
        format!(
            ".extern .shared .align {align} .b8 sm[];\n.visible .entry k{n}() {{ .reg .b32 a; mov.u32 a, sm; ret; }}\n"
        )
    };
    let text = linked(&[&dynamic(4, 1), &dynamic(16, 2)]).unwrap();
    assert_eq!(lines(&text, ".shared"), [".extern .shared .align 16 .b8 sm[];"]);
}

#[test]
fn headers_files_and_initialisers_are_joined() {
    let module = |version: &str, target: &str, file: &str, k: &str| {
        format!(
            ".version {version}\n.target {target}\n.address_size 64\n.visible .entry {k}() {{\n.loc 1 5 2\n.loc 2 6 3, function_name $L, inlined_at 1 5 2\nret;\n}}\n\
             .file 1 \"{file}\"\n.file 2 \"common.h\"\n.section .debug_str\n{{\n$L:\n.b8 65\n}}\n"
        )
    };
    let (a, b) = (module("8.7", "sm_120f", "a.cu", "a"), module("9.0", "sm_121, debug", "b.cu", "b"));
    let text = linked(&[&a, &b]).unwrap();
    assert!(text.starts_with(".version 9.0\n.target sm_121f\n"), "{text}");
    assert_eq!(lines(&text, ".file"), [".file 1 \"a.cu\"", ".file 2 \"common.h\"", ".file 3 \"b.cu\""]);
    assert_eq!(lines(&text, ".loc"), [".loc 1 5 2", ".loc 2 6 3", ".loc 3 5 2", ".loc 2 6 3"]);
    assert!(!text.contains(".section"), "{text}");
    // A variable stands behind those that it points to.
    let text = linked(&[
        ".extern .global .u32 v;\n.visible .global .u64 p = v;\n.extern .func f();\n.visible .global .u64 q[2] = {p, f};\n",
        ".visible .global .u32 v = 3;\n.visible .func f() { ret; }\n",
    ])
    .unwrap();
    let at = |word: &str| text.find(word).unwrap();
    assert!(at("v = 3") < at("p = v") && at("p = v") < at("q[2]") && at(".func f();") < at("q[2]"), "{text}");
    // One module alone stays as it is.
    let alone = format!("{HEAD}// a comment\n.visible .entry k() {{ ret; }}\n");
    assert_eq!(linked(&[&alone]).unwrap(), alone);
}
