//! Reads many device ranges at once: each read waits for the stream, but a copy on the device does not.

use super::backend::Backend;
use super::status::CudaError;

/// Size in bytes of the device buffer that ranges are copied to before they are read.
const SCRATCH: usize = 4 << 20;

/// The device buffer that ranges are copied to, allocated on first use.
#[derive(Debug, Default)]
pub(super) struct Gather {
    scratch: Option<u64>,
}

impl Gather {
    /// Reads `places` (address and length) and concatenates their bytes. If the scratch buffer cannot be allocated, it reads each
    /// place separately.
    pub(super) fn read<B: Backend>(
        &mut self,
        backend: &mut B,
        places: &[(u64, usize)],
        bytes: &mut Vec<u8>,
    ) -> Result<(), CudaError> {
        bytes.resize(places.iter().map(|(_, len)| len).sum(), 0);
        let Some(scratch) = self.scratch.or_else(|| backend.allocate(SCRATCH).ok()) else {
            let mut rest = bytes.as_mut_slice();
            for (address, len) in places {
                let (mine, others) = rest.split_at_mut(*len);
                backend.read(*address, mine)?;
                rest = others;
            }
            return Ok(());
        };
        self.scratch = Some(scratch);
        let (mut done, mut held) = (0, 0);
        for (address, len) in places {
            let mut at = 0;
            while at < *len {
                let more = (len - at).min(SCRATCH - held);
                backend.copy(address + at as u64, scratch + held as u64, more)?;
                (at, held) = (at + more, held + more);
                if held == SCRATCH {
                    backend.read(scratch, &mut bytes[done..done + held])?;
                    (done, held) = (done + held, 0);
                }
            }
        }
        if held > 0 {
            backend.read(scratch, &mut bytes[done..])?;
        }
        Ok(())
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::super::fake::Fake;
    use super::*;

    #[test]
    fn places_come_in_order_whatever_their_length() {
        let mut fake = Fake::default();
        let lengths = [3, 0, SCRATCH - 1, 2 * SCRATCH + 5, 1];
        let mut places = Vec::new();
        let mut want = Vec::new();
        for (n, len) in lengths.into_iter().enumerate() {
            let address = fake.allocate(len).unwrap();
            let held: Vec<u8> = (0..len).map(|i| (i % 251) as u8 ^ n as u8).collect();
            fake.write(address, &held).unwrap();
            places.push((address, len));
            want.extend(held);
        }
        let (mut gather, mut bytes) = (Gather::default(), vec![1; 7]);
        // First without memory for the scratch buffer, then with it.
        fake.full = true;
        gather.read(&mut fake, &places, &mut bytes).unwrap();
        assert!(bytes == want && gather.scratch.is_none());
        fake.full = false;
        gather.read(&mut fake, &places, &mut bytes).unwrap();
        assert!(bytes == want && gather.scratch.is_some());
        gather.read(&mut fake, &places[..1], &mut bytes).unwrap();
        assert_eq!(bytes, want[..3]);
        gather.read(&mut fake, &[], &mut bytes).unwrap();
        assert!(bytes.is_empty());
    }
}
