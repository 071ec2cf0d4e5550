//! Numbers out of many numbers.

use std::time::Duration;

/// The value below which `share` of the samples lie; 0 if there are none.
pub fn percentile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get(((last as f64) * share).round() as usize).copied().unwrap_or(0.0)
}

pub fn median(samples: &[f64]) -> f64 {
    percentile(samples, 0.5)
}

pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_hundred_and_of_none() {
        let hundred: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        assert_eq!((percentile(&hundred, 0.99), median(&hundred)), (100.0, 51.0));
        assert_eq!(median(&[]), 0.0);
    }
}
