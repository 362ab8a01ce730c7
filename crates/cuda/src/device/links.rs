//! Links that the program makes with the driver (`cuLink…`): inputs by name, and the linked PTX, which the program takes for machine code.

use std::collections::HashMap;

use crate::device::device_code::DeviceCode;
use crate::device::handles::Handle;
use crate::device::separate::Separate;
use crate::status::Status;
use emulator::gpus::Gpu;

/// A link.
#[derive(Debug, Default)]
struct Link {
    inputs: Vec<(String, DeviceCode)>,
    /// The linked text, which ends in NUL. The program has its address.
    image: Box<[u8]>,
}

/// The links of the program.
#[derive(Debug, Default)]
pub(crate) struct Links {
    known: HashMap<u64, Link>,
    made: usize,
}

/// What an input is, as `CUjitInputType` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputKind {
    /// PTX text.
    Ptx,
    /// A cubin, a fatbin, an object of the host or an archive: its own header says which.
    Other,
}

impl Links {
    /// Begins a link.
    pub(crate) fn begin(&mut self) -> u64 {
        let handle = Handle::Link.make(self.made);
        self.made += 1;
        self.known.insert(handle, Link::default());
        handle
    }

    /// Adds an input.
    ///
    /// # Errors
    /// The status, and why, if the input is the problem.
    pub(crate) fn add(
        &mut self,
        link: u64,
        kind: InputKind,
        name: &str,
        bytes: Vec<u8>,
        gpu: &Gpu,
    ) -> Result<(), (Status, Option<String>)> {
        let link = self.known.get_mut(&link).ok_or((Status::INVALID_HANDLE, None))?;
        if kind == InputKind::Ptx {
            let text = String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned();
            if let Err(error) = ptx::parse(&text) {
                return Err((Status::INVALID_PTX, Some(format!("{name} is not PTX: {error}"))));
            }
            let code = DeviceCode { text: Some(text.into()), pieces: 1, ..DeviceCode::default() };
            link.inputs.push((name.to_owned(), code));
            return Ok(());
        }
        for (member, code) in DeviceCode::read_members(name, bytes, gpu) {
            if code.text.is_none() && code.pieces > 0 {
                let what = format!("{member} has no PTX for the GPU, and machine code cannot be linked here");
                return Err((Status::NO_BINARY, Some(what)));
            }
            link.inputs.push((member, code));
        }
        Ok(())
    }

    /// Links the inputs; returns address and size of the result.
    ///
    /// # Errors
    /// As [`Links::add`].
    pub(crate) fn complete(&mut self, link: u64) -> Result<(u64, usize), (Status, Option<String>)> {
        let link = self.known.get_mut(&link).ok_or((Status::INVALID_HANDLE, None))?;
        let inputs = std::mem::take(&mut link.inputs);
        let Separate { text, problem, .. } = Separate::link_named(inputs);
        if let Some(problem) = problem {
            return Err((Status::INVALID_PTX, Some(format!("a link of the program fails: {problem}"))));
        }
        let text = text.ok_or((Status::INVALID_IMAGE, None))?;
        link.image = text.bytes().chain([0]).collect();
        Ok((link.image.as_ptr() as u64, link.image.len()))
    }

    /// The linked text, which ends in NUL; `None` unless the link is complete.
    pub(crate) fn image(&self, link: u64) -> Option<Vec<u8>> {
        self.known.get(&link).map(|link| link.image.to_vec()).filter(|image| !image.is_empty())
    }

    /// Ends a link; its result is gone.
    pub(crate) fn end(&mut self, link: u64) -> Result<(), Status> {
        self.known.remove(&link).map(drop).ok_or(Status::INVALID_HANDLE)
    }
}
