//! Arrays in NumPy's .npy files.

use emulator::argument::Element;

/// Reads the element type, the dimensions and the bytes of a .npy file in C order.
///
/// # Errors
/// A message if the file is no such array.
pub(super) fn parse(bytes: &[u8]) -> Result<(Element, Vec<usize>, &[u8]), String> {
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or("it does not begin like a .npy file")?;
    let (version, rest) = rest.split_at_checked(2).ok_or("it ends within its header")?;
    let size = if version[0] == 1 { 2 } else { 4 };
    let (len, rest) = rest.split_at_checked(size).ok_or("it ends within its header")?;
    let len = len.iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte));
    let (header, data) = rest.split_at_checked(len).ok_or("it ends within its header")?;
    let header = std::str::from_utf8(header).map_err(|_| "its header is not text")?;
    let value = |key: &str| {
        let at = header.find(&format!("'{key}':"))? + key.len() + 3;
        Some(header[at..].trim_start())
    };
    let descr = value("descr").and_then(|text| text.strip_prefix('\'')?.split_once('\''));
    let (descr, _) = descr.ok_or("its header names no simple `descr`; structures are not read")?;
    if value("fortran_order").is_none_or(|text| !text.starts_with("False")) {
        return Err("its elements are in Fortran order; save numpy.ascontiguousarray(x)".to_owned());
    }
    let element = match descr {
        "|u1" => Element::U8,
        "|i1" => Element::S8,
        "|b1" => Element::Bool,
        "<u2" => Element::U16,
        "<i2" => Element::S16,
        "<u4" => Element::U32,
        "<i4" => Element::S32,
        "<u8" => Element::U64,
        "<i8" => Element::S64,
        "<f2" => Element::F16,
        "<f4" => Element::F32,
        "<f8" => Element::F64,
        other => {
            return Err(format!(
                "its elements are `{other}`; little-endian integers and floats, and bool, are read: save bf16 and narrower types \
                 as safetensors, or as raw bytes"
            ));
        }
    };
    let shape = value("shape").and_then(|text| text.strip_prefix('(')?.split_once(')'));
    let (shape, _) = shape.ok_or("its header names no `shape`")?;
    let dims: Result<Vec<usize>, _> =
        shape.split(',').map(str::trim).filter(|dim| !dim.is_empty()).map(str::parse).collect();
    let dims = dims.map_err(|_| format!("its shape ({shape}) is not a list of numbers"))?;
    let wanted = dims.iter().try_fold(element.bits() / 8, |bytes, dim| bytes.checked_mul(*dim));
    if wanted != Some(data.len()) {
        return Err(format!("its shape ({shape}) does not fit its {} bytes", data.len()));
    }
    Ok((element, dims, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with this header, as NumPy pads it.
    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let header = format!("{header:<117}\n");
        [b"\x93NUMPY\x01\x00".as_slice(), &(header.len() as u16).to_le_bytes(), header.as_bytes(), data]
            .concat()
    }

    #[test]
    fn arrays_are_read_and_others_are_refused_with_the_reason() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
        let whole = file(header, &[0; 8]);
        assert_eq!(parse(&whole), Ok((Element::F32, vec![2, 1], [0; 8].as_slice())));
        let scalar = file("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", &[7]);
        assert_eq!(parse(&scalar), Ok((Element::U8, vec![], [7].as_slice())));
        for (bytes, why) in [
            (file(header, &[0; 9]), "does not fit its 9 bytes"),
            (file(&header.replace("False", "True"), &[0; 8]), "Fortran order"),
            (file(&header.replace("<f4", ">f4"), &[0; 8]), "`>f4`"),
            (file(&header.replace("'<f4'", "[('x', '<f4')]"), &[0; 8]), "structures"),
            (file(&header.replace("(2, 1)", "(2, -1)"), &[0; 8]), "not a list of numbers"),
            (whole[..40].to_vec(), "ends within its header"),
            (b"PK".to_vec(), "does not begin"),
        ] {
            assert!(parse(&bytes).is_err_and(|found| found.contains(why)), "{why}");
        }
    }
}
