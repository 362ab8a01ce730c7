//! Delta debugging: removes statements of a kernel while it stays defined and a condition holds.

use ptx::{Item, Module, Statement};

/// Returns the smallest kernel that removing statements leads to, of which `holds` is true; `text` itself if it does not parse. `holds` must
/// be false of kernels that are not defined, which it may ask the emulator; so the result is as defined as the text.
pub fn shrink(text: &str, mut holds: impl FnMut(&str) -> bool) -> String {
    let Ok(module) = ptx::parse(text) else { return text.to_owned() };
    let mut module = ptx::without_spans(module);
    let mut parts = 2;
    loop {
        let length = statements(&module).len();
        let step = length.div_ceil(parts).max(1);
        let mut removed = false;
        // From the end: a result is removed before what it depends on.
        let mut end = length;
        while end > 0 {
            let start = end.saturating_sub(step);
            let smaller = without(&module, start, end);
            if holds(&smaller.to_string()) {
                module = smaller;
                removed = true;
            }
            end = start;
        }
        if step == 1 && !removed {
            return module.to_string();
        }
        if !removed || step > 1 {
            parts = (parts * 2).min(length.max(2));
        }
    }
}

/// The statements of the kernel's body.
fn statements(module: &Module) -> &[Statement] {
    module
        .items
        .iter()
        .find_map(|item| match item {
            Item::Function(function) if function.entry => function.body.as_deref(),
            _ => None,
        })
        .unwrap_or_default()
}

/// The module without a range of the statements of the kernel's body.
fn without(module: &Module, start: usize, end: usize) -> Module {
    let mut smaller = module.clone();
    for item in &mut smaller.items {
        if let Item::Function(function) = item
            && function.entry
            && let Some(body) = &mut function.body
        {
            body.drain(start..end.min(body.len()));
            break;
        }
    }
    smaller
}
