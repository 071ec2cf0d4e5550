//! Every bound the engine enforces, each with its reason.

/// How often a driver looks into its run's inbox. A command takes effect within a second with room to spare, and five
/// looks a second at a directory cost nothing.
pub const INBOX_POLL_MS: u64 = 200;

/// How long cancelled effects may take to say how they ended. A tool kills its processes within this; whoever does not
/// is reported as unknown on resume.
pub const WIND_DOWN_MS_MAX: u64 = 10_000;

/// The catalogue is written at most this often for each run; it is derived, and people do not read faster.
pub const CATALOGUE_WRITE_MS: u64 = 100;

/// Commands a handle may have waiting. More would be the same wish again.
pub const HANDLE_COMMANDS_MAX: usize = 16;
