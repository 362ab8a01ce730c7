//! Records the effect of instructions on undefined bits during decoding.

use ptx::{Instruction, Operand, Type};

use super::{Bank, CallSite, Decoder, Step, Symbol, Target};
use crate::front::program::NO_STEP;
use crate::rules::undefined::effect::{Effect, Named, Outside, Propagation, Role};

impl Decoder<'_> {
    /// Returns the effect of an instruction on undefined bits; its guard is not among the first `reads` registers that it reads.
    pub(super) fn effect(&mut self, i: &Instruction, step: &Step, reads: usize, first: usize) {
        let named = Named {
            reads: step.reads.get(..reads).unwrap_or_default(),
            bases: &step.bases,
            writes: &step.writes,
            narrow: &step.narrow,
            narrow_sources: &step.narrow_sources,
        };
        let effect = Effect::of_instruction(i, &named, |operand| match operand {
            Operand::Name(name) | Operand::Not(name) if self.register(name).is_some() => {
                self.register(name).map(|r| (r.bank, r.slot))
            }
            // An address in a frame is computed by a row of its own.
            Operand::Name(name) | Operand::Offset(name, _)
                if self.frame().is_some() && matches!(self.symbol(name), Some(Symbol::Local(_))) =>
            {
                None
            }
            // A constant has had its slot since the instruction was decoded.
            _ => self.src(operand, Type::U32).ok().map(|slot| (Bank::W, slot)),
        });
        self.add_effect(effect, first);
    }

    /// The effect of the call or the return that begins at a row: a pointer must be defined. What is passed keeps its undefined bits.
    pub(super) fn effect_of_call(&mut self, first: usize) {
        let pointer = self.rows[first..].iter().find_map(|row| row.extra::<CallSite>());
        let decides: Box<[_]> = match pointer.map(|site| &site.target) {
            Some(Target::Pointer { slot, .. }) => [((Bank::D, *slot), Role::Operand)].into(),
            _ => Box::default(),
        };
        let effect = Effect {
            rule: Propagation::Lane,
            decides,
            reads: Box::default(),
            writes: Box::default(),
            narrow: Box::default(),
            narrow_sources: Box::default(),
            pure: false,
            outside: Outside::Nothing,
        };
        self.add_effect(effect, first);
    }

    fn add_effect(&mut self, effect: Effect, first: usize) {
        let number = u32::try_from(self.effects.len()).unwrap_or(NO_STEP);
        self.effects.push(effect);
        self.origins[first..].iter_mut().for_each(|origin| origin.step = number);
        if let Some(origin) = self.origins[first..].last_mut() {
            origin.last = true;
        }
    }
}
