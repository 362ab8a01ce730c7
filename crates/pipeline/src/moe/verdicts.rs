//! Verdicts by results: runs that store the same bits under the same contract are judged once.

use super::contract::Contract;
use super::error::MoeError;
use super::judge as judged;
use super::tensors::Tensors;
use crate::frame::Memo;
use record::StageResult;

/// Maximum bytes of tensors for which a digest costs less than judging them again.
const LIMIT: usize = 64 << 20;

/// Returns the verdicts of [`judge`](super::judge()), which `memo` keeps.
///
/// # Errors
/// Same as [`judge`](super::judge()); errors are not kept.
pub fn judge(memo: &Memo, contract: &Contract, tensors: &Tensors) -> Result<Vec<StageResult>, MoeError> {
    let Some(digest) = tensors.digest(LIMIT) else { return judged(contract, tensors) };
    let key = format!("moe verdicts {contract:?} {digest}");
    let stages = memo.value(&key, || judged(contract, tensors))?;
    Ok(stages.as_ref().clone())
}
