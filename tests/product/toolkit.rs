//! Toolkits: discovery, selection, installation and removal, with every fault planted. No network, no CUDA.

#[cfg(test)]
mod discovery;
#[cfg(test)]
mod fakes;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod installation;
#[cfg(test)]
mod interruption;
#[cfg(test)]
mod pins;
#[cfg(test)]
mod real;
#[cfg(test)]
mod real_contraction;
#[cfg(test)]
mod tools;
