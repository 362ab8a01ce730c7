//! The meaning of names, as far as the syntax of instructions depends on it.

use super::{Decoder, Symbol};
use crate::front::syntax::{Named, Names, VariableSpace, is_special};

/// The first architecture whose addresses of global memory always have 64 bits.
const WIDE_ADDRESSES: u32 = 90;

impl Names for Decoder<'_> {
    fn named(&self, name: &str) -> Named {
        // `%r1.b2` is a part of `%r1`.
        let whole = name.split('.').next().unwrap_or(name);
        if let Some(register) = self.register(name).or_else(|| self.register(whole)) {
            return Named::Register(register.ty);
        }
        match self.symbol(name) {
            Some(Symbol::Global(_)) => Named::Variable(VariableSpace::Global),
            Some(Symbol::Const(_)) => Named::Variable(VariableSpace::Const),
            Some(Symbol::Shared(_) | Symbol::SharedOfModule(_) | Symbol::DynamicShared(_)) => {
                Named::Variable(VariableSpace::Shared)
            }
            Some(Symbol::Local(_)) => Named::Variable(VariableSpace::Frame),
            Some(Symbol::Param(_)) => Named::Variable(VariableSpace::Param),
            // Its address is taken.
            None if self.code_address(name).or_else(|| self.entry_address(name)).is_some() => {
                Named::Variable(VariableSpace::Global)
            }
            None if is_special(name) => Named::Special,
            None => Named::Unknown,
        }
    }

    fn unknown(&self, name: &str) -> String {
        Decoder::unknown(self, name)
    }

    fn has_wide_addresses(&self) -> bool {
        self.scope.arch.number >= WIDE_ADDRESSES
    }
}
