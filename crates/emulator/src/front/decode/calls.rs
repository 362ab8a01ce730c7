//! Calls and returns.

use ptx::{Instruction, Operand, Space as AstSpace, Variable};

use super::units::Signature;
use super::unknown::absent;
use super::{
    Actual, Bank, CallSite, Decoder, Formal, Refusal, Refused, Register, Symbol, Target, directives,
};
use crate::front::program::Row;
use crate::front::{rows, syntax};

impl<'a> Decoder<'a> {
    /// `ret` ends the thread in an entry, and returns to the caller in a function.
    pub(super) fn ret(&mut self, _: &Instruction) -> Result<(), Refusal> {
        match self.unit {
            None => self.push(rows::ending()),
            Some(_) => self.returns(),
        }
        Ok(())
    }

    /// Whether a call targets a function that the driver provides.
    pub(super) fn calls_system(&self, i: &Instruction) -> bool {
        i.operands.iter().any(|operand| match operand {
            Operand::Name(name) => {
                let function = self.scope.functions.get(name.as_str());
                (self.scope.table.is_system_call)(name) && function.is_some_and(|f| f.body.is_none())
            }
            _ => false,
        })
    }

    /// A call of a function, or through a pointer with a prototype or a list of targets.
    pub(super) fn call(&mut self, i: &Instruction) -> Result<(), Refused> {
        let wrong = |why: &str| Err(Refused::ByPtx(why.to_owned()));
        if let Some(word) = i.modifiers.iter().find(|word| *word != "uni") {
            return Err(Refused::ByPtx(format!("the modifier `.{word}` does not belong there")));
        }
        let mut operands = i.operands.iter().peekable();
        let results = match operands.next_if(|operand| matches!(operand, Operand::Group(_))) {
            Some(Operand::Group(list)) => list.as_slice(),
            _ => &[],
        };
        let Some(Operand::Name(name)) = operands.next() else {
            return wrong("a call requires the name of a function or a register");
        };
        let arguments = match operands.next_if(|operand| matches!(operand, Operand::Group(_))) {
            Some(Operand::Group(list)) => list.as_slice(),
            _ => &[],
        };
        let pointer = self.register(name);
        let prototype = match (operands.next(), pointer) {
            (Some(Operand::Name(prototype)), Some(_)) => Some(prototype),
            (None, Some(_)) => return wrong("a call through a register requires a prototype or targets"),
            (None, None) => None,
            (Some(_), None)
                if arguments.is_empty() && !matches!(i.operands.last(), Some(Operand::Group(_))) =>
            {
                return wrong("expected the arguments in parentheses");
            }
            (Some(_), _) => return wrong("an operand behind the arguments is not expected"),
        };
        if operands.next().is_some() {
            return wrong("an operand behind the arguments is not expected");
        }
        let (signature, function) = match prototype {
            Some(prototype) => {
                let known = self.prototypes.get(&format!("{}{prototype}", self.prefix)).cloned();
                let known = known.ok_or_else(|| {
                    Refused::ByPtx(format!("`{prototype}` is neither a .callprototype nor .calltargets"))
                })?;
                (known.signature, Err(known.targets))
            }
            None => {
                let function = *self.scope.functions.get(name.as_str()).ok_or_else(|| {
                    format!("`{name}` is not a function of this module; the emulator links no library")
                })?;
                if let Some((directive, why)) = directives::of_function(function) {
                    return Err(format!("`{name}` is {directive}: {why}").into());
                }
                (Signature::from_function(function), Ok(function))
            }
        };
        let counts = [
            (signature.returns.len(), results.len(), "results"),
            (signature.params.len(), arguments.len(), "arguments"),
        ];
        if let Some((takes, given, what)) = counts.iter().find(|(takes, given, _)| takes != given) {
            let through = prototype.unwrap_or(name);
            return Err(Refused::ByPtx(format!("{takes} {what} of `{through}` are expected, {given} given")));
        }
        if let Ok(function) = function
            && (function.body.is_none() || function.entry)
        {
            return Err(absent(name).into());
        }
        let target = match (pointer, function) {
            (Some(_), Err(among)) => {
                let Some(Register { bank: Bank::D, slot, .. }) = self.read(name) else {
                    return wrong("an address of a function has 64 bits");
                };
                self.calls(None);
                let formals = |all: &[Variable]| all.iter().map(formal).collect();
                let (params, returns) = (formals(signature.params), formals(signature.returns));
                Target::Pointer { slot, params, returns, among }
            }
            (_, Ok(function)) => {
                let number = self.unit_number(function)?;
                self.calls(Some(number));
                Target::Function(number)
            }
            (None, Err(_)) => return wrong("a call requires the name of a function or a register"),
        };
        let arguments =
            signature.params.iter().zip(arguments).map(|(formal, operand)| self.argument(formal, operand));
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        let results =
            signature.returns.iter().zip(results).map(|(formal, operand)| self.result(formal, operand));
        let results = results.collect::<Result<Vec<_>, _>>()?;
        let site = CallSite { target, arguments, results, caller: self.unit };
        self.push(Row { extra: Some(Box::new(site)), ..Row::new(rows::call) });
        if signature.never_returns {
            self.push(Row::new(rows::returned));
        }
        Ok(())
    }

    fn argument(&mut self, formal: &Variable, operand: &Operand) -> Result<Actual, Refused> {
        if formal.space != AstSpace::Reg {
            return Ok(match self.parameter(operand)? {
                Symbol::Local(at) => Actual::Frame(at),
                Symbol::Param(at) => Actual::Param(at),
                _ => return Err(format!("`{operand}` is not a parameter variable").into()),
            });
        }
        let bank = Bank::holding(formal.ty);
        match operand {
            Operand::Name(name) if self.register(name).is_some() => {
                self.fits(name, formal)?;
                let register = self.read(name).ok_or_else(|| format!("`{name}` is not a register"))?;
                Ok(Actual::Register((register.bank, register.slot)))
            }
            Operand::Immediate(_) if matches!(bank, Bank::W | Bank::D) => {
                let wide = bank == Bank::D;
                let slot = if wide { self.src_d(operand, formal.ty)? } else { self.src(operand, formal.ty)? };
                Ok(Actual::Register((bank, slot)))
            }
            _ => Err("a register argument that is not a name".to_owned().into()),
        }
    }

    fn result(&mut self, formal: &Variable, operand: &Operand) -> Result<Actual, Refused> {
        if formal.space != AstSpace::Reg {
            return match self.parameter(operand)? {
                Symbol::Local(at) => Ok(Actual::Frame(at)),
                _ => Err(format!("`{operand}` is not a parameter variable").into()),
            };
        }
        let Operand::Name(name) = operand else {
            return Err("a register argument that is not a name".to_owned().into());
        };
        self.fits(name, formal)?;
        let register = self.register(name).ok_or_else(|| format!("`{name}` is not a register"))?;
        self.step.writes.push((register.bank, register.slot));
        Ok(Actual::Register((register.bank, register.slot)))
    }

    /// Checks that a register can be passed as a parameter in a register.
    fn fits(&self, name: &str, formal: &Variable) -> Result<(), Refused> {
        let register = self.register(name).ok_or_else(|| format!("`{name}` is not a register"))?;
        if syntax::passes_as(register.ty, formal.ty) {
            return Ok(());
        }
        let (has, wanted) = (register.ty, formal.ty);
        let why = format!("`{name}` is {has}, but the parameter `{}` is {wanted}", formal.name);
        Err(Refused::ByPtx(why))
    }

    fn parameter(&self, operand: &Operand) -> Result<Symbol, Refusal> {
        match operand {
            Operand::Name(n) => self.symbol(n).ok_or_else(|| format!("`{n}` is not a parameter variable")),
            _ => Err("a call argument that is not a variable".to_owned()),
        }
    }
}

/// A parameter of a prototype: it has neither a place nor a slot.
fn formal(variable: &Variable) -> Formal {
    match variable.space {
        AstSpace::Reg => Formal::Register((Bank::holding(variable.ty), 0)),
        _ => Formal::Frame { at: 0, bytes: u32::try_from(super::size_of(variable)).unwrap_or(u32::MAX) },
    }
}
