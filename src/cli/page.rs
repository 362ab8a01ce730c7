//! Data of the page that is not in the record: the text of each form, whether the emulator runs it, and what SM12x accepts instead.

use super::error::CliError;
use super::ops::{ISA, TARGET};
use crate::lint;
use crate::lookup;
use crate::record::BenchTable;
use crate::report::{Beside, FormText};
use crate::snippet::{Code, Library};

/// Returns the texts of a library's forms, together with the benches.
pub(super) fn beside(library: &Library, benches: Vec<BenchTable>) -> Result<Beside, CliError> {
    let (isa, target) = (ISA.parse().map_err(super::ops::version)?, TARGET.parse()?);
    // A damaged table yields no advice; a test checks the table.
    let table = lint::instead_table().unwrap_or_default();
    let of = |code: &Code| {
        let ptx = code.standalone(isa, target);
        let line = code.body().map_or_else(String::new, subject);
        let opcodes = ptx::scan::instructions(&line);
        let row = table.iter().find(|(pattern, _)| opcodes.iter().any(|opcode| pattern.is_match(opcode)));
        FormText {
            unsupported: emulator::load(&ptx).err().map(|stop| stop.to_string()),
            instead: row.map_or_else(Vec::new, |(_, row)| {
                row.variants.iter().map(|id| (id.clone(), row.how.clone())).collect()
            }),
            ptx,
            line,
        }
    };
    let forms = library.variants.iter().map(|variant| (variant.id.clone(), of(&variant.code))).collect();
    Ok(Beside { forms, names: lookup::names()?, benches })
}

/// The statements that a body is about: without declarations, loads of operands and stores of results, unless there is nothing else.
fn subject(body: &str) -> String {
    let statements = || body.split_inclusive(';').map(str::trim).filter(|s| s.ends_with(';'));
    let frames = |s: &str| {
        let moves = s.starts_with("ld.global") || s.starts_with("st.global");
        s.starts_with('.') || (moves && (s.contains("[in") || s.contains("[out")))
    };
    let own: Vec<&str> = statements().filter(|s| !frames(s)).collect();
    let shown = if own.is_empty() { statements().filter(|s| !s.starts_with('.')).collect() } else { own };
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_shown_without_what_feeds_it() {
        let body = ".reg .b32 a, d;\nld.global.b32 a, [in];\nmma.sync\n    d, a;\nst.global.b32 [out], d;\n";
        assert_eq!(subject(body), "mma.sync\n    d, a;");
        assert_eq!(subject(".reg .b32 a;\nld.global.b32 a, [in];\n"), "ld.global.b32 a, [in];");
        assert_eq!(subject(""), "");
    }

    #[test]
    fn every_built_in_form_has_a_text() {
        let beside = beside(&Library::embedded(), Vec::new()).unwrap();
        let form = &beside.forms["mma.mxf8f6f4.1X.e4m3.e2m1"];
        assert!(form.line.starts_with("mma.sync.aligned.m16n8k32"), "{}", form.line);
        assert!(
            form.ptx.contains(".target sm_121a") && form.unsupported.is_none() && form.instead.is_empty()
        );
        assert!(
            beside.forms.iter().any(|(id, form)| id.starts_with("tcgen05.mma") && !form.instead.is_empty())
        );
    }
}
