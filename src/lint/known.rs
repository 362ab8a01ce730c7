//! Known miscompiles of ptxas in a module: which instructions match, and which of the toolkits and targets of a run have them.

use compiler::known::{self, Found};
use ptx::arch::Target;
use ptx::line_column;

use super::ask::Assemblers;
use super::result::KnownRow;
use super::source::Module;

/// The known miscompiles of a module, by line. A module that does not parse has none that are known: ptxas refuses it, too, or it has forms
/// newer than the parser.
pub(super) fn known(module: &Module, targets: &[Target], assemblers: &Assemblers<'_>) -> Vec<KnownRow> {
    let Ok(tree) = ptx::parse(&module.text) else { return Vec::new() };
    let row = |found: Found| {
        let m = found.miscompile;
        let affected = targets.iter().filter(|t| m.affects_target(**t)).map(ToString::to_string).collect();
        let toolkits = assemblers.toolkits.iter().filter(|t| m.affects_some_level(t.version));
        KnownRow {
            line: module.first_line + line_column(&module.text, found.span.start as usize).line - 1,
            name: m.name.clone(),
            function: found.function,
            form: found.form,
            toolkits: toolkits.map(|t| t.version.to_string()).collect(),
            targets: affected,
            seen_with: m.where_in_words(),
            effect: m.effect.clone(),
            rule: m.rule.clone(),
            rewrite: m.rewrite.clone(),
        }
    };
    known::find(&tree).into_iter().map(row).collect()
}
