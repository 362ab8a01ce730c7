//! Compares syntax trees without their spans.

use super::ast::{Function, Item, Module, Span, Statement, Variable};

/// Whether two modules are equal except for the positions in their texts.
#[must_use]
pub fn same_meaning(a: &Module, b: &Module) -> bool {
    without_spans(a.clone()) == without_spans(b.clone())
}

/// Returns the module with every span empty.
#[must_use]
pub fn without_spans(mut module: Module) -> Module {
    for item in &mut module.items {
        match item {
            Item::Variable(variable) => variable.span = Span::default(),
            Item::Function(function) => clear(function),
            Item::File { .. } | Item::Section { .. } | Item::Alias { .. } | Item::Pragma(_) => {}
        }
    }
    module
}

fn clear(function: &mut Function) {
    function.span = Span::default();
    variables(&mut function.returns);
    variables(&mut function.params);
    statements(function.body.as_deref_mut().unwrap_or_default());
}

fn variables(list: &mut [Variable]) {
    for variable in list {
        variable.span = Span::default();
    }
}

fn statements(list: &mut [Statement]) {
    for statement in list {
        match statement {
            Statement::Label { span, .. } => *span = Span::default(),
            Statement::Variable(variable) => variable.span = Span::default(),
            Statement::Instruction(instruction) => instruction.span = Span::default(),
            Statement::Block(body) => statements(body),
            Statement::CallPrototype { returns, params, .. } => {
                variables(returns);
                variables(params);
            }
            Statement::Loc { .. }
            | Statement::Pragma(_)
            | Statement::BranchTargets { .. }
            | Statement::CallTargets { .. } => {}
        }
    }
}
