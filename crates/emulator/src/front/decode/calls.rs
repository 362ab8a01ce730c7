//! Calls: a copy of the callee is inlined at each one, and `ret` jumps behind it.

use std::collections::HashMap;

use ptx::{Instruction, Operand, Space as AstSpace};

use super::unknown::absent;
use super::{Decoder, Refusal, declarations, directives, isa};
use crate::api::trap::Lack;
use crate::front::program::Row;

impl Decoder<'_> {
    /// `ret` ends the thread in an entry; in a function it jumps past the inlined copy.
    pub(super) fn ret(&mut self, _: &Instruction) -> Result<(), Refusal> {
        match self.return_to.clone() {
            None => self.push(isa::control::ending()),
            Some(label) => self.jump(&label),
        }
        Ok(())
    }

    /// Whether a call targets a function that the driver provides.
    pub(super) fn calls_system(&self, i: &Instruction) -> bool {
        i.operands.iter().any(|operand| match operand {
            Operand::Name(name) => {
                let function = self.scope.functions.get(name.as_str());
                isa::system_call::is_known(name) && function.is_some_and(|f| f.body.is_none())
            }
            _ => false,
        })
    }

    /// Inlines the callee; its parameters are variables in the caller's frame.
    pub(super) fn call(&mut self, i: &Instruction) -> Result<(), isa::Refused> {
        if let Some(word) = i.modifiers.iter().find(|word| *word != "uni") {
            return Err(isa::Refused::ByPtx(format!("the modifier `.{word}` does not belong there")));
        }
        let mut operands = i.operands.iter().peekable();
        let results = match operands.peek() {
            Some(Operand::Group(list)) => {
                operands.next();
                list.clone()
            }
            _ => Vec::new(),
        };
        let Some(Operand::Name(name)) = operands.next().filter(|o| !self.is_register(o)) else {
            return Err("a call through a register: function pointers are not emulated".to_owned().into());
        };
        let arguments = match operands.next() {
            Some(Operand::Group(list)) => list.clone(),
            Some(_) => return Err(isa::Refused::ByPtx("expected the arguments in parentheses".to_owned())),
            None => Vec::new(),
        };
        if operands.next().is_some() {
            return Err(isa::Refused::ByPtx("an operand behind the arguments is not expected".to_owned()));
        }
        let function = *self.scope.functions.get(name.as_str()).ok_or_else(|| {
            format!("`{name}` is not a function of this module; the emulator links no library")
        })?;
        if let Some((directive, why)) = directives::of_function(function) {
            return Err(format!("`{name}` is {directive}: {why}").into());
        }
        let counts = [
            (function.returns.len(), results.len(), "results"),
            (function.params.len(), arguments.len(), "arguments"),
        ];
        if let Some((takes, given, what)) = counts.iter().find(|(takes, given, _)| takes != given) {
            return Err(isa::Refused::ByPtx(format!(
                "{takes} {what} of `{name}` are expected, {given} given"
            )));
        }
        let Some(body) = &function.body else { return Err(absent(name).into()) };
        if self.calling.iter().any(|f| f == name) {
            return Err(format!("`{name}` calls itself; recursion is not emulated").into());
        }
        if i.guard.is_some() {
            return Err("a call with a guard".to_owned().into());
        }
        let place = |this: &Self, operand: &Operand| match operand {
            Operand::Name(n) => this.symbol(n).ok_or_else(|| format!("`{n}` is not a parameter variable")),
            _ => Err("a call argument that is not a variable".to_owned()),
        };
        let pairs = function.returns.iter().zip(&results).chain(function.params.iter().zip(&arguments));
        let mut frame = HashMap::new();
        let mut registers = declarations::Scope::default();
        for (formal, actual) in pairs {
            if formal.space == AstSpace::Reg {
                let Operand::Name(n) = actual else {
                    return Err("a register argument that is not a name".to_owned().into());
                };
                let register = self.register(n).ok_or_else(|| format!("`{n}` is not a register"))?;
                if !isa::passes_as(register.ty, formal.ty) {
                    let (has, wanted) = (register.ty, formal.ty);
                    return Err(isa::Refused::ByPtx(format!(
                        "`{n}` is {has}, but the parameter `{}` is {wanted}",
                        formal.name
                    )));
                }
                registers.insert(&formal.name, register);
            } else {
                frame.insert(formal.name.clone(), place(self, actual)?);
            }
        }
        self.copies += 1;
        let behind = format!("{}@{}", name, self.copies);
        let prefix = std::mem::replace(&mut self.prefix, format!("{behind}/"));
        let return_to = self.return_to.replace(behind.clone());
        self.calling.push(name.clone());
        // The callee sees its own names and those of the module, not the caller's.
        let outer_registers = std::mem::replace(&mut self.registers, vec![registers]);
        let outer_locals = std::mem::replace(&mut self.locals, vec![frame]);
        let outer_labels = std::mem::take(&mut self.label_names);
        let (at, loc) = (self.at, self.loc);
        let formals: Vec<&str> =
            function.returns.iter().chain(&function.params).map(|v| v.name.as_str()).collect();
        let result = self.statements(&formals, body);
        (self.at, self.loc) = (at, loc);
        self.registers = outer_registers;
        self.locals = outer_locals;
        self.label_names = outer_labels;
        self.calling.pop();
        self.prefix = prefix;
        self.return_to = return_to;
        self.labels.insert(behind, self.rows.len());
        if directives::never_returns(function) {
            self.push(Row::new(isa::control::returned));
        }
        result.map_err(|u| {
            let why = format!("in `{name}`, line {}: `{}`: {}", u.line, u.form, u.why);
            match u.lack {
                Lack::Emulator => isa::Refused::ByEmulator(why),
                Lack::Ptx => isa::Refused::ByPtx(why),
            }
        })
    }
}
