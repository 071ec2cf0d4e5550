//! A figure, what it is measured against, and whether it is good enough.

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

/// One line of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub name: &'static str,
    pub about: String,
    pub value: f64,
    pub unit: &'static str,
    /// How the value stands to its probe, where there is one.
    pub ratio: Option<f64>,
    pub target: Target,
}

/// What a row should be. Times are judged by their ratio to the probe where the issue asks for one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// Printed for comparison; nothing is asked of it.
    None,
    /// What it would be measured against is not on this machine.
    Skipped,
    Exactly(f64),
    AtMost(f64),
    RatioAtMost(f64),
    RatioAtLeast(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Meets,
    Misses,
    Reference,
    Skipped,
}

impl Row {
    pub fn new(name: &'static str, about: impl Into<String>, value: f64, unit: &'static str) -> Row {
        Row { name, about: about.into(), value, unit, ratio: None, target: Target::None }
    }

    #[must_use]
    pub fn ratio(mut self, ratio: f64) -> Row {
        self.ratio = Some(ratio);
        self
    }

    #[must_use]
    pub fn target(mut self, target: Target) -> Row {
        self.target = target;
        self
    }

    pub fn verdict(&self) -> Verdict {
        let met = match self.target {
            Target::None => return Verdict::Reference,
            Target::Skipped => return Verdict::Skipped,
            // Counted, so that any difference is a whole one.
            Target::Exactly(wanted) => (self.value - wanted).abs() < 1e-9,
            Target::AtMost(most) => self.value <= most,
            Target::RatioAtMost(most) => self.ratio.is_some_and(|ratio| ratio <= most),
            Target::RatioAtLeast(least) => self.ratio.is_some_and(|ratio| ratio >= least),
        };
        if met { Verdict::Meets } else { Verdict::Misses }
    }

    /// The target as people write it.
    pub fn wanted(&self) -> String {
        match self.target {
            Target::None | Target::Skipped => String::new(),
            Target::Exactly(wanted) => format!("= {wanted}"),
            Target::AtMost(most) => format!("≤ {most} {}", self.unit).trim_end().to_owned(),
            Target::RatioAtMost(most) => format!("≤ {most}×"),
            Target::RatioAtLeast(least) => format!("≥ {least}×"),
        }
    }
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Meets => "meets",
            Verdict::Misses => "misses",
            Verdict::Reference => "",
            Verdict::Skipped => "SKIP",
        }
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Row", 7)?;
        row.serialize_field("name", self.name)?;
        row.serialize_field("about", &self.about)?;
        row.serialize_field("value", &self.value)?;
        row.serialize_field("unit", self.unit)?;
        row.serialize_field("ratio", &self.ratio)?;
        row.serialize_field("target", &self.wanted())?;
        row.serialize_field("verdict", &self.verdict())?;
        row.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_judged_by_what_was_asked() {
        let row = Row::new("step_p50", "", 130.0, "µs").ratio(1.25);
        let judged = |target| row.clone().target(target).verdict();
        assert_eq!(judged(Target::None), Verdict::Reference);
        assert_eq!(judged(Target::RatioAtMost(1.3)), Verdict::Meets);
        assert_eq!(judged(Target::RatioAtLeast(1.3)), Verdict::Misses);
        assert_eq!(judged(Target::AtMost(100.0)), Verdict::Misses);
        assert_eq!(judged(Target::Exactly(130.0)), Verdict::Meets);
    }
}
