//! Where large pieces of memory come from: pages that cost nothing until they are written, whatever the system would grant of memory that
//! it promises. A device of 128 GB runs on a machine of 16.
#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;

use rustix::fs::{Mode, OFlags, ftruncate, open};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Pieces from this size on are mapped.
const LARGE: usize = 64 << 20;

/// The system's allocator, but for large pieces.
struct Pages;

#[global_allocator]
static PAGES: Pages = Pages;

/// Zeros of the system; from a file that has no name where it keeps account of all memory that is promised (overcommit mode 2).
fn map(len: usize) -> *mut u8 {
    let (prot, none) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
    // SAFETY: a new mapping, at no place in particular.
    let mapped = unsafe { mmap_anonymous(none, len, prot, MapFlags::PRIVATE | MapFlags::NORESERVE) };
    mapped.ok().or_else(|| map_file(len)).map_or(none.cast(), <*mut c_void>::cast)
}

/// Zeros of a file that has no name and that takes no place where nobody writes.
fn map_file(len: usize) -> Option<*mut c_void> {
    [c"/var/tmp", c"/tmp"].into_iter().find_map(|folder| {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = open(folder, flags, Mode::RUSR | Mode::WUSR).ok()?;
        ftruncate(&file, len as u64).ok()?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at no place in particular; nobody else knows the file.
        unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, &file, 0) }.ok()
    })
}

// SAFETY: pieces are mappings of their own or the system allocator's, as their size says at both ends of their life; mappings begin at pages,
// which is more than any alignment here.
unsafe impl GlobalAlloc for Pages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if layout.size() < LARGE { unsafe { System.alloc(layout) } } else { map(layout.size()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if layout.size() < LARGE { unsafe { System.alloc_zeroed(layout) } } else { map(layout.size()) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if layout.size() < LARGE {
            // SAFETY: the caller's promise.
            unsafe { System.dealloc(at, layout) }
        } else {
            // SAFETY: `map` made it with this size, and the caller is done with it.
            let _ = unsafe { munmap(at.cast::<c_void>(), layout.size()) };
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() < LARGE && size < LARGE {
            // SAFETY: the caller's promise.
            return unsafe { System.realloc(at, layout, size) };
        }
        // SAFETY: the caller promises that the size fits the alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: as above.
        let to = unsafe { self.alloc(new) };
        if !to.is_null() {
            // SAFETY: both pieces have that many bytes, and the new one is another.
            unsafe { std::ptr::copy_nonoverlapping(at, to, layout.size().min(size)) };
            // SAFETY: the caller's promise.
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
