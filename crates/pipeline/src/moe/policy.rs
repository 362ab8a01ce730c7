//! Tile choice policies of projects and plans as pure functions: what each must know, and what it wastes.
//!
//! A policy with [`HostKnown`] costs nothing: the host has these numbers before routing. One with
//! [`ExpertCounts`] needs the device's routing results, and therefore a synchronisation between the launches of every layer.

mod compare;

use super::configuration::Tile;

pub use compare::{Compared, Shape, compare, counts_of};

/// Numbers that the host has before routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostKnown {
    /// Tokens of the batch.
    pub tokens: u32,
    /// Experts of a token.
    pub top_k: u32,
    /// Experts of the model.
    pub experts: u32,
}

impl HostKnown {
    /// Rows of the grouped GEMM.
    #[must_use]
    pub const fn rows(self) -> u32 {
        self.tokens.saturating_mul(self.top_k)
    }
}

/// Rows of every expert after routing: reading them back synchronises the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpertCounts(pub Vec<u32>);

impl ExpertCounts {
    /// Rows of the largest expert.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.0.iter().copied().max().unwrap_or(0)
    }

    /// The cost of tiles of `m` rows.
    #[must_use]
    pub fn waste(&self, m: u32) -> Waste {
        let tiles: u64 = self.0.iter().map(|rows| u64::from(rows.div_ceil(m))).sum();
        let rows: u64 = self.0.iter().map(|rows| u64::from(*rows)).sum();
        Waste { tiles, rows, padding: tiles * u64::from(m) - rows }
    }
}

/// The cost of a choice along M.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waste {
    /// Tiles of tokens; each reads the weights of its expert once.
    pub tiles: u64,
    /// Rows with data.
    pub rows: u64,
    /// Rows multiplied but unused.
    pub padding: u64,
}

impl Waste {
    /// The share of padding among all multiplied rows.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share for people; rows stay far below 2^52")]
    pub fn share(self) -> f64 {
        let all = self.padding + self.rows;
        if all == 0 { 0.0 } else { self.padding as f64 / all as f64 }
    }
}

/// The sizes that the SM120 MoE plans choose from.
pub const PLAN_SIZES: [u32; 5] = [8, 16, 32, 64, 128];

/// `mmq_x` of llama.cpp with tensor cores: multiples of 8, from 48 on of 16 (`mmq_get_granularity_host`).
pub const LLAMA_SIZES: [u32; 11] = [8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128];

/// The smallest tile that holds all rows of the largest expert (SM120 MoE tile expansion plan (JIT), 4.2, option A).
#[must_use]
pub fn threshold(counts: &ExpertCounts) -> u32 {
    let most = counts.most();
    PLAN_SIZES.into_iter().find(|m| most <= *m).unwrap_or(128)
}

/// The tile with the least padding, the first of equals (SM120 MoE tile expansion plan (launcher), option B): a tile of 8 wastes
/// nothing on any multiple of 8, so it is chosen for all of them.
#[must_use]
pub fn least_waste(counts: &ExpertCounts) -> u32 {
    PLAN_SIZES.into_iter().min_by_key(|m| counts.waste(*m).padding).unwrap_or(128)
}

/// The tile with the least padding, the largest of equals (SM120 MoE tile expansion plan (JIT), 4.2, option B).
#[must_use]
pub fn least_waste_largest(counts: &ExpertCounts) -> u32 {
    PLAN_SIZES.into_iter().rev().min_by_key(|m| counts.waste(*m).padding).unwrap_or(128)
}

/// The smallest of the tiles that minimize the number of tiles (llama.cpp `mul_mat_q_case`). For a mixture of experts, its `ncols_max`
/// is the number of tokens, the most rows that any expert can have.
#[must_use]
pub fn fewest_tiles(host: HostKnown) -> u32 {
    LLAMA_SIZES.into_iter().min_by_key(|m| host.tokens.div_ceil(*m)).unwrap_or(8)
}

/// Two tiles: 16 for decode, up to 64 tokens, and 128 for prefill (`select_tile_m_for_moe` of the
/// SM120 MoE tile expansion plan (JIT), 6.2).
#[must_use]
pub const fn two_tiles(host: HostKnown) -> u32 {
    if host.tokens <= 64 { 16 } else { 128 }
}

/// `select_tile_mn_for_sm120` of the SM120 MoE change set: M and N by the number of tokens.
#[must_use]
pub const fn select_tile_mn_for_sm120(host: HostKnown) -> (u32, u32) {
    match host.tokens {
        0..64 => (64, 128),
        256.. => (256, 64),
        _ => (128, 128),
    }
}

/// `sm120_mixed_input_moe_gemm_dispatch` of the SM120 MoE tile expansion plan (launcher): by rows, and only if the caller says that
/// latency counts. The plan writes its tiles in CUTLASS terms, channels first.
#[must_use]
pub const fn min_latency(host: HostKnown, min_latency_mode: bool) -> Tile {
    let m = match host.rows() {
        0..=8 if min_latency_mode => 8,
        0..=16 if min_latency_mode => 16,
        _ => 128,
    };
    Tile { m, n: 128, k: 128 }
}

/// `selectTileForDecode` of the SM120 MoE tile expansion plan (launcher), after TRT-LLM's configs for SM100: K of 512 at both ends.
#[must_use]
pub const fn static_dispatch(host: HostKnown, min_latency_mode: bool) -> Tile {
    match host.rows() {
        0..=8 if min_latency_mode => Tile { m: 8, n: 128, k: 512 },
        0..=32 if min_latency_mode => Tile { m: 32, n: 128, k: 256 },
        257.. => Tile { m: 8, n: 256, k: 512 },
        _ => Tile { m: 128, n: 128, k: 128 },
    }
}

/// The average number of tokens of a routed expert, rounded up to a power of two from 8 to 128: this tool's choice for a case.
#[must_use]
pub fn mean_rows(host: HostKnown) -> u32 {
    let rows = host.rows();
    rows.div_ceil(host.experts.min(rows).max(1)).next_power_of_two().clamp(8, 128)
}

/// The input of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// The token count that the host knows.
    HostTokens,
    /// Rows per expert, which need a synchronisation.
    ExpertCounts,
}

impl Needs {
    /// The words in tables.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::HostTokens => "token count (host)",
            Self::ExpertCounts => "rows per expert (sync)",
        }
    }
}

/// A policy in a row of the table: its function, by its input.
#[derive(Debug, Clone, Copy)]
pub enum Ask {
    /// From what the host knows.
    Host(fn(HostKnown) -> u32),
    /// From the results of routing.
    Counts(fn(&ExpertCounts) -> u32),
}

/// A policy.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Its name.
    pub name: &'static str,
    /// The project or document that it comes from.
    pub source: &'static str,
    /// Its function for M.
    pub ask: Ask,
}

impl Policy {
    /// Returns what it must know.
    #[must_use]
    pub const fn needs(&self) -> Needs {
        match self.ask {
            Ask::Host(_) => Needs::HostTokens,
            Ask::Counts(_) => Needs::ExpertCounts,
        }
    }

    /// Returns the rows of the tile that it chooses.
    #[must_use]
    pub fn m(&self, host: HostKnown, counts: &ExpertCounts) -> u32 {
        match self.ask {
            Ask::Host(choose) => choose(host),
            Ask::Counts(choose) => choose(counts),
        }
    }
}

/// Every policy.
pub const POLICIES: [Policy; 9] = [
    Policy {
        name: "threshold",
        source: "SM120 MoE tile expansion plan (JIT), 4.2, option A",
        ask: Ask::Counts(threshold),
    },
    Policy {
        name: "least_waste",
        source: "SM120 MoE tile expansion plan (launcher), option B",
        ask: Ask::Counts(least_waste),
    },
    Policy {
        name: "least_waste_largest",
        source: "SM120 MoE tile expansion plan (JIT), 4.2, option B",
        ask: Ask::Counts(least_waste_largest),
    },
    Policy {
        name: "fewest_tiles",
        source: "llama.cpp ggml-cuda/mmq.cuh mul_mat_q_case",
        ask: Ask::Host(fewest_tiles),
    },
    Policy {
        name: "two_tiles",
        source: "SM120 MoE tile expansion plan (JIT), 6.2, select_tile_m_for_moe",
        ask: Ask::Host(two_tiles),
    },
    Policy {
        name: "select_tile_mn_for_sm120",
        source: "SM120 MoE change set, flashinfer/fused_moe/core.py",
        ask: Ask::Host(|host| select_tile_mn_for_sm120(host).0),
    },
    Policy {
        name: "min_latency",
        source: "SM120 MoE tile expansion plan (launcher), step 2, min_latency_mode on",
        ask: Ask::Host(|host| min_latency(host, true).m),
    },
    Policy {
        name: "static_dispatch",
        source: "SM120 MoE tile expansion plan (launcher), option A, min_latency_mode on",
        ask: Ask::Host(|host| static_dispatch(host, true).m),
    },
    Policy { name: "mean_rows", source: "this tool", ask: Ask::Host(mean_rows) },
];

#[cfg(test)]
mod tests {
    use super::*;

    const OSS: HostKnown = HostKnown { tokens: 1, top_k: 4, experts: 128 };

    fn one(rows: u32) -> ExpertCounts {
        ExpertCounts(vec![rows])
    }

    #[test]
    fn the_first_of_the_least_wasteful_is_8_for_every_multiple_of_8() {
        for rows in (8..=4096).step_by(8) {
            assert_eq!((least_waste(&one(rows)), one(rows).waste(8).padding), (8, 0), "{rows} rows");
        }
        // 512 rows are 64 tiles, each of which reads the expert's weights; breaking the tie the other way needs 4.
        assert_eq!((one(512).waste(8).tiles, least_waste_largest(&one(512))), (64, 128));
        assert_eq!(one(512).waste(128), Waste { tiles: 4, rows: 512, padding: 0 });
        // Below a full tile, the smallest wastes least anyway.
        assert!((1..=4096).all(|rows| least_waste(&one(rows)) == 8));
    }

    #[test]
    fn choices_are_those_of_the_documents() {
        let at = |tokens| HostKnown { tokens, ..OSS };
        assert_eq!([1, 8, 9, 64, 65, 128, 129].map(|r| threshold(&one(r))), [8, 8, 16, 64, 128, 128, 128]);
        assert_eq!([1, 64, 65, 2048].map(|t| two_tiles(at(t))), [16, 16, 128, 128]);
        assert_eq!(
            [1, 63, 64, 255, 256].map(|t| select_tile_mn_for_sm120(at(t))),
            [(64, 128), (64, 128), (128, 128), (128, 128), (256, 64)]
        );
        assert_eq!([2, 4, 5].map(|t| min_latency(at(t), true).m), [8, 16, 128]);
        assert_eq!(min_latency(at(1), false).m, 128);
        assert_eq!([1, 8, 64, 65].map(|t| static_dispatch(at(t), true).k), [512, 256, 128, 512]);
        // llama.cpp: the number of columns rounded up to an existing size; beyond 128, the fewest tiles.
        assert_eq!(
            [1, 9, 41, 49, 128, 129, 192, 300].map(|t| fewest_tiles(at(t))),
            [8, 16, 48, 64, 128, 80, 96, 112]
        );
        assert_eq!([1, 64, 512, 4096].map(|t| mean_rows(at(t))), [8, 8, 16, 128]);
    }

    #[test]
    fn every_policy_chooses_something_for_nothing() {
        let (host, counts) = (HostKnown { tokens: 0, ..OSS }, ExpertCounts(vec![0; 128]));
        for policy in &POLICIES {
            let m = policy.m(host, &counts);
            assert!(m > 0 && counts.waste(m) == Waste { tiles: 0, rows: 0, padding: 0 }, "{}", policy.name);
        }
        assert!(POLICIES.iter().any(|p| p.needs() == Needs::ExpertCounts));
    }
}
