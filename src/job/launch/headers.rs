//! The headers of CUDA and CUTLASS that a `.cu` file includes: found on this machine, or fetched from pinned wheels.

use std::path::{Path, PathBuf};

use crate::event::Event;
use crate::job::{Context, JobError};
use crate::store::Store;
use crate::toolkit::{self, InstallOptions, Pins, Tool};

/// How the names of the runtime's headers begin.
const RUNTIME: [&str; 18] = [
    "builtin_types.h",
    "channel_descriptor.h",
    "common_functions.h",
    "cooperative_groups",
    "cuda",
    "device_",
    "driver_",
    "host_",
    "library_types.h",
    "math_",
    "mma.h",
    "nvfunctional",
    "sm_",
    "surface_",
    "texture_",
    "vector_functions.h",
    "vector_functions.hpp",
    "vector_types.h",
];

/// The folders in which CUDA's own headers are installed here.
pub(super) fn installed(library: &Path) -> Vec<PathBuf> {
    let home = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let home = home.chain([PathBuf::from("/usr/local/cuda")]).map(|folder| folder.join("include"));
    // A wheel of NVRTC is in `nvidia/<package>/lib`, CUDA's headers in a package beside it.
    let packages = library.ancestors().nth(3).into_iter();
    let wheels = packages.flat_map(|of| [of.join("cu13/include"), of.join("cuda_runtime/include")]);
    let own: Vec<PathBuf> = home.chain(wheels).filter(|of| of.join("cuda_runtime.h").is_file()).collect();
    // From CUDA 13 on, the core libraries have a folder of their own.
    let core = own.iter().map(|folder| folder.join("cccl")).filter(|folder| folder.is_dir());
    core.chain(own.iter().cloned()).collect()
}

/// The wheels with the headers to which a header belongs, the one with the header last; empty if it is in none.
pub(super) fn wheels_with(header: &str) -> &'static [Tool] {
    let first = header.split('/').next().unwrap_or(header);
    match first {
        "cutlass" | "cute" => &[Tool::Headers, Tool::Crt, Tool::Cccl, Tool::Cutlass],
        "cuda" | "cub" | "thrust" | "nv" | "libcudacxx" => &[Tool::Headers, Tool::Crt, Tool::Cccl],
        // The header of another library of CUDA is in another wheel.
        _ if ["cudnn", "cudss", "cuda_profiler"].iter().any(|other| first.starts_with(other)) => &[],
        "crt" => &[Tool::Crt],
        _ if RUNTIME.iter().any(|own| first.starts_with(own)) => &[Tool::Headers, Tool::Crt],
        _ => &[],
    }
}

/// Whether a header is one of the C or C++ library of the host, which NVRTC does not have.
pub(super) fn is_of_host(header: &str) -> bool {
    const C: [&str; 8] =
        ["assert.h", "math.h", "stdio.h", "stdlib.h", "string.h", "stdint.h", "unistd.h", "time.h"];
    C.contains(&header)
        || (!header.contains(['.', '/']) && header.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
}

/// Fetches the wheels of these tools unless they are in the cache, and returns their folders of headers.
pub(super) fn fetched(
    tools: &[Tool],
    store: &Store,
    context: &Context<'_>,
) -> Result<Vec<PathBuf>, JobError> {
    let pins = Pins::built_in()?;
    let names: Vec<String> = tools.iter().map(|tool| tool.name().to_owned()).collect();
    let missing: Vec<String> = {
        let there = toolkit::installed(store);
        let pinned = pins.resolve(&names)?;
        let is_there =
            |pin: &&toolkit::Pin| there.iter().any(|of| (of.tool, of.version) == (pin.tool, pin.version));
        pinned.into_iter().filter(|pin| !is_there(pin)).map(toolkit::Pin::requirement).collect()
    };
    if !missing.is_empty() {
        let text = format!(
            "Fetching headers with pip, checked against pinned SHA-256 sums: {}.",
            missing.join(", ")
        );
        context.sink.emit(Event::Notice { text });
    }
    let installed = toolkit::install(store, &pins, &names, &InstallOptions::for_host()?, context.sink)?;
    let folders = installed.iter().map(|of| of.folder.join("include"));
    Ok(folders.flat_map(|folder| [folder.join("cccl"), folder]).filter(|folder| folder.is_dir()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_its_wheel() {
        for (header, wheel) in [
            ("cuda_fp16.h", Some(Tool::Crt)),
            ("cooperative_groups.h", Some(Tool::Crt)),
            ("cooperative_groups/reduce.h", Some(Tool::Crt)),
            ("crt/mma.h", Some(Tool::Crt)),
            ("cuda/std/type_traits", Some(Tool::Cccl)),
            ("cub/block/block_reduce.cuh", Some(Tool::Cccl)),
            ("cute/tensor.hpp", Some(Tool::Cutlass)),
            ("cudnn.h", None),
            ("tile.cuh", None),
            ("cstdio", None),
        ] {
            assert_eq!(wheels_with(header).last().copied(), wheel, "{header}");
        }
        assert!(is_of_host("cstdio") && is_of_host("vector") && is_of_host("stdio.h"));
        assert!(!is_of_host("tile.cuh") && !is_of_host("cute/tensor.hpp"));
    }
}
