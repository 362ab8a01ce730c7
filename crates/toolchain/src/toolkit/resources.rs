//! The resources of a kernel as reported by `ptxas -v`: registers, spills, stack, shared memory; cached.

use std::time::Duration;

use ptx::arch::Target;
use serde::{Deserialize, Serialize};

use super::cubin::{CubinError, cubin};
use super::discover::Toolkit;
use crate::store::{self, Store};

/// Kind of the cache entries; the number changes with [`Resources`].
const KIND: &str = "resources-1";

/// The resources that one entry of a module uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of spill stores per thread.
    pub spill_stores: u32,
    /// Bytes of spill loads per thread.
    pub spill_loads: u32,
    /// Bytes of stack per thread.
    pub stack: u32,
    /// Bytes of static shared memory per CTA.
    pub static_shared: u32,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ResourcesError {
    /// There is no machine code to report on.
    #[error(transparent)]
    Cubin(#[from] CubinError),
    /// ptxas does not report the entry.
    #[error("ptxas {version} reports nothing about the entry `{entry}`")]
    Silent {
        /// The version of ptxas.
        version: ptx::arch::ToolkitVersion,
        /// The entry.
        entry: String,
    },
}

/// Returns the resources of `entry` of the module `ptx` on `target`, from the cache or from the output of ptxas in
/// [`cubin()`].
///
/// # Errors
/// [`ResourcesError`].
pub fn resources(
    toolkit: &Toolkit,
    target: Target,
    ptx: &str,
    entry: &str,
    store: Option<&Store>,
    limit: Duration,
) -> Result<Resources, ResourcesError> {
    let target_name = target.to_string();
    let key = store::sha256([toolkit.sha256.as_str(), &target_name, entry, ptx].join("\0").as_bytes());
    // A small separate cache entry, so that a caller who needs many reports does not read the code of every module.
    if let Some(known) = store.and_then(|s| serde_json::from_slice(&s.get(KIND, &key)?).ok()) {
        return Ok(known);
    }
    let said = cubin(toolkit, target, ptx, store, limit)?.said;
    let silent = || ResourcesError::Silent { version: toolkit.version, entry: entry.to_owned() };
    let found = read(&said, entry).ok_or_else(silent)?;
    if let (Some(store), Ok(bytes)) = (store, serde_json::to_vec(&found)) {
        // A cache that cannot be written costs time, not the result.
        let _ = store.put(KIND, &key, &bytes);
    }
    Ok(found)
}

/// Parses the lines about `entry` in the output of `ptxas -v`.
fn read(text: &str, entry: &str) -> Option<Resources> {
    let begins = format!("Compiling entry function '{entry}'");
    let mut lines = text.lines().skip_while(|line| !line.contains(&begins));
    lines.next()?;
    let mut out = Resources::default();
    let mut used = false;
    for line in lines.take_while(|line| !line.contains("Compiling entry function")) {
        for part in line.split([',', ':']) {
            let Some((number, what)) = part.trim().trim_start_matches("Used ").split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u32>() else { continue };
            match what.trim_start_matches("bytes ").trim() {
                "registers" => (out.registers, used) = (number, true),
                "spill stores" => out.spill_stores = number,
                "spill loads" => out.spill_loads = number,
                "stack frame" => out.stack = number,
                "smem" => out.static_shared = number,
                _ => {}
            }
        }
    }
    used.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_121a'
ptxas info    : Function properties for other
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compiling entry function 'grouped_gemm' for 'sm_121a'
ptxas info    : Function properties for grouped_gemm
    96 bytes stack frame, 180 bytes spill stores, 212 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 96 bytes cumulative stack size, 64 bytes smem, 480 bytes cmem[0]
ptxas info    : Compile time = 12.0 ms
";

    #[test]
    fn the_lines_of_an_entry_are_read() {
        let want =
            Resources { registers: 255, spill_stores: 180, spill_loads: 212, stack: 96, static_shared: 64 };
        assert_eq!(read(SAID, "grouped_gemm"), Some(want));
        assert_eq!(read(SAID, "other").map(|r| r.registers), Some(8));
        assert_eq!(read(SAID, "nobody"), None);
        // Without the line on registers there is no result.
        assert_eq!(read(&SAID.replace("registers", "things"), "other"), None);
    }
}
