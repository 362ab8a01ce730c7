//! Lays out structs as C does: each field at a multiple of its alignment, or at an explicit offset.

use super::session::Value;

/// The alignment of a tensor map in a struct (`CUtensorMap`).
const MAP_ALIGN: usize = 64;

/// The size limit of a struct, bytes: far above any kernel parameter, but harmless to the machine.
const MOST: usize = 1 << 30;

/// A field to lay out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// Its offset, if explicit.
    pub(super) at: Option<usize>,
    pub(super) align: usize,
    pub(super) value: Value,
}

impl Field {
    /// Returns the alignment of a tensor map or an address.
    pub(super) fn natural(value: &Value) -> usize {
        match value {
            Value::Map { .. } => MAP_ALIGN,
            _ => 8,
        }
    }
}

/// Lays out a struct and returns it with its alignment. `size` and `align` override the struct's own.
///
/// # Errors
/// The index of the invalid field from 0, if one is to blame, and what is wrong.
pub(super) fn lay_out(
    fields: Vec<Field>,
    size: Option<usize>,
    align: Option<usize>,
) -> Result<(Value, usize), (Option<usize>, String)> {
    let natural = fields.iter().map(|f| f.align).max().unwrap_or(1);
    let align = align.unwrap_or(natural);
    if !align.is_power_of_two() {
        return Err((None, format!("`align` is {align}, which is not a power of two")));
    }
    let mut end = 0usize;
    let mut placed: Vec<(usize, Value)> = Vec::new();
    for (n, field) in fields.into_iter().enumerate() {
        let at = field.at.unwrap_or_else(|| end.next_multiple_of(field.align));
        let after = at.checked_add(field.value.size()).ok_or((Some(n), "`at` is too large".to_owned()))?;
        let overlapped = placed.iter().position(|(o, v)| *o < after && at < o + v.size());
        if let Some(other) = overlapped {
            let what = format!("bytes {at} to {after} overlap field {other}, from byte {}", placed[other].0);
            return Err((Some(n), what));
        }
        end = end.max(after);
        placed.push((at, field.value));
    }
    let size = size.unwrap_or_else(|| end.next_multiple_of(align));
    if size < end {
        return Err((None, format!("`size` is {size}, but the fields end at byte {end}")));
    }
    if size > MOST {
        return Err((None, format!("{size} bytes are more than a struct may have ({MOST})")));
    }
    if placed.iter().all(|(_, v)| matches!(v, Value::Bytes(_))) {
        // No field depends on addresses.
        let all = Value::Fields { size, fields: placed };
        return all.bytes(&[]).map(|bytes| (Value::Bytes(bytes), align)).map_err(|why| (None, why));
    }
    Ok((Value::Fields { size, fields: placed }, align))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(size: usize, at: Option<usize>) -> Field {
        Field { at, align: size, value: Value::Bytes(vec![7; size]) }
    }

    fn pointer() -> Field {
        Field { at: None, align: 8, value: Value::Address { buffer: 1, offset: 4 } }
    }

    #[test]
    fn fields_are_padded_as_in_c() {
        let (value, align) =
            lay_out(vec![number(1, None), number(4, None), number(2, None)], None, None).unwrap();
        assert_eq!((value, align), (Value::Bytes(vec![7, 0, 0, 0, 7, 7, 7, 7, 7, 7, 0, 0]), 4));
        let (value, align) = lay_out(vec![number(4, None), pointer()], None, None).unwrap();
        assert_eq!((value.size(), align), (16, 8));
        assert_eq!(value.bytes(&[0, 0x1000]).unwrap(), [7, 7, 7, 7, 0, 0, 0, 0, 4, 0x10, 0, 0, 0, 0, 0, 0]);
        let (value, _) = lay_out(vec![number(4, Some(8)), number(4, Some(0))], Some(20), None).unwrap();
        assert_eq!(value.size(), 20);
        let (value, align) = lay_out(vec![number(1, None)], None, Some(16)).unwrap();
        assert_eq!((value.size(), align), (16, 16));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let why = |fields, size, align| lay_out(fields, size, align).unwrap_err();
        let (field, text) = why(vec![number(4, None), number(4, Some(2))], None, None);
        assert!(field == Some(1) && text.contains("bytes 2 to 6 overlap field 0"), "{text}");
        let (field, text) = why(vec![number(4, None)], Some(3), None);
        assert!(field.is_none() && text.contains("the fields end at byte 4"), "{text}");
        assert!(why(vec![number(4, None)], Some(1 << 60), None).1.contains("more than a struct may have"));
        assert!(why(vec![number(4, None)], None, Some(3)).1.contains("power of two"));
        assert!(why(vec![number(4, Some(usize::MAX))], None, None).1.contains("too large"));
    }
}
