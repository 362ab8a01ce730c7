//! The emulator's table of forms against ptxas: every form of `crates/emulator/tests/emulator/forms.txt` is changed in many ways, the
//! emulator refuses what ptxas refuses, and ptxas accepts what lint proposes instead.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use emulator::load;
use sm121probe::event::Silent;
use sm121probe::lint::{Asked, Assemblers, Require, Source, lint};
use sm121probe::snippet::Library;
use sm121probe::store::Store;
use sm121probe::toolkit::{Places, Toolkit, discover};

use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[
    ("versions_of_forms_are_those_of_ptxas", &[Need::Toolkit(NEWEST)], versions_of_forms_are_those_of_ptxas),
    (
        "changes_of_forms_that_ptxas_refuses_are_refused",
        &[Need::Toolkit(NEWEST)],
        changes_of_forms_that_ptxas_refuses_are_refused,
    ),
    (
        "what_lint_proposes_is_accepted_by_ptxas",
        &[Need::Toolkit(NEWEST)],
        what_lint_proposes_is_accepted_by_ptxas,
    ),
];

const FORMS: &str = include_str!("../../crates/emulator/tests/emulator/forms.txt");
/// The toolkit that the table describes.
const NEWEST: &str = "13.5.37";
/// Its version of PTX.
const NEWEST_ISA: &str = "9.5";

fn toolkit() -> Toolkit {
    let store = Store::open(None).ok();
    let found = discover(store.as_ref(), &Places::from_environment(store.as_ref().map(Store::root)));
    found.toolkits.into_iter().find(|toolkit| toolkit.version.is_named(NEWEST)).unwrap()
}

/// The instructions for sm_121a.
fn forms() -> Vec<&'static str> {
    FORMS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .skip(1)
        .take_while(|line| !line.starts_with(".target"))
        .collect()
}

fn head(version: &str) -> String {
    format!(
        ".version {version}\n.target sm_121a\n.address_size 64\n.global .align 16 .b8 gvar[256];\n.const .align 16 .b8 cvar[256];\n\
         .func (.param .b32 fr) cf(.param .b32 fa) {{ .reg .b32 t; ld.param.b32 t, [fa]; st.param.b32 [fr], t; ret; }}\n"
    )
}

/// An entry of one line.
fn entry(n: usize, instruction: &str) -> String {
    format!(
        ".visible .entry k{n}(.param .u64 p) {{ .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .b128 %q<4>; .reg .b8 %b<4>; \
         .reg .f32 %f<4>; .reg .f64 %g<4>; .shared .align 16 .b8 svar[1024]; .shared .align 8 .b64 mvar; .local .align 16 .b8 lvar[64]; \
         .param .b32 cr; .param .b32 ca; TT: .branchtargets LL; {instruction}; LL: ret; }}\n"
    )
}

/// An entry that ptxas refuses, so that it generates no code for the others.
const REFUSED: &str = ".visible .entry last() { no_instruction; }\n";

/// The instructions that ptxas refuses, with its first message for each. What it refuses only when it generates code is not among them.
fn refused(toolkit: &Toolkit, version: &str, instructions: &[String]) -> Vec<(usize, String)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("forms.ptx");
    let first = head(version).lines().count() + 1;
    let mut left: Vec<usize> = (0..instructions.len()).collect();
    let mut out: Vec<(usize, String)> = Vec::new();
    loop {
        let text: String = left.iter().map(|n| entry(*n, &instructions[*n])).collect();
        fs::write(&file, head(version) + &text + REFUSED).unwrap();
        let run = Command::new(&toolkit.path)
            .args(["-arch=sm_121a", "-o", "/dev/null"])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        let mut wrong = BTreeSet::new();
        for line in said.lines() {
            let Some((place, message)) =
                line.split_once(", line ").and_then(|(_, rest)| rest.split_once(';'))
            else {
                continue;
            };
            let place = place.parse::<usize>().ok().and_then(|number| number.checked_sub(first));
            let message = message.trim();
            if let Some(n) = place.and_then(|place| left.get(place))
                && (message.starts_with("error") || message.starts_with("fatal"))
                && wrong.insert(*n)
            {
                out.push((*n, message.to_owned()));
            }
        }
        if wrong.is_empty() {
            assert!(said.contains("no_instruction"), "{said}");
            return out;
        }
        left.retain(|n| !wrong.contains(n));
    }
}

fn loads(version: &str, instruction: &str) -> Result<(), String> {
    load(&(head(version) + &entry(0, instruction))).map(|_| ()).map_err(|stop| stop.to_string())
}

fn versions_of_forms_are_those_of_ptxas() {
    let toolkit = toolkit();
    let instructions: Vec<String> = forms().into_iter().map(str::to_owned).collect();
    for version in ["8.8", "9.0", "9.1", "9.2", "9.3", "9.4", NEWEST_ISA] {
        let refused = refused(&toolkit, version, &instructions);
        for (n, instruction) in instructions.iter().enumerate() {
            let by_ptxas = refused.iter().find(|(other, _)| *other == n).map(|(_, message)| message);
            assert_eq!(
                loads(version, instruction).is_err(),
                by_ptxas.is_some(),
                "{version}: {instruction}: {by_ptxas:?}"
            );
        }
    }
}

/// Every form with a modifier or an operand more, or a modifier less.
fn changed_forms() -> Vec<String> {
    let mut changed: Vec<String> = Vec::new();
    for form in forms() {
        let (words, operands) = form.split_once(' ').unwrap_or((form, ""));
        changed.push(format!("{words}.bogus {operands}"));
        for more in ["7", "%r0", "%d0", "%p0", "[%d0]", "_"] {
            changed.push(format!("{words} {operands}{}{more}", if operands.is_empty() { "" } else { ", " }));
        }
        for (n, _) in words.match_indices('.') {
            let end = words[n + 1..].find('.').map_or(words.len(), |at| n + 1 + at);
            changed.push(format!("{}{} {operands}", &words[..n], &words[end..]));
            changed.push(format!("{}{} {operands}", words, &words[n..end]));
        }
    }
    changed
}

fn changes_of_forms_that_ptxas_refuses_are_refused() {
    let toolkit = toolkit();
    let changed = changed_forms();
    let together = refused(&toolkit, NEWEST_ISA, &changed);
    // ptxas gives some messages the line of another instruction: alone, an instruction has its own.
    let lenient: Vec<(String, Vec<(usize, String)>)> = together
        .iter()
        .map(|(n, _)| changed[*n].clone())
        .filter(|instruction| loads(NEWEST_ISA, instruction).is_ok())
        .map(|instruction| (instruction.clone(), refused(&toolkit, NEWEST_ISA, &[instruction])))
        .filter(|(_, alone)| !alone.is_empty())
        .collect();
    assert!(lenient.is_empty(), "{} of {} are loaded: {lenient:#?}", lenient.len(), changed.len());
}

/// Whether ptxas accepts a module, of which it is said what was wrong.
fn accepts(toolkit: &Toolkit, text: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("form.ptx");
    fs::write(&file, text).unwrap();
    let run =
        Command::new(&toolkit.path).args(["-arch=sm_121a", "-o", "/dev/null"]).arg(&file).output().unwrap();
    if run.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&run.stderr).into_owned()) }
}

fn what_lint_proposes_is_accepted_by_ptxas() {
    // A prime, so that every kind of change is among them.
    const EVERY: usize = 97;
    let toolkit = toolkit();
    let instructions: Vec<String> = changed_forms().into_iter().step_by(EVERY).collect();
    let text = |instruction: &str| head(NEWEST_ISA) + &entry(0, instruction);
    let source = |instruction: &String| Source::from_bytes("form.ptx", text(instruction).as_bytes()).unwrap();
    let sources: Vec<Source> = instructions.iter().map(source).collect();
    let asked = Asked {
        targets: vec!["sm_121a".parse().unwrap()],
        named: true,
        require: Require::Newest,
        all_errors: false,
    };
    let assemblers =
        Assemblers { toolkits: &[&toolkit], store: None, limit: Duration::from_secs(60), sink: &Silent };
    let result = lint(&sources, Vec::new(), &asked, &assemblers, &Library::embedded()).unwrap();
    let mut proposals = 0;
    for (instruction, file) in instructions.iter().zip(&result.files) {
        let (words, operands) = instruction.split_once(' ').unwrap_or((instruction, ""));
        for form in file.modules[0].problems.iter().flat_map(|problem| &problem.proposals) {
            assert_ne!(form, words, "what was written is no proposal");
            let answer = accepts(&toolkit, &text(&format!("{form} {operands}")));
            assert_eq!(answer, Ok(()), "{instruction}: {form}");
            proposals += 1;
        }
    }
    assert!(
        proposals > instructions.len() / 3,
        "{proposals} proposals for {} instructions",
        instructions.len()
    );
}
