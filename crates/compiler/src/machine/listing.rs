//! Reads the listing that `nvdisasm -c` prints of a cubin.

use std::collections::HashMap;

/// A function's machine code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its instructions.
    pub code: Vec<Line>,
    /// The index of the instruction that follows a label.
    pub(super) labels: HashMap<String, usize>,
}

/// A machine instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its address in the function.
    pub address: u64,
    /// `P0` of `@P0`, `!UP1` of `@!UP1`.
    pub guard: Option<String>,
    /// The opcode with its modifiers.
    pub opcode: String,
    /// The operands as printed, without `.reuse`.
    pub operands: Vec<String>,
}

impl Line {
    /// The opcode without modifiers.
    pub(super) fn root(&self) -> &str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    /// The label that a branch or a barrier names.
    pub(super) fn label(&self) -> Option<&str> {
        self.operands.iter().find_map(|o| o.strip_prefix("`(")?.strip_suffix(')'))
    }

    /// Whether it writes a register or predicate: one of the operands that come first.
    pub(super) fn writes(&self, register: &str) -> bool {
        let is_store =
            matches!(self.root(), "ST" | "STG" | "STS" | "STL" | "RED" | "BRA" | "EXIT" | "BSSY" | "BSYNC");
        let is_register = |o: &&String| o.starts_with(['R', 'P', 'U']) && !o.contains('[');
        // A comparison writes two predicates, `LOP3.LUT P0, R7` one before its register.
        let results = if self.operands.first().is_some_and(|o| o.starts_with('P') || o.starts_with("UP")) {
            2
        } else {
            1
        };
        !is_store && self.operands.iter().take(results).filter(is_register).any(|o| o == register)
    }
}

/// The functions of a listing. Lines that are not understood are left out; rules look only at those that are.
#[must_use]
pub fn functions(listing: &str) -> Vec<Function> {
    let mut out: Vec<Function> = Vec::new();
    let mut inside = false;
    for line in listing.lines() {
        let text = line.trim();
        // Not `.sectionflags`, which a kernel with barriers has behind it.
        if let Some(section) =
            text.strip_prefix(".section").filter(|rest| rest.starts_with(char::is_whitespace))
        {
            let name = section.trim().strip_prefix(".text.").and_then(|rest| rest.split(',').next());
            inside = name.is_some();
            out.extend(name.map(|name| Function { name: name.to_owned(), ..Function::default() }));
        } else if let (true, Some(function)) = (inside, out.last_mut()) {
            if let Some(label) = text.strip_suffix(':').filter(|label| label.starts_with(".L")) {
                function.labels.insert(label.to_owned(), function.code.len());
            } else if let Some(line) = instruction(text) {
                function.code.push(line);
            }
        }
    }
    out
}

/// `/*00d0*/  @!P0 BRA `(.L_x_0) ;`
fn instruction(text: &str) -> Option<Line> {
    let (address, rest) = text.strip_prefix("/*")?.split_once("*/")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let rest = rest.split(';').next()?.trim();
    let (guard, rest) = match rest.strip_prefix('@') {
        Some(rest) => {
            let (guard, rest) = rest.split_once(char::is_whitespace)?;
            (Some(guard.to_owned()), rest.trim())
        }
        None => (None, rest),
    };
    let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let operands = operands.split(',').map(|o| o.trim().replace(".reuse", "")).filter(|o| !o.is_empty());
    Some(Line { address, guard, opcode: opcode.to_owned(), operands: operands.collect() })
}
