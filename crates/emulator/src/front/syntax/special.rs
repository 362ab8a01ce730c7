//! The special registers, by name.

/// The special registers of PTX (PTX ISA, "Special Registers"), without the numbers of those that have several.
const SPECIAL: [&str; 38] = [
    "%tid",
    "%ntid",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%ctaid",
    "%nctaid",
    "%smid",
    "%nsmid",
    "%gridid",
    "%is_explicit_cluster",
    "%clusterid",
    "%nclusterid",
    "%cluster_ctaid",
    "%cluster_nctaid",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%clock",
    "%clock_hi",
    "%clock64",
    "%pm",
    "%envreg",
    "%globaltimer",
    "%globaltimer_lo",
    "%globaltimer_hi",
    "%reserved_smem_offset_begin",
    "%reserved_smem_offset_end",
    "%reserved_smem_offset_cap",
    "%reserved_smem_offset_",
    "%total_smem_size",
    "%aggr_smem_size",
    "%dynamic_smem_size",
    "%current_graph_exec",
];

/// Whether a name is that of a special register.
pub(crate) fn is_special(name: &str) -> bool {
    let base = name.split('.').next().unwrap_or(name);
    let unnumbered = base.strip_suffix("_64").unwrap_or(base).trim_end_matches(|c: char| c.is_ascii_digit());
    SPECIAL.contains(&base) || (unnumbered != base && SPECIAL.contains(&unnumbered))
}

/// The sizes of registers into which a special register moves.
pub(super) fn special_sizes(name: &str) -> &'static [usize] {
    let base = name.split('.').next().unwrap_or(name);
    match base {
        "%tid" | "%ntid" | "%ctaid" | "%nctaid" => &[2, 4],
        "%gridid" => &[2, 4, 8],
        "%clock64" | "%globaltimer" | "%current_graph_exec" => &[8],
        _ if base.starts_with("%pm") && base.ends_with("_64") => &[8],
        _ => &[4],
    }
}
