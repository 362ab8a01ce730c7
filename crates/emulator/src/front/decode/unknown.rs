//! Names that cannot be used: undefined ones, and those that are not emulated.

use super::{Decoder, Refusal};

/// Functions of the device runtime with which a kernel launches others.
const DEVICE_RUNTIME: [&str; 8] = [
    "__cudaCDP2",
    "cudaLaunchDevice",
    "cudaGetParameterBuffer",
    "cudaDevice",
    "cudaStream",
    "cudaEvent",
    "cudaGraph",
    "cudaCGGet",
];

/// Why a function without a body cannot be called.
pub(super) fn absent(name: &str) -> Refusal {
    if DEVICE_RUNTIME.iter().any(|known| name.starts_with(known)) {
        return format!(
            "`{name}` belongs to the device runtime, of which launches, streams and events are emulated"
        );
    }
    format!("`{name}` is declared but has no body")
}

/// A special register that PTX has and the emulator lacks.
fn special(name: &str) -> Option<&'static str> {
    let counter = name.strip_prefix("%pm").map(|rest| rest.strip_suffix("_64").unwrap_or(rest));
    if counter.is_some_and(|number| number.parse::<u8>().is_ok()) {
        return Some("performance counters are not emulated");
    }
    (name == "%current_graph_exec").then_some("graphs that the device launches are not emulated")
}

impl Decoder<'_> {
    /// Why a name that is neither a register nor a variable cannot be used.
    pub(super) fn unknown(&self, name: &str) -> Refusal {
        if let Some(why) = special(name) {
            return format!("`{name}`: {why}");
        }
        if self.scope.imports.contains(name) {
            return format!("`{name}` is declared `.extern` and defined in another module");
        }
        match self.scope.functions.get(name) {
            Some(function) if function.entry => {
                format!("`{name}` is an entry; launches from the device are not emulated")
            }
            Some(_) => absent(name),
            None => format!("`{name}` is not declared"),
        }
    }
}
