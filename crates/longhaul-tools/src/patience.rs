//! How long a call may go on.
//!
//! Owns the question that every long loop asks between two pieces of work. Refuses to interrupt anything by itself.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use longhaul_core::tool::{Failure, Outcome};

use crate::cancel::Cancel;
use crate::tool::Context;

/// Ends with the call's time, or when the run is paused.
#[derive(Clone, Copy)]
pub(crate) struct Patience<'a> {
    cancel: &'a Cancel,
    timeout: Duration,
    started: Instant,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(context: &'a Context) -> Patience<'a> {
        Patience::of(&context.cancel, context.timeout)
    }

    /// For looks that no call asked for.
    pub(crate) fn of(cancel: &'a Cancel, timeout: Duration) -> Patience<'a> {
        Patience { cancel, timeout, started: Instant::now() }
    }

    /// The error is the call's outcome.
    pub(crate) fn check(&self) -> Result<(), Outcome> {
        if self.cancel.is_cancelled() {
            return Err(Outcome::failed(Failure::Cancelled, "stopped because the run was paused"));
        }
        if self.started.elapsed() > self.timeout {
            let message = format!("timed out after {} ms", self.timeout.as_millis());
            return Err(Outcome::failed(Failure::Timeout, message));
        }
        Ok(())
    }

    /// The same reader, failing once patience has ended: for work that only comes back to us by reading.
    pub(crate) fn reading<R: Read>(self, inner: R) -> Impatient<'a, R> {
        Impatient { patience: self, inner }
    }
}

pub(crate) struct Impatient<'a, R> {
    patience: Patience<'a>,
    inner: R,
}

impl<R: Read> Read for Impatient<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.patience.check().is_err() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.inner.read(buffer)
    }
}
