//! Entry points of the driver's linker. Options are ignored: there is no code to generate, and problems are in the report.
#![expect(unsafe_code, reason = "exported names")]

use std::ffi::c_int;

use crate::api::jit_options::JitOptions;
use crate::api::table::entry_points;
use crate::device::links::InputKind;
use crate::device::state::device;
use crate::program::pointers::{In, Out, Text, host_bytes};
use crate::status::{Answer, Status};

/// The kind of a `CUjitInputType`.
fn kind_of(number: c_int) -> Result<InputKind, Status> {
    match number {
        1 => Ok(InputKind::Ptx),
        0 | 2..=4 => Ok(InputKind::Other),
        // NVVM IR, which needs a compiler.
        5 => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Adds an input; what is wrong with it is reported.
fn add(link: u64, kind: InputKind, name: &str, bytes: Vec<u8>) -> Answer {
    let mut device = device()?;
    let gpu = device.gpu;
    let added = device.links.add(link, kind, name, bytes, gpu);
    added.map_err(|(status, why)| {
        why.into_iter().for_each(|why| device.results.unchecked(why));
        status
    })
}

entry_points! {
    LINK, LINK_CALLS;

    [cuLinkCreate: (Current, zeros INVALID_VALUE, since 5_050)]
    [cuLinkCreate_v2: (Current, zeros INVALID_VALUE, since 6_050)]
    fn (count: u32, names: In<u32>, values: u64, link: Out<u64>) {
        if link.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        JitOptions::new(count, names, values).log(None);
        let made = device()?.links.begin();
        link.set(made)
    }
    [cuLinkAddData: (Current, zeros INVALID_HANDLE, since 5_050)]
    [cuLinkAddData_v2: (Current, zeros INVALID_HANDLE, since 6_050)]
    fn (link: u64, input: c_int, data: u64, len: usize, name: Text, count: u32, names: In<u32>, values: u64) {
        if link == 0 {
            return Err(Status::INVALID_HANDLE);
        }
        JitOptions::new(count, names, values).log(None);
        let name = name.text().unwrap_or_else(|_| "an input without a name".to_owned());
        add(link, kind_of(input)?, &name, host_bytes(data, len)?.to_vec())
    }
    [cuLinkAddFile: (Current, zeros INVALID_HANDLE, since 5_050)]
    [cuLinkAddFile_v2: (Current, zeros INVALID_HANDLE, since 6_050)]
    fn (link: u64, input: c_int, path: Text, count: u32, names: In<u32>, values: u64) {
        if link == 0 {
            return Err(Status::INVALID_HANDLE);
        }
        JitOptions::new(count, names, values).log(None);
        let path = path.text()?;
        let bytes = std::fs::read(&path).map_err(|_| Status::FILE_NOT_FOUND)?;
        add(link, kind_of(input)?, &path, bytes)
    }
    [cuLinkComplete: (Current, zeros INVALID_HANDLE, since 5_050)]
    fn (link: u64, image: Out<u64>, len: Out<usize>) {
        if link == 0 {
            return Err(Status::INVALID_HANDLE);
        }
        let mut device = device()?;
        let (address, size) = device.links.complete(link).map_err(|(status, why)| {
            why.into_iter().for_each(|why| device.results.unchecked(why));
            status
        })?;
        len.set_if(size);
        image.set(address)
    }
    [cuLinkDestroy: (Init, zeros INVALID_HANDLE, since 5_050)]
    fn (link: u64) { device()?.links.end(link) }
}
