//! Throughput of parsing and printing PTX, in bytes per second: texts of about one and four megabytes, so that a cost that
//! grows faster than the text shows.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

/// A module of at least so many bytes: output of NVRTC, repeated.
fn text(bytes: usize) -> String {
    const KERNELS: [&str; 6] = [
        include_str!("../tests/nvrtc/block_scaled_mma.sm_121f.ptx"),
        include_str!("../tests/nvrtc/bulk_copy.sm_121a.lineinfo.ptx"),
        include_str!("../tests/nvrtc/control.sm_80.ptx"),
        include_str!("../tests/nvrtc/indirect_calls.sm_100f.ptx"),
        include_str!("../tests/nvrtc/saxpy.sm_121a.debug.ptx"),
        include_str!("../tests/nvrtc/warp.sm_90a.ptx"),
    ];
    let mut out = ".version 9.0\n.target sm_121a\n.address_size 64\n".to_owned();
    // Without its header, a module can follow any other.
    let bodies = KERNELS.map(|text| text.split_once(".address_size 64\n").map_or(text, |(_, body)| body));
    for body in bodies.iter().cycle().take(bytes) {
        if out.len() >= bytes {
            break;
        }
        out.push_str(body);
    }
    out
}

/// Text to tree.
#[divan::bench(args = [1 << 20, 1 << 22])]
fn parse(bencher: Bencher, bytes: usize) {
    let text = text(bytes);
    bencher.counter(BytesCount::of_str(&text)).bench(|| ptx::parse(black_box(&text)));
}

/// Tree to text.
#[divan::bench(args = [1 << 20])]
fn print(bencher: Bencher, bytes: usize) {
    let text = text(bytes);
    let Ok(module) = ptx::parse(&text) else { return };
    bencher.counter(BytesCount::of_str(&text)).bench(|| black_box(&module).to_string());
}
