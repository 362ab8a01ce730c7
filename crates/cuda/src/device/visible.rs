//! Which GPUs the program sees, and in what order: `CUDA_VISIBLE_DEVICES`, read as the driver reads it (compared with driver 580 on an H200).

use crate::status::Status;

/// How UUIDs begin, and the length of one.
const UUID_PREFIX: &str = "GPU-";
const UUID_LEN: usize = 40;

/// The numbers of the GPUs that a value of `CUDA_VISIBLE_DEVICES` selects, where the machine has GPUs with these UUIDs. The list ends before the
/// first element that denotes none, and its first element decides whether it consists of numbers or of UUIDs.
///
/// # Errors
/// [`Status::NO_DEVICE`] if it selects none, [`Status::INVALID_DEVICE`] if it selects one twice.
pub(crate) fn selected(value: &str, uuids: &[[u8; 16]]) -> Result<Vec<u8>, Status> {
    let find: fn(&str, &[[u8; 16]]) -> Option<u8> =
        if value.starts_with(UUID_PREFIX) { with_uuid } else { with_number };
    let chosen: Vec<u8> = value.split(',').map_while(|element| find(element, uuids)).collect();
    if chosen.is_empty() {
        return Err(Status::NO_DEVICE);
    }
    let is_repeated = |(n, gpu): (usize, &u8)| chosen[..n].contains(gpu);
    if chosen.iter().enumerate().any(is_repeated) { Err(Status::INVALID_DEVICE) } else { Ok(chosen) }
}

/// The GPU with a number, which is read as C does: what follows the digits is ignored.
fn with_number(element: &str, uuids: &[[u8; 16]]) -> Option<u8> {
    let element = element.trim_start();
    let element = element.strip_prefix('+').unwrap_or(element);
    let end = element.find(|c: char| !c.is_ascii_digit()).unwrap_or(element.len());
    element[..end].parse::<u8>().ok().filter(|number| usize::from(*number) < uuids.len())
}

/// The one GPU whose UUID begins like this.
fn with_uuid(element: &str, uuids: &[[u8; 16]]) -> Option<u8> {
    let wanted = element.get(..UUID_LEN).unwrap_or(element);
    let has_it = |uuid: &[u8; 16]| {
        let beginning = text_of(uuid);
        wanted.len() > UUID_PREFIX.len()
            && wanted.starts_with(UUID_PREFIX)
            && beginning.get(..wanted.len()).is_some_and(|text| text.eq_ignore_ascii_case(wanted))
    };
    let mut found = uuids.iter().enumerate().filter(|(_, uuid)| has_it(uuid));
    let (number, _) = found.next()?;
    found.next().is_none().then_some(number as u8)
}

/// A UUID as `nvidia-smi` writes it.
fn text_of(uuid: &[u8; 16]) -> String {
    let mut text = UUID_PREFIX.to_owned();
    for (n, byte) in uuid.iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_read_as_the_driver_reads_it() {
        let uuids = [[0xAA; 16], [0xAB; 16], [0x12; 16]];
        let [first, second, _] = uuids.map(|uuid| text_of(&uuid));
        assert_eq!(first, "GPU-aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa");
        let upper = second.to_uppercase();
        let (both, twice) = (format!("{second},{first}"), format!("{first},{first}"));
        let (mixed, longer) = (format!("0,{first}"), format!("{second}x"));
        let none = Err(Status::NO_DEVICE);
        for (value, wanted) in [
            ("2,0", Ok(vec![2, 0])),
            ("0,-1,1", Ok(vec![0])),
            ("0,5,1", Ok(vec![0])),
            ("1,x,0", Ok(vec![1])),
            ("1,", Ok(vec![1])),
            (" 1, 0", Ok(vec![1, 0])),
            ("1 ,0", Ok(vec![1, 0])),
            ("01", Ok(vec![1])),
            ("1.5", Ok(vec![1])),
            ("+1", Ok(vec![1])),
            ("0x1", Ok(vec![0])),
            ("", none.clone()),
            ("-1", none.clone()),
            ("-1,0", none.clone()),
            ("5,0", none.clone()),
            (",0", none.clone()),
            ("NoDevFiles", none.clone()),
            ("0,0", Err(Status::INVALID_DEVICE)),
            (&both, Ok(vec![1, 0])),
            (&twice, Err(Status::INVALID_DEVICE)),
            (&mixed, Ok(vec![0])),
            (&longer, Ok(vec![1])),
            (&upper, Ok(vec![1])),
            ("GPU-12", Ok(vec![2])),
            ("GPU-12,1", Ok(vec![2])),
            ("GPU-a", none.clone()),
            ("GPU-ab", Ok(vec![1])),
            ("GPU-ff,GPU-12", none.clone()),
            ("GPU-", none.clone()),
            (&first[4..], none.clone()),
        ] {
            assert_eq!(selected(value, &uuids), wanted, "{value:?}");
        }
    }
}
