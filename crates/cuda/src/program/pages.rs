//! The allocator for large blocks: pages that cost nothing until they are written, regardless of how much memory the system would commit.
//! A device with 128 GB thus runs on a machine with 16 GB.
#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;

use rustix::fs::{Mode, OFlags, ftruncate, open};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Blocks of at least this size are mapped.
const LARGE: usize = 64 << 20;

/// The system allocator, except for large blocks.
struct Pages;

#[global_allocator]
static PAGES: Pages = Pages;

/// Maps zeroed memory; from an unnamed file if the system accounts for all committed memory (overcommit mode 2).
fn map(len: usize) -> *mut u8 {
    let (prot, none) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
    // SAFETY: a new mapping at an address chosen by the system.
    let mapped = unsafe { mmap_anonymous(none, len, prot, MapFlags::PRIVATE | MapFlags::NORESERVE) };
    mapped.ok().or_else(|| map_file(len)).map_or(none.cast(), <*mut c_void>::cast)
}

/// Maps zeros from an unnamed sparse file.
fn map_file(len: usize) -> Option<*mut c_void> {
    [c"/var/tmp", c"/tmp"].into_iter().find_map(|folder| {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = open(folder, flags, Mode::RUSR | Mode::WUSR).ok()?;
        ftruncate(&file, len as u64).ok()?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the system; the file is not shared.
        unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, &file, 0) }.ok()
    })
}

// SAFETY: the size of a block determines, at allocation and at deallocation, whether it is a mapping or comes from the system allocator;
// mappings are page-aligned, which exceeds any alignment used here.
unsafe impl GlobalAlloc for Pages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        if layout.size() < LARGE { unsafe { System.alloc(layout) } } else { map(layout.size()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        if layout.size() < LARGE { unsafe { System.alloc_zeroed(layout) } } else { map(layout.size()) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if layout.size() < LARGE {
            // SAFETY: as promised by the caller.
            unsafe { System.dealloc(at, layout) }
        } else {
            // SAFETY: `map` created it with this size, and the caller no longer uses it.
            let _ = unsafe { munmap(at.cast::<c_void>(), layout.size()) };
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() < LARGE && size < LARGE {
            // SAFETY: as promised by the caller.
            return unsafe { System.realloc(at, layout, size) };
        }
        // SAFETY: the caller promises that the size fits the alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: as above.
        let to = unsafe { self.alloc(new) };
        if !to.is_null() {
            // SAFETY: both blocks have that many bytes, and they are distinct.
            unsafe { std::ptr::copy_nonoverlapping(at, to, layout.size().min(size)) };
            // SAFETY: as promised by the caller.
            unsafe { self.dealloc(at, layout) };
        }
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pieces_are_zeros_that_cost_nothing() {
        let len = 1 << 36;
        let file = map_file(len).map(|at| (at, len));
        for (at, len) in [(map(len).cast(), len)].into_iter().chain(file) {
            assert!(!at.is_null());
            let bytes: *mut u8 = at.cast();
            // SAFETY: the mapping has that many bytes.
            unsafe {
                assert_eq!(bytes.add(len - 1).read(), 0);
                bytes.add(len - 1).write(7);
                assert_eq!((bytes.read(), bytes.add(len - 1).read()), (0, 7));
                munmap(at, len).unwrap();
            }
        }
    }
}
