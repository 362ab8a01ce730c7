//! `--pair` of `moe`, the operand formats of the GEMMs, and `--format`, the output format, which once named both.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::error::CliError;
use super::format::FormatError;
use super::format::Formats;
use crate::moe::case::FormatPair;
use crate::report::Format;

/// The value of one `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// An output format.
    Output(Format),
    /// A pair of operand formats.
    Operands(FormatPair),
}

const fn help(pair: FormatPair) -> &'static str {
    match pair {
        FormatPair::Mxfp8Mxfp4 => "MXFP8 activations, MXFP4 weights",
        FormatPair::Nvfp4 => "NVFP4 activations and weights",
        FormatPair::Mxfp4 => "MXFP4 activations and weights",
        FormatPair::Mxfp8 => "MXFP8 activations and weights",
        FormatPair::Bf16Mxfp4 => "bf16 activations, MXFP4 weights",
        FormatPair::Bf16Nvfp4 => "bf16 activations, NVFP4 weights",
    }
}

/// Returns the parser for a pair of operand formats.
pub(super) fn pair_parser() -> impl TypedValueParser<Value = FormatPair> {
    let pairs = FormatPair::ALL.iter().map(|pair| PossibleValue::new(pair.word()).help(help(*pair)));
    PossibleValuesParser::new(pairs)
        .try_map(|word| FormatPair::from_word(&word).ok_or("there is no such pair of formats"))
}

/// Returns the parser for an output format of the command. It also reads a pair of operand formats, which `--format` named before.
pub(super) fn parser(formats: &'static Formats) -> impl TypedValueParser<Value = Word> {
    let outputs = formats.iter().map(|(format, help)| PossibleValue::new(format.word()).help(help));
    let pairs =
        FormatPair::ALL.iter().map(|pair| PossibleValue::new(pair.word()).help(help(*pair)).hide(true));
    PossibleValuesParser::new(outputs.chain(pairs)).try_map(move |word| {
        let output = formats.iter().map(|(format, _)| Word::Output(*format));
        let operands = FormatPair::ALL.iter().map(|pair| Word::Operands(*pair));
        output.chain(operands).find(|w| w.word() == word).ok_or("there is no such format")
    })
}

impl Word {
    fn word(self) -> &'static str {
        match self {
            Self::Output(format) => format.word(),
            Self::Operands(pair) => pair.word(),
        }
    }
}

/// Splits the values into the output format, text by default, and the operand formats.
///
/// # Errors
/// [`FormatError::FormatTwice`] for two output formats.
pub(super) fn split(words: &[Word]) -> Result<(Format, Vec<FormatPair>), CliError> {
    let (mut output, mut pairs) = (None, Vec::new());
    for word in words {
        match *word {
            Word::Output(format) => {
                if let Some(first) = output.replace(format) {
                    return Err(FormatError::FormatTwice(first.word(), format.word()).into());
                }
            }
            Word::Operands(pair) if pairs.contains(&pair) => {}
            Word::Operands(pair) => pairs.push(pair),
        }
    }
    Ok((output.unwrap_or(Format::Text), pairs))
}
