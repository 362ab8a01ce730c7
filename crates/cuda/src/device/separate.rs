//! Separate compilation (`nvcc -rdc=true`): the objects of a program that nvlink has linked to machine code are linked again, as PTX.
//!
//! nvcc keeps the relocatable code of each object in the section `__nv_relfatbin`, and registers a list of them with the linked code. The
//! driver reads that list where it has no machine code for the GPU, and so does this file.

use std::sync::Arc;

use ptx::link::{LinkError, Object, link};

use crate::device::device_code::DeviceCode;
use emulator::gpus::Gpu;

/// A function of the driver that only the device runtime (`libcudadevrt.a`) calls. The emulator has functions of its own for those of that
/// library.
const OF_DEVICE_RUNTIME: &str = "__cuda_syscall_cnpv2GetParameterBufferV2";

/// How the names of the functions of `libcudadevrt.a` begin that find and synchronize a grid, and a file with them.
const OF_GRIDS: &str = "cudaCG";
const GRIDS: &str = include_str!("cooperative_groups.ptx");

/// The PTX of a program's objects.
#[derive(Debug, Default)]
pub(crate) struct Separate {
    /// The linked text; `None` if no object has PTX that the GPU runs.
    pub(crate) text: Option<Arc<str>>,
    /// Why the objects cannot be linked.
    pub(crate) problem: Option<String>,
    /// The objects without such PTX: how messages name each, and what is in it.
    pub(crate) without_ptx: Vec<(String, DeviceCode)>,
}

impl Separate {
    /// Links the objects of a program.
    pub(crate) fn link(objects: Vec<Vec<u8>>, gpu: &Gpu) -> Self {
        let count = objects.len();
        let named = objects.into_iter().enumerate().map(|(n, object)| {
            let code = DeviceCode::read(object, gpu);
            let number = format!("object {} of {count}", n + 1);
            let name = code.source.as_ref().map_or(number.clone(), |source| format!("{number} ({source})"));
            (name, code)
        });
        Self::link_named(named.collect())
    }

    /// Links objects, each with the name by which messages know it.
    pub(crate) fn link_named(objects: Vec<(String, DeviceCode)>) -> Self {
        let mut linked = Self::default();
        let mut texts: Vec<(String, Arc<str>)> = Vec::new();
        for (name, code) in objects {
            match &code.text {
                Some(text) if text.contains(OF_DEVICE_RUNTIME) => {}
                Some(text) => texts.push((name, Arc::clone(text))),
                None if code.pieces == 0 => {}
                None => linked.without_ptx.push((name, code)),
            }
        }
        if texts.is_empty() {
            return linked;
        }
        let mut objects: Vec<Object<'_>> = texts.iter().map(|(name, text)| Object { name, text }).collect();
        if texts.iter().any(|(_, text)| text.contains(OF_GRIDS)) {
            objects.push(Object { name: "libcudadevrt.a", text: GRIDS });
        }
        match link(&objects) {
            Ok(text) => linked.text = Some(text.into()),
            Err(LinkError::Nothing) => {}
            Err(error) => linked.problem = Some(error.to_string()),
        }
        linked
    }
}
