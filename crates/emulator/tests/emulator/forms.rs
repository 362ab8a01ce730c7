//! Every row of the instruction table, changed: what is no form of PTX is refused, whatever the decoder reads.

use std::collections::BTreeSet;

use emulator::{Coverage, Lack, Stop, coverage, load};

const FORMS: &str = include_str!("forms.txt");

/// Instructions, each with its target.
fn forms() -> Vec<(&'static str, &'static str)> {
    let mut target = "";
    let mut list = Vec::new();
    for line in FORMS.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix(".target ") {
            Some(name) => target = name,
            None => list.push((target, line)),
        }
    }
    list
}

fn module(version: &str, target: &str, instruction: &str) -> String {
    format!(
        ".version {version}\n.target {target}\n.address_size 64\n\
         .global .align 16 .b8 gvar[256];\n.const .align 16 .b8 cvar[256];\n\
         .func (.param .b32 fr) cf(.param .b32 fa) {{ .reg .b32 t; ld.param.b32 t, [fa]; st.param.b32 [fr], t; ret; }}\n\
         .visible .entry k(.param .u64 p)\n{{\n\
         .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .b128 %q<4>; .reg .b8 %b<4>;\n\
         .reg .f32 %f<4>; .reg .f64 %g<4>;\n\
         .shared .align 16 .b8 svar[1024]; .shared .align 8 .b64 mvar; .local .align 16 .b8 lvar[64];\n\
         .param .b32 cr; .param .b32 ca;\n\
         TT: .branchtargets LL;\n{instruction};\nLL:\nret;\n}}\n"
    )
}

fn loads(target: &str, instruction: &str) -> Result<(), Stop> {
    load(&module("9.5", target, instruction)).map(|_| ())
}

/// Opcode with modifiers, and operands.
fn parts(instruction: &str) -> (Vec<&str>, Vec<String>) {
    let (form, rest) = instruction.split_once(' ').unwrap_or((instruction, ""));
    let mut operands = vec![String::new()];
    let mut depth = 0;
    for c in rest.chars() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            operands.push(String::new());
        } else if let Some(last) = operands.last_mut() {
            last.push(c);
        }
    }
    let operands: Vec<String> =
        operands.iter().map(|o| o.trim().to_owned()).filter(|o| !o.is_empty()).collect();
    (form.split('.').collect(), operands)
}

fn joined(words: &[&str], operands: &[String]) -> String {
    format!("{} {}", words.join("."), operands.join(", "))
}

/// The changes that load, of those that `change` makes of every form.
fn accepted(change: impl Fn(&[&str], &[String]) -> Vec<String>) -> Vec<String> {
    let mut out = Vec::new();
    for (target, instruction) in forms() {
        let (words, operands) = parts(instruction);
        for changed in change(&words, &operands) {
            if loads(target, &changed).is_ok() {
                out.push(format!("{changed}   (of {instruction})"));
            }
        }
    }
    out
}

#[test]
fn every_form_loads_and_every_row_has_one() {
    let list = forms();
    for (target, instruction) in &list {
        let loaded = loads(target, instruction);
        assert!(loaded.is_ok(), "{instruction}: {}", loaded.unwrap_err());
    }
    let opcodes: BTreeSet<&str> =
        list.iter().map(|(_, i)| i.split([' ', '.']).next().unwrap_or_default()).collect();
    let lacking: Vec<&str> = coverage()
        .filter(|row| row.coverage() == Coverage::Implemented)
        .map(|row| row.opcode)
        .filter(|row| !opcodes.contains(row.split('.').next().unwrap_or_default()))
        .collect();
    assert!(lacking.is_empty(), "no form of {lacking:?}");
    assert!(list.len() > 1000, "{}", list.len());
}

#[test]
fn an_unknown_modifier_is_refused_wherever_it_is() {
    let loaded = accepted(|words, operands| {
        (1..=words.len())
            .map(|at| joined(&[&words[..at], &["bogus"], &words[at..]].concat(), operands))
            .collect()
    });
    assert!(loaded.is_empty(), "{}", loaded.join("\n"));
}

#[test]
fn a_modifier_written_twice_is_refused() {
    let loaded = accepted(|words, operands| {
        // A policy may have the same priority for both parts.
        if words[0] == "createpolicy" {
            return Vec::new();
        }
        let twice = |n: usize| [words, &[words[n]]].concat();
        (1..words.len()).map(|n| joined(&twice(n), operands)).collect()
    });
    assert!(loaded.is_empty(), "{}", loaded.join("\n"));
}

#[test]
fn an_operand_too_many_is_refused() {
    // Forms with an operand that may be left out; the others of their families are checked.
    const OPTIONAL: [&str; 14] = [
        "bar.sync",
        "bar.cta.sync",
        "barrier.sync",
        "barrier.cta.sync",
        "cp.async.ca",
        "cp.async.cg",
        "createpolicy.fractional",
        "max",
        "mbarrier.arrive",
        "mbarrier.try_wait",
        "min",
        "wmma.load",
        "wmma.store",
        "mov",
    ];
    let optional = |words: &[&str]| OPTIONAL.iter().any(|form| words.join(".").starts_with(form));
    let loaded = accepted(|words, operands| {
        let more = |extra: &[&str]| {
            let extra: Vec<String> = extra.iter().map(|o| (*o).to_owned()).collect();
            joined(words, &[operands, extra.as_slice()].concat())
        };
        let always = [more(&["[%d0]"]), more(&["7", "7", "7"]), more(&["nosuch"])];
        let mut list = always.to_vec();
        if !optional(words) {
            list.extend([more(&["7"]), more(&["1.5"]), more(&["%r0"]), more(&["%d0"]), more(&["%p0"])]);
        }
        list
    });
    assert!(loaded.is_empty(), "{loaded:#?}");
}

#[test]
fn an_operand_of_a_wrong_kind_is_refused() {
    let loaded = accepted(|words, operands| {
        let with = |n: usize, other: &str| {
            let mut operands = operands.to_vec();
            operands[n] = other.to_owned();
            joined(words, &operands)
        };
        let mut list = Vec::new();
        for (n, operand) in operands.iter().enumerate() {
            list.push(with(n, "nosuch"));
            list.push(with(n, "%q0|%q1"));
            if operand.starts_with('[') {
                list.extend(["7", "%p0", "{%r0, %r1}", "[%f0]", "[%p0]"].map(|other| with(n, other)));
            } else {
                list.push(with(n, "[%d0]"));
            }
        }
        list
    });
    // A label may have any name.
    let loaded: Vec<&String> =
        loaded.iter().filter(|line| !line.starts_with("bra ") && !line.starts_with("brx")).collect();
    assert!(loaded.is_empty(), "{loaded:#?}");
}

#[test]
fn what_ptx_lacks_is_not_called_a_gap_of_the_emulator() {
    let refused = |text: &str| match load(text) {
        Err(Stop::Unsupported(form)) => (form.lack, form.to_string()),
        Err(stop) => panic!("{stop}"),
        Ok(_) => panic!("{text} loads"),
    };
    let (lack, text) = refused(&module("9.5", "sm_121a", "exit.bogus"));
    assert_eq!(lack, Lack::Ptx);
    assert!(text.contains("PTX has no such form: the modifier `.bogus` does not belong there"), "{text}");
    let (lack, text) = refused(&module("9.5", "sm_121a", "st.global.u32 [%d0], 5, 6"));
    assert_eq!(lack, Lack::Ptx);
    assert!(text.contains("2 operands are expected, 3 given"), "{text}");
    let (lack, text) = refused(&module("9.1", "sm_121a", "add.u8x4 %r0, %r1, %r2"));
    assert_eq!(lack, Lack::Ptx);
    assert!(text.contains("it requires `.version 9.2` (ptxas 13.2 or later)"), "{text}");
    let (lack, _) = refused(&module("9.5", "sm_121a", "alloca.u64 %d0, 16"));
    assert_eq!(lack, Lack::Emulator);
}
