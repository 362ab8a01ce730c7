//! `wmma` (PTX ISA 9.7.16.4).

use super::super::FormRow;

const CHAPTER: &str = "Warp-level matrix: wmma";

pub(in crate::emulator) const ROWS: &[FormRow] = &[
    FormRow::planned(CHAPTER, "wmma.load", "wmma.load.{a,b,c}.sync.aligned…"),
    FormRow::planned(CHAPTER, "wmma.mma", "wmma.mma.sync.aligned…"),
    FormRow::planned(CHAPTER, "wmma.store", "wmma.store.d.sync.aligned…"),
];
