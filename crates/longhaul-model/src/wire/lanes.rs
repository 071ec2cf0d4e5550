//! Short runs of bytes, eight and more at a time: what stands between two quotes is too short for a search of its own, and
//! too frequent for a loop over bytes.

/// Eight times the same byte.
const fn eight(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

const HIGH: u64 = eight(0x80);

/// How many of the first of eight bytes are what a string of JSON has between its quotes as it is: no quote, no backslash,
/// no control character.
pub(super) fn plain(bytes: [u8; 8]) -> usize {
    first(not_plain(u64::from_le_bytes(bytes)))
}

/// The same of ASCII.
pub(super) fn word(bytes: [u8; 8]) -> usize {
    let word = u64::from_le_bytes(bytes);
    first(not_plain(word) | (word & HIGH))
}

/// Marks the first byte that is not plain; a borrow may mark others after it.
fn not_plain(word: u64) -> u64 {
    let below = |word: u64, limit: u8| word.wrapping_sub(eight(limit)) & !word & HIGH;
    below(word, b' ') | below(word ^ eight(b'"'), 1) | below(word ^ eight(b'\\'), 1)
}

/// How many of the first of eight bytes are digits.
pub(super) fn digits(bytes: [u8; 8]) -> usize {
    let word = u64::from_le_bytes(bytes) ^ eight(b'0');
    first((((word & !HIGH) + eight(0x80 - 10)) | word) & HIGH)
}

/// The place of the first marked byte; eight if there is none.
fn first(marked: u64) -> usize {
    marked.trailing_zeros() as usize / 8
}

/// How long a run is; nothing if fewer than eight bytes follow where it may go on.
pub(super) fn run(bytes: &[u8], of_eight: fn([u8; 8]) -> usize) -> Option<usize> {
    let mut at = 0;
    loop {
        let length = of_eight(*bytes[at..].first_chunk()?);
        at += length;
        if length < 8 {
            return Some(at);
        }
    }
}

/// Are these the same? They have the same length. A comparison of slices is a call, which for parts of an event costs
/// more than the comparing.
#[inline(always)]
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    match other.len() {
        32.. => blocks_are_same(one, other),
        16.. => ends_are_same::<16>(one, other),
        8.. => ends_are_same::<8>(one, other),
        4.. => ends_are_same::<4>(one, other),
        length => (0..length).all(|at| one[at] == other[at]),
    }
}

/// Blocks, and the end, which is of the last block too where the length is no multiple.
#[inline(always)]
fn blocks_are_same(one: &[u8], other: &[u8]) -> bool {
    let mut blocks = one.as_chunks::<32>().0.iter().zip(other.as_chunks::<32>().0);
    blocks.all(|(one, other)| one == other) && one.last_chunk::<32>() == other.last_chunk::<32>()
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
        fn eight_at_a_time_as_one_by_one(
            bytes in prop::array::uniform8(prop_oneof![
                any::<u8>(),
                b'0'..=b'9',
                prop::sample::select(&b"\0\x1f !\"#[\\]/09:\x7f\x80\xa2\xb0\xdc\xff"[..]),
            ]),
        ) {
            prop_assert_eq!(plain(bytes), bytes.iter().take_while(|byte| is_plain(byte)).count());
            prop_assert_eq!(word(bytes), bytes.iter().take_while(|byte| is_plain(byte) && byte.is_ascii()).count());
            prop_assert_eq!(digits(bytes), bytes.iter().take_while(|byte| byte.is_ascii_digit()).count());
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
