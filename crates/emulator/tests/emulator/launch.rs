//! Launches through the API: parameters of a wrong size, and which launch of a stream failed.

use std::sync::Arc;

use emulator::device::{self, Argument, Device, Failure, LaunchFailure};
use emulator::{EmulatorDevice, GlobalMemory, Launch, Options, Stop, launch, load};

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
            block: *block,
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
