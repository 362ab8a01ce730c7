//! Writes a jump over the beginning of a function.
#![expect(unsafe_code, reason = "code of the process")]

use std::ffi::c_void;
use std::io;

use rustix::mm::{MprotectFlags, mprotect};
use rustix::param::page_size;

/// The length of a jump to any address, in bytes.
#[cfg(target_arch = "x86_64")]
const JUMP: usize = 12;
#[cfg(target_arch = "aarch64")]
const JUMP: usize = 16;

/// The instructions that go on at an address. They change a register that no caller relies on across a call and that holds no argument.
#[cfg(target_arch = "x86_64")]
fn jump_to(target: u64) -> [u8; JUMP] {
    // mov rax, target; jmp rax
    let mut code = [0x48, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xE0];
    code[2..10].copy_from_slice(&target.to_le_bytes());
    code
}

#[cfg(target_arch = "aarch64")]
fn jump_to(target: u64) -> [u8; JUMP] {
    // ldr x16, 8 bytes ahead; br x16
    let mut code = [0x50, 0x00, 0x00, 0x58, 0x00, 0x02, 0x1F, 0xD6, 0, 0, 0, 0, 0, 0, 0, 0];
    code[8..].copy_from_slice(&target.to_le_bytes());
    code
}

/// Whether a function is long enough for the jump. A shorter one forwards to another function, or returns a constant.
pub(super) const fn is_replaceable(size: u64) -> bool {
    size >= JUMP as u64
}

/// Writes jumps over functions: pairs of the address of a function and that of the code to run instead.
///
/// # Errors
/// The error of the system if it does not let a program change its code; what was written before stays.
///
/// # Safety
/// Each first address is that of a function of at least [`is_replaceable`] bytes in a mapped segment of code, which no thread runs; each
/// second one is a function with the same parameters and result. Where the system forbids pages that are writable and executable, no
/// thread runs any other function on the same pages either.
pub(super) unsafe fn replace(jumps: &[(u64, u64)]) -> io::Result<()> {
    let page = page_size() as u64;
    let end_of = |at: u64| (at + JUMP as u64).next_multiple_of(page);
    let mut jumps = jumps.to_vec();
    jumps.sort_unstable();
    // Functions of one runtime lie close together: a change of protection for a run of pages, not for each function.
    let runs = jumps.chunk_by(|a, b| b.0 <= end_of(a.0));
    for run in runs {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let from = first.0 / page * page;
        let (start, len) = (from as *mut c_void, (end_of(last.0) - from) as usize);
        // The pages stay executable where the system allows it: another thread may run another function on them meanwhile.
        let writable = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: no function of the run executes now, as the caller promises; the rest of the pages keeps its content.
        unsafe {
            mprotect(start, len, writable | MprotectFlags::EXEC).or_else(|_| mprotect(start, len, writable))
        }?;
        for (at, target) in run {
            // SAFETY: the function has as many bytes, which can be written now.
            unsafe { (*at as *mut [u8; JUMP]).write_unaligned(jump_to(*target)) };
        }
        // SAFETY: as above.
        unsafe { mprotect(start, len, MprotectFlags::READ | MprotectFlags::EXEC) }?;
        #[cfg(target_arch = "aarch64")]
        for (at, _) in run {
            publish(*at);
        }
    }
    Ok(())
}

/// Makes written instructions visible to the fetch of instructions, which this architecture does not do by itself.
#[cfg(target_arch = "aarch64")]
fn publish(at: u64) {
    for word in (at..at + JUMP as u64).step_by(4) {
        // SAFETY: cache maintenance of mapped addresses.
        unsafe {
            std::arch::asm!("dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb", in(reg) word);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

    use super::*;

    /// A function that returns its argument, padded to the length of a jump.
    #[cfg(target_arch = "x86_64")]
    const IDENTITY: [u8; JUMP] = [0x48, 0x89, 0xF8, 0xC3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90];
    #[cfg(target_arch = "aarch64")]
    const IDENTITY: [u8; JUMP] =
        [0xC0, 0x03, 0x5F, 0xD6, 0x1F, 0x20, 0x03, 0xD5, 0x1F, 0x20, 0x03, 0xD5, 0x1F, 0x20, 0x03, 0xD5];

    extern "C" fn instead(n: u64) -> u64 {
        n + 1
    }

    #[test]
    fn a_replaced_function_runs_the_other_one_with_its_arguments() {
        // The function has a page of its own: other tests of this binary run meanwhile, and their code must stay executable.
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new pages, of this test alone.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), page_size(), protection, MapFlags::PRIVATE) }
            .unwrap();
        // SAFETY: the page is longer than the function, and holds nothing else.
        unsafe {
            at.cast::<[u8; JUMP]>().write(IDENTITY);
            mprotect(at, page_size(), MprotectFlags::READ | MprotectFlags::EXEC).unwrap();
        }
        #[cfg(target_arch = "aarch64")]
        publish(at as u64);
        // SAFETY: the bytes are a function of the C ABI that takes an integer and returns it.
        let call: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(at) };
        assert_eq!(std::hint::black_box(call)(41), 41);
        // SAFETY: no other thread knows the function; both have one parameter, and the former has the length of a jump.
        unsafe { replace(&[(at as u64, instead as *const () as u64)]) }.unwrap();
        assert_eq!(std::hint::black_box(call)(41), 42);
        assert!(!is_replaceable(10) && is_replaceable(JUMP as u64));
    }
}
