//! The page: one self-contained HTML file that carries a record as data and a script that shows it.
//!
//! The style, the script and the frame are the files in this folder. Everything from the record is data: it is embedded as
//! compressed JSON, and the script inserts it as text only. A content security policy allows this script and no other.

mod data;
mod encode;
mod pool;
mod rows;
mod table;

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use self::data::Data;
use self::encode::{base64, deflated};
use super::form::ReportError;
use crate::record::{BenchTable, Record};

const FRAME: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");

/// The script's parts, in the order in which they are joined.
const SCRIPT: [&str; 8] = [
    include_str!("decode.js"),
    include_str!("model.js"),
    include_str!("search.js"),
    include_str!("dom.js"),
    include_str!("answer.js"),
    include_str!("forms.js"),
    include_str!("form.js"),
    include_str!("main.js"),
];

/// What the record does not contain about a form: its text, and how the emulator handles it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormText {
    /// The form as a module that ptxas accepts.
    pub ptx: String,
    /// The statements that the form is about.
    pub line: String,
    /// Why the emulator does not run it; `None` if it does.
    pub unsupported: Option<String>,
    /// Forms that SM12x accepts instead, each with the other changes that it needs.
    pub instead: Vec<(String, String)>,
}

/// What a page shows in addition to its record.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// The texts of forms, by id. A form without one is shown without its PTX.
    pub forms: BTreeMap<String, FormText>,
    /// What else people call an instruction, such as a CUDA intrinsic: a pattern, and the instructions.
    pub names: Vec<(String, Vec<String>)>,
    /// Times of pipelines on GPUs.
    pub benches: Vec<BenchTable>,
}

/// The record as a page.
///
/// # Errors
/// [`ReportError::Json`] and [`ReportError::Compress`], only if serialisation itself fails.
pub fn html(record: &Record, beside: &Beside) -> Result<String, ReportError> {
    let json = serde_json::to_string(&Data::new(record, beside))?;
    let packed = base64(&deflated(json.as_bytes()).map_err(ReportError::Compress)?);
    // A `<` would end the element, or begin another.
    let plain = json.replace('<', "\\u003c");
    let (kind, text) = if packed.len() < plain.len() { ("deflate", packed) } else { ("json", plain) };
    let script = format!("(() => {{\n\"use strict\";\n{}}})();\n", SCRIPT.concat());
    let hash = base64(&Sha256::digest(&script));
    let mut out = String::with_capacity(FRAME.len() + STYLE.len() + script.len() + text.len());
    // In one pass over the frame: inserted text is not searched.
    for part in FRAME.split_inclusive("@@") {
        match part.strip_suffix("@@") {
            Some("STYLE") => out.push_str(STYLE),
            Some("SCRIPT") => out.push_str(&script),
            Some("HASH") => out.push_str(&hash),
            Some("KIND") => out.push_str(kind),
            Some("DATA") => out.push_str(&text),
            Some(text) => out.push_str(text),
            None => out.push_str(part),
        }
    }
    Ok(out)
}
