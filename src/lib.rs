//! sm121probe: what an SM12x GPU's toolchain really does, with evidence.
//!
//! The crates below it: `ptx`, `numerics`, `emulator`, `vectors`, `devcode`. Modules, in order; a module uses earlier ones only (`tests/product/tidy.rs`
//! enforces it):
//!
//! | module | duty |
//! |---|---|
//! | [`event`] | how modules tell progress; no printing |
//! | [`near`] | names near to one that is not there |
//! | [`record`] | the versioned record of a run |
//! | [`header`] | YAML into typed structs, errors with file, line, column |
//! | [`packed`] | the files that the binary carries |
//! | [`store`] | one cache: locked, atomic, damaged entries are misses |
//! | [`worker`] | child processes with a time limit |
//! | [`snippet`] | loads and expands `ptx_snippets/` |
//! | [`case`] | loads `cases/`: problems of the pipeline, models by name |
//! | [`kernel`] | loads `kernels/`: sources and the headers that plug them into the pipeline |
//! | [`toolkit`] | finds, installs and runs ptxas, nvdisasm and NVRTC; judges nothing |
//! | [`assumptions`] | what the emulator takes on trust, each with a snippet that a GPU can answer |
//! | [`checks`] | checks on a device in order, and the verdict on a launch that did not finish |
//! | [`gpu`] | runs kernels on CUDA GPUs, in worker processes |
//! | [`selftest`] | recorded answers against the emulator |
//! | [`matrix`] | plan, batch assembly, classified cells, claims |
//! | [`lint`] | any PTX over toolkits and targets: what is refused, where, and what would be accepted |
//! | [`doctor`] | what this machine can run, tried |
//! | [`execute`] | variants of snippets on a device, check by check |
//! | [`moe`] | the MXFP4 fused-MoE pipeline: problems, reference with bounds, verdicts |
//! | [`mutants`] | faults of one line planted into kernels, and what the cases say of each |
//! | [`mod@bench`] | where the time goes: profiles, what they decide, and times on a GPU |
//! | [`audit`] | what becomes of device code in files on a device |
//! | [`gate`] | records compared, baselines, expectations, fleets |
//! | [`job`] | what verbs do: typed options in, typed results out |
//! | [`report`] | renderers, each a pure function of a record or of one result |
//! | [`cli`] | verbs, error printing, exit codes |

pub mod assumptions;
pub mod audit;
pub mod bench;
pub mod case;
pub mod checks;
pub mod cli;
pub mod doctor;
pub mod event;
pub mod execute;
pub mod gate;
pub mod gpu;
pub mod header;
pub mod job;
pub mod kernel;
pub mod lint;
pub mod matrix;
pub mod moe;
pub mod mutants;
pub mod near;
pub mod packed;
pub mod record;
pub mod report;
pub mod selftest;
pub mod snippet;
pub mod store;
pub mod toolkit;
pub mod worker;
