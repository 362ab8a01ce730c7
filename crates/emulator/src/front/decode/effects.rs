//! Records the effect of instructions on undefined bits during decoding.

use ptx::{Instruction, Operand, Type};

use super::{Bank, Decoder, Step};
use crate::front::program::NO_STEP;
use crate::rules::undefined::effect::{Effect, Named};

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
        let effect = Effect::of(i, &named, |operand| match operand {
            Operand::Name(name) | Operand::Not(name) if self.register(name).is_some() => {
                self.register(name).map(|r| (r.bank, r.slot))
            }
            // A constant has had its slot since the instruction was decoded.
            _ => self.src(operand, Type::U32).ok().map(|slot| (Bank::W, slot)),
        });
        let number = u32::try_from(self.effects.len()).unwrap_or(NO_STEP);
        self.effects.push(effect);
        self.origins[first..].iter_mut().for_each(|origin| origin.step = number);
        if let Some(origin) = self.origins[first..].last_mut() {
            origin.last = true;
        }
    }
}
