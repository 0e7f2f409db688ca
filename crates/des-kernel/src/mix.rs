//! The two stable 64-bit hashes behind stream keys and fingerprints.
//!
//! Both are pinned by the literal values in the tests of [`rng`](crate::rng) and
//! [`digest`](crate::digest): changing either changes every result.

/// One step of `SplitMix64` (Steele, Lea and Flood, 2014): add the golden gamma, then mix.
///
/// A bijection, so that two different inputs never meet.
pub(crate) const fn split_mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 64-bit FNV-1a (Fowler, Noll and Vo).
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_the_published_sequence_of_seed_zero() {
        let gamma = 0x9e37_79b9_7f4a_7c15_u64;
        let outputs = [0, 1, 2].map(|step: u64| split_mix(gamma.wrapping_mul(step)));
        assert_eq!(
            outputs,
            [
                0xe220_a839_7b1d_cdaf,
                0x6e78_9e6a_a1b9_65f4,
                0x06c4_5d18_8009_454f
            ]
        );
    }

    #[test]
    fn fnv1a_gives_the_published_test_vectors() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
