//! Programs that reserve addresses, map physical memory to them, and use what is mapped, and what is not.

use std::ffi::{c_int, c_void};

use crate::api::{ADD, Api, call};

const PIECE: usize = 2 << 20;

/// `CUmemAllocationProp` for pinned memory of the first GPU.
const PROPERTIES: [u32; 8] = [1, 0, 1, 0, 0, 0, 0, 0];

/// `CUmemAccessDesc`: reading and writing by the first GPU.
const READ_WRITE: [u32; 3] = [1, 0, 3];

/// A program's virtual memory.
struct Memory<'a>(&'a Api);

impl Memory<'_> {
    fn reserve(&self, bytes: usize) -> u64 {
        let mut at = 0u64;
        let code = call!(self.0, "cuMemAddressReserve", &raw mut at => *mut u64, bytes => usize, 0 => usize, 0 => u64, 0 => u64);
        assert_eq!(code, 0);
        at
    }

    fn create(&self, bytes: usize) -> u64 {
        let (mut handle, of) = (0u64, PROPERTIES.as_ptr());
        let code = call!(self.0, "cuMemCreate", &raw mut handle => *mut u64, bytes => usize, of => *const u32, 0 => u64);
        assert_eq!(code, 0);
        handle
    }

    fn map(&self, at: u64, bytes: usize, handle: u64) -> c_int {
        call!(self.0, "cuMemMap", at => u64, bytes => usize, 0 => usize, handle => u64, 0 => u64)
    }

    fn unmap(&self, at: u64, bytes: usize) -> c_int {
        call!(self.0, "cuMemUnmap", at => u64, bytes => usize)
    }

    fn release(&self, handle: u64) -> c_int {
        call!(self.0, "cuMemRelease", handle => u64)
    }

    fn allow(&self, at: u64, bytes: usize, access: &[u32; 3]) -> c_int {
        call!(self.0, "cuMemSetAccess", at => u64, bytes => usize, access.as_ptr() => *const u32, 1 => usize)
    }

    fn free(&self, at: u64, bytes: usize) -> c_int {
        call!(self.0, "cuMemAddressFree", at => u64, bytes => usize)
    }

    fn access(&self, at: u64) -> (c_int, u64) {
        let (mut flags, place) = (9u64, [1u32, 0]);
        let code = call!(self.0, "cuMemGetAccess", &raw mut flags => *mut u64, place.as_ptr() => *const u32, at => u64);
        (code, flags)
    }
}

/// Copies 64 bytes to shared memory and back, by bulk copies.
const BULK: &str = "
.version 8.7
.target sm_120
.address_size 64
.visible .entry bulk(.param .u64 from, .param .u64 to)
{
    .reg .b64 a, b, state; .reg .pred done;
    .shared .align 128 .b8 bytes[64];
    .shared .align 8 .b64 barrier;
    ld.param.u64 a, [from];
    ld.param.u64 b, [to];
    mbarrier.init.shared::cta.b64 [barrier], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 state, [barrier], 64;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [bytes], [a], 64, [barrier];
$wait:
    mbarrier.try_wait.shared::cta.b64 done, [barrier], state;
    @!done bra $wait;
    cp.async.bulk.global.shared::cta.bulk_group [b], [bytes], 64;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ret;
}";

fn add(api: &Api, kernel: u64, at: u64) -> c_int {
    let value = 1u32;
    api.launch(kernel, 4, 0, &[(&raw const at).cast::<c_void>(), (&raw const value).cast()])
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_virtual_memory() {
    let api = Api::open("libcuda.so.1");
    let kernel = api.kernel(api.module(ADD), "add");
    let memory = Memory(&api);
    let (mut granularity, of) = (0usize, PROPERTIES.as_ptr());
    let code = call!(api, "cuMemGetAllocationGranularity", &raw mut granularity => *mut usize, of => *const u32, 0 => c_int);
    assert_eq!((code, granularity), (0, PIECE));

    let at = memory.reserve(4 * PIECE);
    assert!(at.is_multiple_of(PIECE as u64));
    let (first, second) = (memory.create(PIECE), memory.create(PIECE));
    assert_eq!((memory.map(at, PIECE, first), memory.map(at + PIECE as u64, PIECE, second)), (0, 0));
    assert_eq!(memory.access(at), (0, 0));
    assert_eq!((memory.allow(at, 2 * PIECE, &READ_WRITE), memory.access(at + 5)), (0, (0, 3)));
    // Copies and fills across both mappings; kernels on each side.
    let border = at + PIECE as u64 - 16;
    assert_eq!(call!(api, "cuMemsetD32_v2", border => u64, 4 => u32, 8 => usize), 0);
    assert_eq!((add(&api, kernel, border), add(&api, kernel, border + 16)), (0, 0));
    assert_eq!(api.words(border, 8), [5; 8]);
    let copy = api.allocate(32);
    assert_eq!(call!(api, "cuMemcpyDtoD_v2", copy => u64, border => u64, 32 => usize), 0);
    assert_eq!(api.words(copy, 8), [5; 8]);
    assert_eq!(call!(api, "cuMemFree_v2", copy => u64), 0);
    let bulk = api.kernel(api.module(BULK), "bulk");
    let [inside, across, behind] = [at + 256, at + PIECE as u64 - 32, at + PIECE as u64 + 1024];
    let pattern: Vec<u32> = (100..116).collect();
    let host = pattern.as_ptr() as u64;
    assert_eq!(call!(api, "cuMemcpyHtoD_v2", inside => u64, host => u64, 64 => usize), 0);
    for (from, to) in [(inside, across), (across, behind)] {
        assert_eq!(api.launch(bulk, 1, 0, &[(&raw const from).cast::<c_void>(), (&raw const to).cast()]), 0);
        assert_eq!(api.words(to, 16), pattern);
    }
    assert_eq!(call!(api, "cuMemsetD32_v2", across => u64, 5 => u32, 16 => usize), 0);

    // A mapping knows its memory, and the memory outlives its mapping and its first handle.
    let (mut kept, mut properties, mut kind) = (0u64, [0u32; 8], 0u32);
    assert_eq!(call!(api, "cuMemRetainAllocationHandle", &raw mut kept => *mut u64, at + 64 => u64), 0);
    assert_eq!(kept, first);
    let code = call!(
        api, "cuMemGetAllocationPropertiesFromHandle", properties.as_mut_ptr() => *mut u32, first => u64,
    );
    assert_eq!((code, properties), (0, PROPERTIES));
    assert_eq!(call!(api, "cuPointerGetAttribute", &raw mut kind => *mut u32, 2 => c_int, at => u64), 0);
    assert_eq!(kind, 2);
    assert_eq!((memory.release(first), memory.unmap(at, PIECE)), (0, 0));
    let elsewhere = at + 3 * PIECE as u64;
    assert_eq!(memory.map(elsewhere, PIECE, first), 0);
    assert_eq!(memory.allow(elsewhere, PIECE, &READ_WRITE), 0);
    assert_eq!(api.words(elsewhere + PIECE as u64 - 16, 4), [5; 4]);

    // Wrong calls.
    for (name, code) in [
        (
            "an odd size",
            call!(api, "cuMemAddressReserve", &raw mut kept => *mut u64, 4096 => usize, 0 => usize, 0 => u64, 0 => u64),
        ),
        ("mapped already", memory.map(elsewhere, PIECE, second)),
        ("not reserved", memory.map(elsewhere + PIECE as u64, PIECE, second)),
        ("too large", memory.map(at, 2 * PIECE, first)),
        ("no memory", memory.map(at, PIECE, 77)),
        ("not mapped", memory.unmap(at, PIECE)),
        ("a part", memory.unmap(elsewhere, PIECE / 2)),
        ("access to nothing", memory.allow(at, PIECE, &READ_WRITE)),
        ("free what is mapped", memory.free(at, 4 * PIECE)),
        ("cuMemFree", call!(api, "cuMemFree_v2", elsewhere => u64)),
        ("no handle", memory.release(0)),
    ] {
        assert_eq!(code, 1, "{name}");
    }
    let mut more = 0u64;
    let code = call!(api, "cuMemCreate", &raw mut more => *mut u64, 1 << 50 => usize, PROPERTIES.as_ptr() => *const u32, 0 => u64);
    assert_eq!(code, 2);

    assert_eq!((memory.unmap(at + PIECE as u64, PIECE), memory.unmap(elsewhere, PIECE)), (0, 0));
    assert_eq!((memory.release(first), memory.release(second), memory.release(second)), (0, 0, 1));
    assert_eq!((memory.free(at, 4 * PIECE), memory.free(at, 4 * PIECE)), (0, 1));
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_uses_what_is_not_mapped() {
    let api = Api::open("libcuda.so.1");
    let [reserved, barred] = ["reserved", "barred"].map(|name| {
        let module = api.module(&ADD.replace(".entry add", &format!(".entry {name}")));
        api.kernel(module, name)
    });
    let memory = Memory(&api);
    let at = memory.reserve(2 * PIECE);
    let mut word = 0u32;
    let to = (&raw mut word) as u64;
    // Reserved; mapped without access; with access; freed. With --keep-going, launches go on.
    let read = || call!(api, "cuMemcpyDtoH_v2", to => u64, at => u64, 4 => usize);
    assert_eq!((add(&api, reserved, at), read()), (0, 1));
    let handle = memory.create(PIECE);
    assert_eq!(memory.map(at, PIECE, handle), 0);
    let fill = || call!(api, "cuMemsetD32_v2", at => u64, 4 => u32, 4 => usize);
    assert_eq!((add(&api, barred, at), fill()), (0, 1));
    assert_eq!(memory.allow(at, PIECE, &READ_WRITE), 0);
    assert_eq!((fill(), add(&api, barred, at), read()), (0, 0, 0));
    assert_eq!(word, 5);
    let (past, bulk) = (at + PIECE as u64 - 32, api.kernel(api.module(BULK), "bulk"));
    assert_eq!(api.launch(bulk, 1, 0, &[(&raw const past).cast::<c_void>(), (&raw const at).cast()]), 0);
    // Its neighbour is not mapped.
    let border = at + PIECE as u64 - 4;
    assert_eq!(call!(api, "cuMemsetD16_v2", border => u64, 4 => u16, 4 => usize), 1);
    assert_eq!(memory.allow(at, PIECE, &[1, 0, 0]), 0);
    assert_eq!((fill(), memory.unmap(at, PIECE), memory.release(handle)), (1, 0, 0));
    assert_eq!(memory.free(at, 2 * PIECE), 0);
    assert_eq!(call!(api, "cuMemcpy", to => u64, at => u64, 4 => usize), 1);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_asks_for_what_is_not_served() {
    const UNSUPPORTED: c_int = 801;
    let api = Api::open("libcuda.so.1");
    api.enter();
    let memory = Memory(&api);
    let (at, handle) = (memory.reserve(2 * PIECE), memory.create(PIECE));
    assert_eq!(
        (memory.map(at, PIECE, handle), memory.map(at + PIECE as u64, PIECE, handle)),
        (0, UNSUPPORTED)
    );
    assert_eq!(memory.allow(at, PIECE, &[1, 0, 1]), UNSUPPORTED);
    let mut place = [0u64; 8];
    let to = place.as_mut_ptr();
    assert_eq!(
        call!(api, "cuMemExportToShareableHandle", to => *mut u64, handle => u64, 1 => c_int, 0 => u64),
        UNSUPPORTED
    );
    let shared = [1u32, 1, 1, 0, 0, 0, 0, 0];
    let code =
        call!(api, "cuMemCreate", to => *mut u64, PIECE => usize, shared.as_ptr() => *const u32, 0 => u64);
    assert_eq!(code, UNSUPPORTED);
    assert_eq!(call!(api, "cuIpcGetMemHandle", to => *mut u64, at => u64), UNSUPPORTED);
    assert_eq!((memory.unmap(at, PIECE), memory.release(handle), memory.free(at, 2 * PIECE)), (0, 0, 0));
}
