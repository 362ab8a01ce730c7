//! Entry points by name and by the CUDA version for which a program was built.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::{c_int, c_void};

use crate::api::{Answer, In, Out, Text, entry_points, runtime_is_12};
use crate::device::device;
use crate::device_calls::{VERSION, device_function};
use crate::error_calls::error_function;
use crate::graph_calls::graph_function;
use crate::launch_calls::launch_function;
use crate::memory_calls::memory_function;
use crate::module_calls::module_function;
use crate::status::Status;
use crate::stream_calls::stream_function;
use crate::tensor_map_calls::tensor_map_function;
use crate::unserved;

/// Functions whose parameters changed between versions: the forms with the version that introduced them, newest first.
const SINCE: &[(&str, &[(c_int, &str)])] = &[
    ("cuCtxCreate", &[(12_050, "cuCtxCreate_v4"), (11_040, "cuCtxCreate_v3"), (3_020, "cuCtxCreate_v2")]),
    ("cuCtxGetDevice", &[(13_000, "cuCtxGetDevice_v2"), (2_000, "cuCtxGetDevice")]),
    ("cuCtxSynchronize", &[(13_000, "cuCtxSynchronize_v2"), (2_000, "cuCtxSynchronize")]),
    ("cuMemcpyBatchAsync", &[(13_000, "cuMemcpyBatchAsync_v2"), (12_080, "cuMemcpyBatchAsync")]),
    ("cuLaunchHostFunc", &[(13_010, "cuLaunchHostFunc_v2"), (10_000, "cuLaunchHostFunc")]),
    ("cuStreamGetCtx", &[(12_050, "cuStreamGetCtx_v2"), (9_020, "cuStreamGetCtx")]),
    ("cuGetProcAddress", &[(12_000, "cuGetProcAddress_v2"), (11_030, "cuGetProcAddress")]),
    ("cuStreamBeginCapture", &[(10_010, "cuStreamBeginCapture_v2"), (10_000, "cuStreamBeginCapture")]),
    (
        "cuStreamGetCaptureInfo",
        &[
            (12_030, "cuStreamGetCaptureInfo_v3"),
            (11_030, "cuStreamGetCaptureInfo_v2"),
            (10_010, "cuStreamGetCaptureInfo"),
        ],
    ),
    (
        "cuStreamUpdateCaptureDependencies",
        &[(12_030, "cuStreamUpdateCaptureDependencies_v2"), (11_030, "cuStreamUpdateCaptureDependencies")],
    ),
    ("cuGraphInstantiate", &[(12_000, "cuGraphInstantiateWithFlags"), (10_000, "cuGraphInstantiate_v2")]),
    ("cuGraphExecUpdate", &[(12_000, "cuGraphExecUpdate_v2"), (10_020, "cuGraphExecUpdate")]),
    ("cuGraphAddKernelNode", &[(12_000, "cuGraphAddKernelNode_v2"), (10_000, "cuGraphAddKernelNode")]),
    (
        "cuGraphKernelNodeGetParams",
        &[(12_000, "cuGraphKernelNodeGetParams_v2"), (10_000, "cuGraphKernelNodeGetParams")],
    ),
    (
        "cuGraphKernelNodeSetParams",
        &[(12_000, "cuGraphKernelNodeSetParams_v2"), (10_000, "cuGraphKernelNodeSetParams")],
    ),
    (
        "cuGraphExecKernelNodeSetParams",
        &[(12_000, "cuGraphExecKernelNodeSetParams_v2"), (10_010, "cuGraphExecKernelNodeSetParams")],
    ),
    (
        "cuGraphAddNode",
        &[(13_040, "cuGraphAddNode_v3"), (12_030, "cuGraphAddNode_v2"), (12_020, "cuGraphAddNode")],
    ),
    ("cuGraphGetEdges", &[(12_030, "cuGraphGetEdges_v2"), (10_000, "cuGraphGetEdges")]),
    (
        "cuGraphNodeGetDependencies",
        &[(12_030, "cuGraphNodeGetDependencies_v2"), (10_000, "cuGraphNodeGetDependencies")],
    ),
    (
        "cuGraphNodeGetDependentNodes",
        &[(12_030, "cuGraphNodeGetDependentNodes_v2"), (10_000, "cuGraphNodeGetDependentNodes")],
    ),
    ("cuGraphAddDependencies", &[(12_030, "cuGraphAddDependencies_v2"), (10_000, "cuGraphAddDependencies")]),
    (
        "cuGraphRemoveDependencies",
        &[(12_030, "cuGraphRemoveDependencies_v2"), (10_000, "cuGraphRemoveDependencies")],
    ),
];

fn exact(name: &str) -> Option<*const c_void> {
    served(name).or_else(|| stub(name))
}

/// A function that is not supported; it reports its name once.
fn stub(name: &str) -> Option<*const c_void> {
    unserved::driver_stub(name).or_else(|| unserved::runtime_stub(name))
}

fn served(name: &str) -> Option<*const c_void> {
    [
        device_function,
        memory_function,
        module_function,
        launch_function,
        stream_function,
        graph_function,
        tensor_map_function,
        error_function,
        entry_point_function,
        crate::cute_dsl::cute_dsl_function,
        crate::registration::channel_function,
    ]
    .iter()
    .find_map(|find| find(name))
}

/// The function with a given name, in the form of a version.
fn find(name: &str, version: c_int) -> Option<*const c_void> {
    if let Some((_, forms)) = SINCE.iter().find(|(known, _)| *known == name) {
        return forms.iter().find(|(since, _)| *since <= version).and_then(|(_, form)| exact(form));
    }
    // For other functions, every newer form has the parameters that today's headers give the plain name.
    let names = ["_v2", ""].map(|suffix| format!("{name}{suffix}"));
    names.iter().find_map(|name| served(name)).or_else(|| names.iter().find_map(|name| stub(name)))
}

fn proc_address(symbol: Text, function: Out<u64>, version: c_int, found: Out<c_int>) -> Answer {
    let address = find(&symbol.text()?, version);
    // 0: found; 1: not found.
    found.set_if(c_int::from(address.is_none()));
    function.set(address.map_or(0, |at| at as u64))?;
    if address.is_some() { Ok(()) } else { Err(Status::NOT_FOUND) }
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
    entry_point_function;

    fn cuGetProcAddress(symbol: Text, function: Out<u64>, version: c_int, _flags: u64) {
        proc_address(symbol, function, version, Out::none())
    }
    fn cuGetProcAddress_v2(symbol: Text, function: Out<u64>, version: c_int, _flags: u64, found: Out<c_int>) {
        proc_address(symbol, function, version, found)
    }
    fn cudaGetDriverEntryPoint | cudaGetDriverEntryPoint_ptsz(symbol: Text, function: Out<u64>, _flags: u64, found: Out<c_int>) {
        entry_point(symbol, function, if runtime_is_12() { 12_000 } else { VERSION }, found)
    }
    fn cudaGetDriverEntryPointByVersion | cudaGetDriverEntryPointByVersion_ptsz(
        symbol: Text, function: Out<u64>, version: u32, _flags: u64, found: Out<c_int>,
    ) { entry_point(symbol, function, version as c_int, found) }
    fn cuGetExportTable(_table: u64, id: In<[u8; 16]>) {
        // Other libraries, such as NVRTC, ask for tables too, and do without them.
        if id.get()? != RUNTIME_TABLE {
            return Err(Status::INVALID_VALUE);
        }
        device()?.miss("cuGetExportTable: a statically linked CUDA runtime is not supported; link with `nvcc -cudart shared`");
        Err(Status::NOT_SUPPORTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_form_of_the_version() {
        let at = |name, version| find(name, version);
        let info = ["cuStreamGetCaptureInfo_v3", "cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo"];
        for (version, name) in [13_000, 12_000, 11_000].into_iter().zip(info) {
            assert_eq!(at("cuStreamGetCaptureInfo", version), exact(name), "{version}");
        }
        assert_eq!(at("cuStreamGetCaptureInfo", 10_000), None);
        assert_eq!(at("cuMemAlloc", 13_000), exact("cuMemAlloc_v2"));
        let create = ["cuCtxCreate_v4", "cuCtxCreate_v3", "cuCtxCreate_v2"];
        for (version, name) in [12_050, 12_040, 11_000].into_iter().zip(create) {
            assert_eq!(at("cuCtxCreate", version), served(name), "{version}");
        }
        // A served form is preferred to a newer form that is not supported.
        for name in ["cuCtxSynchronize", "cuCtxGetDevice", "cuLaunchHostFunc", "cuMemPrefetchAsync"] {
            assert!(
                [12_000, 13_000]
                    .iter()
                    .all(|version| at(name, *version).is_some_and(|at| Some(at) != stub(name)))
            );
            assert!(served(name).is_some(), "{name}");
        }
        assert!(at("cuGraphLaunch", 12_000).is_some() && at("cuNoSuchFunction", 13_000).is_none());
        for (name, forms) in SINCE {
            assert!(forms.iter().all(|(_, form)| exact(form).is_some()), "{name}");
        }
    }
}
