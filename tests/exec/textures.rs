//! Programs with arrays, textures and surfaces.

use std::ffi::{c_int, c_void};

use crate::api::{Api, call};

/// `fetch` reads a texture at (x, y), `scale` doubles each texel of a surface of 4 × 4 in place of another, `outside` writes beside it.
const KERNELS: &str = "
.version 8.7
.target sm_120
.address_size 64
.visible .entry fetch(.param .u64 texture, .param .u64 to, .param .f32 x, .param .f32 y)
{
    .reg .b64 t, p; .reg .f32 f<6>; .reg .b32 w;
    ld.param.u64 t, [texture];
    ld.param.u64 p, [to];
    ld.param.f32 f4, [x];
    ld.param.f32 f5, [y];
    tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [t, {f4, f5}];
    st.global.v4.f32 [p], {f0, f1, f2, f3};
    txq.width.b32 w, [t];
    st.global.u32 [p+16], w;
    ret;
}
.visible .entry scale(.param .u64 from, .param .u64 to)
{
    .reg .b64 a, b; .reg .b32 i, x, y; .reg .f32 f;
    ld.param.u64 a, [from];
    ld.param.u64 b, [to];
    mov.u32 i, %tid.x;
    and.b32 x, i, 3;
    shr.u32 y, i, 2;
    shl.b32 x, x, 2;
    suld.b.2d.b32.trap {f}, [a, {x, y}];
    add.f32 f, f, f;
    sust.b.2d.b32.trap [b, {x, y}], {f};
    ret;
}
.visible .entry outside(.param .u64 from, .param .u64 to)
{
    .reg .b64 b; .reg .b32 x;
    ld.param.u64 b, [to];
    mov.u32 x, %tid.x;
    shl.b32 x, x, 2;
    sust.b.2d.b32.trap [b, {x, 0}], {x};
    ret;
}
.visible .entry again(.param .u64 from, .param .u64 to)
{
    .reg .b64 b; .reg .b32 x;
    ld.param.u64 b, [to];
    sust.b.2d.b32.trap [b, {0, 0}], {1};
    suld.b.2d.b32.trap {x}, [b, {0, 0}];
    sust.b.2d.b32.trap [b, {4, 0}], {x};
    ret;
}";

/// A program with an array of 4 × 4 floats, 0 to 15.
struct Setup {
    api: Api,
    module: u64,
    array: u64,
}

/// `CUDA_RESOURCE_DESC` of an array.
fn of_array(array: u64) -> [u64; 18] {
    let mut words = [0; 18];
    words[1] = array;
    words
}

impl Setup {
    fn new() -> Self {
        let api = Api::open("libcuda.so.1");
        let module = api.module(KERNELS);
        let array = Self::array(&api);
        let setup = Self { api, module, array };
        setup.copy((1, array), &mut (0..16u8).map(f32::from).collect::<Vec<_>>());
        setup
    }

    /// An array of 4 × 4 floats.
    fn array(api: &Api) -> u64 {
        let (mut array, descriptor) = (0u64, [4u64, 4, 32 | 1 << 32]);
        let made =
            call!(api, "cuArrayCreate_v2", &raw mut array => *mut u64, descriptor.as_ptr() => *const u64);
        assert_eq!(made, 0);
        array
    }

    /// Copies all texels to an array (1) or from it (0), by `CUDA_MEMCPY2D`.
    fn copy(&self, (to_array, array): (u64, u64), texels: &mut [f32]) {
        let host = [0, 0, 1, texels.as_mut_ptr() as u64, 0, 0, 16];
        let device = [0, 0, 3, 0, 0, array, 0];
        let (from, to) = if to_array == 1 { (host, device) } else { (device, host) };
        let words: Vec<u64> = from.into_iter().chain(to).chain([16, 4]).collect();
        assert_eq!(call!(self.api, "cuMemcpy2D_v2", words.as_ptr() => *const u64), 0);
    }

    /// A texture of the array: linear filter, normalised coordinates and the mode of addresses.
    fn texture(&self, linear: u32, normalised: bool, mode: u32) -> u64 {
        let mut description = [0u32; 26];
        (description[0], description[1], description[2]) = (mode, mode, mode);
        (description[3], description[4]) = (linear, if normalised { 2 } else { 0 });
        let (mut texture, resource) = (0u64, of_array(self.array));
        let made = call!(
            self.api, "cuTexObjectCreate", &raw mut texture => *mut u64, resource.as_ptr() => *const u64,
            description.as_ptr() => *const u32, std::ptr::null() => *const c_void,
        );
        assert_eq!(made, 0);
        texture
    }

    fn surface(&self, array: u64) -> u64 {
        let (mut surface, resource) = (0u64, of_array(array));
        let made = call!(self.api, "cuSurfObjectCreate", &raw mut surface => *mut u64, resource.as_ptr() => *const u64);
        assert_eq!(made, 0);
        surface
    }

    /// The texel at a place of a texture, and the width that the kernel sees.
    fn fetch(&self, texture: u64, x: f32, y: f32) -> (f32, u32) {
        let to = self.api.allocate(20);
        let arguments = [
            (&raw const texture).cast::<c_void>(),
            (&raw const to).cast(),
            (&raw const x).cast(),
            (&raw const y).cast(),
        ];
        assert_eq!(self.api.launch(self.api.kernel(self.module, "fetch"), 1, 0, &arguments), 0);
        let words = self.api.words(to, 5);
        (f32::from_bits(words[0]), words[4])
    }

    fn run(&self, kernel: &str, threads: u32, from: u64, to: u64) -> c_int {
        let arguments = [(&raw const from).cast::<c_void>(), (&raw const to).cast()];
        self.api.launch(self.api.kernel(self.module, kernel), threads, 0, &arguments)
    }
}

#[test]
#[ignore = "a program for `exec`"]
fn program_with_textures() {
    let s = Setup::new();
    let point = s.texture(0, false, 1);
    assert_eq!((s.fetch(point, 2.0, 1.0), s.fetch(point, 9.0, -3.0)), ((6.0, 4), (3.0, 4)));
    let linear = s.texture(1, false, 1);
    assert_eq!((s.fetch(linear, 2.0, 1.0).0, s.fetch(linear, 1.0, 0.5).0), (3.5, 0.5));
    // A fraction has 8 bits: 1/512 rounds up to 1/256, less is none.
    assert_eq!(s.fetch(linear, 0.5 + 1.0 / 512.0, 0.5).0, 1.0 / 256.0);
    assert_eq!(s.fetch(linear, 0.5 + 1.0 / 1024.0, 0.5).0, 0.0);
    let (wrap, mirror, border) = (s.texture(0, true, 0), s.texture(0, true, 2), s.texture(0, true, 3));
    assert_eq!(
        (s.fetch(wrap, 1.3, 0.0).0, s.fetch(mirror, 1.3, 0.0).0, s.fetch(border, 1.3, 0.0).0),
        (1.0, 2.0, 0.0)
    );
    // Surfaces: what one launch writes the next one reads.
    let other = Setup::array(&s.api);
    let (from, to) = (s.surface(s.array), s.surface(other));
    assert_eq!((s.run("scale", 16, from, to), s.run("scale", 16, to, from)), (0, 0));
    let mut texels = [0f32; 16];
    s.copy((0, s.array), &mut texels);
    assert_eq!((texels[1], texels[15]), (4.0, 60.0));
    for object in [point, linear] {
        assert_eq!(call!(s.api, "cuTexObjectDestroy", object => u64), 0);
    }
    assert_eq!(
        (call!(s.api, "cuArrayDestroy", other => u64), call!(s.api, "cuArrayDestroy", other => u64)),
        (0, 400)
    );
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_writes_beside_a_surface() {
    let s = Setup::new();
    let surface = s.surface(s.array);
    assert_eq!(s.run("outside", 4, surface, surface), 0);
    assert_eq!(s.run("outside", 5, surface, surface), 700);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_reads_what_it_wrote_to_a_surface() {
    let s = Setup::new();
    let surface = s.surface(s.array);
    s.run("again", 1, surface, surface);
}

#[test]
#[ignore = "a program for `exec`"]
fn program_whose_texture_is_gone() {
    let s = Setup::new();
    let texture = s.texture(0, false, 1);
    assert_eq!(call!(s.api, "cuTexObjectDestroy", texture => u64), 0);
    let (to, zero) = (s.api.allocate(20), 0f32);
    let arguments = [
        (&raw const texture).cast::<c_void>(),
        (&raw const to).cast(),
        (&raw const zero).cast(),
        (&raw const zero).cast(),
    ];
    assert_eq!(s.api.launch(s.api.kernel(s.module, "fetch"), 1, 0, &arguments), 700);
}
