//! Launches through the API: parameters of a wrong size, and which launch of a stream failed.

use std::sync::Arc;

use emulator::device::{self, Argument, Device, Failure, LaunchFailure};
use emulator::{EmulatorDevice, GlobalMemory, HostBytes, Launch, Options, Stop, launch, load};

const HEADER: &str = ".version 9.0\n.target sm_121a\n.address_size 64\n";

#[test]
fn a_failure_names_its_launch_where_two_have_the_same_entry() {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 px, .param .u32 pn)\n{{\n.reg .b64 x, a; .reg .b32 n;\n\
         ld.param.u64 x, [px]; ld.param.u32 n, [pn]; griddepcontrol.launch_dependents; griddepcontrol.wait;\n\
         mul.wide.u32 a, n, 4; add.u64 a, a, x; st.global.u32 [a], n;\nret;\n}}\n"
    );
    let fails = |index: &[u32], block: &[u32]| {
        let mut device = EmulatorDevice::new(Arc::default(), Options::default());
        let module = device.load(&text).unwrap();
        let buffer = device.allocate(vec![0; 64]).unwrap();
        let launch = |(index, block): (&u32, &u32)| device::Launch {
            module,
            entry: "k".to_owned(),
            grid: [1; 3],
            block: [*block, 1, 1],
            shared_bytes: 0,
            arguments: vec![Argument::Address(buffer), Argument::Value(index.to_le_bytes().to_vec())],
            programmatic: true,
            cluster: [1; 3],
            cooperative: false,
        };
        let launches: Vec<device::Launch> = index.iter().zip(block).map(launch).collect();
        device.run(&launches)
    };
    assert_eq!(fails(&[0, 1, 2], &[1, 1, 1]), Ok(()));
    for wrong in 0..3 {
        let mut index = [0, 1, 2];
        index[wrong] = 1000;
        let LaunchFailure { launch, failure } = fails(&index, &[1; 3]).unwrap_err();
        assert!(matches!(&failure, Failure::Trap { rule, .. } if rule == "out_of_bounds"), "{failure}");
        assert_eq!(launch, wrong);
        let mut block = [1; 3];
        block[wrong] = 2000;
        let LaunchFailure { launch, failure } = fails(&[0, 1, 2], &block).unwrap_err();
        assert!(matches!(failure, Failure::Launch(_)), "{failure}");
        assert_eq!(launch, wrong);
    }
}

#[test]
fn parameters_of_another_size_are_refused() {
    let program = load(&format!("{HEADER}.visible .entry k(.param .u32 n)\n{{\nret;\n}}\n")).unwrap();
    let how = Launch { grid: [1; 3], block: [32, 1, 1], shared_bytes: 0, params: vec![0; 8] };
    let mut memory = GlobalMemory::default();
    match launch(&program, &program.kernels[0], &how, &mut memory, &Options::default()) {
        Err(Stop::Launch(what)) => assert!(what.contains("4 bytes of parameters"), "{what}"),
        other => panic!("{other:?}"),
    }
}

/// Threads copy words to places that lie across pages, a word of memory is added to, and rows of bytes are copied asynchronously.
const ACROSS_PAGES: &str = "\
.visible .entry k(.param .u64 px)
{
.reg .b64 x, from, to; .reg .b32 i, c, v, s, m; .reg .pred p, q;
.shared .align 16 .b8 tile[8192];
.shared .align 8 .b64 bar;
ld.param.u64 x, [px];
mov.u32 i, %tid.x; mov.u32 c, %ctaid.x;
mad.lo.u32 v, c, 8192, 4064;
cvt.u64.u32 from, v; add.u64 from, from, x;
mov.u32 s, tile; mov.u32 m, bar;
setp.eq.u32 p, i, 0;
@p mbarrier.init.shared.b64 [m], 1;
bar.sync 0;
@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [m], 4096;
@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [from], 4096, [m];
wait: mbarrier.try_wait.parity.shared.b64 q, [m], 0; @!q bra wait;
mad.lo.u32 v, i, 4, s;
ld.shared.u32 v, [v];
add.u32 v, v, c;
mul.wide.u32 to, i, 4; add.u64 to, to, from;
st.global.u32 [to], v;
ld.global.v2.u32 {v, i}, [from+24];
st.global.u32 [to+2048], v;
ret;
}
";

#[test]
fn lent_bytes_are_read_and_written_across_pages() {
    let program = load(&format!("{HEADER}{ACROSS_PAGES}")).unwrap();
    let bytes: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(n) >> 5) as u8).collect();
    let host = HostBytes::new(bytes.clone());
    let mut results = Vec::new();
    for threads in [1, 3] {
        for lent in [false, true] {
            let mut memory = GlobalMemory::default();
            let x = match lent {
                true => memory.allocate_lent(host.clone()),
                false => memory.allocate_with(bytes.clone()),
            };
            let how = Launch {
                grid: [11, 1, 1],
                block: [32, 1, 1],
                shared_bytes: 0,
                params: x.to_le_bytes().to_vec(),
            };
            let options = Options { threads, ..Options::default() };
            launch(&program, &program.kernels[0], &how, &mut memory, &options).unwrap();
            let written: usize = memory.written_runs(x).map(|(_, run)| run.len()).sum();
            assert_eq!(written < bytes.len(), lent, "{written} bytes are written");
            results.push(memory.contents(x).unwrap().into_owned());
        }
    }
    assert!(results[0] != bytes && results.iter().all(|result| *result == results[0]));
    assert!(host.bytes() == bytes);
}
