//! Declarations: the meaning of names, from their block on.

use std::collections::{HashMap, HashSet};

use ptx::{Space as AstSpace, Statement, Type, Variable};

use super::{Decoded, Decoder, Register, Symbol, alignment, placed};
use crate::api::trap::{Lack, Unsupported};
use crate::front::declared;
use crate::front::directives;
use crate::front::liveness::Life;
use crate::run::cluster::RANK_SHIFT;
use crate::work;

/// Local memory of a thread (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
pub(crate) const MOST_LOCAL: u32 = 512 << 10;
/// The limit of shared memory: higher address bits are the rank of a CTA in its cluster. A launch checks the target's limit, which
/// is lower.
pub(crate) const MOST_SHARED: u32 = 1 << RANK_SHIFT;
pub(crate) const TOO_MUCH_SHARED: &str = "more than 16 MiB of shared memory";

/// The registers of a block.
#[derive(Debug, Default)]
pub(super) struct Scope {
    names: HashMap<String, Register>,
    families: Families,
}

/// `.reg .b32 %r<count>`: registers that get slots on first use, since a program may declare millions. By name, with the count and
/// the type.
#[derive(Debug, Default)]
struct Families(HashMap<String, (u32, Type)>);

impl Families {
    /// The type of a register of these families.
    fn register(&self, name: &str) -> Option<Type> {
        splits(name).find_map(|(family, number)| {
            self.0.get(family).filter(|(count, _)| number < *count).map(|(_, ty)| *ty)
        })
    }
}

/// The families that a name could belong to, with its number in each.
fn splits(name: &str) -> impl Iterator<Item = (&str, u32)> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    (name.len() - digits..name.len()).filter_map(|at| {
        let (family, number) = name.split_at(at);
        let canonical = number == "0" || !number.starts_with('0');
        number.parse().ok().filter(|_| canonical).map(|number| (family, number))
    })
}

impl Scope {
    pub(super) fn insert(&mut self, name: &str, register: Register) {
        self.names.insert(name.to_owned(), register);
    }

    pub(super) fn get(&self, name: &str) -> Option<Register> {
        self.names.get(name).copied()
    }
}

impl Decoder<'_> {
    /// Gives `name` a slot if it is one of many registers declared together and has none yet.
    pub(super) fn take_numbered(&mut self, name: &str) {
        // A video instruction selects a part of a register: `%r1.b2`.
        let name = name.split('.').next().unwrap_or(name);
        for at in (0..self.registers.len()).rev() {
            let scope = &self.registers[at];
            if scope.names.contains_key(name) {
                return;
            }
            if let Some(ty) = scope.families.register(name) {
                let register = self.slot(ty, Life::Register);
                self.registers[at].insert(name, register);
                return;
            }
        }
    }

    pub(super) fn declare(&mut self, variable: &Variable) -> Decoded<()> {
        self.at = variable.span;
        if let Some(why) = directives::of_variable(variable) {
            return Err(self.unsupported(&variable.name, why));
        }
        if let Some(why) = declared::of_variable(variable) {
            return Err(Unsupported { lack: Lack::Ptx, ..self.unsupported(&variable.name, why) });
        }
        if variable.space == AstSpace::Reg && variable.vector > 1 {
            return Err(self.unsupported(&variable.name, "registers of vectors are not emulated"));
        }
        match variable.space {
            AstSpace::Reg => {
                let (name, ty) = (variable.name.clone(), variable.ty);
                if let (Some(count), Some(scope)) = (variable.count, self.registers.last_mut()) {
                    scope.families.0.insert(name, (count, ty));
                    return Ok(());
                }
                let register = self.slot(ty, Life::Register);
                if let Some(scope) = self.registers.last_mut() {
                    scope.insert(&name, register);
                }
            }
            AstSpace::Shared => {
                let symbol =
                    if variable.dims.contains(&None) || variable.linkage == Some(ptx::Linkage::Extern) {
                        Symbol::DynamicShared(alignment(variable))
                    } else if let Some(placed) = self.in_shared(variable) {
                        placed
                    } else {
                        return Err(self.unsupported(&variable.name, TOO_MUCH_SHARED));
                    };
                self.name(&variable.name, symbol);
            }
            AstSpace::Local | AstSpace::Param => {
                let Some((at, end)) = placed(self.local_bytes, variable, MOST_LOCAL) else {
                    return Err(
                        self.unsupported(&variable.name, "more than 512 KiB of local memory a thread")
                    );
                };
                self.local_bytes = end;
                self.in_frame_of_function(variable);
                self.name(&variable.name, Symbol::Local(at));
            }
            AstSpace::Const | AstSpace::Global | AstSpace::Tex => {
                return Err(self.unsupported(&variable.name, "a module variable declared in a function"));
            }
        }
        Ok(())
    }

    /// Places a variable in the shared memory of the kernel, unless it is there; `None` if it has no room.
    pub(super) fn in_shared(&self, variable: &Variable) -> Option<Symbol> {
        let mut statics = self.statics.borrow_mut();
        if let Some(known) = statics.get(&variable.span.start) {
            return Some(*known);
        }
        let (at, end) = placed(self.shared_bytes.get(), variable, MOST_SHARED)?;
        self.shared_bytes.set(end);
        let symbol = Symbol::Shared(crate::memory::window::SHARED_START + at);
        statics.insert(variable.span.start, symbol);
        Some(symbol)
    }

    pub(super) fn name(&mut self, name: &str, symbol: Symbol) {
        if let Some(scope) = self.locals.last_mut() {
            scope.insert(name.to_owned(), symbol);
        }
    }

    /// Rejects a name that a block declares twice, as ptxas does. The parameters of a function belong to its outermost block.
    pub(super) fn declared_once<'b>(&mut self, formals: &[&'b str], body: &'b [Statement]) -> Decoded<()> {
        let mut single: HashSet<&str> = formals.iter().copied().collect();
        let mut families = Families::default();
        // The names so far that end in a number, by the families that they could belong to, with the least number.
        let mut numbered: HashMap<&str, u32> = HashMap::new();
        let number = |numbered: &mut HashMap<&'b str, u32>, name: &'b str| {
            for (family, number) in splits(name) {
                numbered.entry(family).and_modify(|least| *least = number.min(*least)).or_insert(number);
            }
        };
        formals.iter().for_each(|formal| number(&mut numbered, formal));
        for statement in body {
            work::count(1);
            let (name, span, what, count) = match statement {
                Statement::Label { name, span } => (name, Some(*span), "label", None),
                Statement::BranchTargets { name, .. }
                | Statement::CallTargets { name, .. }
                | Statement::CallPrototype { name, .. } => (name, None, "label", None),
                Statement::Variable(v) => (&v.name, Some(v.span), "variable", v.count),
                _ => continue,
            };
            let twice = match count {
                Some(count) => {
                    families.0.insert(name.clone(), (count, Type::B32)).is_some()
                        || numbered.get(name.as_str()).is_some_and(|least| *least < count)
                }
                // A label may have the name of one of many registers.
                None => {
                    if what == "variable" {
                        number(&mut numbered, name);
                    }
                    !single.insert(name) || what == "variable" && families.register(name).is_some()
                }
            };
            if twice {
                self.at = span.unwrap_or(self.at);
                let refused = self.unsupported(name, format!("the {what} is defined twice"));
                return Err(Unsupported { lack: Lack::Ptx, ..refused });
            }
        }
        Ok(())
    }
}
