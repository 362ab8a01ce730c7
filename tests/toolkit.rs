//! The room `toolkit`: discovery, choice, installation and removal, with every fault planted. No network, no CUDA.

#[cfg(test)]
#[path = "toolkit/discovery.rs"]
mod discovery;
#[cfg(test)]
#[path = "toolkit/fakes.rs"]
mod fakes;
#[cfg(test)]
#[path = "toolkit/faults.rs"]
mod faults;
#[cfg(test)]
#[path = "toolkit/installation.rs"]
mod installation;
#[cfg(test)]
#[path = "toolkit/interruption.rs"]
mod interruption;
#[cfg(test)]
#[path = "toolkit/pins.rs"]
mod pins;
#[cfg(test)]
#[path = "toolkit/real.rs"]
mod real;
#[cfg(test)]
#[path = "toolkit/real_contraction.rs"]
mod real_contraction;
#[cfg(test)]
#[path = "toolkit/tools.rs"]
mod tools;
