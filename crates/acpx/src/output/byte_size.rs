//! A number of bytes for a person.

/// The size with one decimal and its unit, which counts in steps of 1024: `512 B`, `11.9 KB`, `3.0 GB`.
pub(crate) fn byte_size(bytes: u64) -> String {
    const STEP: u64 = 1024;
    if bytes < STEP {
        return format!("{bytes} B");
    }
    let units = ["KB", "MB", "GB"];
    // In tenths of the unit, rounded.
    let tenths =
        |power: u32| (u128::from(bytes) * 10 + u128::from(STEP.pow(power)) / 2) / u128::from(STEP.pow(power));
    let (unit, shown) = (1..)
        .zip(units)
        .map(|(power, unit)| (unit, tenths(power)))
        .find(|(unit, tenths)| *unit == "GB" || *tenths < u128::from(STEP) * 10)
        .expect("the last unit is always found");
    format!("{}.{} {unit}", shown / 10, shown % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_sizes_have_one_decimal_from_a_kilobyte_on() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KB"),
            (12_186, "11.9 KB"),
            (1_048_575, "1.0 MB"),
            (10_485_760, "10.0 MB"),
            (3_221_225_472, "3.0 GB"),
            (u64::MAX, "17179869184.0 GB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(byte_size(bytes), expected, "{bytes}");
        }
    }
}
