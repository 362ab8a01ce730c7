//! Entry points by name and by the CUDA version for which a program was built.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::{c_int, c_void};

use crate::api::call::VERSION;
use crate::api::table::{Call, EntryPoint, entry_points};
use crate::api::{
    array_calls, conditional_calls, cute_dsl, device_calls, error_calls, graph_calls, graph_instance_calls,
    launch_calls, link_calls, managed_calls, memory_calls, module_calls, registration, stream_calls,
    tensor_map_calls, texture_calls, unserved, user_object_calls, virtual_memory_calls, word_calls,
};
use crate::device::module::is_of_nvidia;
use crate::device::state::device;
use crate::program::caller::{calling_library, runtime_is_12};
use crate::program::pointers::{In, Out, Text};
use crate::status::{Answer, Status};

/// The tables of all files, with how to call their functions.
static TABLES: [(&[EntryPoint], &[Call]); 23] = [
    (device_calls::DEVICE, device_calls::DEVICE_CALLS),
    (memory_calls::MEMORY, memory_calls::MEMORY_CALLS),
    (virtual_memory_calls::VIRTUAL_MEMORY, virtual_memory_calls::VIRTUAL_MEMORY_CALLS),
    (managed_calls::MANAGED, managed_calls::MANAGED_CALLS),
    (module_calls::MODULE, module_calls::MODULE_CALLS),
    (launch_calls::LAUNCH, launch_calls::LAUNCH_CALLS),
    (stream_calls::STREAM, stream_calls::STREAM_CALLS),
    (word_calls::WORD, word_calls::WORD_CALLS),
    (user_object_calls::USER_OBJECT, user_object_calls::USER_OBJECT_CALLS),
    (graph_calls::GRAPH, graph_calls::GRAPH_CALLS),
    (conditional_calls::CONDITIONAL_HANDLE, conditional_calls::CONDITIONAL_HANDLE_CALLS),
    (graph_instance_calls::GRAPH_INSTANCE, graph_instance_calls::GRAPH_INSTANCE_CALLS),
    (tensor_map_calls::TENSOR_MAP, tensor_map_calls::TENSOR_MAP_CALLS),
    (link_calls::LINK, link_calls::LINK_CALLS),
    (array_calls::ARRAY, array_calls::ARRAY_CALLS),
    (texture_calls::TEXTURE, texture_calls::TEXTURE_CALLS),
    (error_calls::ERROR, error_calls::ERROR_CALLS),
    (ENTRY_POINTS, ENTRY_POINTS_CALLS),
    (cute_dsl::CUTE_DSL, cute_dsl::CUTE_DSL_CALLS),
    (cute_dsl::DIALECT, cute_dsl::DIALECT_CALLS),
    (registration::REGISTRATION, registration::REGISTRATION_CALLS),
    (unserved::DRIVER, unserved::DRIVER_CALLS),
    (unserved::RUNTIME, unserved::RUNTIME_CALLS),
];

/// All exported functions: the row of each, and how to call it.
pub fn entry_points() -> impl Iterator<Item = (&'static EntryPoint, Call)> {
    TABLES.iter().flat_map(|(rows, calls)| rows.iter().zip(calls.iter().copied()))
}

/// Why a static runtime is not served: it is that of the program, or of a library, which NVIDIA may have built without PTX.
fn static_runtime_of(library: Option<&str>) -> String {
    match library {
        Some(name) if is_of_nvidia(name) => format!(
            "cuGetExportTable: the CUDA runtime inside {name} is not served, since NVIDIA builds that library without PTX; compute this on the \
             host, or by kernels of the program"
        ),
        Some(name) => {
            format!("cuGetExportTable: the CUDA runtime inside {name} is not served; link that library with `nvcc -cudart shared`")
        }
        None => "cuGetExportTable: a statically linked CUDA runtime is not supported; link with `nvcc -cudart shared`".to_owned(),
    }
}

/// The one function whose newer form has another name.
const RENAMED: (&str, c_int, &str) = ("cuGraphInstantiate", 12_000, "cuGraphInstantiateWithFlags");

/// The result of a search (`CUdriverProcAddressQueryResult`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Function(*const c_void),
    /// There is no such function.
    Nothing,
    /// The function appeared in a later version.
    Newer,
}

impl Found {
    const fn code(self) -> c_int {
        match self {
            Self::Function(_) => 0,
            Self::Nothing => 1,
            Self::Newer => 2,
        }
    }
}

fn exact(name: &str) -> Option<&'static EntryPoint> {
    TABLES.iter().flat_map(|(rows, _)| *rows).find(|row| row.name == name)
}

/// The function with a given name, in the newest form that a version has. A form that is served is preferred to one that is not.
fn find(name: &str, version: c_int) -> Found {
    let is_form = |row: &&EntryPoint| {
        row.plain_name() == name && !row.name.ends_with("_ptsz") && !row.name.ends_with("_ptds")
    };
    let forms = || TABLES.iter().flat_map(|(rows, _)| *rows).filter(is_form);
    let newest =
        forms().filter(|row| row.since <= version).max_by_key(|row| (row.is_served, row.since, row.name));
    let newest = match RENAMED {
        (plain, since, renamed) if plain == name && since <= version => exact(renamed),
        _ => newest,
    };
    match newest.or_else(|| exact(name).filter(|row| row.plain_name() != name)) {
        Some(row) => Found::Function(row.address.0),
        None if forms().next().is_some() => Found::Newer,
        None => Found::Nothing,
    }
}

fn proc_address(symbol: Text, function: Out<u64>, version: c_int, result: Out<c_int>) -> Answer {
    let found = find(&symbol.text()?, version);
    result.set_if(found.code());
    match found {
        Found::Function(at) => function.set(at as u64),
        Found::Nothing | Found::Newer => {
            function.set(0)?;
            Err(Status::NOT_FOUND)
        }
    }
}

/// The runtime returns success and reports the lookup status if there is no such function.
fn entry_point(symbol: Text, function: Out<u64>, version: c_int, found: Out<c_int>) -> Answer {
    match proc_address(symbol, function, version, found) {
        Err(Status::NOT_FOUND) if !found.is_null() => Ok(()),
        other => other,
    }
}

/// The table of undocumented functions that the static CUDA runtime requests when it starts, found by logging the requests of programs
/// that are linked with it.
const RUNTIME_TABLE: [u8; 16] =
    [0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9];

entry_points! {
    ENTRY_POINTS, ENTRY_POINTS_CALLS;

    [cuGetProcAddress: (Nothing, zeros INVALID_VALUE, since 11_030)]
    fn (symbol: Text, function: Out<u64>, version: c_int, _flags: u64) {
        proc_address(symbol, function, version, Out::none())
    }
    [cuGetProcAddress_v2: (Nothing, zeros INVALID_VALUE, since 12_000)]
    fn (symbol: Text, function: Out<u64>, version: c_int, _flags: u64, found: Out<c_int>) {
        proc_address(symbol, function, version, found)
    }
    [cudaGetDriverEntryPoint, cudaGetDriverEntryPoint_ptsz: (Runtime, zeros INVALID_VALUE)]
    fn (symbol: Text, function: Out<u64>, _flags: u64, found: Out<c_int>) {
        entry_point(symbol, function, if runtime_is_12() { 12_000 } else { VERSION }, found)
    }
    [cudaGetDriverEntryPointByVersion, cudaGetDriverEntryPointByVersion_ptsz: (Runtime, zeros INVALID_VALUE)]
    fn (
        symbol: Text, function: Out<u64>, version: u32, _flags: u64, found: Out<c_int>,
    ) { entry_point(symbol, function, version as c_int, found) }
    [cuGetExportTable: (Nothing, zeros INVALID_VALUE, valid NOT_SUPPORTED, since 3_000)]
    fn (_table: u64, id: In<[u8; 16]>) {
        // Other libraries, such as NVRTC, ask for tables too, and do without them. NVIDIA's libraries of kernels do not.
        let library = calling_library();
        let of_kernels = library.as_deref().is_some_and(is_of_nvidia);
        if id.get()? != RUNTIME_TABLE && !of_kernels {
            return Err(Status::INVALID_VALUE);
        }
        device()?.miss(&static_runtime_of(library.as_deref()));
        Err(Status::NOT_SUPPORTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_with_the_runtime_is_named() {
        assert!(static_runtime_of(None).contains("link with `nvcc -cudart shared`"));
        assert!(
            static_runtime_of(Some("libmine.so"))
                .contains("inside libmine.so is not served; link that library")
        );
        assert!(static_runtime_of(Some("libcufft.so.12")).contains("NVIDIA builds that library without PTX"));
    }

    #[test]
    fn a_name_has_the_form_of_the_version() {
        let form = |name: &str| exact(name).map_or(Found::Nothing, |row| Found::Function(row.address.0));
        for (name, forms) in [
            (
                "cuStreamGetCaptureInfo",
                &[
                    (13_000, "cuStreamGetCaptureInfo_v3"),
                    (12_000, "cuStreamGetCaptureInfo_v2"),
                    (11_000, "cuStreamGetCaptureInfo"),
                ][..],
            ),
            ("cuMemAlloc", &[(13_000, "cuMemAlloc_v2"), (3_020, "cuMemAlloc_v2")]),
            (
                "cuCtxCreate",
                &[(12_050, "cuCtxCreate_v4"), (12_040, "cuCtxCreate_v3"), (11_000, "cuCtxCreate_v2")],
            ),
            (
                "cuGraphInstantiate",
                &[(13_000, "cuGraphInstantiateWithFlags"), (11_000, "cuGraphInstantiate_v2")],
            ),
            (
                "cuGraphAddNode",
                &[(13_040, "cuGraphAddNode_v3"), (12_030, "cuGraphAddNode_v2"), (12_020, "cuGraphAddNode")],
            ),
            ("cuCtxSynchronize", &[(13_000, "cuCtxSynchronize_v2"), (12_090, "cuCtxSynchronize")]),
            ("cuMemAlloc_v2", &[(13_000, "cuMemAlloc_v2")]),
            ("cuLaunchKernel_ptsz", &[(13_000, "cuLaunchKernel_ptsz")]),
        ] {
            for (version, wanted) in forms {
                assert_eq!(find(name, *version), form(wanted), "{name} {version}");
                assert!(exact(wanted).is_some(), "{wanted}");
            }
        }
        // A served form is preferred to a newer form that is not supported.
        for name in ["cuCtxSynchronize", "cuCtxGetDevice", "cuLaunchHostFunc", "cuMemPrefetchAsync"] {
            for version in [12_000, 13_000] {
                let Found::Function(at) = find(name, version) else { panic!("{name}") };
                let rows = TABLES.iter().flat_map(|(rows, _)| *rows);
                assert!(rows.filter(|row| row.address.0 == at).all(|row| row.is_served), "{name}");
            }
        }
        assert_eq!(find("cuStreamGetCaptureInfo", 10_000), Found::Newer);
        assert_eq!(find("cuNoSuchFunction", 13_000), Found::Nothing);
    }
}
