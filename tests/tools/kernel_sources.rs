//! The kernels of the emulator tests, recompiled: the PTX of NVRTC still agrees with a reference
//! computation, and equals the committed PTX. `SNAPSHOTS=overwrite cargo test --test tools kernel_sources` rewrites the PTX.

#[path = "../../crates/emulator/tests/kernels/cases.rs"]
mod cases;

use std::path::Path;
use std::time::Duration;

use sm121probe::store::Store;
use sm121probe::toolkit::{self, Environment, Source};

use super::need::{Need, Test};

pub(super) const TESTS: &[Test] = &[(
    "the_sources_still_give_kernels_that_agree",
    &[Need::Nvrtc],
    the_sources_still_give_kernels_that_agree,
)];

fn the_sources_still_give_kernels_that_agree() {
    let store = Store::open(None).unwrap();
    let found = toolkit::nvrtcs(Some(&store), &Environment::of_process());
    let bless = std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/emulator/tests/kernels");
    for nvrtc in &found {
        for case in cases::all() {
            let file = format!("{}.cu", case.name);
            let text = std::fs::read_to_string(folder.join(&file)).unwrap();
            let source = Source {
                text: &text,
                name: &file,
                options: toolkit::options_for("sm_121a".parse().unwrap()),
                headers: Vec::new(),
            };
            let tool = Path::new(env!("CARGO_BIN_EXE_sm121probe"));
            let compiled =
                toolkit::compile(nvrtc, &source, Some(&store), tool, Duration::from_secs(120)).unwrap();
            let (buffers, _) = case
                .run
                .go(&compiled.ptx, 1, 100_000_000)
                .unwrap_or_else(|stop| panic!("{} by NVRTC {}: {stop}", case.run.entry, nvrtc.version));
            let (at, expect) = &case.run.expect;
            assert!(buffers[*at] == *expect, "{} by NVRTC {}", case.run.entry, nvrtc.version);
            if nvrtc.version.to_string() == "13.5.37" {
                if bless {
                    std::fs::write(folder.join(format!("{}.ptx", case.name)), &compiled.ptx).unwrap();
                } else {
                    assert!(
                        compiled.ptx == case.ptx,
                        "{file}: the committed PTX is not what NVRTC 13.5.37 makes; `SNAPSHOTS=overwrite` in the \
                         environment writes it"
                    );
                }
            }
        }
    }
}
