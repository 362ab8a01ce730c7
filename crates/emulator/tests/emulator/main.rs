//! The emulator through its API: recordings of hardware, plain computations, random programs. Tests that are PTX and an
//! expected outcome are in `tests/filetests`.

mod conflicts;
mod conversions;
mod cores;
mod deferred;
mod foreign;
mod foreign_calls;
mod foreign_clusters;
mod foreign_directives;
mod foreign_races;
mod foreign_tensormaps;
mod forms;
mod im2col;
mod kernels;
mod launch;
mod lines;
mod matrix;
mod measured;
mod other_accesses;
mod paths;
mod provenances;
mod registers;
mod tensor;
mod trials;
