//! Copies and fills. Addresses determine the direction: each is classified by its window before anything is read or written.
//!
//! An address in the window of device addresses belongs to an allocation or to a variable of a module; if it does not, or if the bytes
//! reach beyond the end, the call returns an error, as on a GPU, and the program has used memory that it does not have: a violation.
//! The same holds for an address outside the window that the call declares to be one of the device. Everything else is memory of the
//! host, as for `memcpy`.
#![expect(unsafe_code, reason = "memory of the program")]

use emulator::Rule;
use emulator::events::ViolationRecord;

use crate::device::allocations::Kind;
use crate::device::contexts;
use crate::device::state::Device;
use crate::device::undefined::UndefinedBytes;
use crate::device::work::{CopyWork, Extent, FillWork, Memory, Side};
use crate::program::caller::called_function;
use crate::program::host_memory;
use crate::program::pointers::{host_bytes, put_host_bytes};
use crate::status::{Answer, Status};

/// Number of bytes filled at a time.
const PIECE: usize = 1 << 20;

/// Addresses below this one are null pointers with an offset.
const LOWEST: u64 = 1 << 16;

/// Who has the bytes at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    /// The emulator alone.
    Device,
    /// The process.
    Host,
}

/// Which bytes a call uses, and what for.
#[derive(Debug, Clone, Copy)]
struct Span {
    address: u64,
    len: usize,
    /// What the call says about the address.
    memory: Memory,
    /// What the call does with them.
    does: &'static str,
}

impl Device {
    /// Classifies the bytes of a call.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`] if they are not there; it is reported as a violation.
    fn home(&mut self, span: Span) -> Result<Home, Status> {
        let Span { address, len, memory, .. } = span;
        let end = address.checked_add(len as u64);
        let inside = |base: u64, held: usize| end.is_some_and(|end| end <= base + held as u64);
        match self.around(address) {
            // A copy may go on behind what the program has registered.
            Some((_, a)) if a.kind == Kind::Registered => return Ok(Home::Host),
            Some((base, a)) if inside(base, a.len) => {
                // Other memory of another GPU may be copied without peer access: the driver stages it.
                let is_mapped = a.kind == Kind::Mapped;
                if let Some(why) = self.no_access(contexts::current_gpu(), base, &a).filter(|_| is_mapped) {
                    let what = format!("{len} bytes at {address:#x} lie in {why}");
                    return Err(self.misused(span, Rule::OutOfBounds, &what));
                }
                return Ok(if a.kind.on_host() { Home::Host } else { Home::Device });
            }
            _ => {}
        }
        if host_memory::is_in_window(address) || self.around(address).is_some() {
            return match self.memory.fault_at(address, len) {
                // A variable of a module.
                None => Ok(Home::Device),
                Some((rule, what)) => Err(self.misused(span, rule, &what)),
            };
        }
        let what = match (memory, end) {
            (_, None) => format!("{len} bytes at {address:#x} go beyond the end of the address space"),
            (_, Some(_)) if address < LOWEST => format!("{len} bytes at {address:#x}, a null pointer"),
            (Memory::Device, Some(_)) => {
                format!("{len} bytes at {address:#x}, which the call says is device memory, and is not")
            }
            (Memory::Any, Some(_)) if host_memory::has_window() => return Ok(Home::Host),
            // Without a window, only what was freed is known to be of the device.
            (Memory::Any, Some(_)) => match self.memory.fault_at(address, len) {
                Some((Rule::UseAfterFree, what)) => {
                    return Err(self.misused(span, Rule::UseAfterFree, &what));
                }
                _ => return Ok(Home::Host),
            },
        };
        Err(self.misused(span, Rule::OutOfBounds, &what))
    }

    /// The number of bytes of a range up to the end of a mapping that another one follows.
    fn piece(&self, address: u64, len: usize) -> usize {
        match self.around(address) {
            Some((base, a)) if a.kind == Kind::Mapped => {
                let end = base + a.len as u64;
                let goes_on = self.allocations.get(&end).is_some_and(|next| next.kind == Kind::Mapped);
                if goes_on { len.min((end - address) as usize) } else { len }
            }
            _ => len,
        }
    }

    /// Reports that a call of the program uses memory that is not there.
    fn misused(&mut self, span: Span, rule: Rule, what: &str) -> Status {
        let record = ViolationRecord::of_call(
            called_function(),
            rule,
            format!("it {} memory that is not there: {what}", span.does),
        );
        self.results.violated(vec![record]);
        Status::INVALID_VALUE
    }

    /// Copies bytes between any two addresses; adds undefined bytes that reach the host.
    ///
    /// # Safety
    /// What is not device memory is memory of the program, and stays there meanwhile.
    unsafe fn copy(
        &mut self,
        to: (u64, Memory),
        from: (u64, Memory),
        len: usize,
        undefined: &mut UndefinedBytes,
    ) -> Answer {
        let mut done = 0;
        while done < len {
            let at = |(address, memory): (u64, Memory)| (address.wrapping_add(done as u64), memory);
            let (to, from) = (at(to), at(from));
            let piece = self.piece(to.0, len - done).min(self.piece(from.0, len - done));
            // SAFETY: as promised by the caller.
            unsafe { self.copy_piece(to, from, piece, undefined)? };
            done += piece;
        }
        Ok(())
    }

    /// Copies bytes of which none lie in two mappings.
    ///
    /// # Safety
    /// As [`Device::copy`].
    unsafe fn copy_piece(
        &mut self,
        to: (u64, Memory),
        from: (u64, Memory),
        len: usize,
        undefined: &mut UndefinedBytes,
    ) -> Answer {
        let source = self.home(Span { address: from.0, len, memory: from.1, does: "reads" })?;
        let target = self.home(Span { address: to.0, len, memory: to.1, does: "writes" })?;
        let ((to, _), (from, _)) = (to, from);
        self.note_copy(to, from, source);
        match (target, source) {
            (Home::Device, Home::Device) if self.memory.copy(to, from, len) => Ok(()),
            (Home::Device, Home::Device) => Err(Status::INVALID_VALUE),
            // SAFETY: `home` found no device memory there, so it is the program's, as promised by the caller.
            (Home::Device, Home::Host) => self.put(to, unsafe { host_bytes(from, len) }?),
            (Home::Host, Home::Device) => {
                undefined.add(&self.memory, from, len);
                let bytes = self.memory.range(from, len).ok_or(Status::INVALID_VALUE)?;
                // SAFETY: as above.
                unsafe { put_host_bytes(to, bytes) }
            }
            // SAFETY: as above.
            (Home::Host, Home::Host) => unsafe { put_host_bytes(to, host_bytes(from, len)?) },
        }
    }

    /// Reads memory of the device for a function of a library that computes on the host. Bytes whose offsets it uses, and that are undefined,
    /// are a violation; `name` is the operand that they belong to.
    ///
    /// # Safety
    /// As [`Device::copy_box`].
    pub(crate) unsafe fn read_operand(
        &mut self,
        address: u64,
        len: usize,
        name: &str,
        is_used: impl Fn(usize) -> bool,
    ) -> Result<Vec<u8>, Status> {
        self.healthy()?;
        let (mut bytes, mut undefined) = (Vec::new(), UndefinedBytes::default());
        while bytes.len() < len {
            let (done, at) = (bytes.len(), address.wrapping_add(bytes.len() as u64));
            let piece = self.piece(at, len - done);
            let home = self.home(Span { address: at, len: piece, memory: Memory::Device, does: "reads" })?;
            self.note_read(at);
            undefined.add_used(&self.memory, at, piece, |offset| is_used(done + offset));
            bytes.extend_from_slice(match home {
                Home::Device => self.memory.range(at, piece).ok_or(Status::INVALID_VALUE)?,
                // SAFETY: `home` found memory of the program there, as promised by the caller.
                Home::Host => unsafe { host_bytes(at, piece) }?,
            });
        }
        self.report_used(undefined, name);
        Ok(bytes)
    }

    /// Writes a result of a function of a library that computes on the host to memory of the device.
    ///
    /// # Safety
    /// As [`Device::copy_box`].
    pub(crate) unsafe fn write_result(&mut self, address: u64, bytes: &[u8]) -> Answer {
        self.healthy()?;
        let mut done = 0;
        while done < bytes.len() {
            let at = address.wrapping_add(done as u64);
            let piece = &bytes[done..done + self.piece(at, bytes.len() - done)];
            let span = Span { address: at, len: piece.len(), memory: Memory::Device, does: "writes" };
            match self.home(span)? {
                Home::Device => self.put(at, piece)?,
                // SAFETY: `home` found memory of the program there, as promised by the caller.
                Home::Host => unsafe { put_host_bytes(at, piece) }?,
            }
            done += piece.len();
        }
        Ok(())
    }

    /// Checks that there is memory that a function of a library is to read or to write.
    pub(crate) fn expect_memory(&mut self, address: u64, len: usize, does: &'static str) -> Answer {
        let mut done = 0;
        while done < len {
            let at = address.wrapping_add(done as u64);
            let piece = self.piece(at, len - done);
            self.home(Span { address: at, len: piece, memory: Memory::Device, does })?;
            done += piece;
        }
        Ok(())
    }

    /// Remembers that an allocation is read.
    fn note_read(&mut self, from: u64) {
        let base = self.around(from).map(|(base, _)| base);
        if let Some(read) = base.and_then(|base| self.allocations.get_mut(&base)) {
            read.copied.read = true;
        }
    }

    /// Remembers who has filled and read allocations.
    fn note_copy(&mut self, to: u64, from: u64, source: Home) {
        self.note_read(from);
        let launches = self.launches;
        let base = self.around(to).map(|(base, _)| base);
        if let Some(filled) = base.and_then(|base| self.allocations.get_mut(&base))
            && source == Home::Host
        {
            filled.copied.filled_after = Some(launches);
        }
    }

    fn put(&mut self, to: u64, bytes: &[u8]) -> Answer {
        if self.memory.write_at(to, bytes) { Ok(()) } else { Err(Status::INVALID_VALUE) }
    }

    /// Copies a box, row by row if there are gaps between rows.
    ///
    /// # Safety
    /// What is not device memory is memory of the program, and stays there meanwhile.
    pub(crate) unsafe fn copy_box(&mut self, work: &CopyWork) -> Answer {
        self.healthy()?;
        let CopyWork { to, from, extent } = *work;
        let mut undefined = UndefinedBytes::default();
        let done = rows(&extent, &[to, from]).into_iter().try_for_each(|(width, y)| {
            let (to, from) = ((place(&to, y), to.memory), (place(&from, y), from.memory));
            // SAFETY: as promised by the caller.
            unsafe { self.copy(to, from, width, &mut undefined) }
        });
        self.report_undefined(undefined);
        done
    }

    /// Fills bytes with a repeated pattern.
    ///
    /// # Safety
    /// As [`Device::copy_box`].
    unsafe fn fill(&mut self, to: u64, memory: Memory, pattern: &[u8], len: usize) -> Answer {
        let mut done = 0;
        while done < len {
            let at = to.wrapping_add(done as u64);
            let piece = self.piece(at, len - done);
            // SAFETY: as promised by the caller.
            unsafe { self.fill_piece(at, memory, pattern, piece)? };
            done += piece;
        }
        Ok(())
    }

    /// Fills bytes of which none lie in two mappings.
    ///
    /// # Safety
    /// As [`Device::copy_box`].
    unsafe fn fill_piece(&mut self, to: u64, memory: Memory, pattern: &[u8], len: usize) -> Answer {
        let home = self.home(Span { address: to, len, memory, does: "fills" })?;
        let piece = pattern.repeat((PIECE / pattern.len().max(1)).min(len.div_ceil(pattern.len().max(1))));
        for at in (0..len).step_by(piece.len().max(1)) {
            let bytes = &piece[..piece.len().min(len - at)];
            match home {
                Home::Device => self.put(to + at as u64, bytes)?,
                // SAFETY: `home` found no device memory there, so it is the program's, as promised by the caller.
                Home::Host => unsafe { put_host_bytes(to + at as u64, bytes)? },
            }
        }
        Ok(())
    }

    /// Fills a box.
    ///
    /// # Safety
    /// As [`Device::copy_box`].
    pub(crate) unsafe fn fill_box(&mut self, work: &FillWork) -> Answer {
        self.healthy()?;
        let FillWork { to, value, element, extent } = *work;
        let pattern = &value.to_le_bytes()[..element];
        for (width, y) in rows(&extent, &[to]) {
            // SAFETY: as promised by the caller.
            unsafe { self.fill(place(&to, y), to.memory, pattern, width)? };
        }
        Ok(())
    }

    /// Reports that a copy goes beyond the end of a variable.
    pub(crate) fn beyond_variable(&mut self, address: u64, size: usize, offset: usize, len: usize) -> Status {
        let what = format!("{len} bytes from byte {offset} of a variable of {size} bytes");
        let span = Span { address, len, memory: Memory::Device, does: "uses" };
        self.misused(span, Rule::OutOfBounds, &what)
    }
}

/// The address of a row: `(row of the slice, slice)`.
fn place(side: &Side, (row, slice): (usize, usize)) -> u64 {
    let rows = (row as u64).wrapping_mul(side.pitch as u64);
    side.address.wrapping_add((slice as u64).wrapping_mul(side.slice as u64)).wrapping_add(rows)
}

/// The rows of a box with their sizes in bytes; rows that are contiguous on all sides are merged.
fn rows(extent: &Extent, sides: &[Side]) -> Vec<(usize, (usize, usize))> {
    let Extent { width, height, depth } = *extent;
    if width == 0 || height == 0 || depth == 0 {
        return Vec::new();
    }
    if height == 1 && depth == 1 {
        return vec![(width, (0, 0))];
    }
    let dense = sides.iter().all(|s| s.pitch == width);
    let slice = width.saturating_mul(height);
    if dense && depth == 1 {
        return vec![(slice, (0, 0))];
    }
    if dense && sides.iter().all(|s| s.slice == slice) {
        return vec![(slice.saturating_mul(depth), (0, 0))];
    }
    (0..depth).flat_map(|z| (0..height).map(move |y| (width, (y, z)))).collect()
}
