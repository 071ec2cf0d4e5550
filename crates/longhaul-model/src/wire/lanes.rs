//! Short runs of bytes, many at a time: what stands between two quotes is too short for a search of its own, and
//! too frequent for a loop over bytes.

/// Eight times the same byte.
const fn eight(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

const HIGH: u64 = eight(0x80);

/// How many bytes are looked at together. Most pieces are shorter: they then take the same way, whatever their length.
pub(super) const LANES: usize = 16;

/// How many bytes at the beginning are what a string of JSON has between its quotes as it is: no quote, no backslash, no
/// control character.
pub(super) fn plain(bytes: [u8; LANES]) -> usize {
    first(bytes, |word| below_plain(word) & !word & HIGH)
}

/// The same of ASCII.
pub(super) fn word(bytes: [u8; LANES]) -> usize {
    first(bytes, |word| (below_plain(word) | word) & HIGH)
}

/// Marks, of the bytes that are ASCII, the first that is not plain, by its highest bit; a borrow may mark others after it.
fn below_plain(word: u64) -> u64 {
    let below = |word: u64, limit: u8| word.wrapping_sub(eight(limit));
    below(word, b' ') | below(word ^ eight(b'"'), 1) | below(word ^ eight(b'\\'), 1)
}

/// How many of eight bytes at the beginning are digits.
pub(super) fn digits(bytes: [u8; 8]) -> usize {
    let word = u64::from_le_bytes(bytes) ^ eight(b'0');
    let others = (((word & !HIGH) + eight(0x80 - 10)) | word) & HIGH;
    others.trailing_zeros() as usize / 8
}

/// The place of the first byte that is marked in one of the halves; behind all if there is none.
fn first(bytes: [u8; LANES], mark: impl Fn(u64) -> u64) -> usize {
    let both = u128::from_le_bytes(bytes);
    let (low, high) = (mark(both as u64), mark((both >> 64) as u64));
    (u128::from(low) | (u128::from(high) << 64)).trailing_zeros() as usize / 8
}

/// How long a run is; nothing if too few bytes follow to look at them together.
pub(super) fn run<const N: usize>(bytes: &[u8], of: impl Fn([u8; N]) -> usize) -> Option<usize> {
    let mut at = 0;
    loop {
        let length = of(*bytes[at..].first_chunk()?);
        at += length;
        if length < N {
            return Some(at);
        }
    }
}

/// Are these the same? They have the same length. A comparison of slices is a call, which for short parts of an event
/// costs more than the comparing; for long ones it is quicker than anything here.
#[inline(always)]
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    match other.len() {
        64.. => one == other,
        32.. => ends_are_same::<32>(one, other),
        16.. => ends_are_same::<16>(one, other),
        8.. => ends_are_same::<8>(one, other),
        4.. => ends_are_same::<4>(one, other),
        length => (0..length).all(|at| one[at] == other[at]),
    }
}

/// Of at most twice as many bytes, the first and the last are all of them.
fn ends_are_same<const N: usize>(one: &[u8], other: &[u8]) -> bool {
    one.first_chunk::<N>() == other.first_chunk::<N>() && one.last_chunk::<N>() == other.last_chunk::<N>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_plain(byte: &u8) -> bool {
        *byte >= b' ' && !b"\"\\".contains(byte)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn together_as_one_by_one(
            bytes in prop::array::uniform16(prop_oneof![
                any::<u8>(),
                b'0'..=b'9',
                prop::sample::select(&b"\0\x1f !\"#[\\]/09:\x7f\x80\xa2\xb0\xdc\xff"[..]),
            ]),
        ) {
            prop_assert_eq!(plain(bytes), bytes.iter().take_while(|byte| is_plain(byte)).count());
            prop_assert_eq!(word(bytes), bytes.iter().take_while(|byte| is_plain(byte) && byte.is_ascii()).count());
            let eight = *bytes.first_chunk().unwrap();
            prop_assert_eq!(digits(eight), eight.iter().take_while(|byte| byte.is_ascii_digit()).count());
        }
    }

    #[test]
    fn one_other_byte_anywhere_is_seen() {
        for length in 0..150 {
            let one: Vec<u8> = (0..length).collect();
            assert!(same(&one, &one), "{length}");
            for at in 0..usize::from(length) {
                let mut other = one.clone();
                other[at] ^= 1;
                assert!(!same(&one, &other), "{at} of {length}");
            }
        }
    }
}
