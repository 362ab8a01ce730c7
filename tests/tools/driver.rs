//! A machine without a driver.

use std::time::Duration;

use emulator::device::Failure;
use sm121probe::gpu::{Chain, GpuDevice, Launcher};

use super::need::{Need, Test};

pub(super) const TESTS: &[Test] =
    &[("the_device_says_that_there_is_none", &[Need::NoDriver], the_device_says_that_there_is_none)];

fn the_device_says_that_there_is_none() {
    let launcher = Launcher {
        program: env!("CARGO_BIN_EXE_sm121probe").into(),
        ordinal: "0".to_owned(),
        limit: Duration::from_secs(60),
    };
    let failure = GpuDevice::open(launcher, Chain::default()).err().unwrap();
    assert!(matches!(&failure, Failure::DeviceLost(what) if what.contains("driver")), "{failure:?}");
}
