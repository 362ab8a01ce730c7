//! The table of tiles: their resources, whether they are admitted, and which other projects have kernels for them.

use rayon::prelude::*;

use super::admission::{self, Question};
use super::configuration::{Configuration, SWAP_AB, Tile};
use super::contract::Settings;
use super::family::FAMILY;
use super::pipeline::Setup;
use super::{peers, sources};
use crate::frame::admission::Limits;
use crate::frame::code::CodeError;
use crate::frame::family::TableQuestion;
use record::{PeerRow, TileRow, TileTable};

/// Returns the table of these configurations; those that `compiles` accepts are compiled and assembled.
///
/// # Errors
/// [`CodeError`] if a kernel is missing or does not compile.
pub fn table(
    question: &TableQuestion<'_>,
    all: &[Configuration],
    compiles: impl Fn(&Configuration) -> bool + Sync,
) -> Result<TileTable, CodeError> {
    let rows =
        all.par_iter().map(|of| row(question, of, compiles(of))).collect::<Result<Vec<_>, CodeError>>()?;
    let mut sides: Vec<(Tile, bool)> = all.iter().map(|c| (c.tile, c.swap_ab)).collect();
    sides.dedup();
    let peers = sides.into_iter().flat_map(|(tile, swap_ab)| {
        peers::stacks().iter().map(move |stack| {
            let support = stack.support(tile, swap_ab);
            PeerRow {
                configurations: side(tile, swap_ab),
                stack: stack.stack.clone(),
                answer: support.answer().into(),
                sentence: support.sentence().to_owned(),
            }
        })
    });
    Ok(TileTable { rows, peers: peers.collect(), policies: Vec::new() })
}

/// Names a tile and an operand order: `128x32x128 swap_ab`.
#[must_use]
pub fn side(tile: Tile, swap_ab: bool) -> String {
    if swap_ab { format!("{tile} {SWAP_AB}") } else { tile.to_string() }
}

fn row(question: &TableQuestion<'_>, of: &Configuration, compiles: bool) -> Result<TileRow, CodeError> {
    let Configuration { tile, swap_ab, path, load } = *of;
    let (limits, toolchain) = (Limits::SM12X, question.toolchain);
    let mut row = question.row(FAMILY, of.name());
    let pair = Settings::GPT_OSS.pair;
    let kernel = question.library.gemm(pair, path, load)?;
    let admitted = match admission::admit(&Question { pair, tile, swap_ab, kernel, path, toolchain, limits })
    {
        Ok(admitted) => admitted,
        Err(blocked) => {
            row.blocked = Some(blocked.0);
            return Ok(row);
        }
    };
    row.depth = Some(admitted.config.stages);
    row.shared = Some(admitted.size.dynamic_shared);
    let Some(assembler) = question.assembler.filter(|_| compiles) else { return Ok(row) };
    // The setup that gpt-oss uses.
    let setup = Setup::plain(admitted.config);
    let [_, _, _, gemm, _, _] = sources::of_run(question.library, &Settings::GPT_OSS, &setup)?;
    assembler.code(question.library, &gemm, admitted.size)?.enter(&mut row, admitted.size.dynamic_shared);
    Ok(row)
}
