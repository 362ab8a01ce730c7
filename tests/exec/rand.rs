//! Programs that call cuRAND, whose generators on a GPU are those of NVIDIA's library on the host. A library of that name stands in for it here:
//! its sequences count, and it notes what it is asked. `tests/upstream` has NVIDIA's own.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use crate::api::{Api, call};
use crate::exec_with;

/// The generators of the host. A generator on a GPU would fail the program.
const STAND_IN: &str = r#"
#include <stdlib.h>
#include <stddef.h>
typedef struct { unsigned kind, next; } generator;
int curandCreateGenerator(generator** g, unsigned kind) { (void)g; (void)kind; return 999; }
int curandCreateGeneratorHost(generator** g, unsigned kind)
{
    if (kind < 100 || kind > 204) return 103;
    *g = calloc(1, sizeof(generator));
    (*g)->kind = kind;
    return 0;
}
int curandDestroyGenerator(generator* g) { free(g); return 0; }
int curandSetStream(generator* g, void* stream) { (void)g; (void)stream; return 103; }
int curandSetGeneratorOrdering(generator* g, unsigned order) { (void)g; return order == 100 || order > 103 ? 104 : 0; }
int curandSetPseudoRandomGeneratorSeed(generator* g, unsigned long long seed) { g->next = (unsigned)seed; return 0; }
#define GENERATE(name, type, value, ...) \
    int name(generator* g, type* to, size_t n, ##__VA_ARGS__) { for (size_t i = 0; i < n; ++i) to[i] = (type)(value); return 0; }
GENERATE(curandGenerate, unsigned, g->next++)
GENERATE(curandGenerateUniform, float, g->next++ * 0.5f)
GENERATE(curandGenerateUniformDouble, double, g->next++ * 0.25)
GENERATE(curandGenerateNormal, float, mean + deviation * g->next++, float mean, float deviation)
GENERATE(curandGenerateNormalDouble, double, mean + deviation * g->next++, double mean, double deviation)
GENERATE(curandGenerateLogNormalDouble, double, mean - deviation * g->next++, double mean, double deviation)
GENERATE(curandGeneratePoisson, unsigned, g->next++ + mean, double mean)
GENERATE(curandGeneratePoissonMethod, unsigned, g->next++ + mean + method, double mean, int method)
int curandGenerateLongLong(generator* g, unsigned long long* to, size_t n)
{
    if (g->kind < 203) return 103;
    for (size_t i = 0; i < n; ++i) to[i] = (unsigned long long)g->next++ << 32;
    return 0;
}
int curandGenerateLogNormal(generator* g, float* to, size_t n, float mean, float deviation)
{
    if (n % 2) return 105;
    for (size_t i = 0; i < n; ++i) to[i] = mean - deviation * g->next++;
    return 0;
}
"#;

/// The folder with the stand-in.
fn stand_in() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rand");
    std::fs::create_dir_all(&folder).unwrap();
    let (source, library) = (folder.join("rand.c"), folder.join("libcurand.so.10"));
    std::fs::write(&source, STAND_IN).unwrap();
    let built = Command::new("gcc")
        .args([
            "-Wall",
            "-Werror",
            "-Wno-unused-parameter",
            "-shared",
            "-fPIC",
            "-Wl,-soname,libcurand.so.10",
            "-o",
        ])
        .arg(&library)
        .arg(&source)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    folder
}

struct Rand<'a> {
    api: &'a Api,
    called: RefCell<BTreeSet<&'static str>>,
}

/// Calls a function with a name and notes it.
macro_rules! rand {
    ($rand:expr, $name:literal $(, $arg:expr => $ty:ty)* $(,)?) => {{
        $rand.called.borrow_mut().insert($name);
        call!($rand.api, $name $(, $arg => $ty)*)
    }};
}

impl Rand<'_> {
    fn create(&self, kind: u32) -> u64 {
        let mut generator = 0u64;
        assert_eq!(rand!(self, "curandCreateGenerator", &raw mut generator => *mut u64, kind => u32), 0);
        assert_eq!(call!(self.api, "curandSetPseudoRandomGeneratorSeed", generator => u64, 40 => u64), 0);
        generator
    }
}

#[test]
#[ignore = "a program for `exec`"]
fn program_that_calls_curand() {
    let api = Api::open("libcurand.so.10");
    let cuda = Api::open("libcuda.so.1");
    cuda.enter();
    let rand = Rand { api: &api, called: RefCell::default() };
    let (generator, stream, at) = (rand.create(100), cuda.stream(), cuda.allocate(64));
    assert_eq!(rand!(rand, "curandSetStream", generator => u64, stream => u64), 0);
    let singles = |at| cuda.words(at, 4).into_iter().map(f32::from_bits).collect::<Vec<_>>();
    let wide =
        |at| cuda.words(at, 4).chunks(2).map(|w| u64::from(w[0]) | u64::from(w[1]) << 32).collect::<Vec<_>>();
    let doubles = |at| wide(at).into_iter().map(f64::from_bits).collect::<Vec<_>>();

    assert_eq!(rand!(rand, "curandGenerate", generator => u64, at => u64, 4usize => usize), 0);
    assert_eq!(cuda.words(at, 4), [40, 41, 42, 43]);
    assert_eq!(rand!(rand, "curandGenerateUniform", generator => u64, at => u64, 4usize => usize), 0);
    assert_eq!(singles(at), [22.0, 22.5, 23.0, 23.5]);
    assert_eq!(rand!(rand, "curandGenerateUniformDouble", generator => u64, at => u64, 2usize => usize), 0);
    assert_eq!(doubles(at), [12.0, 12.25]);
    assert_eq!(
        rand!(rand, "curandGenerateNormal", generator => u64, at => u64, 4usize => usize, 1.0 => f32, 2.0 => f32),
        0
    );
    assert_eq!(singles(at), [101.0, 103.0, 105.0, 107.0]);
    assert_eq!(
        rand!(rand, "curandGenerateNormalDouble", generator => u64, at => u64, 2usize => usize, 1.0 => f64, 2.0 => f64),
        0
    );
    assert_eq!(doubles(at), [109.0, 111.0]);
    assert_eq!(
        rand!(rand, "curandGenerateLogNormal", generator => u64, at => u64, 4usize => usize, 1.0 => f32, 2.0 => f32),
        0
    );
    assert_eq!(singles(at), [-111.0, -113.0, -115.0, -117.0]);
    assert_eq!(
        rand!(rand, "curandGenerateLogNormal", generator => u64, at => u64, 3usize => usize, 1.0 => f32, 2.0 => f32),
        105
    );
    assert_eq!(
        rand!(rand, "curandGenerateLogNormalDouble", generator => u64, at => u64, 2usize => usize, 1.0 => f64, 2.0 => f64),
        0
    );
    assert_eq!(doubles(at), [-119.0, -121.0]);
    assert_eq!(
        rand!(rand, "curandGeneratePoisson", generator => u64, at => u64, 4usize => usize, 100.0 => f64),
        0
    );
    assert_eq!(cuda.words(at, 4), [162, 163, 164, 165]);
    assert_eq!(
        rand!(rand, "curandGeneratePoissonMethod", generator => u64, at => u64, 4usize => usize, 100.0 => f64, 3 => u32),
        0
    );
    assert_eq!(cuda.words(at, 4), [169, 170, 171, 172]);
    assert_eq!(rand!(rand, "curandGenerateLongLong", generator => u64, at => u64, 2usize => usize), 103);

    // An order without a promise is accepted, another is not.
    assert_eq!(rand!(rand, "curandSetGeneratorOrdering", generator => u64, 100 => u32), 0);
    assert_eq!(rand!(rand, "curandSetGeneratorOrdering", generator => u64, 105 => u32), 104);
    // A graph generates when it is launched, and goes on each time.
    let (mut graph, mut instance) = (0u64, 0u64);
    assert_eq!(call!(cuda, "cuStreamBeginCapture_v2", stream => u64, 0 => u32), 0);
    assert_eq!(rand!(rand, "curandGenerate", generator => u64, at => u64, 4usize => usize), 0);
    assert_eq!(call!(cuda, "cuStreamEndCapture", stream => u64, &raw mut graph => *mut u64), 0);
    assert_eq!(
        call!(cuda, "cuGraphInstantiateWithFlags", &raw mut instance => *mut u64, graph => u64, 0 => u64),
        0
    );
    assert_eq!(cuda.words(at, 1), [169]);
    for first in [70, 74] {
        assert_eq!(call!(cuda, "cuGraphLaunch", instance => u64, stream => u64), 0);
        assert_eq!(cuda.words(at, 4), [first, first + 1, first + 2, first + 3]);
    }
    assert_eq!(rand!(rand, "curandDestroyGenerator", generator => u64), 0);
    // A graph does not generate with a generator that is gone.
    assert_ne!(call!(cuda, "cuGraphLaunch", instance => u64, stream => u64), 0);
    assert_eq!(cuda.words(at, 1), [74]);

    let quasi = rand.create(203);
    assert_eq!(rand!(rand, "curandGenerateLongLong", quasi => u64, at => u64, 2usize => usize), 0);
    assert_eq!(wide(at), [40 << 32, 41 << 32]);
    let mut none = 0u64;
    assert_eq!(rand!(rand, "curandCreateGenerator", &raw mut none => *mut u64, 7 => u32), 103);
    // A generator of the host writes to the host.
    let (mut host, mut number) = (0u64, 0u32);
    assert_eq!(call!(api, "curandCreateGeneratorHost", &raw mut host => *mut u64, 100 => u32), 0);
    assert_eq!(rand!(rand, "curandGenerate", host => u64, &raw mut number as u64 => u64, 1usize => usize), 0);
    assert_eq!(rand!(rand, "curandGenerate", host => u64, &raw mut number as u64 => u64, 1usize => usize), 0);
    assert_eq!((number, rand!(rand, "curandSetStream", host => u64, stream => u64)), (1, 103));

    let text = include_str!("../../crates/cuda/src/libraries/rand/mod.rs");
    let is_word = |c: char| c.is_ascii_alphanumeric();
    let named =
        text.lines().filter(|line| line.contains("extern \"C\" fn curand") || line.starts_with("    curand"));
    let names: BTreeSet<_> =
        named.flat_map(|line| line.split(|c| !is_word(c)).find(|word| word.starts_with("curand"))).collect();
    assert!(names.len() >= 14, "{names:?}");
    let without: Vec<_> = names.difference(&rand.called.borrow()).copied().collect();
    assert!(without.is_empty(), "not called: {without:?}");
    // The last: a generator writes behind the end of memory.
    rand!(rand, "curandGenerate", quasi => u64, at => u64, 17usize => usize);
}

#[test]
fn curand_generates_by_the_host_and_is_checked() {
    let folder = stand_in();
    let output = exec_with(&[], "rand::program_that_calls_curand", &[("LD_LIBRARY_PATH", &folder)]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(100), "{text}");
    assert!(text.contains("curandGenerate") && text.contains("64 bytes"), "{text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}
